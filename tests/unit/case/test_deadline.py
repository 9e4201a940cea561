"""How much of an order's time is left: counted on the machine's own clock, whatever the day is."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pytest

from eraser.case import session
from eraser.case.entries import Began, Entry, Resumed, Spent
from eraser.case.state import CaseState
from eraser.clock import Clock
from eraser.host.sysfs import Host
from eraser.ownership.model import SteadyTime
from eraser.protocol.report import Step
from tests.unit.case.fakes import ordered

DAY = 86400
REQUEST = dataclasses.replace(ordered(), seconds_allowed=DAY)
AT = "2026-11-21T12:00:00.000+00:00"
STEPS = (Spent(Step.ERASE, 1000.0), Spent(Step.VERIFY, 500.0))


def began(boot: str, seconds: float) -> Began:
    """By a time of day that is two days behind."""
    return Began("work", AT, time.time() - 2 * DAY, SteadyTime(boot, seconds))


def resumed(boot: str, seconds: float) -> Resumed:
    return Resumed(AT, SteadyTime(boot, seconds))


@pytest.mark.parametrize(
    ("entries", "used"),
    [
        ((began("now", 4400.0),), 600),
        # The worker was stopped in between: that is the case's time as well.
        ((began("now", 400.0), *STEPS, resumed("now", 4900.0)), 4600),
        ((began("before", 99.0), *STEPS, resumed("now", 4900.0)), 1600),
        (
            (began("before", 99.0), *STEPS, resumed("now", 4000.0), *STEPS, resumed("now", 4900.0)),
            2500,
        ),
        ((began("a", 9.0), *STEPS, resumed("b", 9.0), *STEPS, resumed("now", 4900.0)), 3100),
        # An older version began or resumed it and did not look at this clock.
        ((Began("work", AT, time.time() - 2 * DAY),), 0),
        ((Began("work", AT, 0.0), *STEPS, resumed("now", 4900.0)), 1600),
        ((began("now", 4400.0), Resumed(AT)), 600),
    ],
)
def test_the_time_of_day_counts_for_nothing(
    tmp_path: Path, entries: tuple[Entry, ...], used: float
) -> None:
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("now\n")

    class At(Clock):
        def boottime(self) -> float:
            return 5000.0

        def monotonic(self) -> float:
            return 100.0

    state = CaseState()
    for entry in entries:
        state.apply(entry)
    ends = session._deadline(REQUEST, state, Host(tmp_path, clock=At()))
    assert ends is not None
    assert ends - 100.0 == pytest.approx(DAY - used)


def test_a_case_without_an_order_has_all_the_time_there_is() -> None:
    assert (
        session._deadline(dataclasses.replace(REQUEST, seconds_allowed=0), CaseState(), Host())
        is None
    )
