"""From values to places and colours, and the round numbers beside an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

STEPS: Final = 9
"""Colours of the ramp: classes ``q0`` (least) to ``q8``."""


def linear_ticks(most: float, wanted: int = 5) -> tuple[float, ...]:
    """Round numbers from 0 to the first one that is not below ``most``."""
    if most <= 0:
        return (0.0, 1.0)
    rough = most / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    # A hair of tolerance, here and below: float quotients fall just beside round numbers.
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    return tuple(step * index for index in range(math.ceil(most / step - 1e-9) + 1))


def log_ticks(least: float, most: float) -> tuple[float, ...]:
    """1, 2 and 5 of each power of ten around the range; the powers alone where those are many."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    factors = (1, 2, 5) if math.log10(most / least) < 2.2 else (1,)
    ticks = [factor * 10.0**power for power in range(low, high + 1) for factor in factors]
    first = max((tick for tick in ticks if tick <= least * 1.0001), default=ticks[0])
    last = min((tick for tick in ticks if tick >= most * 0.9999), default=ticks[-1])
    inside = tuple(tick for tick in ticks if first <= tick <= last)
    return inside if len(inside) > 1 else (first, first * 10)


@dataclass(frozen=True)
class Axis:
    """Values to pixels."""

    ticks: tuple[float, ...]
    start: float
    """Where the first tick stands."""
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The place; outside of the ticks it stays at the end that is nearer."""
        low, high = self.ticks[0], self.ticks[-1]
        value = min(max(value, low), high)
        if self.log:
            share = math.log(value / low) / math.log(high / low)
        else:
            share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)


def axis(values: Iterable[float], start: float, end: float, *, log: bool) -> Axis:
    """For all of ``values``; a logarithmic one leaves out those that are not above 0."""
    seen = list(values)
    if log:
        above = [value for value in seen if value > 0]
        if above:
            return Axis(log_ticks(min(above), max(above)), start, end, log=True)
    return Axis(linear_ticks(max(seen, default=0.0)), start, end)


def step(value: float, least: float, most: float, *, log: bool = True) -> int:
    """The colour of a value between the least and the most of its picture."""
    if value <= least or most <= least:
        return 0
    value = min(value, most)
    if log and least > 0:
        span = math.log(most) - math.log(least)
        share = (math.log(value) - math.log(least)) / span if span > 0 else 0.0
    else:
        share = (value - least) / (most - least)
    return max(0, min(STEPS - 1, int(share * STEPS)))


_RATIOS: Final = (0.5, 0.8, 0.9, 0.97, 1.03, 1.1, 1.25, 2.0)


def ratio_step(ratio: float) -> int:
    """The colour of a change: 0 lost most, 4 is the same, 8 gained most."""
    return sum(ratio >= bound for bound in _RATIOS)
