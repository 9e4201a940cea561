"""Breaks: long times in which no sweep went through. What waited for the service is not late. Pure.

It was stopped, Placement or the database was away, or our clock was set forward; or Placement's
listing alone failed: rounds look at open cases then, of all else nobody knows. The sweep notes each
end of one on the record, so that the worker and commands of people know of it too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from quarantine.record.words.facts import RESUMED, SWEEP, GoodPass


def is_break(passes: Iterable[GoodPass], now: datetime, overdue_after: float) -> bool:
    """Whether no sweep went well for so long that what is called overdue may only have waited for
    us."""
    sweep = _named(passes, SWEEP)
    if sweep is None:
        return True
    # After a shorter break, whatever is overdue has waited while we looked for half of that time at
    # least. Else a Placement that comes and goes would put off each alarm for ever.
    return (now - sweep.at).total_seconds() > max(overdue_after / 2, sweep.within)


def attended_since(
    passes: Iterable[GoodPass], now: datetime, overdue_after: float
) -> datetime | None:
    """Since when a slot may be called overdue: since now in a break, and since the end of the last
    one; None where none is known."""
    passes = tuple(passes)
    if is_break(passes, now, overdue_after):
        return now
    resumed = _named(passes, RESUMED)
    return None if resumed is None else resumed.at


def _named(passes: Iterable[GoodPass], name: str) -> GoodPass | None:
    return next((one for one in passes if one.name == name), None)
