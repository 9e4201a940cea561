"""The broker: one queue to the control plane, one to each host, and what may go wrong with them."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from quarantine.errors import BrokerAwayError
from tests.site.doors import Event
from tests.site.world import World

_DELAY: Final = 0.02


@dataclass
class Faults:
    """What is wrong with it now."""

    down: int = 0
    """How many reasons there are for it to be away."""
    twice: float = 0.0
    """Share of the messages that come twice."""
    late: float = 0.0
    """Most seconds by which a message is late: others overtake it."""
    deaf: int = 0
    """How many reasons there are for the control plane's worker to take nothing."""


@dataclass(frozen=True)
class Message:
    """One message to the control plane."""

    host: str
    task: str
    payload: Any


class Broker:
    """Both directions."""

    def __init__(self, world: World, chance: Random) -> None:
        self.faults = Faults()
        self.arrived = Event(world)
        self.receivers: dict[str, Callable[[str, str], bool]] = {}
        """By host: takes a task and a token, False where it cannot now."""
        self.deliver: Callable[[Message], None] | None = None
        """Takes each message as it arrives, where they do not wait for :meth:`take`."""
        self.forget: Callable[[], object] = lambda: None
        self._world = world
        self._chance = chance
        self._inbound: list[tuple[float, int, Message]] = []
        self._kept: dict[str, list[tuple[str, str]]] = {}
        self._count = itertools.count()

    @property
    def now(self) -> float:
        """Its clock."""
        return self._world.now

    def to_control(self, host: str, task: str, payload: Any) -> None:
        """From a host. Raises :class:`UnavailableError`."""
        self._require()
        message = Message(host, task, payload)
        for seconds in self._delays():
            if self.deliver is None:
                self._put(message, seconds)
            else:
                self._world.at(seconds, lambda: self.deliver and self.deliver(message))

    def again(self, message: Message, seconds: float) -> None:
        """The worker puts a message back for later."""
        self._put(message, seconds)

    def _put(self, message: Message, seconds: float) -> None:
        at = self._world.now + seconds
        heapq.heappush(self._inbound, (at, next(self._count), message))
        self._world.at(seconds, self.arrived.set)

    def take(self) -> Message | None:
        """The oldest that is there, or None."""
        here = bool(self._inbound) and self._inbound[0][0] <= self._world.now
        if here and not self.faults.down and not self.faults.deaf:
            return heapq.heappop(self._inbound)[2]
        self.arrived.clear()
        return None

    def to_host(self, host: str, task: str, token: str) -> None:
        """From the control plane. Raises :class:`UnavailableError`."""
        self._require()
        for seconds in self._delays():
            self._world.at(seconds, lambda: self._deliver(host, task, token))

    def flush(self, host: str) -> None:
        """The host listens again."""
        for task, token in self._kept.pop(host, []):
            self._world.at(_DELAY, lambda t=task, k=token: self._deliver(host, t, k))

    def lose(self) -> None:
        """It restarts without what it had."""
        self._inbound.clear()
        self.forget()
        self._kept.clear()

    def _deliver(self, host: str, task: str, token: str) -> None:
        if self.faults.down or not self.receivers[host](task, token):
            self._kept.setdefault(host, []).append((task, token))

    def _delays(self) -> list[float]:
        copies = 2 if self._chance.random() < self.faults.twice else 1
        return [_DELAY + self.faults.late * self._chance.random() for _ in range(copies)]

    def _require(self) -> None:
        if self.faults.down:
            raise BrokerAwayError("broker: expected it to take a message, it is away")
