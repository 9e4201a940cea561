"""Leaks 14 to 18 and 23: the drive behind an address is another one, lies, was changed, or its
erase is cut off or answered late. How a real eraser finds that out is tested on the rack."""

from __future__ import annotations

from quarantine.record.words.states import State
from tests.nova.leakcase import LeakCase
from tests.nova.leaks import Saw
from tests.nova.plane import LIMITS
from tests.nova.shelf import LIES, Drive


class TestDrives(LeakCase):
    def test_leak_14_swapped_slots_without(self) -> None:
        clean, dirty = self.add_host(drives=2)
        server = self.tenant()
        if server.slots != (dirty,):
            clean, dirty = dirty, clean
        self.delete(server)
        self.shelf.swap(clean, dirty)
        self.restart(drives=2)
        assert self.stock(clean) == (1, 0, 0)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_14_swapped_slots_with(self) -> None:
        slots = self.cared_for(drives=2)
        server = self.tenant()
        (dirty,) = server.slots
        (clean,) = set(slots) - {dirty}
        self.plane.turn()
        self.delete(server)
        self.shelf.swap(clean, dirty)
        self.restart(drives=2)
        # The hello comes before the first guest of the new boot; a guest that is quicker meets the
        # last gate, which reads the drive's identity itself.
        self.plane.turn()
        assert self.plane.state(dirty) is State.HELD
        assert self.shelf.dirty(clean)
        self.saw(self.held(clean, self.shelf.drives[clean].serial), Saw.HELD)

    def test_leak_23_dirty_drive_in_another_host_without(self) -> None:
        (here,) = self.add_host("compute1")
        self.delete(self.tenant(host="compute1"))
        (there,) = self.add_host("compute2")
        self.shelf.swap(here, there)
        self.saw(self.second_tenant(host="compute2"), Saw.LEAKED)

    def test_leak_23_dirty_drive_in_another_host_with(self) -> None:
        self.patch_nova()
        (here,), (there,) = self.add_host("compute1"), self.add_host("compute2")
        self.take_care(here, there)
        server = self.tenant(host="compute1")
        self.plane.turn()
        self.delete(server)
        self.shelf.swap(here, there)
        self.plane.turn()
        assert self.shelf.dirty(there)
        self.saw(self.held(there, "seen in compute1/"), Saw.HELD)

    def test_leak_17_erase_that_erases_nothing_without(self) -> None:
        (slot,) = self.add_host()
        self.shelf.put(slot, Drive("LIAR", faults=frozenset({LIES})))
        self.delete(self.tenant())
        assert [slot] == self.polling_cleaner().turn()
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_17_erase_that_erases_nothing_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        self.shelf.drives[slot].faults = frozenset({LIES})
        self.plane.turn()
        assert self.plane.certificates(slot) == 1
        self.saw(self.held(slot, "not_erased"), Saw.HELD)

    def test_leak_16_crash_in_mid_erase_without(self) -> None:
        """A task that was acknowledged when it came is not there any more after the crash."""
        (slot,) = self.add_host()
        server = self.tenant()
        cleaner = self.bell_cleaner()
        cleaner.note(server.id, server.slots)
        self.delete(server)
        cleaner.hear(self.notifications(), power_fails=True)
        assert cleaner.hear(self.notifications()) == []
        self.periodic()
        waits = self.shelf.dirty(slot) and self.stock(slot) == (1, 1, 0)
        self.saw(Saw.STRANDED if waits else Saw.UNTOUCHED, Saw.STRANDED)

    def test_leak_16_crash_in_mid_erase_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        host = self.plane.hosts[slot.host]
        host.crashing = True
        self.plane.turn()
        assert host.down
        host.down = False
        self.plane.turn()
        assert self.plane.state(slot) is State.ERASING, "expected patience first"
        self.plane.clock.forward(LIMITS.resend_after + 1)
        self.saw(self.closes(slot), Saw.CLOSED)
        assert host.orders[-2] == host.orders[-1], "expected the very same order again"

    def test_leak_18_drive_changed_beyond_data_without(self) -> None:
        (slot,) = self.add_host()
        server = self.tenant()
        self.shelf.drives[slot].changed_by = server.id
        self.delete(server)
        assert [slot] == self.polling_cleaner().turn()
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_18_drive_changed_beyond_data_with(self) -> None:
        (slot,) = self.cared_for()
        server = self.tenant()
        self.plane.turn()
        self.shelf.drives[slot].changed_by = server.id
        self.delete(server)
        self.plane.turn()
        assert not self.shelf.dirty(slot), "health decides release, never whether to erase"
        self.saw(self.held(slot, "not fit"), Saw.HELD)

    def test_leak_15_late_report_without(self) -> None:
        """A worker of the first case comes back late and gives the slot back once more."""
        (slot,) = self.add_host()
        cleaner = self.polling_cleaner()
        self.delete(self.tenant())
        late = self.provider(slot)
        assert late is not None
        assert [slot] == cleaner.turn()
        second = self.tenant()
        cleaner.give_back(late)
        assert self.stock(slot) == (1, 0, 1)
        self.delete(second)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_15_late_report_with(self) -> None:
        (slot,) = self.cared_for()
        first = self.tenant()
        self.plane.turn()
        self.delete(first)
        self.plane.turn()
        report = self.plane.reports[-1]
        second = self.tenant()
        for state in (State.AVAILABLE, State.IN_USE):
            # The report of the first case again, before and after we know of the second tenant.
            assert self.plane.state(slot) is state
            self.plane.hear(report)
            assert self.stock(slot) == (1, 1, 1)
            self.plane.turn()
        self.delete(second)
        self.plane.hear(report)
        self.saw(self.closes(slot), Saw.CLOSED)
