"""Latencies as counts: those of several runs add up exactly, which their percentiles do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Histogram:
    """Completion latency in nanoseconds (fio's bins, 1.6 % wide) to number of commands."""

    bins: Mapping[int, int]

    @property
    def count(self) -> int:
        """Commands."""
        return sum(self.bins.values())

    def percentile(self, percent: float) -> int:
        """The smallest latency that ``percent`` of the commands do not exceed, in nanoseconds.

        0 where there was no command.
        """
        wanted = self.count * percent / 100
        seen = 0
        latency = 0
        for latency in sorted(self.bins):
            seen += self.bins[latency]
            if seen >= wanted:
                break
        return latency

    @classmethod
    def merged(cls, parts: Iterable[Histogram]) -> Histogram:
        """All commands of all parts."""
        bins: dict[int, int] = {}
        for part in parts:
            for latency, count in part.bins.items():
                bins[latency] = bins.get(latency, 0) + count
        return cls(bins)
