"""The service was away, or its clock was set forward: what waited for it meanwhile is in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.record.words.states import State
from tests.unit.quarantine.service.look.test_burn_grace import LIMITS, ROUND, SLOT, Site, state
from tests.unit.quarantine.smallcloud import Clock, Cloud, enrolled, open_store

AWAY = LIMITS.overdue_after + 3600
OVERDUE = "ALARM overdue"


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
    """As :meth:`Site.go_on`, but a round each eight minutes: quicker to play."""
    until = site.clock.seconds + seconds
    while site.clock.seconds < until:
        site.loop.round()
        site.clock.forward(32 * ROUND)


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
