"""The patch rings the host's bell once nova-compute has let go of a drive, on every release.

Nova's own notifications come late (after the network, for one) or not at all (a confirmed
migration, an evacuated host that is back). Here somebody listens as the host's bell does, and asks
Placement at once whether the drive is let go.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import fixtures
from nova.scheduler.client import report

from nova_patch import rings
from tests.nova.patchcase import ADDRESS, HOST, RELEASE, WITHOUT, PatchCase

OTHER = "compute2"
BACKPORT = RELEASE.mechanism == "one_time_use"
PATIENCE = 60.0
"""Seconds, from the beginning of what lets go."""


class Rings(PatchCase):
    """Delete, confirm, revert, shelve, evacuate."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        self.api = self.admin_api
        directory = tempfile.TemporaryDirectory(prefix="bell")
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name, "bell.sock")
        self.useFixture(fixtures.MockPatchObject(rings, "BELL", str(self.path)))

    @contextlib.contextmanager
    def _rung(self, host: str = HOST) -> Iterator[None]:
        """While it lasts the drive of that host is let go, and the bell says so, never too early:
        whoever hears it and looks finds the drive free, or hears the next bell late."""
        seen = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.bind(str(self.path))
            bell.settimeout(PATIENCE)

            def hear() -> None:
                with contextlib.suppress(TimeoutError):
                    seen.append((bell.recv(1024).decode(), self.drive(host=host)))

            listener = threading.Thread(target=hear)
            listener.start()
            try:
                yield
            finally:
                listener.join()
        assert seen == [(ADDRESS, (1, 1, 0))], "nobody rang" if not seen else "rang too early"
        self.path.unlink()

    def _certified(self, *hosts: str) -> None:
        for host in hosts:
            self.start(host=host)
            self.certify(host)

    def test_delete(self) -> None:
        self._certified(HOST)
        server = self.boot()
        with self._rung():
            self._delete_server(server)

    def test_shelve(self) -> None:
        self._certified(HOST)
        self.flags(shelved_offload_time=0)
        server = self.boot()
        with self._rung():
            self._shelve_server(server, expected_state="SHELVED_OFFLOADED")

    def test_confirm(self) -> None:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self._certified(HOST)
        server = self.boot()
        self._certified(OTHER)
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        # What the host that it left has read: it may not look again before the confirmation.
        rings._held.clear()
        rings._held[server["id"]] = frozenset([str(self.provider())])
        with self._rung():
            self._confirm_resize(server)

    def test_revert(self) -> None:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self._certified(HOST)
        server = self.boot()
        self._certified(OTHER)
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        # Both hosts are one process here. In the field the host that overwrites the allocation
        # knows nothing of the other one's drives.
        with mock.patch.object(rings, "_moved"), self._rung(OTHER):
            self._revert_resize(server)

    def test_revert_when_the_other_host_takes_its_time(self) -> None:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self._certified(HOST)
        server = self.boot()
        self._certified(OTHER)
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        client = report.SchedulerReportClient
        ask, move, ring = client.get_allocs_for_consumer, client.move_allocations, rings.ring
        asked, moving = threading.Semaphore(0), threading.Event()

        def asks(*args: object) -> object:
            answer = ask(*args)
            if moving.is_set() and threading.current_thread().name == rings.WAITER:
                asked.release()
            return answer

        def moves(*args: object) -> object:
            """The other host, which is as slow as it takes to be asked for twice, or rung for."""
            moving.set()
            assert asked.acquire(timeout=PATIENCE)
            assert asked.acquire(timeout=PATIENCE)
            return move(*args)

        def rung(addresses: object) -> None:
            ring(addresses)
            asked.release(2)

        with (
            mock.patch.object(rings, "_moved"),
            mock.patch.object(client, "get_allocs_for_consumer", asks),
            mock.patch.object(client, "move_allocations", moves),
            mock.patch.object(rings, "ring", rung),
            self._rung(OTHER),
        ):
            self._revert_resize(server)

    def test_evacuate(self) -> None:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self._certified(HOST)
        server = self.boot()
        self._certified(OTHER)
        self.computes[HOST].stop()
        service = self.admin_api.get_services(binary="nova-compute", host=HOST)[0]
        self.admin_api.put_service_force_down(service["id"], True)
        self._evacuate_server(server, expected_host=OTHER, expected_migration_status="done")
        # A host that comes back starts with an empty memory.
        rings._held.clear()
        with self._rung():
            self.restart()
        self.admin_api.put_service_force_down(service["id"], False)

    def test_a_caller_may_name_what_it_gives(self) -> None:
        def nova(self: object, context: object, uuid: str, force: bool = False) -> bool:
            return force

        with mock.patch.object(rings, "_gone") as gone:
            assert rings._wrap_remove(nova)("client", context=None, force=True, uuid="server")
        gone.assert_called_once_with("client", "server")

    def test_nobody_listens(self) -> None:
        self._certified(HOST)
        self._delete_server(self.boot())
        assert self.drive() == (1, 1, 0)

    def test_a_listener_that_takes_nothing_is_not_waited_for(self) -> None:
        self._certified(HOST)
        server = self.boot()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.bind(str(self.path))
            with contextlib.suppress(OSError):
                for _ in range(10000):
                    rings.ring([ADDRESS])
            self._delete_server(server)
        assert self.drive() == (1, 1, 0)

    def test_whatever_fails_in_it_is_said_once_and_is_not_nova_s_trouble(self) -> None:
        if WITHOUT:
            self.fail("nothing can fail")
        self._certified(HOST)
        with mock.patch.object(rings, "_ring_for", side_effect=RuntimeError("boom")):
            for _ in range(2):
                self._delete_server(self.boot())
                self.certify()
        assert self.stdlog.logger.output.count("WARNING [nova.nvme_quarantine_patch] a drive") == 1
