"""The fleet as it was a moment ago. Of a large one that takes a second of a processor, and every
open page asks again and again: however many there are, a tenth of a processor is what they get."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from quarantine.operations import fleet
from quarantine.operations.fleet import Fleet
from quarantine.operations.plane import Plane

LEAST_SECONDS: Final = 2.0
SHARE: Final = 0.1
"""Of a processor, at most."""


class Snapshots:
    """The last one, kept in proportion to what it cost."""

    def __init__(self, plane: Plane, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._now = monotonic
        self._lock = threading.Lock()
        self._last: Fleet | None = None
        self._until = 0.0

    def fleet(self) -> Fleet:
        """Raises ``UnavailableError``: what is old is not shown where nothing is known."""
        with self._lock:
            if self._last is None or self._now() >= self._until:
                begun = time.thread_time()
                self._last = fleet.look(self._plane)
                cost = time.thread_time() - begun
                self._until = self._now() + max(LEAST_SECONDS, cost / SHARE)
            return self._last

    def forget(self) -> None:
        """Somebody decided here: he sees what came of it."""
        with self._lock:
            self._until = 0.0
