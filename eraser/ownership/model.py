"""What the gate remembers: who has which drive, and which drive may be handed out once. Frozen."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eraser.protocol.codec import LATE
from eraser.protocol.identity import ControllerIdentity, pci_address
from eraser.protocol.ticket import (
    MAX_ALLOWANCES,
    AllowanceUsed,
    Counters,
    LastOwner,
    Ticket,
    TicketState,
)

if TYPE_CHECKING:
    from eraser.host.sysfs import Host


@dataclass(frozen=True)
class SteadyTime:
    """A time on this machine's own steady clock: the boot it was in, and seconds since then."""

    boot: str
    seconds: float

    @classmethod
    def now(cls, host: Host) -> SteadyTime:
        """CLOCK_BOOTTIME, which nobody can set."""
        return cls(host.boot_id(), host.clock.boottime())

    def same_boot(self, other: SteadyTime | None) -> bool:
        """Both were in one boot; False where the other is not known."""
        return other is not None and self.boot == other.boot

    def within(self, seconds: float, then: SteadyTime) -> bool:
        """``then`` was in this boot and at most ``seconds`` ago."""
        return self.boot == then.boot and self.seconds - then.seconds <= seconds


@dataclass(frozen=True)
class PciIds:
    """What configuration space tells of a drive that cannot be read (it is on vfio-pci)."""

    vendor_id: int
    device_id: int
    subsystem_vendor_id: int
    subsystem_device_id: int

    @classmethod
    def of(cls, identity: ControllerIdentity) -> PciIds:
        """The PCI ids of an identity."""
        return cls(
            identity.vendor_id,
            identity.device_id,
            identity.subsystem_vendor_id,
            identity.subsystem_device_id,
        )


@dataclass(frozen=True)
class Owner:
    """The domain that the gate let in on the slot, and the drive that it got there."""

    domain: str
    """UUID, in lower case."""
    name: str
    identity: ControllerIdentity | None
    """None where the drive was adopted unread; its owner's next start fills it in."""
    pci: PciIds | None
    incarnation: str
    """The host's, when this was written. Under another it lets nobody in."""
    since: str
    adopted: bool
    let_in: SteadyTime | None
    """Its newest start. None where it was adopted."""
    rest: Counters | None = None
    """The drive's own, read while the domain was off; None while it runs and where nobody could."""
    left: str = ""
    """Why the drive may have been elsewhere since the newest start, where ``rest`` cannot tell."""
    place: str = dataclasses.field(default="", metadata=LATE)
    """Where sysfs had the drive when it was adopted unread (``PciFunction.place``): whatever is
    there at that very place is that drive. Empty where it was read."""


@dataclass(frozen=True)
class KeptTicket:
    """A ticket as it was taken in. ``counters`` are the drive's at that time."""

    ticket: Ticket
    state: TicketState
    reason: str
    counters: Counters | None
    at: str


@dataclass(frozen=True)
class Allowance:
    """A person's word: the next start on this slot passes without a ticket, once."""

    by: str
    reason: str
    at: str
    domain: str
    """UUID of the one domain it is for; empty for any."""
    drive: ControllerIdentity | None = dataclasses.field(default=None, metadata=LATE)
    """What was in the slot as the word was given; None where nobody could read that."""


@dataclass(frozen=True)
class SlotEntry:
    """All that the gate knows of one slot."""

    address: str
    owner: Owner | None = None
    last_owner: LastOwner | None = None
    last_identity: ControllerIdentity | None = None
    """The drive that ``last_owner`` had; None where nobody ever read it, and where another had it
    since, in another slot."""
    ticket: KeptTicket | None = None
    allowance: Allowance | None = None
    away: str = ""
    """Why the drive may have been elsewhere, or was worked on, since its newest ordered erase was
    reported. It speaks against a ticket that comes later."""
    place: str = ""
    """Where sysfs had the drive when its newest erase took the slot (``PciFunction.place``). The
    watcher may be down while a drive is away; this tells all the same, until the next boot."""
    took: ControllerIdentity | None = dataclasses.field(default=None, metadata=LATE)
    """The drive that was at ``place`` then; None by an earlier release."""
    doubted: bool = dataclasses.field(default=False, metadata=LATE)
    """A guest was adopted since, with a drive of this kind that nobody read, and this slot's drive
    was not seen where it had been: it may be that guest's. What stands here proves nothing then."""

    def __post_init__(self) -> None:
        # Not only as sysfs writes it: a person's word for 00000000:01:00.0 got an entry of its own
        # once, and one that nobody asks for must not make the book of all slots unreadable.
        pci_address(self.address)


@dataclass(frozen=True)
class Book:
    """Every slot that the gate knows, and the allowances that were used, newest last."""

    incarnation: str
    entries: tuple[SlotEntry, ...] = ()
    adopted_at: str = ""
    """When ``gate adopt`` first recorded who has what; empty where it never did."""
    used_allowances: tuple[AllowanceUsed, ...] = ()

    def __post_init__(self) -> None:
        if len({entry.address for entry in self.entries}) != len(self.entries):
            raise ValueError("expected each slot once, found one twice")

    def entry(self, address: str) -> SlotEntry:
        """What is known of a slot; an empty entry where nothing is."""
        for entry in self.entries:
            if entry.address == address:
                return entry
        return SlotEntry(address)

    def with_entry(self, entry: SlotEntry) -> Book:
        """The book with one slot's entry replaced."""
        others = [known for known in self.entries if known.address != entry.address]
        return dataclasses.replace(
            self, entries=tuple(sorted([*others, entry], key=lambda each: each.address))
        )

    def settled(self) -> Book:
        """The book without doubts where no owner is left whose drive nobody read. With the next
        such owner that is adopted they begin anew."""
        # While such an owner is left, its drive may still be one of the doubted ones.
        if any(each.owner is not None and each.owner.identity is None for each in self.entries):
            return self
        entries = tuple(dataclasses.replace(each, doubted=False) for each in self.entries)
        return dataclasses.replace(self, entries=entries)

    def with_used(self, used: AllowanceUsed) -> Book:
        """The book with one more allowance that was used."""
        # For the hellos; the audit file keeps all.
        kept = (*self.used_allowances, used)[-MAX_ALLOWANCES:]
        return dataclasses.replace(self, used_allowances=kept)
