"""Each case is in the sums of durations once, whatever fails or comes in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quarantine.errors import UnavailableError
from quarantine.metrics.durations import Durations
from quarantine.metrics.names import ModelNames
from quarantine.record.store import Store
from tests.lab.record import migrated_file
from tests.unit.quarantine.totals_suite import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store = Store.open(migrated_file(tmp_path / "record.db"), clock=lambda: made.now)
    made = Site(store)
    for number in (1, 2):
        made.certified(f"a/0000:0{number}:00.0", erase=50, verify=10)
    yield made
    store.close()


def counted(durations: Durations) -> list[int]:
    return [sums.cases for sums in durations.sums.values()]


def position(site: Site) -> int:
    return site.store.chain_total().position


def test_a_record_that_goes_away_on_the_way_leaves_nothing_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = ModelNames()
    models.seen(["Model A"])
    durations = Durations(models)

    def away(*_: Any) -> None:
        raise UnavailableError("database: away")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "last_durations", away)
        with pytest.raises(UnavailableError):
            durations.read(site.store, position(site))
        assert counted(durations) == []
    durations.read(site.store, position(site))
    assert counted(durations) == [2]


def test_a_certificate_that_comes_in_between_is_not_counted_again(site: Site) -> None:
    durations, before = Durations(ModelNames()), position(site)
    site.certified("a/0000:03:00.0", erase=50, verify=10)
    durations.read(site.store, before)
    assert counted(durations) == [3]
    durations.read(site.store, position(site))
    assert counted(durations) == [3]
