"""What cases of a model take: when one is due, and when late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.record.words.states import State
from quarantine.rules.sale.pace import ENOUGH, SAMPLES, Pace, due, late_after, pace, stuck_after

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
KNOWN = Pace(cases=9, erase=600, verify=120, late_erase=1200, late_verify=420)
SECONDS = st.floats(0, 2_592_000)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_nothing_is_known_without_a_case() -> None:
    assert pace([]) is None
    assert late_after(State.ERASING, None, 21600) == 21600


def test_few_cases_tell_when_it_is_due_and_nobody_is_late_by_them() -> None:
    found = pace([(600, 120)] * (ENOUGH - 1))
    assert found is not None
    assert (found.erase, found.verify, found.late_erase) == (600, 120, None)
    assert late_after(State.ERASING, found, 21600) == 21600


def test_late_is_twice_what_nearly_all_took_and_some_minutes_at_least() -> None:
    usual = [(600.0, 2.0)] * 19
    found = pace([*usual, (9000.0, 9000.0)])
    assert found is not None
    assert (late_after(State.ERASING, found, 21600), found.late_verify) == (1200, 302)
    assert late_after(State.VERIFYING, found, 21600) == 302
    assert late_after(State.QUARANTINED, found, 21600) == 21600


@given(
    st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=SAMPLES), st.floats(60, 2_592_000)
)
def test_no_host_puts_off_the_alarm_of_overdue(cases: list[tuple[float, float]], at: float) -> None:
    for state in State:
        assert late_after(state, pace(cases), at) <= at


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=ENOUGH, max_size=SAMPLES))
def test_nearly_all_cases_that_are_known_were_not_late(cases: list[tuple[float, float]]) -> None:
    found = pace(cases)
    assert found is not None
    limit = late_after(State.ERASING, found, float("inf"))
    assert sum(erase > limit for erase, _ in cases) <= 0.05 * len(cases)


def test_a_slow_model_may_stand_still_for_twice_what_it_took_elsewhere() -> None:
    slow = [("a", 700.0), ("b", 800.0), ("c", 1100.0)]
    assert stuck_after(slow, 900) == 1600
    assert stuck_after(slow, 1600) == 0.0, "the policy's own limit is as good"
    assert stuck_after([("a", 1100.0), ("a", 700.0)], 900) == 0.0, "one host proves nothing"
    assert stuck_after([], 900) == 0.0


@given(
    st.lists(st.tuples(st.sampled_from("abc"), SECONDS), max_size=SAMPLES),
    st.lists(SECONDS, max_size=SAMPLES),
)
def test_no_host_makes_others_wait(honest: list[tuple[str, float]], lies: list[float]) -> None:
    most = max((seconds for _host, seconds in honest), default=0.0)
    assert stuck_after([*honest, *(("liar", lie) for lie in lies)], 1.0) <= 2 * most


@pytest.mark.parametrize(
    ("state", "since", "at"),
    [
        (State.RELEASED, 10, ahead(720)),
        (State.RELEASED, 700, None),
        (State.QUARANTINED, 10, ahead(720)),
        (State.QUARANTINED, 700, None),
        (State.ERASING, 0, ahead(720)),
        (State.ERASING, 700, ahead(20)),
        (State.ERASING, 721, None),
        (State.VERIFYING, 100, ahead(20)),
        (State.VERIFYING, 121, None),
        (State.CERTIFIED, 10, NOW),
        (State.CERTIFIED, 700, None),
        (State.HELD, 10, None),
        (State.IN_USE, 10, None),
        ("dreaming", 10, None),
    ],
)
def test_when_a_drive_is_due(state: str, since: float, at: datetime | None) -> None:
    assert due(state, ago(since), NOW, KNOWN) == at
    assert due(state, ago(since), NOW, None) is None
