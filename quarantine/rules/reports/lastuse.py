"""Whose word about a drive's last user counts, by what the record knows of the drive. Pure.

A host's book knows its own guests, and Placement the servers of one slot. Neither knows that the
drive was elsewhere since, and a certificate names nobody rather than one who was not the last.
"""

from __future__ import annotations

from dataclasses import dataclass

from eraser.protocol.identity import Slot


@dataclass(frozen=True)
class Moment:
    """What happened to the drive in a slot, and the number of its line in the record's history: of
    two lines the greater one was written later, whatever clocks say."""

    slot: Slot
    seq: int


@dataclass(frozen=True)
class DrivePast:
    """What the record knows of where a drive was, before the erase that is to be certified."""

    erased: Moment | None = None
    """Its last certificate, also one under which it was not handed out."""
    claims: tuple[Moment, ...] = ()
    """The last server's claim of each slot that expects the drive."""
    sightings: tuple[Moment, ...] = ()
    """Where hosts saw it although it was expected in the slot that is certified."""


@dataclass(frozen=True)
class LastUse:
    """Who counts as the drive's last user."""

    consumer: str
    """By Placement; empty where nobody does."""
    gate: bool
    """The word of the host's gate counts, where it says one."""


def last_use(here: Slot, past: DrivePast, consumer: str, owner: str | None) -> LastUse:
    """``consumer`` had the slot last by Placement, of a migration its server (empty: nobody),
    ``owner`` the drive by the host's gate."""
    seen = consumer if _is_of_drive(here, past) else ""
    # What the record saw there itself, after the drive was elsewhere, needs no other word.
    return LastUse(seen, not _was_elsewhere(here, past) or (bool(seen) and owner == seen))


def _is_of_drive(here: Slot, past: DrivePast) -> bool:
    """Whoever claimed the slot last had this drive, and nobody had it in another slot since."""
    claimed = max((claim.seq for claim in past.claims if claim.slot == here), default=0)
    erased = past.erased
    if erased is not None and erased.slot != here and claimed < erased.seq:
        return False
    since = max(claimed, erased.seq if erased is not None and erased.slot == here else 0)
    others = (*past.claims, *past.sightings)
    return not any(each.slot != here and each.seq > since for each in others)


def _was_elsewhere(here: Slot, past: DrivePast) -> bool:
    """Another host had it since it was erased on this one; what was before, that erase ended."""
    erased = past.erased
    if erased is not None and erased.slot.host != here.host:
        return True
    since = 0 if erased is None else erased.seq
    others = (*past.claims, *past.sightings)
    return any(each.slot.host != here.host and each.seq > since for each in others)
