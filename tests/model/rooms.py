"""What the system of one host's gate (:mod:`tests.model.house`) is made of: slots and guests."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from eraser.ownership import model
from eraser.ownership.model import Book, KeptTicket, SlotEntry, SteadyTime
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.ticket import Ticket, TicketState
from tests.model import papers
from tests.model.books import domain
from tests.model.papers import ENTRIES
from tests.model.world import CLEAN, NOWHERE, Mail

ANYBODY = -1
"""Whom a person's word is for, where it names nobody."""

BOOT = "boot"
_EARLIER = SteadyTime("an-earlier-boot", 0.0)
_APART = 1000.0
"""Seconds between two starts: more than a start that was let in is waited for."""


class Room(NamedTuple):
    """One slot."""

    drive: int
    data: int = CLEAN
    """The domain that wrote last, CLEAN, or GONE for somebody elsewhere."""
    has: int = 0
    """The domain that Nova gave it to."""
    entry: int = NOWHERE
    """What the gate has of it, by its number."""
    word: int = 0
    """Whom a person allowed one start here that has not happened yet, or ANYBODY."""
    proved: bool = False
    """A case has the slot's lock, and has seen that no file of libvirt names it."""


class Guest(NamedTuple):
    """One domain; it has every room that names it."""

    how: str = ""
    """Empty: it does not exist here. Then new (given drives, not started yet), let in (and in no
    file of libvirt's yet), on, off, suspended, coming back (it runs, its drives follow)."""
    back: frozenset[int] = frozenset()
    """The drives that came back so far."""


class Rooms(NamedTuple):
    """One state of everything."""

    rooms: tuple[Room, ...]
    guests: tuple[Guest, ...]
    budget: int

    def room(self, number: int, **changes: Any) -> Rooms:
        """The same with one slot changed."""
        rooms = list(self.rooms)
        rooms[number] = rooms[number]._replace(**changes)
        return self._replace(rooms=tuple(rooms))

    def guest(self, d: int, how: str, back: frozenset[int] = frozenset()) -> Rooms:
        """The same with one domain elsewhere in its life."""
        guests = list(self.guests)
        guests[d - 1] = Guest(how, back)
        return self._replace(guests=tuple(guests))

    def given(self, d: int) -> tuple[int, ...]:
        """The slots that Nova gave to a domain."""
        return tuple(r for r, room in enumerate(self.rooms) if room.has == d)

    def left(self, d: int) -> Rooms:
        """The same after a domain went from the host with all that Nova gave it."""
        after = self.guest(d, "")
        for r in self.given(d):
            after = after.room(r, has=0)
        return after

    def named(self, d: int) -> frozenset[int]:
        """The slots that libvirt's files of a domain name."""
        guest = self.guests[d - 1]
        if guest.how in ("on", "off"):
            return frozenset(self.given(d))
        return guest.back if guest.how == "coming back" else frozenset()


def address(r: int) -> str:
    """Where a slot is."""
    return f"0000:0{r + 1}:00.0"


def identity(drive: int, slots: int) -> ControllerIdentity:
    """Who a drive is. What comes in exchange is of another model."""
    who = papers.identity(drive)
    return who if drive < slots else dataclasses.replace(who, device_id=who.device_id + 1)


def ticket(room: Room, r: int, slots: int) -> Ticket:
    """The ticket of the newest case of a slot."""
    made = papers.ticket(0, Mail("ticket", 1, room.drive, True))
    who = identity(room.drive, slots)
    return dataclasses.replace(made, slot=Slot("host0", address(r)), identity=who)


def erased(room: Room, r: int, slots: int) -> Room:
    """A slot after a case that ended well, with its ticket in the book: on offer."""
    made = ticket(room, r, slots)
    kept = KeptTicket(made, TicketState.VALID, "", made.counters, "")
    entry = dataclasses.replace(entry_of(room, r), ticket=kept)
    return room._replace(data=CLEAN, word=0, proved=False, entry=ENTRIES.number(entry))


