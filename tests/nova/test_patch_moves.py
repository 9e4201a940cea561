"""A server that moves gets the drive that Placement allocated, whatever else is free to Nova.

Nova makes the requests of a move anew from the flavor (``ResourceTracker._move_claim``), and loses
what the scheduler chose. Here one drive of two is on offer, each once: a claim that takes whichever
comes first is wrong in one of the two tests.
"""

from __future__ import annotations

from typing import Any

import fixtures
from nova import context, objects

from tests.nova.patchcase import ALIAS, HOST, RELEASE, PatchCase

OTHER = "compute2"
FIRST, SECOND = "0000:81:00.0", "0000:81:01.0"
BACKPORT = RELEASE.mechanism == "one_time_use"


class Moves(PatchCase):
    """Two drives where the server goes; one is on offer, the other is reserved and free to Nova."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        self.api = self.admin_api

    def _claimed(self, server: dict[str, Any], host: str) -> list[str]:
        """The addresses that nova-compute's tracker gave to the server there."""
        admin = context.get_admin_context()
        node = objects.ComputeNode.get_by_host_and_nodename(admin, host, host)
        devices = objects.PciDeviceList.get_by_compute_node(admin, node.id)
        return [dev.address for dev in devices if dev.instance_uuid == server["id"]]

    def _is_given(self, server: dict[str, Any], offered: str, host: str) -> None:
        left = {FIRST: SECOND, SECOND: FIRST}[offered]
        assert self._claimed(server, host) == [offered]
        assert self.drive(offered, host=host) == (1, 1, 1)
        assert self.drive(left, host=host) == (1, 1, 0)

    def _resized_in_place(self, offered: str) -> None:
        self.flags(allow_resize_to_same_host=True)
        self.start(drives=2)
        self.set_reserved(0, address=offered)
        server = self._create_server(flavor_id=self._create_flavor(), networks=[])
        server = self._resize_server(server, self.flavor)
        self._is_given(server, offered, HOST)
        self._confirm_resize(server)
        self._run_periodics()
        self._is_given(server, offered, HOST)

    def test_resized_on_its_host_to_the_first(self) -> None:
        self._resized_in_place(FIRST)

    def test_resized_on_its_host_to_the_second(self) -> None:
        self._resized_in_place(SECOND)

    def _two_hosts(self, offered: str) -> dict[str, Any]:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self.start()
        self.start(drives=2, host=OTHER)
        self.certify()
        server = self.boot()
        self.set_reserved(0, OTHER, offered)
        return server

    def _migrated(self, offered: str) -> None:
        server = self._two_hosts(offered)
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        self._is_given(server, offered, OTHER)
        self._confirm_resize(server)
        self._run_periodics()
        self._is_given(server, offered, OTHER)

    def test_migrated_to_the_first(self) -> None:
        self._migrated(FIRST)

    def test_migrated_to_the_second(self) -> None:
        self._migrated(SECOND)

    def _evacuated(self, offered: str) -> None:
        server = self._two_hosts(offered)
        self.computes[HOST].stop()
        service = self.admin_api.get_services(binary="nova-compute", host=HOST)[0]
        self.admin_api.put_service_force_down(service["id"], True)
        self._evacuate_server(server, expected_host=OTHER)
        self._is_given(server, offered, OTHER)

    def test_evacuated_to_the_first(self) -> None:
        self._evacuated(FIRST)

    def test_evacuated_to_the_second(self) -> None:
        self._evacuated(SECOND)

    def test_several_at_once(self) -> None:
        self.flags(allow_resize_to_same_host=True)
        self.start(drives=4)
        third, fourth = "0000:81:02.0", "0000:81:03.0"
        for offered in (SECOND, fourth):
            self.set_reserved(0, address=offered)
        server = self._create_server(flavor_id=self._create_flavor(), networks=[])
        two = self._create_flavor(extra_spec={"pci_passthrough:alias": f"{ALIAS}:2"})
        server = self._resize_server(server, two)
        assert sorted(self._claimed(server, HOST)) == [SECOND, fourth]
        assert self.drive(third) == (1, 1, 0)
