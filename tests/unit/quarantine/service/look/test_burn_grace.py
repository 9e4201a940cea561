"""Leak 5 as time passes: a drive in use that is not reserved is looked at until it is.

No look comes late here, and no clock is moved before the first one: rounds as the service makes
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.record.store import Store
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    available,
    enrolled,
    open_store,
    slot_at,
)

SLOT = slot_at(1)
LIMITS = ServiceLimits()
ROUND = LIMITS.sweep_interval


class Site:
    """The loop of one control plane over simulated time."""

    def __init__(self, store: Store, cloud: Cloud) -> None:
        self.store, self.cloud, self.clock = store, cloud, cloud.clock
        self.restart()

    def restart(self) -> None:
        """Another process goes on."""
        dispatcher = NotingDispatcher(self.store, self.clock)
        self.loop = Reconciler(
            self.store,
            self.cloud,
            dispatcher,
            LIMITS,
            self.clock,
            tickets=NoTickets(),
            monotonic=self.clock.monotonic,
        )

    def go_on(self, seconds: float) -> None:
        """Rounds, as :meth:`Reconciler.run_forever` makes them."""
        until = self.clock.seconds + seconds
        while self.clock.seconds < until:
            self.loop.round()
            self.clock.forward(ROUND)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


def state(site: Site) -> State:
    record = site.store.slot(SLOT)
    assert record is not None
    return record.state


def test_a_claim_that_nova_never_burns_is_reserved_after_the_grace(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is called: many builds at once wait in nova-compute's queue for as long."""
    available(site.store, site.cloud, SLOT)
    site.go_on(60)
    site.cloud.claim(SLOT, "server")
    site.go_on(60)
    assert state(site) is State.IN_USE
    assert not site.cloud.seat(SLOT).reserved, "Nova's own window"
    site.go_on(LIMITS.burn_grace + 2 * ROUND)
    assert site.cloud.seat(SLOT).reserved
    site.cloud.delete(SLOT)
    site.go_on(LIMITS.in_use_reread)
    assert state(site) is State.ERASING
    assert "reserve-lowered" not in caplog.text


def test_a_reserved_that_is_lowered_inside_the_grace_is_put_back_after_it(site: Site) -> None:
    available(site.store, site.cloud, SLOT)
    site.cloud.claim(SLOT, "server")
    site.cloud.burn(SLOT)
    site.go_on(60)
    assert state(site) is State.IN_USE
    site.cloud.burn(SLOT, reserved=False)
    site.go_on(60 + LIMITS.burn_grace + 2 * ROUND)
    assert site.cloud.seat(SLOT).reserved


@pytest.mark.parametrize("safety", [False, True])
def test_a_claim_that_is_given_up_before_its_burn_is_nobodys_fault(
    site: Site, caplog: pytest.LogCaptureFixture, safety: bool
) -> None:
    """A claim that fails on the host, a live migration that is refused: Nova never burned it."""
    available(site.store, site.cloud, SLOT)
    site.cloud.claim(SLOT, "server")
    site.go_on(ROUND)
    assert state(site) is State.IN_USE
    site.cloud.delete(SLOT)
    if safety:
        site.loop._safety.check()
    else:
        site.loop.look(SLOT)
    assert site.cloud.seat(SLOT).reserved
    site.go_on(LIMITS.in_use_reread)
    assert state(site) is State.ERASING
    assert "ALARM" not in caplog.text


def test_a_burned_drive_that_is_lowered_and_released_is_told_of(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    site.go_on(60)
    site.cloud.burn(SLOT, reserved=False)
    site.cloud.delete(SLOT)
    site.loop.look(SLOT)
    assert site.cloud.seat(SLOT).reserved
    assert "ALARM reserve-lowered" in caplog.text


def test_another_process_goes_on_where_the_grace_was_waited_for(site: Site) -> None:
    available(site.store, site.cloud, SLOT)
    site.cloud.claim(SLOT, "server")
    site.go_on(60)
    site.restart()
    site.go_on(LIMITS.burn_grace + LIMITS.list_interval)
    assert site.cloud.seat(SLOT).reserved


def test_what_is_settled_is_left_alone(site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    site.go_on(300)
    site.cloud.asked.clear()
    site.go_on(LIMITS.in_use_reread)
    assert site.cloud.asked.count(f"rp-{SLOT}") <= 2, "one request for each turn of its reread"
