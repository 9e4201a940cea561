"""What two hosts share, as one of them sees it: the other host is reduced to this in its world."""

from __future__ import annotations

import functools
from typing import NamedTuple

from quarantine.record.words.lifecycle import events
from quarantine.record.words.states import WAITING_FOR_PEOPLE, Event, State
from tests.model.glimpse import UNSEEN, glimpse
from tests.model.papers import RECORDS, drive_of
from tests.model.world import NOWHERE, Drive, Known, Place, ghost, server

ME, OTHER = 0, 1

_MIRROR = {ME: OTHER, OTHER: ME}
_DOMAINS = {
    server(ME): server(OTHER),
    server(OTHER): server(ME),
    ghost(ME): ghost(OTHER),
    ghost(OTHER): ghost(ME),
}


class Face(NamedTuple):
    """What a host or its slot's record shows to the other one's."""

    drive: int
    state: State | None
    """Of the record, or one like it; None without a record."""
    names: int
    """The drive that the record names."""


class Common(NamedTuple):
    """All that two hosts share, as one of them sees it."""

    drives: tuple[Drive, ...]
    known: tuple[Known | None, ...]
    budget: int
    mine: Face
    theirs: Face

    def mirrored(self) -> Common:
        """The same as the other one sees it."""
        drives = tuple(
            each._replace(data=_DOMAINS.get(each.data, each.data)) for each in self.drives
        )
        known = tuple(
            each
            and Known(
                each.dirty,
                _MIRROR.get(each.certificate, each.certificate),
                _MIRROR.get(each.seen, each.seen),
            )
            for each in self.known
        )
        return Common(drives, known, self.budget, self.theirs, self.mine)


@functools.cache
def like(state: State) -> State:
    """One state for all that another host's word does the same to (test_rely.py)."""
    kinds = {
        each: (each in WAITING_FOR_PEOPLE and each, Event.HELD in events(each)) for each in State
    }
    return next(each for each in State if kinds[each] == kinds[state])


def face(place: Place) -> Face:
    """What others see of a place."""
    if place.record == NOWHERE:
        return Face(place.drive, None, NOWHERE)
    record = RECORDS[place.record]
    return Face(place.drive, like(record.state), drive_of(record.identity))


def as_seen(other: Face) -> Place:
    """The other host in this one's world, and nothing else of it. It has noted what two drives
    counted, so that a write shows."""
    record = NOWHERE if other.state is None else glimpse(OTHER, other.state, other.names)
    shown = {
        "drive": other.drive,
        "record": record,
        "heard": False,
        "accepted": None,
        "ticket_drive": 0,
        "ticket_fresh": True,
        "rest_drive": 1,
        "rest_fresh": True,
    }
    return Place(**dict.fromkeys(Place._fields, UNSEEN) | shown)


def touched(other: Place) -> tuple[int, ...]:
    """The drives that were written to since :func:`as_seen`."""
    return (*[0] * (not other.ticket_fresh), *[1] * (not other.rest_fresh))
