"""One host's steps by what they see of the world: what they do there serves wherever it is so.

All else is hidden while a step is worked out, so that one which depends on more ends in an error
(:class:`tests.model.glimpse.UnseenError`) and in no wrong answer. Little is shown at first.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.model import nova
from tests.model.common import ME, OTHER, Common, as_seen, face, touched
from tests.model.glimpse import UNSEEN, hidden
from tests.model.protocol import Protocol
from tests.model.world import Mail, Place, World

Steps = Iterator[tuple[str, World]]
Shown = frozenset[str]

_NOVA = ("drive", "provider", "reserved", "holder", "instance", "ghost")
_HOST = (
    *("drive", "instance", "ghost", "accepted", "case", "fresh"),
    *("entry", "ticket_drive", "ticket_fresh", "rest_drive", "rest_fresh", "mail"),
)
_RECORD = ("record", "registered", "hello", "heard")
_SPOKEN_OF = ("drive", "instance", "ghost", "accepted", "case", "entry")
_PLACEMENT = ("provider", "reserved", "holder")

_EVERYTHING = frozenset({"drives", "known", "budget", "drive", "record"})
_LITTLE: tuple[Shown, ...] = (frozenset(), frozenset({"known"}), frozenset({"known", "record"}))
"""``drive`` and ``record`` are the other host's."""


@dataclass(frozen=True)
class Slice:
    """Steps of one kind."""

    steps: Callable[[Protocol, World], Steps]
    place: tuple[str, ...]
    """What they see of the host's own place."""
    common: tuple[Shown, ...]
    """What they are shown of the common things; the next where that does not suffice."""
    each_letter: bool = False
    """They see one message at a time, whichever others there are."""


def _of_host(protocol: Protocol, world: World) -> Steps:
    yield from protocol.tenant(world, ME)
    yield from protocol.host.steps(world, ME)
    yield from nova.returns(world, ME)
    yield from protocol.misfortunes(world, ME)


_SLICES = (
    Slice(
        _of_host,
        tuple(dict.fromkeys((*_NOVA, *_HOST))),
        (frozenset({"drives", "budget", "drive"}),),
    ),
    Slice(lambda all_of, now: all_of.control.looks(now, ME), (*_RECORD, *_PLACEMENT), _LITTLE),
    Slice(lambda all_of, now: all_of.control.hello(now, ME), (*_RECORD, *_SPOKEN_OF), _LITTLE),
    Slice(
        lambda all_of, now: all_of.control.letters(now, ME),
        (*_RECORD, "fresh"),
        tuple(each | {"drives"} for each in _LITTLE),
        each_letter=True,
    ),
    Slice(lambda all_of, now: all_of.people(now, ME), (*_RECORD, *_PLACEMENT), _LITTLE),
)
_LOSSES = Slice(lambda all_of, now: all_of.losses(now, ME), Place._fields, (_EVERYTHING,))


def slices(protocol: Protocol) -> tuple[Slice, ...]:
    """All kinds of steps that there are."""
    lost = protocol.config.kinds & {"reinstall", "amnesia"}
    return (*_SLICES, _LOSSES) if lost else _SLICES


class Change(NamedTuple):
    """What one step does."""

    name: str
    place: tuple[tuple[str, Any], ...]
    """The fields of the place that it sets."""
    sent: frozenset[Mail]
    """Messages that it adds."""
    common: tuple[tuple[str, Any], ...]
    """What it sets of the common things; hidden are those that stay as they were."""
    touched: tuple[int, ...]
    """Drives that it writes to."""


def views(each: Slice, place: Place) -> tuple[Place, ...]:
    """The place as the steps see it: once, or once for each message."""
    shown = dict(zip(each.place, operator.attrgetter(*each.place)(place), strict=True))
    hide = {"mail": frozenset(), **{f: UNSEEN for f in Place._fields if f != "mail"}}
    view = Place(**(hide | shown))
    if not each.each_letter:
        return (view,)
    return tuple(view._replace(mail=frozenset({mail})) for mail in sorted(place.mail))


def sight(shown: Shown, common: Common) -> World:
    """The world as the steps see it, but for the place."""
    other = as_seen(common.theirs)
    if "drive" not in shown:
        other = other._replace(drive=UNSEEN)
    if "record" not in shown:
        other = other._replace(record=hidden(OTHER))
    return World(
        common.drives if "drives" in shown else UNSEEN,
        (other,),
        common.known if "known" in shown else (UNSEEN,) * len(common.known),
        common.budget if "budget" in shown else UNSEEN,
    )


def changes(each: Slice, protocol: Protocol, place: Place, beside: World) -> Iterator[Change]:
    """Its steps. Raises :class:`tests.model.search.Slip` where one breaks a promise, and
    :class:`tests.model.glimpse.UnseenError` where it has to see more."""
    world = beside._replace(places=(place, *beside.places))
    for name, after in each.steps(protocol, world):
        yield _change(name, world, after)


def _change(name: str, before: World, after: World) -> Change:
    here, then = before.places[ME], after.places[ME]
    place = [
        (field, new)
        for field, old, new in zip(Place._fields, here, then, strict=True)
        if field != "mail" and _differ(old, new)
    ]
    if not here.mail <= then.mail:
        place.append(("mail", then.mail))
    common = [
        (field, getattr(after, field))
        for field in ("drives", "known", "budget")
        if _differ(getattr(before, field), getattr(after, field))
    ]
    if _differ(before.places[OTHER].drive, after.places[OTHER].drive):
        common.append(("drive", after.places[OTHER].drive))
    if after.places[OTHER].record != before.places[OTHER].record:
        common.append(("record", face(after.places[OTHER])[1:]))
    return Change(
        sys.intern(name),
        tuple(place),
        then.mail - here.mail,
        tuple(common),
        touched(after.places[OTHER]),
    )


def _differ(old: Any, new: Any) -> bool:
    return old is not new and (old is UNSEEN or bool(old != new))
