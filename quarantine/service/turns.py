"""Whose turn it is: how long a pass may look at slots, and who comes first in the next one.

A pass that looks at many slots must not keep the other passes waiting, so each has a time box.
Where the box is over, the pass goes on in a later round with whoever it did not reach.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from eraser.protocol.identity import Slot


class TimeBox:
    """The time of one pass, on the monotonic clock."""

    def __init__(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._until = monotonic() + seconds

    @property
    def over(self) -> bool:
        """Asked after a look, never before the first one: each pass gets on by one at least."""
        return self._now() >= self._until


class Turns:
    """Slots that wait for the next round, and when each slot was looked at last."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._looked: dict[Slot, float] = {}
        self._waiting: dict[Slot, None] = {}

    def looked(self, slot: Slot) -> None:
        """A look at the slot ended just now, well or badly."""
        self._looked[slot] = self._now()

    def oldest_first(self, slots: Iterable[Slot]) -> list[Slot]:
        """Those whose last look is longest ago first; so a few that always fail block nobody."""
        return sorted(slots, key=lambda slot: self._looked.get(slot, -math.inf))

    def wait(self, slot: Slot) -> None:
        """The next round looks at it again, after those that wait already."""
        self._waiting[slot] = None

    def missed(self, slots: Iterable[Slot]) -> None:
        """The next round begins with them: they were not reached."""
        # The union keeps the order of the first: they stand in front, each once.
        self._waiting = dict.fromkeys(slots) | self._waiting

    def waiting(self) -> list[Slot]:
        """Those that wait, in their order. They wait no longer."""
        found, self._waiting = list(self._waiting), {}
        return found

    def forget(self, known: set[Slot]) -> None:
        """Drops what is not in the record any more."""
        self._looked = {slot: at for slot, at in self._looked.items() if slot in known}
