"""What a drive counts, and the habits by which honest drives differ: for :mod:`tests.model.meter`.

The figures are of no drive: a case writes 1000 times at the most, 8 units of a thousand sectors.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from eraser.protocol.ticket import Counters
from tests.model.world import CLEAN, GONE, NOWHERE

OWN_WRITES = 1000
"""Of the case, at the most."""


class Habit(enum.StrEnum):
    """How an honest drive counts and seals. Its value ends "the drive ..."."""

    PROMPT = "seals and counts at once"
    LATE = "seals, and counts late"
    UNSEALS = "loses its seal with a reset"
    BARE = "was formatted: it has no seal"
    BARE_LATE = "has no seal and counts late"
    MUTE = "has no seal and counts nothing"

    @property
    def late(self) -> int:
        """In how many portions it counts what the case wrote, after its report."""
        return {Habit.LATE: 2, Habit.BARE_LATE: 1}.get(self, 0)

    @property
    def seals(self) -> bool | None:
        """What its sanitize log says of Global Data Erased as the case is reported."""
        return True if self in (Habit.PROMPT, Habit.LATE, Habit.UNSEALS) else None


class Use(enum.StrEnum):
    """What somebody elsewhere does with the drive."""

    BLOCK = "writes one block"
    LONG = "writes little more often than the case, and much more"
    MUCH = "writes a lot"
    ANEW = "has it count anew"


_WRITES = {Use.BLOCK: (1, 0), Use.LONG: (1, 100), Use.MUCH: (100_000, 100_000)}
_PORTION = (500, 4)
"""Commands and units of a portion: two of them are all that a case may write."""
NOTHING = Counters(0, 0, 0, None)


class Gauge(NamedTuple):
    """One drive, from the report of its erase to the next guest's start."""

    budget: int
    habit: Habit | None = None
    data: int = CLEAN
    now: Counters = NOTHING
    late: int = 0
    """Portions that are not counted yet."""
    reported: Counters | None = None
    use: Use | None = None
    """What somebody elsewhere did with it since its report."""
    there: bool = True
    away: str = ""
    """Since its report it left its slot: empty (never), early (before its ticket came), late."""
    seen: bool = False
    """The watcher saw it."""
    entry: int = NOWHERE
    """What the gate has of the slot, by its number."""
    stage: str = ""
    """Empty, erasing, reported, taken, offered, started."""

    def with_(self, **changes: Any) -> Gauge:
        """The same with other members."""
        return self._replace(**changes)


def reported(gauge: Gauge) -> Gauge:
    """The drive after its erase, and what the case's report says that it counts."""
    habit = gauge.habit
    assert habit is not None
    count = (0, 0, 0) if habit is Habit.MUTE else (5000, 300, 7)
    said = Counters(*count, habit.seals)
    # The case resets the controller after the last log that it reports.
    after = Counters(*count, False) if habit is Habit.UNSEALS else said
    return gauge._replace(
        data=CLEAN, use=None, now=after, late=habit.late, reported=said, stage="reported"
    )


def caught_up(gauge: Gauge) -> Gauge:
    """One more portion of the case's own writes is counted."""
    return gauge._replace(now=_more(gauge.now, *_PORTION), late=gauge.late - 1)


def used(gauge: Gauge, use: Use) -> Gauge:
    """Somebody has written to the drive: its seal is gone, and it has counted."""
    seal = None if gauge.now.global_data_erased is None else False
    now = gauge.now
    if use is Use.ANEW:
        now = Counters(1, 1, 1, seal)
    elif gauge.habit is not Habit.MUTE:
        now = _more(now, *_WRITES[use])
    now = Counters(now.host_write_commands, now.data_units_written, now.power_cycles, seal)
    return gauge._replace(now=now, data=GONE, use=use)


def _more(now: Counters, writes: int, units: int) -> Counters:
    return Counters(
        now.host_write_commands + writes,
        now.data_units_written + units,
        now.power_cycles,
        now.global_data_erased,
    )
