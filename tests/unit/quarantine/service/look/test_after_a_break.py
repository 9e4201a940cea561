"""The service was away, or its clock was set forward: what waited for it meanwhile is in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quarantine.metrics.alarmcount import AlarmCounter
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import State
from quarantine.rules import alarmbook
from quarantine.service.reconciler import sweep_bound
from tests.unit.quarantine.service.look import test_burn_grace
from tests.unit.quarantine.service.look.test_burn_grace import LIMITS, ROUND, SLOT, Site, state
from tests.unit.quarantine.smallcloud import Clock, Cloud, available, enrolled, open_store, slot_at

AWAY = LIMITS.overdue_after + 3600
WITHIN = sweep_bound(LIMITS)
OVERDUE = "ALARM overdue"
OTHER = slot_at(2)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A service that goes on, and a slot that was just released."""
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        site = Site(store, Cloud(clock))
        site.go_on(2 * LIMITS.list_interval)
        enrolled(store, site.cloud, SLOT)
        yield site


def rest(site: Site, seconds: float) -> None:
    """As :meth:`Site.go_on`, but a round each four minutes: quicker to play, and no break
    of the listings."""
    assert 16 * ROUND < WITHIN
    until = site.clock.seconds + seconds
    while site.clock.seconds < until:
        site.loop.round()
        site.clock.forward(16 * ROUND)


@pytest.mark.parametrize("begun", [False, True], ids=["released", "erasing"])
@pytest.mark.parametrize("restarted", [False, True])
def test_nobody_is_called_for_what_waited_for_us(
    site: Site, caplog: pytest.LogCaptureFixture, begun: bool, restarted: bool
) -> None:
    if begun:
        site.go_on(ROUND)
    assert state(site) is (State.ERASING if begun else State.RELEASED)
    site.clock.forward(AWAY)
    if restarted:
        site.restart()
    site.go_on(4 * LIMITS.list_interval)
    assert state(site) is State.ERASING
    assert OVERDUE not in caplog.text
    rest(site, LIMITS.overdue_after + 3600)
    assert caplog.text.count(OVERDUE) == 1, "its host said nothing since"


def test_nor_by_who_does_not_sweep(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The worker, or a person's command, while the service is stopped."""
    site.clock.forward(AWAY)
    site.loop.look(SLOT)
    assert state(site) is State.ERASING
    assert OVERDUE not in caplog.text


def test_what_people_were_told_before_is_not_over(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    rest(site, LIMITS.overdue_after + 3600)
    assert caplog.text.count(OVERDUE) == 1
    site.clock.forward(AWAY)
    rest(site, LIMITS.overdue_after + 3600)
    assert caplog.text.count(OVERDUE) == 1
    assert "over: " not in caplog.text


def test_short_breaks_put_off_no_alarm(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A service that is started anew each night, or a Placement that comes and goes."""
    for _ in range(5):
        site.clock.forward(LIMITS.overdue_after / 4)
        site.restart()
        site.go_on(2 * LIMITS.list_interval)
    assert caplog.text.count(OVERDUE) == 1


def test_no_break_of_ours_puts_off_that_an_order_is_not_finished(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The order's time is the host's, which greets meanwhile: four hours of each day without us."""
    site.go_on(ROUND)
    for _ in range(4):
        for _ in range(40):
            record = site.store.slot(SLOT)
            assert record is not None
            site.store.amend(record, SlotChanges(heard_at=site.clock()))
            site.loop.round()
            site.clock.forward(1800)
        site.clock.forward(4 * 3600)
    assert caplog.text.count(OVERDUE) == 1
    assert "has not finished the order in more than 54 h" in caplog.text


ABSENT = "ALARM slots-absent"


@pytest.mark.parametrize("restarted", [False, True])
def test_nobody_is_called_for_a_slot_that_came_back_meanwhile(
    site: Site, caplog: pytest.LogCaptureFixture, restarted: bool
) -> None:
    available(site.store, site.cloud, OTHER)
    seat = site.cloud.seats.pop(f"rp-{OTHER}")
    site.go_on(2 * LIMITS.list_interval)
    site.clock.forward(3600)
    if restarted:
        site.restart()
    site.cloud.seats[f"rp-{OTHER}"] = seat
    site.go_on(LIMITS.absent_after + 2 * LIMITS.list_interval)
    assert ABSENT not in caplog.text


@pytest.mark.parametrize("restarted", [False, True])
def test_of_one_that_is_still_away_people_hear_a_little_later(
    site: Site, caplog: pytest.LogCaptureFixture, restarted: bool
) -> None:
    """Once a slot that came back would have been looked at."""
    available(site.store, site.cloud, OTHER)
    del site.cloud.seats[f"rp-{OTHER}"]
    site.go_on(2 * LIMITS.list_interval)
    site.clock.forward(3600)
    if restarted:
        site.restart()
    site.go_on(2 * LIMITS.list_interval)
    assert ABSENT not in caplog.text
    site.go_on(WITHIN)
    assert caplog.text.count(ABSENT) == 1
    site.clock.forward(3600)
    site.go_on(2 * LIMITS.absent_after)
    assert caplog.text.count(ABSENT) == 1
    assert "over: slots-absent" not in caplog.text


@pytest.mark.parametrize("restarted", [False, True])
def test_no_breaks_in_a_row_put_off_that_slots_are_absent(
    site: Site, caplog: pytest.LogCaptureFixture, restarted: bool
) -> None:
    """A service that is started anew, or a Placement that hiccups, again within absent_after."""
    available(site.store, site.cloud, OTHER)
    del site.cloud.seats[f"rp-{OTHER}"]
    for _ in range(3):
        site.go_on(LIMITS.absent_after * 2 / 3)
        site.clock.forward(WITHIN + ROUND)
        if restarted:
            site.restart()
    site.go_on(LIMITS.absent_after * 2 / 3)
    assert ABSENT in caplog.text


def test_what_is_still_absent_is_not_said_to_be_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that begins tells again in time, also where Placement is away for a moment."""
    limits = replace(LIMITS, absent_after=7200.0, overdue_after=7200.0)
    monkeypatch.setattr(test_burn_grace, "LIMITS", limits)
    clock = Clock()

    def at_our_time(line: logging.LogRecord) -> bool:
        line.created = clock().timestamp()
        return True

    with open_store(tmp_path, clock) as store:
        site = Site(store, Cloud(clock))
        counter = AlarmCounter(lambda: store)
        counter.addFilter(at_our_time)
        caplog.set_level("WARNING")
        monkeypatch.setattr(alarmbook.LOG, "handlers", [counter])
        enrolled(store, site.cloud, SLOT)
        available(store, site.cloud, OTHER)
        del site.cloud.seats[f"rp-{OTHER}"]

        def go_on(seconds: float) -> None:
            until = clock.seconds + seconds
            while clock.seconds < until:
                site.loop.round()
                assert counter.write()
                clock.forward(LIMITS.list_interval)

        go_on(limits.absent_after + 2 * WITHIN)
        assert caplog.text.count(ABSENT) == 1
        site.restart()
        go_on(limits.absent_after / 2)
        clock.forward(WITHIN + ROUND)
        go_on(limits.absent_after)
    assert "over: slots-absent" not in caplog.text
    assert caplog.text.count(ABSENT) == 2, "once by each process"
