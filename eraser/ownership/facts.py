"""What the gate's rules decide on: one slot as it is at one moment. Frozen, and read elsewhere."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from eraser.controller.spec import SanitizeState
from eraser.ownership.model import Owner, SlotEntry, SteadyTime
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import Counters


@dataclass(frozen=True)
class DriveSeen:
    """The drive in a slot. ``driver`` is None where no function is there, empty for no driver."""

    driver: str | None
    identity: ControllerIdentity | None = None
    counters: Counters | None = None
    sanitize: SanitizeState | None = None
    """None where the drive has no Sanitize."""
    trouble: str = ""
    """Why it could not be read as far as every start needs."""
    namesake: str = ""
    """Why the drive cannot be told from another of this host; empty where it can."""
    place: str = ""
    """Where sysfs has the function (:attr:`eraser.host.sysfs.PciFunction.place`)."""


class CaseStanding(enum.StrEnum):
    """Where the slot's erase stands on this host's disk."""

    NONE = "none"
    """No order was ever accepted."""
    OPEN = "open"
    """An erase was accepted, or begun by hand, and has no report yet."""
    IN_USE = "in_use"
    """The newest order was answered "in use": nothing was sent to the drive."""
    ENDED = "ended"
    """It ended otherwise."""
    ERASED = "erased"
    """The newest order's case ended with an erased, verified and fit drive."""


@dataclass(frozen=True)
class CaseSeen:
    """The newest accepted order of a slot and what became of it."""

    standing: CaseStanding = CaseStanding.NONE
    order_id: str = ""
    generation: int = 0
    identity: ControllerIdentity | None = None
    """The drive that the case's report is about."""
    detail: str = ""
    """For people, where the case is open."""


@dataclass(frozen=True)
class NewErase:
    """An erase that is about to begin on the drive of a slot."""

    address: str
    identity: ControllerIdentity
    at: str
    """The host's time, for people."""
    place: str = ""
    """Where the drive is now (:class:`eraser.ownership.model.SlotEntry`)."""
    away: str = ""
    """What speaks against the tickets of earlier erases."""
    again: bool = False
    """This very case took this very drive before. It was not that of an owner whom nobody had read
    by then; and one who got it since, by the gate, has it in the book. Not by a book that is
    younger than that, or that doubts it, or where the slot's newest erase took another drive: then
    a guest may have been adopted with it."""
    by_hand: bool = False
    """It may be of another drive than the slot's open case took: it ends no doubt."""


@dataclass(frozen=True)
class HostSeen:
    """What the host shows of its domains as an erase begins."""

    now: SteadyTime
    domains: Mapping[str, str]
    """Every domain that is defined or running, by uuid, and where it was found: a suspended
    server's no longer names the address."""
    running: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Those that run, and every address that any definition of theirs names."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where the drives of the other slots are whose owners were adopted unread, by address."""


def left_slot(then: str, now: str) -> bool:
    """Within one boot a drive was taken out, whatever is there ``now``: two
    :attr:`eraser.host.sysfs.PciFunction.place`."""
    boots = {place.partition("/")[0] for place in (then, now)}
    return then != now and len(boots) == 1


def is_untouched(owner: Owner, place: str) -> bool:
    """The drive that was adopted unread is the one that is there now."""
    return bool(owner.place) and owner.place == place


@dataclass(frozen=True)
class SlotFacts:
    """Everything about one slot at one moment, read while its lock was ours."""

    address: str
    entry: SlotEntry
    drive: DriveSeen
    case: CaseSeen
    incarnation: str
    """The host's present one."""
    adopted: bool = True
    """``gate adopt`` was run on this host."""
    locked: str = ""
    """Who holds the slot's lock; empty where we do."""
    elsewhere: str = ""
    """Whose the drive is by another slot's entry in the book; empty where by none."""
    other_class: str = ""
    """The PCI class code of a function that is no NVMe one; empty for a drive."""

    @property
    def came_back(self) -> bool:
        """The drive was gone from its slot since its newest erase began, in one boot."""
        return left_slot(self.entry.place, self.drive.place)


@dataclass(frozen=True)
class Starting:
    """The domain that is about to start."""

    uuid: str
    name: str