def entry_of(room: Room, r: int) -> SlotEntry:
    """What the gate has of a slot."""
    return SlotEntry(address(r)) if room.entry == NOWHERE else ENTRIES[room.entry]


def book_of(rooms: Rooms) -> Book:
    """The gate's book."""
    entries = tuple(entry_of(room, r) for r, room in enumerate(rooms.rooms))
    return Book(papers.incarnation(True), entries, adopted_at="once")


def written_down(rooms: Rooms, book: Book) -> Rooms:
    """The same after the book was replaced. Who had a drive last is for people."""
    for r in range(len(rooms.rooms)):
        entry = dataclasses.replace(book.entry(address(r)), last_owner=None, last_identity=None)
        rooms = rooms.room(r, entry=ENTRIES.number(entry))
    return rooms


def offered(room: Room, r: int) -> bool:
    """Nova may give the slot to somebody."""
    kept = entry_of(room, r).ticket
    valid = kept is not None and kept.state is TicketState.VALID
    return not room.has and not room.proved and room.data == CLEAN and valid


def came_at_once(rooms: Rooms, d: int) -> bool:
    """All drives of a domain were let in at one start: none was attached by hand since."""
    owners = [entry_of(rooms.rooms[r], r).owner for r in rooms.given(d)]
    return len({None if owner is None else owner.let_in for owner in owners}) == 1


def now(rooms: Rooms, *, later: bool) -> SteadyTime:
    """A moment after the newest start; much later, or not."""
    newest = max((_ranked(room, r) for r, room in enumerate(rooms.rooms)), default=0.0)
    return SteadyTime(BOOT, newest + (_APART if later else 1.0))


def _ranked(room: Room, r: int) -> float:
    owner = entry_of(room, r).owner
    if owner is None or owner.let_in is None or owner.let_in.boot != BOOT:
        return 0.0
    return owner.let_in.seconds


def rebooted(rooms: Rooms) -> Rooms:
    """The same after the host lost its power: every start was in an earlier boot."""
    for d, guest in enumerate(rooms.guests, 1):
        if guest.how in ("let in", "on", "off", "coming back"):
            # A suspended guest that was coming back starts from its files.
            rooms = rooms.guest(d, "off")
    for r, room in enumerate(rooms.rooms):
        entry = entry_of(room, r)
        rooms = rooms.room(r, proved=False)
        if entry.owner is not None and entry.owner.let_in is not None:
            owner = dataclasses.replace(entry.owner, let_in=_EARLIER)
            moved = dataclasses.replace(entry, owner=owner)
            rooms = rooms.room(r, entry=ENTRIES.number(moved))
    return rooms


def canonical(rooms: Rooms) -> Rooms:
    """The same state, spelt in one way: of the starts of this boot only the order can be told."""
    found = sorted({_ranked(room, r) for r, room in enumerate(rooms.rooms)} - {0.0})
    ranks = {each: (rank + 1) * _APART for rank, each in enumerate(found)}
    for r, room in enumerate(rooms.rooms):
        entry = entry_of(room, r)
        rank = ranks.get(_ranked(room, r))
        if rank is not None and entry.owner is not None:
            let_in = SteadyTime(BOOT, rank)
            owner = dataclasses.replace(entry.owner, let_in=let_in)
            entry = dataclasses.replace(entry, owner=owner)
        if entry.ticket is not None:
            entry = dataclasses.replace(entry, ticket=dataclasses.replace(entry.ticket, reason=""))
        rooms = rooms.room(r, entry=ENTRIES.number(entry))
    return rooms


def allowed(rooms: Rooms, r: int, whom: int) -> Rooms:
    """The same after a person allowed one start on a slot, as ``gate allow --once`` writes it."""
    name = "" if whom == ANYBODY else domain(whom)
    word = model.Allowance("somebody", "the disk is fine", "", name)
    entry = dataclasses.replace(entry_of(rooms.rooms[r], r), allowance=word)
    return rooms.room(r, word=whom, entry=ENTRIES.number(entry))
