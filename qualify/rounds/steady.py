"""Whether rounds of a measurement have settled: the range and slope test of SNIA's PTS.

Solid State Storage Performance Test Specification (Enterprise), "Steady State": over the last five
rounds the values stay close to their mean, and the straight line through them is nearly level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WINDOW: Final = 5
"""Rounds that are looked at: the last ones."""

LIMIT: Final = 0.10
"""Share of the mean that a value may lie away from it, and that the line may rise or fall by over
the window. PTS allows the values a range of 20 % in all, so one alone may lie further off; each
value within 10 % of the mean is the stricter reading, and the one of the source's bench."""


@dataclass(frozen=True)
class Steady:
    """What the window shows. Shares are of the mean; ``slope`` has the line's sign."""

    reached: bool
    first: int
    last: int
    """Rounds of the window, counted from 1."""
    mean: float
    deviation: float
    """The furthest value's distance from the mean."""
    slope: float
    """What the line through the values gains (or, below 0, loses) from the first to the last."""


def judge(values: Sequence[float], window: int = WINDOW, limit: float = LIMIT) -> Steady | None:
    """Looks at the last ``window`` values; None where there are fewer."""
    if window < 2 or len(values) < window:
        return None
    seen = values[-window:]
    mean = sum(seen) / window
    first, last = len(values) - window + 1, len(values)
    if mean <= 0:
        return Steady(False, first, last, mean, 0.0, 0.0)
    deviation = max(abs(value - mean) for value in seen) / mean
    # The least-squares line: its rise a round, over the window, as a share of the mean.
    middle = (window - 1) / 2
    rise = sum((x - middle) * (y - mean) for x, y in enumerate(seen))
    slope = rise / sum((x - middle) ** 2 for x in range(window)) * (window - 1) / mean
    return Steady(deviation <= limit and abs(slope) <= limit, first, last, mean, deviation, slope)
