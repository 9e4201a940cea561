"""What a host of the model sees, and what of the world its steps change."""

from __future__ import annotations

import operator
from typing import Any

from tests.model.world import NOWHERE, Drive, Place, World

_SEEN = (
    *("drive", "instance", "ghost", "accepted", "case", "fresh"),
    *("entry", "ticket_drive", "ticket_fresh", "rest_drive", "rest_fresh", "mail"),
)
"""All of a place that its host sees."""
_seen = operator.attrgetter(*_SEEN)
_ELSEWHERE = Place()
_UNSEEN = Drive()

Seen = tuple[Any, ...]
Changes = dict[str, Any]


def seen_by(world: World, p: int) -> tuple[Seen, Drive]:
    """What a host sees."""
    here = world.places[p]
    return _seen(here), _UNSEEN if here.drive == NOWHERE else world.drives[here.drive]


def alone(p: int, seen: Seen, drive: Drive) -> World:
    """A world of one host and its drive."""
    here = Place(**dict(zip(_SEEN, seen, strict=True)))
    drives = (*[_UNSEEN] * here.drive, drive)
    return World(drives, (*[_ELSEWHERE] * p, here), (), 0)


def changes(before: World, after: World, p: int) -> Changes:
    """What became of a place."""
    pairs = zip(Place._fields, before.places[p], after.places[p], strict=True)
    return {name: new for name, old, new in pairs if new != old}
