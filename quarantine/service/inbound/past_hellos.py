"""Hosts that count their hellos from where they were: none of what they say is heard.

An older number is a message that was overtaken or delivered twice, and counts for nothing. One
after the other, minute by minute, they are a life of the host that goes on from its past: its state
directory is a backup's, or another machine speaks with a copy of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

IN_A_ROW: Final = 3
LASTS_SECONDS: Final = 45.0
"""Longer than a backlog takes that a restored broker delivers again."""


@dataclass(frozen=True)
class _Run:
    first: float
    number: int
    length: int


@dataclass
class PastHellos:
    """Forgetting all of it costs another look at some hellos of each such host."""

    monotonic: Callable[[], float] = time.monotonic
    _runs: dict[str, _Run] = field(default_factory=dict)

    def goes_on(self, host: str, number: int) -> bool:
        """Whether the host really goes on from there. One call for each hello of an older number
        that a registered host signed, and of its last one where its words are others."""
        now, run = self.monotonic(), self._runs.get(host)
        if run is None or number != run.number + 1:
            run = _Run(now, number, 0)
        run = _Run(run.first, number, run.length + 1)
        self._runs[host] = run
        return run.length >= IN_A_ROW and now - run.first >= LASTS_SECONDS
