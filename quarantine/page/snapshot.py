"""The fleet as it was a moment ago. Of a large one that takes a second of a processor, and every
open page asks again and again: however many there are, a tenth of a processor is what they get."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from quarantine.errors import QuarantineError, UnavailableError
from quarantine.operations.overview import fleet
from quarantine.operations.overview.fleet import Fleet
from quarantine.operations.plane import Plane

LEAST_SECONDS: Final = 2.0
SHARE: Final = 0.1
"""Of a processor, at most."""
WAIT_SECONDS: Final = 5.0
"""For the look of another."""


class Snapshots:
    """The last one, kept in proportion to what it cost."""

    def __init__(self, plane: Plane, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._now = monotonic
        self._lock = threading.Lock()
        self._last: Fleet | None = None
        self._until = 0.0
        self._failed: tuple[float, QuarantineError] | None = None
        """The last look, where it did not go well, and when that was known."""
        self._decisions = 0
        self._of = 0
        """How many decisions the last one may know of."""

    def fleet(self) -> Fleet:
        """Raises ``UnavailableError``: what is old is not shown where nothing is known."""
        asked = self._now()
        # All threads of the process may be here, and the API needs some.
        if not self._lock.acquire(timeout=WAIT_SECONDS):
            raise UnavailableError(f"database: expected an answer within {WAIT_SECONDS:g} s")
        try:
            if self._failed is not None and asked <= self._failed[0]:
                # Who waited for that look got it.
                raise self._failed[1].with_traceback(None)
            if self._last is None or self._of != self._decisions or self._now() >= self._until:
                self._look()
            assert self._last is not None
            return self._last
        finally:
            self._lock.release()

    def _look(self) -> None:
        known, begun = self._decisions, time.thread_time()
        try:
            self._last = fleet.look(self._plane)
        except QuarantineError as error:
            self._failed = self._now(), error
            raise
        self._failed, self._of = None, known
        cost = time.thread_time() - begun
        self._until = self._now() + max(LEAST_SECONDS, cost / SHARE)

    def forget(self) -> None:
        """Somebody decided here: he sees what came of it, also where a look is under way."""
        self._decisions += 1
