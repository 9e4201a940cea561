"""Bells in a row: many for one thing cost one look now and one after, not one look each."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

GAP_SECONDS: Final = 1.0
"""After a look at something, bells for it are gathered for so long."""

_MOST: Final = 10_000
"""Names that are remembered; bells are unsigned, and somebody may make names up."""


class Bells:
    """Not thread safe: the worker takes one message at a time."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._quiet: dict[Hashable, float] = {}
        self._waiting: set[Hashable] = set()

    def ring(self, what: Hashable, look: Callable[[], object]) -> float:
        """Looks, unless that was done just now.

        The seconds after which this bell wants to be rung again, for itself and for those that
        come until then; 0 when it is done with.
        """
        rest = self._quiet.get(what, 0.0) - self._now()
        if rest > 0:
            if what in self._waiting:
                return 0.0
            self._waiting.add(what)
            return rest
        self._waiting.discard(what)
        try:
            look()
        finally:
            # Bells are unsigned, so the table has a bound. What is forgotten rings early at worst.
            if len(self._quiet) >= _MOST:
                self._quiet.clear()
                self._waiting.clear()
            self._quiet[what] = self._now() + GAP_SECONDS
        return 0.0
