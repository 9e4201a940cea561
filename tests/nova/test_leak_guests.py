"""Leaks 7, 8, 9, 13 and 24: Placement says that nobody has the drive, and somebody has it."""

from __future__ import annotations

from eraser.protocol.identity import Slot
from quarantine.record.words.states import State
from tests.nova.leakcase import LeakCase
from tests.nova.leaks import Saw
from tests.nova.plane import LIMITS
from tests.nova.shelf import STUCK


class TestGuests(LeakCase):
    def _lost(self) -> Saw:
        """Whether a drive was erased under a guest."""
        return Saw.DESTROYED if self.shelf.losses else Saw.UNTOUCHED

    def test_leak_07_local_delete_ghost_guest_without(self) -> None:
        (slot,) = self.add_host()
        server = self.tenant()
        self.service_down()
        self.delete(server)
        assert self.stock(slot) == (1, 1, 0)
        assert [server.id] == self.guests_on(slot)
        assert [slot] == self.polling_cleaner().turn()
        self.saw(self._lost(), Saw.DESTROYED)

    def test_leak_07_local_delete_ghost_guest_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.service_down()
        self.delete(server)
        assert [server.id] == self.guests_on(slot)
        self.plane.turn()
        assert self._lost() is Saw.UNTOUCHED
        assert self.plane.state(slot) is State.QUARANTINED
        assert self.stock(slot) == (1, 1, 1)
        # nova-compute is back and ends the ghost.
        self.flags(running_deleted_instance_poll_interval=1, running_deleted_instance_timeout=0)
        self.service_up()
        self.reap_ghosts()
        assert self.guests_on(slot) == []
        self.plane.clock.forward(LIMITS.retry_in_use_after + 1)
        self.saw(self.closes(slot), Saw.CLOSED)

    def test_a_host_that_lost_its_domains_is_no_witness(self) -> None:
        """Leak 7 again: the guest runs on, its host does not know it, and Nova's records tell."""
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.plane.hosts[slot.host].domains = lambda host: ()
        self.service_down()
        self.delete(server)
        self.plane.turn()
        assert self._lost() is Saw.UNTOUCHED
        assert self.plane.state(slot) is State.QUARANTINED
        assert "compute service of compute1" in self.plane.record(slot).detail

    def test_leak_08_evacuated_host_returns_without(self) -> None:
        """The operator tidies the allocation that a dead host still has; its guest runs on."""
        (slot,) = self.add_host("compute1")
        server = self.tenant(host="compute1")
        self.add_host("compute2")
        self._evacuate(server.id)
        assert [server.id] == self.guests_on(slot)
        self.tidy_allocations("compute1")
        assert [slot] == self.polling_cleaner().turn()
        self.saw(self._lost(), Saw.DESTROYED)

    def test_leak_08_evacuated_host_returns_with(self) -> None:
        (slot,) = self.cared_for("compute1")
        server = self.tenant(host="compute1")
        self.plane.turn()
        self.add_host("compute2")
        self.set_reserved(Slot("compute2", slot.address), 0)
        self._evacuate(server.id)
        self.plane.turn()
        assert self.plane.state(slot) is State.IN_USE, "expected Nova's migration on it"
        self.tidy_allocations("compute1")
        self.plane.turn()
        assert self._lost() is Saw.UNTOUCHED
        assert self.plane.state(slot) is State.QUARANTINED
        self.service_up()
        assert self.guests_on(slot) == []
        self.plane.clock.forward(LIMITS.retry_in_use_after + 1)
        self.saw(self.closes(slot), Saw.CLOSED)

    def _evacuate(self, server: str) -> None:
        self.service_down("compute1")
        self.admin_api.post_server_action(server, {"evacuate": {}})
        self._wait_for_migration_status({"id": server}, ["done"])

    def test_leak_09_suspend_without(self) -> None:
        """A cleaner that goes by what libvirt's domains name finds the drive idle."""
        (slot,) = self.add_host()
        server = self.tenant()
        self.act(server, "suspend", None, "SUSPENDED")
        assert self.slots_of(server.id) == []
        self.shelf.erase(slot)
        self.act(server, "resume", None, "ACTIVE")
        self.saw(self._lost(), Saw.DESTROYED)

    def test_leak_09_suspend_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.act(server, "suspend", None, "SUSPENDED")
        assert self.slots_of(server.id) == []
        # Whoever sees the drive on the host's own driver may ring: the allocation decides.
        self.plane.inbox.bell(slot.host, slot.address)
        self.plane.turn()
        assert self.plane.state(slot) is State.IN_USE
        self.act(server, "resume", None, "ACTIVE")
        self.saw(self._lost(), Saw.UNTOUCHED)
        self.delete(server)
        assert self.closes(slot) is Saw.CLOSED

    def _soft_delete(self, server: str) -> None:
        self.admin_api.delete_server(server)
        self.wait_status(server, "SOFT_DELETED")

    def test_leak_13_soft_delete_without(self) -> None:
        """A cleaner that goes by notifications hears soft_delete, and the tenant restores."""
        self.flags(reclaim_instance_interval=3600)
        self.add_host()
        server = self.tenant()
        cleaner = self.bell_cleaner()
        cleaner.note(server.id, server.slots)
        self._soft_delete(server.id)
        assert list(server.slots) == cleaner.hear(self.notifications())
        self.act(server, "restore", None, "ACTIVE")
        self.saw(self._lost(), Saw.DESTROYED)

    def test_leak_13_soft_delete_with(self) -> None:
        self.flags(reclaim_instance_interval=3600)
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self._soft_delete(server.id)
        self.plane.inbox.bell(slot.host)
        self.plane.turn()
        assert self.plane.state(slot) is State.IN_USE
        self.act(server, "restore", None, "ACTIVE")
        self.saw(self._lost(), Saw.UNTOUCHED)
        self._soft_delete(server.id)
        self.act(server, "forceDelete")
        self.wait_gone(server.id)
        assert self.closes(slot) is Saw.CLOSED

    def test_leak_24_drive_cannot_be_opened_without(self) -> None:
        """The cleaner's command fails, and the cleaner does not look."""
        (slot,) = self.add_host()
        self.delete(self.tenant())
        self.shelf.drives[slot].faults = frozenset({STUCK})
        assert [slot] == self.polling_cleaner().turn()
        self.shelf.drives[slot].faults = frozenset()
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_24_drive_cannot_be_opened_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        self.shelf.drives[slot].faults = frozenset({STUCK})
        for _ in range(LIMITS.max_attempts + 1):
            self.plane.clock.forward(LIMITS.retry_in_use_after + 1)
            self.plane.turn()
        self.saw(self.held(slot, "without an erase", STUCK), Saw.HELD)
