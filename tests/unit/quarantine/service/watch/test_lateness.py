"""One alarm for one outage, and one line when it is over."""

from __future__ import annotations

import threading

import pytest

from quarantine.service.watch.lateness import Lateness
from tests.unit.quarantine.smallcloud import Clock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def late(clock: Clock) -> Lateness:
    late = Lateness(clock.monotonic)
    late.expect("sweep", lambda: 100.0)
    late.expect("pass", lambda: 20.0)
    return late


def test_what_was_never_done_is_late_too(
    clock: Clock, late: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    clock.forward(20)
    assert late.check() == ""
    clock.forward(1)
    assert late.check() == "pass"
    assert "no good pass for 21 s" in caplog.text


def test_an_outage_of_everything_is_one_alarm_and_one_line_at_its_end(
    clock: Clock, late: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3600):
        clock.forward(1)
        late.check()
    (alarm,) = lines(caplog)
    assert alarm.startswith("ALARM")
    late.done("pass")
    late.check()
    assert not lines(caplog), "the sweep is late still"
    late.done("sweep")
    assert late.check() == ""
    assert late.check() == ""
    (over,) = lines(caplog)
    assert over.startswith("over")


def test_what_has_less_time_is_told_although_something_else_was(
    clock: Clock, late: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(10):
        clock.forward(15)
        late.done("pass")
        late.check()
    (alarm,) = lines(caplog)
    assert "no good sweep" in alarm
    clock.forward(21)
    assert late.check() == "pass"
    (alarm,) = lines(caplog)
    assert "no good pass" in alarm


def test_what_stays_late_when_the_first_thing_is_over_is_told_in_its_own_time(
    clock: Clock, late: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    """Placement is back, and yet no sweep goes through."""
    clock.forward(3600)
    late.check()
    lines(caplog)
    for _ in range(10):
        clock.forward(10)
        late.done("pass")
        late.check()
    assert not lines(caplog), "it has as long as ever from then on"
    clock.forward(10)
    for _ in range(3):
        late.done("pass")
        assert late.check() == "sweep"
        clock.forward(10)
    over, alarm = lines(caplog)
    assert over == "over: late pass: there was a good one again"
    assert alarm.startswith("ALARM late sweep: no good sweep for 3720 s")
    late.done("pass")
    late.done("sweep")
    assert late.check() == ""
    assert lines(caplog) == ["over: late sweep: there was a good one again"]


def test_what_fails_again_and_again_keeps_the_others_one_alarm(
    clock: Clock, late: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3600):
        clock.forward(1)
        if number > 100 and number % 90 == 0:
            late.done("pass")
        late.check()
    (alarm,) = lines(caplog)
    assert "no good pass" in alarm


def test_what_was_done_saw_what_was_then(clock: Clock, late: Lateness) -> None:
    clock.forward(15)
    late.done("pass", at=clock.seconds - 10)
    clock.forward(11)
    assert late.check() == "pass"


def test_what_calls_nobody_is_shown_only(
    clock: Clock, late: Lateness, caplog: pytest.LogCaptureFixture
) -> None:
    late.expect("reading", lambda: 10.0, calls=False)
    clock.forward(15)
    assert late.check() == ""
    assert late.ages()["reading"] == (15, 10)
    clock.forward(10)
    assert late.check() == "pass"
    assert len(lines(caplog)) == 1


def test_what_is_expected_while_another_thread_looks_ends_neither() -> None:
    """The safety pass runs while the loop is still being made, which expects its own."""
    lateness = Lateness(lambda: 0.0)

    def within() -> float:
        other = threading.Thread(target=lateness.expect, args=("sweep", lambda: 60.0))
        other.start()
        other.join(1.0)
        return 10.0

    lateness.expect("safety pass", within)
    assert lateness.check() == ""
    assert lateness.ages().keys() >= {"safety pass"}
    assert lateness.ages().keys() == {"safety pass", "sweep"}
