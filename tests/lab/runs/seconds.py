"""Where the time of a run of tests goes, by directory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple


class Phase(NamedTuple):
    """Setup, call or teardown of one test."""

    nodeid: str
    seconds: float


class Row(NamedTuple):
    """One directory."""

    directory: str
    tests: int
    seconds: float
    slowest: str
    """Its slowest test, by all three phases."""


def directory_of(nodeid: str) -> str:
    """``tests/emulated`` or ``tests/unit/gate``: the unit tests are told apart by room."""
    parts = nodeid.partition("::")[0].split("/")[:-1]
    return "/".join(parts[: 3 if parts[:2] == ["tests", "unit"] else 2])


def rows(phases: Iterable[Phase]) -> list[Row]:
    """The directories, those that take longest first."""
    tests: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for phase in phases:
        tests[directory_of(phase.nodeid)][phase.nodeid] += phase.seconds
    found = [
        Row(name, len(times), sum(times.values()), max(times, key=lambda test: times[test]))
        for name, times in tests.items()
    ]
    return sorted(found, key=lambda row: -row.seconds)


def lines(table: list[Row]) -> list[str]:
    """The table as text. Seconds are those of all workers together."""
    width = max((len(row.directory) for row in table), default=0)
    return [
        f"{row.directory:<{width}} {row.tests:5d} tests {row.seconds:8.1f} s  "
        f"slowest: {row.slowest.partition('/')[2].removeprefix(row.directory[6:] + '/')}"
        for row in table
    ]
