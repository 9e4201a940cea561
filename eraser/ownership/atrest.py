"""What the gate remembers of an owner's drive while the owner is off. Pure.

A drive that left its slot meanwhile and served somebody else has another's data on it, and its
owner's record does not show it: its counters do.
"""

from __future__ import annotations

import dataclasses
import enum

from eraser.ownership.facts import is_untouched
from eraser.ownership.model import Book, Owner, PciIds, SlotEntry
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import Counters


class IdleAction(enum.StrEnum):
    """What is to be done about an owner's ``rest``."""

    NOTE = "note"
    """Read the counters: the domain seems to be off."""
    FORGET = "forget"
    """The drive went into a guest past the gate, as hot-plug does after a suspend: its owner writes
    to it, and what was read before would speak against the honest."""
    PLACE = "place"
    """Write down where its drive is, which it runs with and which nobody ever read."""


def idle_action(
    owner: Owner | None, driver: str | None, incarnation: str, place: str = ""
) -> IdleAction | None:
    """What a slot on this driver (None and empty: none) needs; None where there is nothing to do.

    A drive that may have been elsewhere is not read: its counters of now would vouch for it. One
    that was adopted unread is its owner's only at the ``place`` where it was then.
    """
    # An owner of another incarnation is let in nowhere, so nothing has to vouch for its drive.
    if owner is None or owner.incarnation != incarnation:
        return None
    if owner.identity is None and not is_untouched(owner, place):
        # Releases before the place was kept adopted without it.
        lacking = bool(place) and not owner.place and not owner.left
        return IdleAction.PLACE if lacking and driver not in (None, "", "nvme") else None
    if driver == "nvme":
        return IdleAction.NOTE if owner.rest is None and not owner.left else None
    return IdleAction.FORGET if driver and owner.rest is not None else None


def stand_still(entry: SlotEntry, now: Counters) -> bool:
    """The drive shows nothing of its owner's writes: its counters would show no other's either.

    Noted, they would outweigh a vanish that the watcher sees. An owner that never wrote looks the
    same, and loses nothing by it but that.
    """
    written = (now.host_write_commands, now.data_units_written)
    before = [(0, 0)]
    if entry.ticket is not None and (then := entry.ticket.counters) is not None:
        before.append((then.host_write_commands, then.data_units_written))
    return written in before


def rested(book: Book, address: str, counters: Counters | None) -> Book:
    """The book with what the slot's drive counted while its owner is off; None forgets it."""
    entry = book.entry(address)
    if entry.owner is None:
        return book
    owner = dataclasses.replace(entry.owner, rest=counters)
    return book.with_entry(dataclasses.replace(entry, owner=owner))


def known(book: Book, address: str, identity: ControllerIdentity) -> Book:
    """The book after the drive of an owner that was adopted unread was read."""
    entry = book.entry(address)
    if entry.owner is None:
        return book
    owner = dataclasses.replace(entry.owner, identity=identity, pci=PciIds.of(identity), place="")
    return book.with_entry(dataclasses.replace(entry, owner=owner))


def placed(book: Book, address: str, place: str) -> Book:
    """The book after the owner of an unread drive was seen to run with what is at ``place``."""
    entry = book.entry(address)
    if entry.owner is None:
        return book
    return book.with_entry(
        dataclasses.replace(entry, owner=dataclasses.replace(entry.owner, place=place))
    )


def left(book: Book, address: str, reason: str) -> Book:
    """The book after the slot's drive may have been away. Counters at rest tell better."""
    entry = book.entry(address)
    # The first reason is kept: it tells what happened since the newest start.
    if entry.owner is None or entry.owner.rest is not None or entry.owner.left:
        return book
    owner = dataclasses.replace(entry.owner, left=reason)
    return book.with_entry(dataclasses.replace(entry, owner=owner))
