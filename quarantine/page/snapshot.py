"""The fleet as it was a moment ago. Of a large one that takes a second of a processor, and every
open page asks again and again: however many there are, a tenth of a processor is what they get."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from quarantine.operations.overview import fleet
from quarantine.operations.overview.fleet import Fleet
from quarantine.operations.plane import Plane
from quarantine.operations.shared_turn import SharedTurn

LEAST_SECONDS: Final = 2.0
SHARE: Final = 0.1
"""Of a processor, at most."""


class Snapshots:
    """The last one, kept in proportion to what it cost."""

    def __init__(self, plane: Plane, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._now = monotonic
        self._turn = SharedTurn(monotonic)
        self._last: Fleet | None = None
        self._until = 0.0
        self._decisions = 0
        self._of = 0
        """How many decisions the last one may know of."""

    def fleet(self) -> Fleet:
        """Raises ``UnavailableError``: what is old is not shown where nothing is known."""
        with self._turn.turn():
            if self._last is None or self._of != self._decisions or self._now() >= self._until:
                self._last = self._look()
            return self._last

    def _look(self) -> Fleet:
        # Read before the look: a decision during it may be missing in what is found, so another
        # look is due. The thread's time, for waiting for the database costs no processor.
        known, begun = self._decisions, time.thread_time()
        found = fleet.look(self._plane)
        cost = time.thread_time() - begun
        self._of, self._until = known, self._now() + max(LEAST_SECONDS, cost / SHARE)
        return found

    def forget(self) -> None:
        """Somebody decided here: he sees what came of it, also where a look is under way."""
        self._decisions += 1
