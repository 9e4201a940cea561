"""Which bell rings when: a storm of notifications becomes a look now and then, and one at the end.

A decision without I/O; the times are seconds on one monotonic clock.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

WAITING: Final = 10_000
"""Bells that wait at most; what more was asked for is lost, and left to the rolling look."""


@dataclass
class _Wait:
    due: float
    settled: float


@dataclass
class Bells(Generic[Key]):
    """Bells that wait to be rung.

    The first of a kind rings at once, the next ones together ``quiet`` seconds after it, and all of
    them once more ``settle`` seconds after the last: some notifications come before the deed.
    """

    quiet: float
    settle: float
    lost: int = 0
    """Asked for while too many waited."""
    _waiting: dict[Key, _Wait] = field(default_factory=dict)
    _rung: dict[Key, float] = field(default_factory=dict)

    def ask(self, key: Key, now: float) -> None:
        """Somebody wants this bell rung."""
        self._wait(key, max(now, self._rung.get(key, -math.inf) + self.quiet), now)

    def failed(self, key: Key, now: float) -> None:
        """It could not be rung: again after ``settle`` seconds."""
        self._wait(key, now + self.settle, now)

    def due(self) -> float | None:
        """When the next one rings; ``None`` when none waits."""
        return min((wait.due for wait in self._waiting.values()), default=None)

    def take(self, now: float) -> Key | None:
        """The one to ring now, the longest due first; ``None`` when none is due."""
        key = min(self._waiting, key=lambda key: self._waiting[key].due, default=None)
        if key is None or self._waiting[key].due > now:
            return None
        wait = self._waiting[key]
        if wait.settled > now:
            wait.due = max(wait.settled, now + self.quiet)
        else:
            del self._waiting[key]
        if len(self._rung) >= WAITING:
            self._rung = {k: at for k, at in self._rung.items() if at + self.quiet > now}
        self._rung[key] = now
        return key

    def _wait(self, key: Key, due: float, now: float) -> None:
        wait = self._waiting.get(key)
        if wait is not None:
            wait.due, wait.settled = min(wait.due, due), now + self.settle
        elif len(self._waiting) < WAITING:
            self._waiting[key] = _Wait(due, now + self.settle)
        else:
            self.lost += 1
