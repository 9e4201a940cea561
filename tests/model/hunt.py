"""Counter-examples for one guard turned around: looked for where the guard makes a difference.

First a pool of states is gathered with the code as it is, by walks that prefer what is new. The
guard's counter-examples begin where a state of the pool has other steps without it: from there on
the search is breadth first, and what it finds is made shorter while it still breaks the same.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.model.parts import WiredParts
from tests.model.replay import following, replay, way_back
from tests.model.search import Slip, short
from tests.model.system import System
from tests.model.systems import AnyConfig, made

_WALK = 100
"""Steps of one walk."""


@dataclass(frozen=True)
class Witness:
    """A history that breaks something without a guard, and nothing with it."""

    config: str
    broken: str
    history: tuple[str, ...]


class Pool:
    """States of the code as it is, each with a short way to it: so many, or all that there are."""

    def __init__(self, protocol: System[Any], size: int, seed: int = 0) -> None:
        self.protocol = protocol
        start = protocol.start()
        self._before: dict[int, tuple[int, str] | None] = {start: None}
        self._depth = {start: 0}
        self._visits: dict[int, int] = {}
        dice = random.Random(seed)
        while len(self._visits) < min(size, len(self._depth)):
            self._walk(start, dice)

    def _walk(self, state: int, dice: random.Random) -> None:
        calm = dice.randrange(_WALK)
        for taken in range(_WALK):
            self._visits[state] = self._visits.get(state, 0) + 1
            steps = self.protocol.steps(state)
            for name, after in steps:
                self._noted(state, name, after)
            budget = self.protocol.budget(state)
            if taken < calm:
                # Misfortunes are new at any time: taken as they come they would all be early.
                steps = tuple(s for s in steps if self.protocol.budget(s[1]) == budget)
            if not steps:
                return
            state = min(steps, key=lambda step: self._weight(step[1], dice))[1]

    def _weight(self, after: int, dice: random.Random) -> float:
        """The least visited comes next."""
        return (0.3 + self._visits.get(after, 0)) * dice.random()

    def _noted(self, state: int, name: str, after: int) -> None:
        depth = self._depth[state] + 1
        if depth < self._depth.get(after, depth + 1):
            self._depth[after] = depth
            self._before[after] = (state, short(name))

    def states(self) -> list[int]:
        """Those whose steps are known, the nearest first."""
        return sorted(self._visits, key=lambda state: (self._depth[state], state))

    def history(self, state: int) -> tuple[str, ...]:
        """The way to a state."""
        names = []
        before = self._before[state]
        while before is not None:
            state, name = before
            names.append(name)
            before = self._before[state]
        return tuple(reversed(names))


class Hunt:
    """Looks for witnesses of one guard after another in one configuration."""

    def __init__(self, parts: WiredParts, config: AnyConfig, size: int) -> None:
        self.parts = parts
        self.config = config
        parts.switch.turned = 0
        self.protocol = made(config, parts)
        self.pool = Pool(self.protocol, size)
        self._plain = {state: frozenset(self.protocol.steps(state)) for state in self.pool.states()}
        self.differs = 0
        """Of the newest hunt: states of the pool in which the guard makes a difference."""

    def find(self, bit: int, limit: int, starts: int = 400) -> Witness | None:
        """A history that breaks something with that guard turned; None where none was found in
        ``limit`` states beyond the pool, from ``starts`` states of it."""
        switch = self.parts.switch
        switch.turned = bit
        try:
            found = map(self._shortened, self._candidates(bit, limit, starts))
            return next((witness for witness in found if witness is not None), None)
        finally:
            switch.turned = 0

    def _candidates(self, bit: int, limit: int, starts: int) -> Iterator[tuple[str, ...]]:
        """Histories; a way to a state of the pool may need the guard, and then is none."""
        self.differs = 0
        begin: list[int] = []
        for state in _spread([s for s in self._plain if self.protocol.asked(s) & bit], starts):
            try:
                steps = following(self.protocol, state)
            except Slip:
                yield self.pool.history(state)
                continue
            if self._plain[state] != frozenset(steps):
                begin.append(state)
        self.differs = len(begin)
        yield from self._search(begin, limit)
        if begin:
            yield from self._walks(begin, limit)
            yield from self._search([self.protocol.start()], 4 * limit)

    def _search(self, begin: list[int], limit: int) -> Iterator[tuple[str, ...]]:
        """Breadth first."""
        ways: dict[int, tuple[str, ...]] = {state: self.pool.history(state) for state in begin}
        todo = deque(ways)
        while todo and len(ways) < limit:
            state = todo.popleft()
            way = ways[state]
            try:
                steps = following(self.protocol, state)
            except Slip:
                yield way
                return
            for name, after in steps:
                if self.protocol.broken(state, name, after):
                    yield (*way, short(name))
                    return
                if after not in ways:
                    ways[after] = (*way, short(name))
                    todo.append(after)
        for state in list(ways)[:50]:
            if not way_back(self.protocol, state, limit):
                yield ways[state]
                return

    def _walks(self, begin: list[int], limit: int) -> Iterator[tuple[str, ...]]:
        """At random: deeper than the search, and less of it."""
        dice = random.Random(0)
        for _ in range(limit // 10):
            state = dice.choice(begin)
            way = self.pool.history(state)
            for _taken in range(_WALK // 3):
                try:
                    steps = following(self.protocol, state)
                except Slip:
                    yield way
                    return
                if not steps:
                    break
                bad = next((s for s in steps if self.protocol.broken(state, *s)), None)
                name, state = bad or dice.choice(steps)
                way = (*way, short(name))
                if bad:
                    yield way
                    return

    def _shortened(self, history: tuple[str, ...]) -> Witness | None:
        """What the history breaks first, without what it does not need for that."""
        first = replay(self.protocol, history)
        if not first.broken:
            return None
        history = history[: first.took]
        for size in (8, 4, 2, 1):
            history = self._without(size, first.broken, history)
        return Witness(self.config.name, first.broken, history)

    def _without(self, size: int, broken: str, history: tuple[str, ...]) -> tuple[str, ...]:
        place = 0
        while place < len(history):
            shorter = history[:place] + history[place + size :]
            found = replay(self.protocol, shorter)
            if found.broken == broken:
                history = shorter[: found.took]
            else:
                place += 1
        return history


def _spread(states: list[int], count: int) -> Iterator[int]:
    """At most ``count`` of them, over the whole length."""
    pace = max(1, len(states) // count)
    return iter(states[::pace])
