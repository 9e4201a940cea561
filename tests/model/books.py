"""The gate's book of a host of the model, and what its drive counts."""

from __future__ import annotations

import dataclasses

from eraser.ownership import model
from eraser.protocol.ticket import Counters
from tests.model import papers
from tests.model.papers import ADDRESS, ENTRIES
from tests.model.world import NOWHERE, Place, World

_FAR = 1_000_000
"""More writes than any slack forgives."""


def domain(number: int) -> str:
    """The UUID of a domain."""
    return f"instance-{number}"


def entry_of(place: Place) -> model.SlotEntry:
    """What the host's gate has of its slot."""
    return model.SlotEntry(ADDRESS) if place.entry == NOWHERE else ENTRIES[place.entry]


def book_of(place: Place) -> model.Book:
    """The gate's book of the host's present incarnation."""
    return model.Book(papers.incarnation(True), (entry_of(place),))


def written_down(world: World, p: int, book: model.Book) -> World:
    """The world after the gate's book was replaced."""
    entry = dataclasses.replace(book.entry(ADDRESS), last_owner=None, last_identity=None)
    kept, owner = entry.ticket, entry.owner
    return world.at(
        p,
        entry=ENTRIES.number(entry),
        ticket_drive=NOWHERE if kept is None else papers.drive_of(kept.ticket.identity),
        rest_drive=NOWHERE if owner is None else papers.drive_of(owner.identity),
    )


def renamed(place: Place, before: int, after: int) -> Place:
    """The place with another number for a domain that owns its drive."""
    entry = entry_of(place)
    if entry.owner is None or entry.owner.domain != domain(before):
        return place
    owner = dataclasses.replace(entry.owner, domain=domain(after), name=domain(after))
    return place._replace(entry=ENTRIES.number(dataclasses.replace(entry, owner=owner)))


def counters(world: World, p: int, base: Counters, fresh: bool) -> Counters:
    """The drive's counters now, by whether anybody wrote since ``base`` was read."""
    drive = world.drives[world.places[p].drive]
    seal = None if base.global_data_erased is None else drive.sealed
    moved = 0 if fresh else _FAR
    return Counters(
        base.host_write_commands + moved,
        base.data_units_written + moved,
        base.power_cycles,
        seal,
    )
