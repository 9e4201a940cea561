"""Ground truth about the drives: whose data is on each, and every accident that happened.

Nova's harness has PCI devices without content. Here each is a drive with a serial number and the
name of the tenant whose data it holds. The tests judge by this, never by what Nova, Placement or
our own code say of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from eraser.protocol.identity import ControllerIdentity, Slot
from tests.unit.quarantine.testimony import IDENTITY


@dataclass
class Drive:
    """One drive. ``faults`` are what it does wrong (see the constants)."""

    serial: str
    data_of: str | None = None
    """The server whose data it holds; ``None`` after an erase and on a drive from the factory."""
    changed_by: str | None = None
    """The server that changed more than data: firmware, namespaces, features. No erase mends it."""
    erased: int = 0
    faults: frozenset[str] = frozenset()

    @property
    def identity(self) -> ControllerIdentity:
        """What its controller says of itself."""
        return replace(IDENTITY, serial=self.serial, subnqn=f"nqn.2014.08.org:{self.serial}")


LIES = "answers success and erases nothing"
STUCK = "cannot be opened: vfio does not let go of it"


@dataclass
class Shelf:
    """Every drive of the cloud by the slot that it sits in."""

    guests: Callable[[Slot], Iterable[str]]
    """The servers that have a guest defined on that slot's host, with or without the drive."""
    drives: dict[Slot, Drive] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    """A guest ran on a drive with the data of another server."""
    losses: list[str] = field(default_factory=list)
    """A drive was erased while the guest whose data it holds existed on its host."""

    def put(self, slot: Slot, drive: Drive) -> None:
        """A drive is plugged in."""
        self.drives[slot] = drive

    def swap(self, one: Slot, other: Slot) -> None:
        """Two slots trade their drives: renumbering, or somebody's hands."""
        self.drives[one], self.drives[other] = self.drives[other], self.drives[one]

    def run(self, slot: Slot, server: str) -> None:
        """A guest runs with that slot's drive: it can read what is there, and writes its own."""
        drive = self.drives[slot]
        if drive.data_of not in (None, server):
            self.leaks.append(f"{server} reads data of {drive.data_of} on {drive.serial}")
        if drive.changed_by not in (None, server):
            self.leaks.append(f"{server} runs on {drive.serial}, changed by {drive.changed_by}")
        drive.data_of = server

    def erase(self, slot: Slot) -> bool:
        """Somebody erases it; whether the command came through (which a liar says as well)."""
        drive = self.drives[slot]
        if STUCK in drive.faults:
            return False
        if drive.data_of is not None and drive.data_of in self.guests(slot):
            self.losses.append(f"{drive.serial} was erased under {drive.data_of}")
        if LIES not in drive.faults:
            drive.data_of = None
        drive.erased += 1
        return True

    def dirty(self, slot: Slot) -> bool:
        """Whether somebody's data is on the drive in the slot."""
        return self.drives[slot].data_of is not None
