"""Simulated time, and the processes that live in it.

Nothing sleeps and nothing runs side by side: what happens next is the earliest entry of one heap,
and equal times go in the order of their entry. A process is a greenlet: real, blocking code that
stands still in :meth:`World.sleep` while everything else goes on, and that can be killed there.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

from greenlet import getcurrent, greenlet

_MOST_STEPS: Final = 1_000_000
"""In one call of :meth:`World.run`: more means that time does not go on."""

EPOCH: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


class Killed(BaseException):
    """A process ends here, between two of its steps, without a word."""


class Process:
    """One process. ``alive`` until its function returns, raises, or it is killed."""

    def __init__(self, world: World, name: str, function: Callable[[], object]) -> None:
        self.world = world
        self.name = name
        self._greenlet = greenlet(function, parent=world.hub)
        self.children: list[Process] = []
        """Its threads."""
        self.parent: Process | None = None
        """Of a thread, who started it."""
        self.doomed = False
        """It is being killed. Its ``finally`` runs, as after no SIGKILL: what it asks, writes or
        says there must come to nothing."""
        self._turn = 0

    @property
    def alive(self) -> bool:
        """Not yet ended."""
        return not self._greenlet.dead

    @property
    def whole(self) -> Process:
        """The process that this is a thread of, or is."""
        return self if self.parent is None else self.parent.whole

    def wake(self, turn: int) -> None:
        """Go on, if it still waits in that turn."""
        if turn == self._turn and self.alive:
            self._enter(self._greenlet.switch)

    def start(self) -> None:
        """Run up to the first sleep."""
        self.wake(self._turn)

    def kill(self) -> None:
        """End it where it stands. One that has not begun never begins."""
        self.doom()
        self._turn += 1
        for child in self.children:
            child.kill()
        if self.alive:
            self._enter(lambda: self._greenlet.throw(Killed()))

    def doom(self) -> None:
        """Neither it nor its threads do anything from now on."""
        self.doomed = True
        for child in self.children:
            child.doom()

    def wait(self, seconds: float | None) -> Callable[[], None]:
        """To be followed by :meth:`pause`: wakes after ``seconds``, or by the returned call."""
        self._turn += 1
        turn = self._turn
        if seconds is not None:
            self.world.at(seconds, lambda: self.wake(turn))
        return lambda: self.world.at(0.0, lambda: self.wake(turn))

    def pause(self) -> None:
        """Stand still until woken."""
        if self.doomed:
            raise Killed
        self.world.hub.switch()

    def _enter(self, enter: Callable[[], object]) -> None:
        before, self.world.current = self.world.current, self
        try:
            enter()
        except Killed:
            pass
        finally:
            self.world.current = before


class World:
    """The clock, the heap, and the one source of chance."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now = 0.0
        self.slip = 0.0
        """Seconds that the control plane's wall clock is ahead."""
        self.steps = 0
        self.hub = getcurrent()
        self.current: Process | None = None
        """Who runs now; None for the site itself."""
        self.processes: list[Process] = []
        self.log: list[str] = []
        """What happened, for people, oldest first."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def chance(self, purpose: object) -> Random:
        """A source of its own for each purpose: what one draws changes nothing for the others."""
        return Random(f"{self.seed}/{purpose}")

    def wall(self) -> datetime:
        """The control plane's wall clock."""
        return EPOCH + timedelta(seconds=self.now + self.slip)

    def monotonic(self) -> float:
        """Its monotonic clock."""
        return 1000.0 + self.now

    def say(self, text: str) -> None:
        """Into the history."""
        self.log.append(f"{self.now:9.1f}  {text}")

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Have ``call`` happen in so many seconds."""
        heapq.heappush(self._heap, (self.now + max(0.0, seconds), next(self._count), call))

    def every(self, seconds: float, call: Callable[[], None]) -> None:
        """Again and again, first in ``seconds``."""

        def again() -> None:
            call()
            self.at(seconds, again)

        self.at(seconds, again)

    def run(self, until: float) -> None:
        """Let everything happen up to then."""
        begun = self.steps
        while self._heap and self._heap[0][0] <= until:
            self.now, _, call = heapq.heappop(self._heap)
            call()
            self.steps += 1
            if self.steps - begun > _MOST_STEPS:
                raise RuntimeError(f"time stands still at {self.now}: something runs in a circle")
        self.now = until

    @property
    def among_the_dead(self) -> bool:
        """Who runs now has been killed."""
        return self.current is not None and self.current.doomed

    def sleep(self, seconds: float) -> None:
        """The running process stands still. Outside of all processes nothing takes time."""
        process = self.current
        if process is None:
            return
        process.wait(seconds)
        process.pause()

    def spawn(self, name: str, function: Callable[[], object]) -> Process:
        """A process that begins at the next step."""
        process = Process(self, name, function)
        self.processes = [p for p in self.processes if p.alive] + [process]
        self.at(0.0, process.start)
        return process

    def close(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.kill()
