"""Leaks 10, 11, 12, 25 and 27: a drive is burned or released and no ``instance.delete`` says so, or
Nova gives a server that moves another drive than Placement did."""

from __future__ import annotations

from unittest import mock

import pytest
from nova import exception, utils
from nova.tests.functional.api import client

from eraser.protocol.identity import Slot
from quarantine.record.words.states import State
from tests.nova.harness import Server
from tests.nova.leakcase import LeakCase
from tests.nova.leaks import Saw
from tests.nova.shelf import STUCK


class TestMoves(LeakCase):
    def _stranded(self, slot: Slot, server: Server) -> Saw:
        """Whether a cleaner that waits for the server's delete ever learns of the drive."""
        cleaner = self.bell_cleaner()
        cleaner.note(server.id, (slot,))
        cleaner.hear(self.notifications())
        self.periodic(slot.host)
        stock = self.stock(slot)
        assert stock is not None
        waits = self.shelf.drives[slot].erased == 0 and stock == (1, 1, 0)
        return Saw.STRANDED if waits else Saw.UNTOUCHED

    def _fail_spawn(self) -> Server:
        boom = exception.NovaException("no such luck")
        with mock.patch("nova.virt.libvirt.driver.LibvirtDriver.spawn", side_effect=boom):
            server = self.boot()
        assert not server.active
        return server

    def test_leak_10_failed_spawn_without(self) -> None:
        (slot,) = self.add_host()
        self.saw(self._stranded(slot, self._fail_spawn()), Saw.STRANDED)

    def test_leak_10_failed_spawn_with(self) -> None:
        (slot,) = self.cared_for()
        self._fail_spawn()
        assert self.stock(slot) == (1, 1, 0)
        self.plane.turn()
        assert self.plane.state(slot) is State.AVAILABLE
        assert self.plane.certificates(slot) == 2
        self.saw(self.second_tenant(), Saw.CLOSED)

    def _migrated(self, *, ours: bool) -> tuple[Slot, Slot, Server]:
        """A server that was moved from the first slot to the second, and waits for a decision."""
        hosts = ("compute1", "compute2")
        if ours:
            self.patch_nova()
        source, target = (self.add_host(host)[0] for host in hosts)
        if ours:
            self.take_care(source, target)
        server = self.tenant(host="compute1")
        if ours:
            self.plane.turn()
        self.act(server, "migrate", None, "VERIFY_RESIZE")
        return source, target, server

    def test_leak_11_migration_without(self) -> None:
        source, _, server = self._migrated(ours=False)
        self.confirm(server, "compute1")
        self.saw(self._stranded(source, server), Saw.STRANDED)

    def test_leak_11_migration_with(self) -> None:
        source, target, server = self._migrated(ours=True)
        self.plane.turn()
        assert self.plane.state(source) is State.IN_USE, "the tenant may still revert"
        assert self.plane.state(target) is State.IN_USE
        self.confirm(server, "compute1")
        self.saw(self.closes(source), Saw.CLOSED)
        assert self.plane.state(target) is State.IN_USE

    def test_a_reverted_migration_leaves_the_target_to_us(self) -> None:
        """Leak 11 again, for the other way out."""
        source, target, server = self._migrated(ours=True)
        self.plane.turn()
        self._revert_resize({"id": server.id})
        assert Saw.CLOSED is self.closes(target)
        assert self.plane.state(source) is State.IN_USE

    def test_leak_12_shelve_offload_without(self) -> None:
        self.flags(shelved_offload_time=0)
        (slot,) = self.add_host()
        server = self.tenant()
        self.act(server, "shelve", None, "SHELVED_OFFLOADED")
        self.saw(self._stranded(slot, server), Saw.STRANDED)

    def test_leak_12_shelve_offload_with(self) -> None:
        self.flags(shelved_offload_time=0)
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.act(server, "shelve", None, "SHELVED_OFFLOADED")
        self.saw(self.closes(slot), Saw.CLOSED)

    def _forced(self) -> Saw:
        """An administrator names the host, past the scheduler's filters."""
        return self.second_tenant(az="nova:compute1:compute1")

    def test_leak_25_forced_host_without(self) -> None:
        """Nova itself refuses: also a forced host has to have an allocation candidate."""
        self.add_host()
        self.delete(self.tenant())
        self.saw(self._forced(), Saw.REFUSED)

    def test_leak_25_forced_host_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        assert self._forced() is Saw.REFUSED
        self.plane.hosts[slot.host].down = True
        self.plane.turn()
        assert self._forced() is Saw.REFUSED
        self.plane.hosts[slot.host].down = False
        self.saw(self.closes(slot), Saw.CLOSED)

    def test_an_evacuation_by_force_gets_no_dirty_drive(self) -> None:
        """Leak 25 again: before 2.68 an evacuation could be forced past the scheduler. Nova then
        copies allocations of the host alone and gives up where there are others, such as ours."""
        source, target, server = self._two_hosts()
        self.plane.hosts["compute2"].down = True
        self.delete(self.tenant(host="compute2"))
        self.plane.turn()
        assert self.shelf.dirty(target)
        self.service_down("compute1")
        forced = {"evacuate": {"host": "compute2", "force": True}}
        with (
            utils.temporary_mutation(self.admin_api, microversion="2.67"),
            pytest.raises(client.OpenStackApiException, match="NoValidHost"),
        ):
            self.admin_api.post_server_action(server.id, forced)
        self.observe()
        assert (self.shelf.leaks, self.slots_of(server.id)) == ([], [source])

    def _used_in_turn(self, slots: tuple[Slot, ...]) -> tuple[Slot, Slot]:
        """Two tenants came and went; first the slot that Nova's own tracker would take next."""
        tenants = [self.tenant(), self.tenant()]
        assert {slot for server in tenants for slot in server.slots} == set(slots)
        for server in tenants:
            self.delete(server)
        first, second = (Slot("compute1", address) for address in self.free_devices("compute1"))
        return first, second

    def _resized_on_its_host(self) -> Saw:
        """A server without drives becomes one with a drive, and stays where it is."""
        self.flags(allow_resize_to_same_host=True)
        server = self.tenant(flavor=self.new_flavor(0))
        self.act(server, "resize", {"flavorRef": self.flavor}, "VERIFY_RESIZE", "ERROR")
        if self.shelf.leaks:
            return Saw.LEAKED
        return Saw.CLOSED if self.slots_of(server.id) else Saw.REFUSED

    def test_leak_27_resize_on_its_host_without(self) -> None:
        """The first drive waits for its erase, the second was erased and is on offer."""
        dirty, clean = self._used_in_turn(self.add_host(drives=2))
        self.shelf.erase(clean)
        self.set_reserved(clean, 0)
        assert (self.stock(dirty), self.stock(clean)) == ((1, 1, 0), (1, 0, 0))
        self.saw(self._resized_on_its_host(), Saw.LEAKED)

    def test_leak_27_resize_on_its_host_with(self) -> None:
        slots = self.cared_for(drives=2)
        dirty, clean = self._used_in_turn(slots)
        self.shelf.drives[dirty].faults = frozenset({STUCK})
        self.plane.turn()
        assert self.plane.state(clean) is State.AVAILABLE
        assert self.shelf.dirty(dirty)
        self.saw(self._resized_on_its_host(), Saw.CLOSED)
        assert self.stock(clean) == (1, 1, 1)

    def test_no_clean_drive_is_burned_where_a_migration_goes(self) -> None:
        """Leak 27 again, elsewhere: there Placement refuses what Nova took, and Nova gives up."""
        self.patch_nova()
        (source,) = self.add_host("compute1")
        targets = self.add_host("compute2", 2)
        self.take_care(source, *targets)
        server = self.tenant(host="compute1")
        self.plane.turn()
        for offered, kept in (targets, targets[::-1]):
            self.set_reserved(kept, 1)
            self.act(server, "migrate", None, "VERIFY_RESIZE", "ERROR", "ACTIVE")
            assert (self.stock(offered), self.stock(kept)) == ((1, 1, 1), (1, 1, 0))
            self._revert_resize({"id": server.id})
            for slot in targets:
                self.set_reserved(slot, 0)

    def _two_hosts(self) -> tuple[Slot, Slot, Server]:
        """Two hosts under our care, and a tenant on the first one's drive."""
        self.patch_nova()
        source, target = (self.add_host(host)[0] for host in ("compute1", "compute2"))
        self.take_care(source, target)
        server = self.tenant(host="compute1")
        self.plane.turn()
        return source, target, server
