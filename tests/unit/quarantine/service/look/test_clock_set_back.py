"""Our clock was set back: what was looked at in a time to come was looked at before now."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator
from quarantine.record.words.reasons import HoldCode
from quarantine.rules.holds import because
from tests.unit.quarantine.service.look.test_burn_grace import LIMITS, SLOT, Site
from tests.unit.quarantine.service.look.test_safety import safety
from tests.unit.quarantine.smallcloud import Clock, Cloud, available, open_store, slot_at

BY_ADA = because(HoldCode.BY_PERSON, "look at the bay")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


def held_after(store: Store, cloud: Cloud, *, set_back: float) -> None:
    """A slot that was rightly on offer, and looked at, is held by a person."""
    record = available(store, cloud, SLOT)
    cloud.clock.forward(30 - set_back)
    store.hold(record, BY_ADA, by=Initiator("ada"))


@pytest.mark.parametrize("hours", [0, 2])
def test_nobody_is_called_for_a_drive_that_a_person_took_off_offer(
    site: Site, caplog: pytest.LogCaptureFixture, hours: int
) -> None:
    held_after(site.store, site.cloud, set_back=hours * 3600.0)
    site.loop.look(SLOT)
    assert not site.cloud.on_offer(SLOT)
    assert "ALARM" not in caplog.text


@pytest.mark.parametrize("hours", [0, 2])
def test_nor_where_the_safety_pass_is_quicker(
    site: Site, caplog: pytest.LogCaptureFixture, hours: int
) -> None:
    held_after(site.store, site.cloud, set_back=hours * 3600.0)
    safety(site.store, site.cloud).run_once()
    assert not site.cloud.on_offer(SLOT)
    assert "ALARM" not in caplog.text


def test_a_drive_that_comes_on_offer_again_after_the_look_is_news(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    held_after(site.store, site.cloud, set_back=7200.0)
    site.loop.look(SLOT)
    site.clock.forward(10)
    site.cloud.burn(SLOT, reserved=False)
    site.loop.look(SLOT)
    assert caplog.text.count("ALARM on-offer") == 1


def test_people_hear_of_a_drive_that_is_absent_since_a_time_to_come(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    available(site.store, site.cloud, slot_at(2))
    available(site.store, site.cloud, SLOT)
    del site.cloud.seats[f"rp-{SLOT}"]
    site.loop.look(SLOT)
    site.clock.forward(-86400.0)
    site.restart()
    site.go_on(LIMITS.absent_after / 2)
    assert "slots-absent" not in caplog.text
    site.go_on(LIMITS.absent_after)
    assert caplog.text.count("ALARM slots-absent host cmp1: ") == 1
    record = site.store.slot(SLOT)
    site.go_on(300)
    assert site.store.slot(SLOT) == record, "it is not written with each look"
