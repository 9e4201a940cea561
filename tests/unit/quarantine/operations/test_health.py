"""Health is asked of the record by whoever looks on from outside: a dead service must not pass."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from quarantine.doors import utc_now
from quarantine.operations.overview import health
from quarantine.operations.plane import Plane
from quarantine.record.database import engine
from quarantine.record.store import Store
from quarantine.record.words.facts import BROKER, PLACEMENT, SWEEP
from tests.lab.record import migrated_file


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(migrated_file(tmp_path / "record.db"))


@pytest.fixture
def plane(tmp_path: Path, store: Store) -> Plane:
    conf = tmp_path / "nvme-quarantine.conf"
    conf.write_text(f"[database]\nurl = sqlite:///{tmp_path}/record.db\n")
    return Plane([conf])


def problems(plane: Plane) -> dict[str, str]:
    return {check.name: check.problem for check in health.look(plane).checks if check.problem}


def noted(tmp_path: Path, ahead: timedelta) -> None:
    """The service's passes went well by a clock that is so far ahead."""
    service = Store.open(f"sqlite:///{tmp_path}/record.db", clock=lambda: utc_now() + ahead)
    for name in (SWEEP, PLACEMENT, BROKER):
        service.note_pass(name, 300.0)
    service.close()


def test_a_service_on_a_machine_whose_clock_is_a_little_ahead_is_well(
    plane: Plane, tmp_path: Path
) -> None:
    noted(tmp_path, timedelta(seconds=50))
    assert problems(plane) == {}


def test_a_pass_of_a_time_to_come_does_not_say_that_the_service_lives(
    plane: Plane, tmp_path: Path
) -> None:
    """It was noted before the clock was set back, and the service may have died since."""
    noted(tmp_path, timedelta(hours=5))
    assert problems(plane).keys() == {SWEEP, PLACEMENT, BROKER}
    assert "time to come" in problems(plane)[SWEEP]
    assert health.look(plane).status == "failing"
    noted(tmp_path, timedelta(0))
    assert problems(plane) == {}


@pytest.mark.parametrize("damage", ["at = 'noon'", "within = 'long'"])
def test_a_pass_that_cannot_be_read_is_none(plane: Plane, store: Store, damage: str) -> None:
    for name in (SWEEP, PLACEMENT, BROKER):
        store.note_pass(name, 300.0)
    with engine.writing(store._engine) as db:
        db.execute(sa.text(f"UPDATE passes SET {damage} WHERE name = '{SWEEP}'"))  # noqa: S608
    assert problems(plane).keys() == {SWEEP}
