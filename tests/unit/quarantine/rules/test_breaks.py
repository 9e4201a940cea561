"""Which times without a sweep count as breaks, and since when slots were looked at."""

from __future__ import annotations

from datetime import timedelta

import pytest

from quarantine.record.words.facts import BROKER, RESUMED, SWEEP, GoodPass
from quarantine.rules.breaks import attended_since, is_break
from tests.unit.quarantine.testimony import NOW

OVERDUE = 21600.0
WITHIN = 270.0


def swept(ago: float, within: float = WITHIN) -> GoodPass:
    return GoodPass(SWEEP, NOW - timedelta(seconds=ago), within)


@pytest.mark.parametrize(
    ("last", "overdue_after", "expected"),
    [
        (swept(60), OVERDUE, False),
        (swept(10_800), OVERDUE, False),
        (swept(10_801), OVERDUE, True),
        # A clock that was set back: nothing waited for us because of that.
        (swept(-86_400), OVERDUE, False),
        # However short overdue_after is, between two sweeps lies no break.
        (swept(200), 60.0, False),
        (swept(271), 60.0, True),
    ],
)
def test_only_a_long_one_is_a_break(last: GoodPass, overdue_after: float, expected: bool) -> None:
    assert is_break([GoodPass(BROKER, NOW, 30.0), last], NOW, overdue_after) is expected


def test_a_service_that_never_swept_calls_nobody() -> None:
    assert attended_since([], NOW, OVERDUE) == NOW


def test_since_the_end_of_the_last_break() -> None:
    resumed = GoodPass(RESUMED, NOW - timedelta(hours=1), WITHIN)
    assert attended_since([swept(60)], NOW, OVERDUE) is None
    assert attended_since([resumed, swept(60)], NOW, OVERDUE) == resumed.at
    assert attended_since([resumed, swept(20_000)], NOW, OVERDUE) == NOW
