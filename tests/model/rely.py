"""Two hosts, searched to the end: each for itself, beside all that the other one can ever do to it.

Two hosts share little (:mod:`tests.model.common`): the drives, what the control plane knows of them,
and which drive each slot's record names. So one host is searched with the other reduced to that.
Each step of its own that changes something there is also done to it, by the other host, whenever the
common things are as they were: the search ends when there is no new state and no new such step. Both
hosts are alike, so one search serves for both.

A host found this way suffers whatever any history of the other can do to it: more than really can
happen to it, never less. So what is not found here happens in no history of both. This is rely and
guarantee with the rely computed, or thread-modular model checking (Flanagan and Qadeer, SPIN 2003).

That a way leads back to the pool is another question: what the other host might do cannot be counted
on. So it is asked in two. By steps of its own each host gets to where its record names no drive that
it does not have; and where the other's record does not, it gets its own drive on offer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from quarantine.record.states import State
from tests.model import nova
from tests.model.canonical import canonical_place, domains
from tests.model.common import ME, OTHER, Common, Face, face
from tests.model.control import ALARM
from tests.model.glimpse import UNSEEN, UnseenError
from tests.model.names import Names
from tests.model.papers import RECORDS
from tests.model.protocol import Protocol
from tests.model.search import Found, Slip, short
from tests.model.slices import Change, changes, sight, slices, views
from tests.model.tables import held_elsewhere
from tests.model.world import GONE, NOWHERE, Place, World, ghost, server

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
    """One host beside another. States, and all that they are made of, go by numbers."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self._places: Names[Place] = Names()
        self._commons: Names[Common] = Names()
        self._shown: Names[Shown] = Names()
        self._changes: Names[Change] = Names()
        self._slices = slices(protocol)
        self._views: Names[Place] = Names()
        self._sights: Names[World] = Names()
        self._seen_of: dict[tuple[int, int], tuple[int, ...]] = {}
        self._sights_of: dict[tuple[int, int, int], int] = {}
        self._worked_out: dict[tuple[int, int, int], tuple[int | Slip, ...] | None] = {}
        self._moved: dict[tuple[int, int], tuple[int, int]] = {}
        self._shared: dict[tuple[int, int, int], int] = {}
        self._mirrored: dict[int, int] = {}
        self._suffered: dict[tuple[int, str, tuple[int, ...]], int] = {}

    def starts(self) -> Iterator[int]:
        """As each of the two hosts begins."""
        whole = self.protocol.world(self.protocol.start())
        mine, theirs = whole.places
        common = Common(whole.drives, whole.known, whole.budget, face(mine), face(theirs))
        yield self._state(mine, common)
        yield self._state(mine._replace(drive=theirs.drive), common.mirrored())

    def _state(self, place: Place, common: Common) -> int:
        place = canonical_place(ME, place)
        assert face(place) == common.mine
        return self._places.number(place) * _COMMONS + self._commons.number(common)

    def place(self, state: int) -> Place:
        """The host itself."""
        return self._places[state // _COMMONS]

    def common(self, state: int) -> Common:
        """What it shares."""
        return self._commons[state % _COMMONS]

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
                if after != state or name.startswith(nova.REFUSED) or ALARM in name:
                    yield name, after, deed

    def _of_slice(self, number: int, place: int, common: int) -> Iterator[int | Slip]:
        for view in self._views_of(number, place):
            for shown in range(len(self._slices[number].common)):
                sight = self._sight_of(number, shown, common)
                seen = (number, view, sight)
                if seen not in self._worked_out:
                    self._worked_out[seen] = self._work_out(*seen)
                found = self._worked_out[seen]
                if found is not None:
                    yield from found
                    break
            else:
                raise UnseenError

    def _views_of(self, number: int, place: int) -> tuple[int, ...]:
        found = self._seen_of.get((number, place))
        if found is None:
            every = views(self._slices[number], self._places[place])
            found = self._seen_of[number, place] = tuple(map(self._views.number, every))
        return found

    def _sight_of(self, number: int, shown: int, common: int) -> int:
        found = self._sights_of.get((number, shown, common))
        if found is None:
            seen = sight(self._slices[number].common[shown], self._commons[common])
            found = self._sights_of[number, shown, common] = self._sights.number(seen)
        return found

    def _work_out(self, number: int, view: int, sight: int) -> tuple[int | Slip, ...] | None:
        found: list[int | Slip] = []
        steps = changes(
            self._slices[number], self.protocol, self._views[view], self._sights[sight]
        )
        try:
            for change in steps:
                found.append(self._changes.number(change))
        except Slip as slip:
            found.append(slip)
        except UnseenError:
            return None
        return tuple(dict.fromkeys(found))

    def _taken(self, place: int, common: int, change: int) -> tuple[int, Deed | None]:
        moved = self._moved.get((place, change))
        if moved is None:
            moved = self._moved[place, change] = self._move(place, self._changes[change])
        after, shown = moved
        shared = self._shared.get((common, change, shown))
        if shared is None:
            shared = self._share(self._commons[common], self._changes[change], self._shown[shown])
            self._shared[common, change, shown] = shared
        marks = self._changes[change].touched
        deed = Deed(self.mirrored(shared), marks) if marks or shared != common else None
        return after * _COMMONS + shared, deed

    def _move(self, place: int, change: Change) -> tuple[int, int]:
        after = self._places[place]._replace(**dict(change.place))
        after = canonical_place(ME, after._replace(mail=after.mail | change.sent))
        record = after.record
        certified = record != NOWHERE and RECORDS[record].certificate is not None
        shown = Shown(domains(ME, after), certified, face(after))
        return self._places.number(after), self._shown.number(shown)

    def _share(self, before: Common, change: Change, shown: Shown) -> int:
        new = dict(change.common)
        dead = {server(ME), ghost(ME)} - shown.alive
        drives = tuple(
            drive._replace(data=GONE) if drive.data in dead else drive
            for drive in new.get("drives", before.drives)
        )
        known = tuple(
            each._replace(certificate=GONE)
            if each and each.certificate == ME and not shown.certified
            else each
            for each in (
                old if new_one is UNSEEN else new_one
                for old, new_one in zip(before.known, new.get("known", before.known), strict=True)
            )
        )
        theirs = Face(before.theirs.drive, *new.get("record", before.theirs[1:]))
        budget = new.get("budget", before.budget)
        return self._commons.number(Common(drives, known, budget, shown.face, theirs))

    def mirrored(self, common: int) -> int:
        """The common things as the other host sees them."""
        found = self._mirrored.get(common)
        if found is None:
            found = self._commons.number(self._commons[common].mirrored())
            self._mirrored[common] = found
        return found

    def suffered(self, state: int, deed: Deed) -> int:
        """The state after something that the other host did."""
        place, common = divmod(state, _COMMONS)
        before, after = self._commons[common].mine, self._commons[deed.after].mine
        fate = "" if before == after else "lost" if after.state is None else "held"
        found = self._suffered.get((place, fate, deed.touched))
        if found is None:
            found = self._places.number(self._hit(self._places[place], fate, deed.touched))
            self._suffered[place, fate, deed.touched] = found
        assert face(self._places[found]) == after, "expected of a deed what its doer saw"
        return found * _COMMONS + deed.after

    @staticmethod
    def _hit(place: Place, fate: str, touched: tuple[int, ...]) -> Place:
        if fate == "lost":
            place = place._replace(record=NOWHERE)
        elif fate == "held":
            place = place._replace(record=held_elsewhere(place.record), heard=False)
        world = World((), (place,), (), 0)
        for drive in touched:
            world = world.stale(drive)
        return canonical_place(ME, world.places[ME])

    def broken(self, before: int, name: str, after: int) -> str:
        """What is wrong with a step, besides what was noticed within it."""
        if self.common(before).budget < self.protocol.config.budget:
            return ""
        if ALARM in name:
            return "people are called although nothing went wrong"
        if name.startswith(nova.REFUSED):
            return "an honest guest is refused although nothing went wrong"
        record = self.place(after).record
        if self.common(after).budget == self.common(before).budget and record != NOWHERE:
            if RECORDS[record].state is State.HELD:
                return "an honest drive is held although nothing went wrong"
        return ""

    def settled(self, state: int) -> bool:
        """Its record names no drive but its own."""
        mine = self.common(state).mine
        return mine.names in (NOWHERE, mine.drive)

    def undisturbed(self, state: int) -> bool:
        """The other host's record names no drive but that one's own."""
        theirs = self.common(state).theirs
        return theirs.names in (NOWHERE, theirs.drive)

    def offered(self, state: int) -> bool:
        """Its drive, where it has one, is on offer."""
        place, common = self.place(state), self.common(state)
        world = World(common.drives, (place,), common.known, 0)
        return place.drive == NOWHERE or Protocol.offered(world, place)


class Ways:
    """Every state of a host beside another, and its own steps between them."""

    def __init__(self) -> None:
        self.parents: dict[int, tuple[int, str] | None] = {}
        self.own: dict[int, tuple[int, ...]] = {}
        """What a state's own steps lead to."""
        self.deeds = 0
        """Different things that one host does to another."""

    def trace(self, state: int) -> tuple[str, ...]:
        """A way to ``state``: steps of this host, and what the other one did meanwhile."""
        names: list[str] = []
        parent = self.parents[state]
        while parent is not None:
            state, name = parent
            names.append(name)
            parent = self.parents[state]
        return tuple(reversed(names))

    def stuck(self, wanted: Callable[[int], bool], good: Callable[[int], bool]) -> Iterator[int]:
        """``wanted`` states, in the order found, from which no own steps lead to a good one."""
        backward: dict[int, list[int]] = {}
        for state, following in self.own.items():
            for after in following:
                backward.setdefault(after, []).append(state)
        todo = deque(filter(good, self.parents))
        reached = set(todo)
        while todo:
            for before in backward.get(todo.popleft(), ()):
                if before not in reached:
                    reached.add(before)
                    todo.append(before)
        return (state for state in self.parents if state not in reached and wanted(state))


class _Search:
    """One search; :func:`search` runs it."""

    def __init__(self, beside: Beside, limit: int) -> None:
        self.beside, self.limit = beside, limit
        self.ways = Ways()
        self._todo: deque[int] = deque()
        self._at: dict[int, list[int]] = {}
        """The states that were taken up, by the number of their common things."""
        self._deeds: dict[int, dict[Deed, str]] = {}
        """What a host may suffer, by the number of the common things before."""

    def run(self) -> Found[int] | Ways:
        for start in self.beside.starts():
            self._found(start, None)
        while self._todo:
            state = self._todo.popleft()
            self._at.setdefault(state % _COMMONS, []).append(state)
            for deed, name in self._deeds.get(state % _COMMONS, {}).items():
                self._found(self.beside.suffered(state, deed), (state, name))
            try:
                wrong = self._taken_up(state)
            except Slip as slip:
                return Found(str(slip), (*self.ways.trace(state), "and then"), state)
            if wrong is not None:
                return wrong
        return self.ways

    def _taken_up(self, state: int) -> Found[int] | None:
        common = self.beside.mirrored(state % _COMMONS)
        budget = self.beside.common(state).budget
        own = []
        for name, after, deed in self.beside.steps(state):
            if why := self.beside.broken(state, name, after):
                return Found(why, (*self.ways.trace(state), name), after)
            self._found(after, (state, name))
            if self.beside.common(after).budget == budget:
                own.append(after)
            if deed is not None and deed not in self._deeds.setdefault(common, {}):
                self._deed(common, deed, f"meanwhile elsewhere: {short(name)}")
        self.ways.own[state] = tuple(own)
        return None

    def _deed(self, common: int, deed: Deed, name: str) -> None:
        self._deeds[common][deed] = name
        self.ways.deeds += 1
        for sufferer in self._at.get(common, ()):
            self._found(self.beside.suffered(sufferer, deed), (sufferer, name))

    def _found(self, state: int, how: tuple[int, str] | None) -> None:
        if state not in self.ways.parents:
            self.ways.parents[state] = how
            self._todo.append(state)
            if len(self.ways.parents) > self.limit:
                raise RuntimeError(f"expected at most {self.limit} states, found more")


def search(beside: Beside, limit: int) -> Found[int] | Ways:
    """Every state of a host beside another, or the first step that breaks a promise.

    Raises ``RuntimeError`` beyond ``limit`` states: a model that does not end proves nothing.
    """
    return _Search(beside, limit).run()
