"""A row of a maintenance that is damaged, or of a clock that was wrong, silences nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from quarantine.record.database import models
from quarantine.record.words.facts import Initiator, Subject
from quarantine.record.words.states import State
from tests.unit.quarantine.rules import test_decide as a
from tests.unit.quarantine.service.look.test_burn_grace import Site
from tests.unit.quarantine.smallcloud import Clock, Cloud, enrolled, open_store, slot_at

ADA = Initiator("ada", "ops", "req-1")
USED = slot_at(4)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


def test_a_damaged_line_of_maintenance_stops_no_round(site: Site) -> None:
    enrolled(site.store, site.cloud, USED, server="server")
    site.store.put_maintenance(
        Subject("cmp1"), until=site.clock() + timedelta(hours=1), reason="fans", by=ADA
    )
    with site.store._writing() as db:
        db.execute(sa.update(models.maintenances).values(until=sa.literal_column("'garbage'")))
    site.cloud.delete(USED)
    site.go_on(600)
    record = site.store.slot(USED)
    assert record is not None
    assert record.state is State.ERASING
    site.clock.forward(10 * a.LIMITS.overdue_after)
    site.loop.look(USED)
    site.loop.listen()


def test_one_of_a_clock_that_was_set_back_silences_nothing(site: Site) -> None:
    """It was begun for two hours, by a clock that was a year ahead."""
    subject = Subject.of(USED)
    enrolled(site.store, site.cloud, USED, server="server")
    site.clock.forward(365 * 86400)
    site.store.put_maintenance(
        subject, until=site.clock() + timedelta(hours=2), reason="fans", by=ADA
    )
    assert site.store.maintenance(subject) is not None
    assert len(site.store.maintenances()) == 1
    site.clock.forward(-365 * 86400)
    assert site.store.maintenance(subject) is None
    assert site.store.maintenances() == []
