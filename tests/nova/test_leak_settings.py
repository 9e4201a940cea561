"""Leaks 20, 21 and 22: what a change of nova.conf does to drives that are under our care."""

from __future__ import annotations

import pytest

from quarantine.errors import BadInputError
from tests.nova.leakcase import LeakCase
from tests.nova.leaks import Saw


class TestSettings(LeakCase):
    def _dropped(self) -> None:
        self.set_spec(self.spec(one_time_use=None))
        self.restart()

    def test_leak_20_one_time_use_dropped_without(self) -> None:
        (slot,) = self.add_host()
        self._dropped()
        self.delete(self.tenant())
        assert self.stock(slot) == (1, 0, 0)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_20_one_time_use_dropped_with(self) -> None:
        (slot,) = self.cared_for()
        self._dropped()
        self.plane.turn()
        self.saw(self.held(slot, "without the trait"), Saw.HELD)

    def test_a_dirty_drive_without_the_trait_is_found_and_erased(self) -> None:
        """Leak 20 again: a poller that asks for the trait is blind to it."""
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        self._dropped()
        assert self.polling_cleaner().turn() == []
        self.plane.turn()
        assert not self.shelf.dirty(slot)

    def _broad_line_first(self) -> None:
        self.set_spec(self.spec(one_time_use=None), self.spec())

    def test_leak_22_broad_line_first_without(self) -> None:
        self._broad_line_first()
        (slot,) = self.add_host()
        self.delete(self.tenant())
        assert self.stock(slot) == (1, 0, 0)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_22_broad_line_first_with(self) -> None:
        (slot,) = self.cared_for()
        self._broad_line_first()
        self.restart()
        self.plane.turn()
        self.saw(self.held(slot, "without the trait"), Saw.HELD)

    def test_a_drive_behind_a_broad_line_is_not_enrolled(self) -> None:
        """Leak 22 for a host that comes under our care like that."""
        (slot,) = self.cared_for()
        self._broad_line_first()
        (other,) = self.add_host("compute2")
        with pytest.raises(BadInputError, match="one_time_use"):
            self.plane.enrol(other)
        assert slot is not None

    def _filter_off(self) -> None:
        self.flags(group="filter_scheduler", pci_in_placement=False)

    def test_leak_21_pci_in_placement_off_without(self) -> None:
        """Nova itself refuses, also the first tenant: what is reserved cannot be healed."""
        (slot,) = self.add_host()
        self.delete(self.tenant())
        self._filter_off()
        server = self.boot()
        assert not server.active, server
        assert self.shelf.leaks == []
        assert self.shelf.dirty(slot)
        self.saw(Saw.REFUSED, Saw.REFUSED)

    def test_leak_21_pci_in_placement_off_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        self._filter_off()
        late = self.boot()
        assert not late.active, late
        # The claim that could not be healed leaves Nova's own row of the device claimed.
        self.delete(late)
        self.periodic()
        self.flags(group="filter_scheduler", pci_in_placement=True)
        self.saw(self.closes(slot), Saw.CLOSED)
