"""Leaks 5, 6, 19, 26 and 28: what people with good intentions do to Placement and to databases."""

from __future__ import annotations

import contextlib
import io
import shutil

from nova.cmd import manage

from eraser.protocol.identity import Slot
from quarantine.record.words.states import State
from tests.nova.harness import Server
from tests.nova.leakcase import LeakCase
from tests.nova.leaks import Saw
from tests.nova.plane import LIMITS


class TestOperators(LeakCase):
    def _used(self) -> tuple[Slot, Server]:
        """A drive under our care, with a tenant on it; we have seen that."""
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        assert self.plane.state(slot) == State.IN_USE
        return slot, server

    def test_leak_05_reserved_zeroed_in_use_without(self) -> None:
        (slot,) = self.add_host()
        server = self.tenant()
        self.set_reserved(slot, 0)
        self.periodic()
        assert self.stock(slot) == (1, 0, 1), "expected Nova not to notice"
        self.delete(server)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_05_reserved_zeroed_in_use_with(self) -> None:
        slot, server = self._used()
        self.set_reserved(slot, 0)
        # Younger than that, it may be Nova's own moment between claim and burn.
        self.plane.clock.forward(LIMITS.burn_grace + 1)
        self.plane.turn()
        assert self.stock(slot) == (1, 1, 1)
        self.delete(server)
        self.saw(self.closes(slot), Saw.CLOSED)

    def test_leak_06_reserved_zeroed_in_quarantine_without(self) -> None:
        (slot,) = self.add_host()
        self.delete(self.tenant())
        self.set_reserved(slot, 0)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_06_reserved_zeroed_in_quarantine_with(self) -> None:
        slot, server = self._used()
        self.delete(server)
        self.plane.hosts[slot.host].down = True
        self.plane.turn()
        assert self.plane.state(slot) is State.QUARANTINED
        self.set_reserved(slot, 0)
        # Our allocation alone stands between the drive and the next tenant now.
        assert self.stock(slot) == (1, 0, 1)
        assert self.second_tenant() == Saw.REFUSED
        self.plane.turn()
        assert self.stock(slot) == (1, 1, 1)
        self.plane.hosts[slot.host].down = False
        self.saw(self.closes(slot), Saw.CLOSED)

    def _manage(self) -> None:
        """The two commands, as an operator runs them."""
        with contextlib.redirect_stdout(io.StringIO()):
            assert manage.PlacementCommands().audit(verbose=True, delete=True) == 0
            manage.DbCommands().archive_deleted_rows(max_rows=1000, verbose=True)

    def _nova_knows(self, slot: Slot, server: Server) -> bool:
        """Whether Nova can still say that this server had that drive."""
        rows = [row for row in self.devices(slot.host) if row[0] == slot.address]
        named = any(server.id in row for row in rows)
        query = f"/servers/detail?all_tenants=1&deleted=true&uuid={server.id}"
        return named or bool(self.admin_api.api_get(query).body["servers"])

    def test_leak_19_audit_and_archive_without(self) -> None:
        (slot,) = self.add_host()
        server = self.tenant()
        self.delete(server)
        assert self._nova_knows(slot, server)
        self._manage()
        assert self.stock(slot) == (1, 1, 0)
        known = self._nova_knows(slot, server)
        self.saw(Saw.KEPT if known else Saw.FORGOTTEN, Saw.FORGOTTEN)

    def test_leak_19_audit_and_archive_with(self) -> None:
        slot, server = self._used()
        self.delete(server)
        self.plane.hosts[slot.host].down = True
        self.plane.turn()
        custody = self.plane.record(slot).custody
        self._manage()
        assert self.stock(slot) == (1, 1, 1)
        self.plane.hosts[slot.host].down = False
        assert self.closes(slot) == Saw.CLOSED
        assert custody is not None
        (last,) = [c for c in self.plane.store.certificates() if c.server is not None]
        self.saw(Saw.KEPT if last.server == server.id else Saw.FORGOTTEN, Saw.KEPT)

    def _restored(self, slot: Slot) -> None:
        """Placement stands still, gets last night's database, and goes on."""
        self.placement_server.stop()
        shutil.copy(self.directory / "last-night", self._database)
        self.placement_server.start()
        assert self.stock(slot) == (1, 0, 0)

    @property
    def _database(self) -> str:
        return str(self.placement_server.log.with_name("placement.sqlite"))

    def _backup(self) -> None:
        self.placement_server.stop()
        shutil.copy(self._database, self.directory / "last-night")
        self.placement_server.start()

    def test_leak_26_placement_restored_without(self) -> None:
        (slot,) = self.add_host()
        self._backup()
        self.delete(self.tenant())
        self._restored(slot)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_26_placement_restored_with(self) -> None:
        (slot,) = self.cared_for()
        self._backup()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        self.plane.hosts[slot.host].down = True
        self.plane.turn()
        self._restored(slot)
        # Placement offers the drive until the control plane looks: at the latest list_interval
        # later. What starts in between is refused by the last gate, for want of a ticket.
        self.plane.turn()
        self.plane.hosts[slot.host].down = False
        self.saw(self.closes(slot), Saw.CLOSED)

    def test_leak_28_rewritten_record_without(self) -> None:
        (slot,) = self.add_host()
        self.delete(self.tenant())
        assert self.stock(slot) == (1, 1, 0)
        # Somebody makes sure that it stays reserved.
        self.write_anew(slot, total=1, reserved=1)
        self.refresh()
        assert self.stock(slot) == (1, 0, 0), "expected Nova to correct max_unit"
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_28_rewritten_record_with(self) -> None:
        slot, server = self._used()
        self.delete(server)
        # Before our custody is there, reserved alone stands in the way.
        self.write_anew(slot, total=1, reserved=1)
        self.refresh()
        self.saw(self.closes(slot), Saw.CLOSED)

    def test_a_label_on_the_provider_does_not_unreserve_it(self) -> None:
        """Leak 28 again: Nova takes the label away, and the record with it."""
        slot, server = self._used()
        self.delete(server)
        self.add_label(slot, "CUSTOM_RACK_7")
        self.refresh()
        assert self.stock(slot) == (1, 1, 0)
        assert self.closes(slot) == Saw.CLOSED

    def test_a_lost_allocation_stops_nothing_and_ends_in_an_erase(self) -> None:
        slot, server = self._used()
        assert self.raw("DELETE", f"/allocations/{server.id}", "1.39").status == 204
        self.plane.turn()
        with contextlib.redirect_stdout(io.StringIO()):
            manage.PlacementCommands().heal_allocations(instance_uuid=server.id)
        self.refresh()
        self.restart()
        assert self.boot(flavor=self.new_flavor(0)).active
        # The guest still has its drive: custody is taken, and nothing is sent to it.
        self.plane.turn()
        assert self.shelf.drives[slot].data_of == server.id
        self.delete(server)
        self.refresh()
        assert self.closes(slot) == Saw.CLOSED
