"""One host beside another: its whole self, what both share, and its steps by slices."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

from quarantine.record.words.states import State
from tests.model.canonical import canonical_place, domains
from tests.model.common import ME, OTHER, Common, Face, face
from tests.model.control import ALARM
from tests.model.glimpse import UNSEEN, UnseenError
from tests.model.names import Names
from tests.model.papers import RECORDS
from tests.model.protocol import Protocol
from tests.model.search import Slip
from tests.model.slices import Change, changes, sight, slices, views
from tests.model.system import REFUSED
from tests.model.tables import held_elsewhere
from tests.model.world import GONE, NOWHERE, Known, Place, World, ghost, server

_COMMONS = 1 << 20
"""A state is a place's number times this, and the number of the common things."""


class Deed(NamedTuple):
    """A step of one host as it changes things for the other one."""

    after: int
    """The number of the common things then, as the other one sees them."""
    touched: tuple[int, ...]


class Shown(NamedTuple):
    """What of a place the common things depend on."""

    alive: frozenset[int]
    certified: bool
    """Its record names a certificate."""
    face: Face


class Beside:
    """One host beside another. States, and all that they are made of, go by numbers; whatever was
    worked out once is kept."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self._slices = slices(protocol)
        self._places: Names[Place] = Names()
        self._commons: Names[Common] = Names()
        self._shown: Names[Shown] = Names()
        self._changes: Names[Change] = Names()
        self._views: Names[Place] = Names()
        self._sights: Names[World] = Names()
        self.mirrored = functools.cache(self._mirror)
        self._views_of = functools.cache(self._view)
        self._sight_of = functools.cache(self._see)
        self._worked_out = functools.cache(self._work_out)
        self._moved = functools.cache(self._move)
        self._sharing = functools.cache(self._share)
        self._hit = functools.cache(self._strike)

    def starts(self) -> Iterator[int]:
        """As each of the two hosts begins."""
        for first in (ME, OTHER):
            yield self.view(self.protocol.world(self.protocol.start(first)))

    def view(self, world: World) -> int:
        """A world of two hosts as the first of them has it."""
        mine, theirs = world.places
        common = Common(world.drives, world.known, world.budget, face(mine), face(theirs))
        place = canonical_place(ME, mine)
        return self._places.number(place) * _COMMONS + self._commons.number(common)

    def place(self, state: int) -> Place:
        """The host itself."""
        return self._places[state // _COMMONS]

    def common(self, state: int) -> Common:
        """What it shares."""
        return self._commons[state % _COMMONS]

    @staticmethod
    def shared(state: int) -> int:
        """The number of that."""
        return state % _COMMONS

    def steps(self, state: int) -> Iterator[tuple[str, int, Deed | None]]:
        """Its own steps: what happens, the state after it, and what the other host notices.

        Raises :class:`Slip` where one breaks a promise.
        """
        place, common = divmod(state, _COMMONS)
        for number in range(len(self._slices)):
            for change in self._of_slice(number, place, common):
                if isinstance(change, Slip):
                    raise change
                after, deed = self._taken(place, common, change)
                name = self._changes[change].name
                if after != state or deed or name.startswith(REFUSED) or ALARM in name:
                    yield name, after, deed

    def _of_slice(self, number: int, place: int, common: int) -> Iterator[int | Slip]:
        """Its steps of one kind, with as little shown of the common things as suffices."""
        for view in self._views_of(number, place):
            for shown in range(len(self._slices[number].common)):
                found = self._worked_out(number, view, self._sight_of(number, shown, common))
                if found is not None:
                    yield from found
                    break
            else:
                raise UnseenError

    def _view(self, number: int, place: int) -> tuple[int, ...]:
        every = views(self._slices[number], self._places[place])
        return tuple(map(self._views.number, every))

    def _see(self, number: int, shown: int, common: int) -> int:
        fields = self._slices[number].common[shown]
        return self._sights.number(sight(fields, self._commons[common]))

    def _work_out(self, number: int, view: int, seen: int) -> tuple[int | Slip, ...] | None:
        """None where more has to be shown."""
        each, found = self._slices[number], dict[int | Slip, None]()
        try:
            for change in changes(each, self.protocol, self._views[view], self._sights[seen]):
                found[self._changes.number(change)] = None
        except Slip as slip:
            found[slip] = None
        except UnseenError:
            return None
        return tuple(found)

    def _taken(self, place: int, common: int, change: int) -> tuple[int, Deed | None]:
        """The state after a step, and what the other host notices."""
        after, shown = self._moved(place, change)
        shared = self._sharing(common, change, shown)
        touched = self._changes[change].touched
        noticed = touched or shared != common
        deed = Deed(self.mirrored(shared), touched) if noticed else None
        return after * _COMMONS + shared, deed

    def _move(self, place: int, number: int) -> tuple[int, int]:
        change = self._changes[number]
        after = self._places[place]._replace(**dict(change.place))
        after = canonical_place(ME, after._replace(mail=after.mail | change.sent))
        certified = after.record != NOWHERE and RECORDS[after.record].certificate is not None
        shown = Shown(domains(ME, after), certified, face(after))
        return self._places.number(after), self._shown.number(shown)

    def _share(self, common: int, number: int, show: int) -> int:
        before, shown = self._commons[common], self._shown[show]
        new = dict(self._changes[number].common)
        dead = {server(ME), ghost(ME)} - shown.alive
        drives = tuple(
            drive._replace(data=GONE) if drive.data in dead else drive
            for drive in new.get("drives", before.drives)
        )
        known = tuple(
            _named(old if said is UNSEEN else said, shown.certified)
            for old, said in zip(before.known, new.get("known", before.known), strict=True)
        )
        drive, *record = before.theirs
        theirs = Face(new.get("drive", drive), *new.get("record", record))
        budget = new.get("budget", before.budget)
        return self._commons.number(Common(drives, known, budget, shown.face, theirs))

    def _mirror(self, common: int) -> int:
        """The common things as the other host sees them."""
        return self._commons.number(self._commons[common].mirrored())

    def suffered(self, state: int, deed: Deed) -> int:
        """The state after something that the other host did."""
        place, common = divmod(state, _COMMONS)
        before, after = self._commons[common].mine, self._commons[deed.after].mine
        same = before.state is after.state
        fate = "" if same else "lost" if after.state is None else "held"
        hit = self._hit(place, after.drive, fate, deed.touched)
        assert face(self._places[hit]) == after, "expected of a deed what its doer saw"
        return hit * _COMMONS + deed.after

    def _strike(self, number: int, drive: int, fate: str, touched: tuple[int, ...]) -> int:
        place = self._places[number]._replace(drive=drive)
        if fate == "lost":
            place = place._replace(record=NOWHERE)
        elif fate == "held":
            place = place._replace(record=held_elsewhere(place.record), heard=False)
        world = World((), (place,), (), 0)
        for drive in touched:
            world = world.stale(drive)
        return self._places.number(canonical_place(ME, world.places[ME]))

    def broken(self, before: int, name: str, after: int) -> str:
        """What is wrong with a step, besides what was noticed within it."""
        config = self.protocol.config
        if self.common(before).budget == config.budget:
            if ALARM in name:
                return "people are called although nothing went wrong"
            if name.startswith(REFUSED):
                return "an honest guest is refused although nothing went wrong"
        then = self.common(after)
        held = State.HELD in (then.mine.state, then.theirs.state)
        if held and then.budget == config.budget:
            return "an honest drive is held although nothing went wrong"
        return ""


def _named(known: Known | None, certified: bool) -> Known | None:
    """A certificate that this host's record names no more is nobody's."""
    if known is None or known.certificate != ME or certified:
        return known
    return known._replace(certificate=GONE)
