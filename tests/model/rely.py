"""Two hosts, searched to the end: each for itself, beside all that the other can ever do to it.

Two hosts share little (:mod:`tests.model.common`): the drives, what the control plane knows of
them, and which drive each slot's record names. So one host is searched with the other reduced to
that. Each step of its own that changes something there is also done to it, by the other host,
whenever the common things are as they were: the search ends when there is no new state and no new
such step. Both hosts are alike, so one search serves for both.

A host found this way suffers whatever any history of the other can do to it: more than really can
happen to it, never less. So what is not found here happens in no history of both. This is rely and
guarantee with the rely computed, or thread-modular model checking (Flanagan, Qadeer, SPIN 2003).
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from quarantine.record.words.states import State
from tests.model.beside import Beside, Deed
from tests.model.common import Common, Face
from tests.model.graph import Graph
from tests.model.protocol import Protocol
from tests.model.search import Found, Slip, short
from tests.model.world import NOWHERE, Place, World


class Ways(Graph):
    """Every state of a host beside another, and its own steps between them, but for misfortunes."""

    def __init__(self, spelt: Callable[[int], tuple[Place, Common]]) -> None:
        super().__init__()
        self.spelt = spelt
        self.deeds = 0
        """Different things that one host does to another."""

    def unanswered(self, question: Question) -> Iterator[int]:
        """States, in the order found, from which no own steps lead to where it asks for."""
        stuck = self.stuck(lambda state: question.good(*self.spelt(state)))
        return (state for state in stuck if question.wanted(*self.spelt(state)))


@dataclass(frozen=True)
class Question:
    """A part of the way back to the pool, which a host goes by steps of its own."""

    text: str
    wanted: Callable[[Place, Common], bool]
    good: Callable[[Place, Common], bool]


def _settled(mine: Face) -> bool:
    """The record names no drive that is not there."""
    return mine.names in (NOWHERE, mine.drive)


QUESTIONS = (
    Question(
        "its record names its own drive or none, or can be held",
        lambda _place, _common: True,
        lambda _place, common: _settled(common.mine) or common.mine.state is not State.IN_USE,
    ),
    Question(
        "it sees its drive, so that the other record which names that is held",
        lambda _place, common: (
            common.theirs.names == common.mine.drive != NOWHERE
            and common.theirs.state is not State.IN_USE
        ),
        lambda _place, common: (
            common.theirs.names != common.mine.drive or common.theirs.state is State.HELD
        ),
    ),
    Question(
        "a record that is held names no other host's drive any more",
        lambda _place, common: common.mine.state is State.HELD,
        lambda _place, common: _settled(common.mine),
    ),
    Question(
        "where the other record names no drive of this host, its drive is on offer",
        lambda _place, common: _settled(common.theirs),
        lambda place, common: (
            place.drive == NOWHERE
            or Protocol.offered(World(common.drives, (place,), common.known, 0), place)
        ),
    ),
)
"""What the other host might do cannot be counted on for a way back, so it is made of parts that
each host goes alone: one after the other they lead both from anywhere to the pool."""


class _Search:
    """One search; :func:`search` runs it."""

    def __init__(self, beside: Beside, limit: int) -> None:
        self.beside, self.limit = beside, limit
        self.ways = Ways(lambda state: (beside.place(state), beside.common(state)))
        self._todo: deque[int] = deque()
        self._at: dict[int, array[int]] = {}
        """The states that were taken up, by the number of their common things."""
        self._deeds: dict[int, dict[Deed, str]] = {}
        """What a host may suffer, by the number of the common things before."""

    def run(self) -> Found[int] | Ways:
        for start in self.beside.starts():
            self._found(start)
        while self._todo:
            state = self._todo.popleft()
            self._at.setdefault(self.beside.shared(state), array("q")).append(state)
            for deed, name in self._deeds.get(self.beside.shared(state), {}).items():
                self._found(self.beside.suffered(state, deed), state, name)
            try:
                wrong = self._taken_up(state)
            except Slip as slip:
                return Found(str(slip), (*self.ways.trace(state), "and then"), state)
            if wrong is not None:
                return wrong
        return self.ways

    def _taken_up(self, state: int) -> Found[int] | None:
        common = self.beside.mirrored(self.beside.shared(state))
        budget = self.beside.common(state).budget
        own = []
        for name, after, deed in self.beside.steps(state):
            if why := self.beside.broken(state, name, after):
                return Found(why, (*self.ways.trace(state), name), after)
            self._found(after, state, name)
            if self.beside.common(after).budget == budget:
                own.append(after)
            if deed is not None and deed not in self._deeds.setdefault(common, {}):
                self._deed(common, deed, f"meanwhile elsewhere: {short(name)}")
        self.ways.lead(state, own)
        return None

    def _deed(self, common: int, deed: Deed, name: str) -> None:
        self._deeds[common][deed] = name
        self.ways.deeds += 1
        for sufferer in self._at.get(common, ()):
            self._found(self.beside.suffered(sufferer, deed), sufferer, name)

    def _found(self, state: int, before: int | None = None, name: str = "") -> None:
        if self.ways.found(state, before, name):
            self._todo.append(state)
            if len(self.ways) > self.limit:
                raise RuntimeError(f"expected at most {self.limit} states, found more")


def search(beside: Beside, limit: int) -> Found[int] | Ways:
    """Every state of a host beside another, or the first step that breaks a promise.

    Raises ``RuntimeError`` beyond ``limit`` states: a model that does not end proves nothing.
    """
    return _Search(beside, limit).run()
