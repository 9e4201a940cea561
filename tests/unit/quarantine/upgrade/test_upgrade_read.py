"""What upgrade check gathers: from a record with damaged rows, and while slots move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import Provider, View
from quarantine.errors import UnavailableError
from quarantine.record.database import engine
from quarantine.record.store import Store
from quarantine.upgrade.catalogue import judge
from quarantine.upgrade.facts import Facts
from quarantine.upgrade.read import CheckScope, gather
from tests.lab.record import migrated_file
from tests.unit.quarantine.upgradefacts import CLASS, FREE, HOST, provider


class NoNova:
    """Nobody answers for Nova."""

    def newest_microversion(self) -> tuple[int, int]:
        raise UnavailableError("Nova does not answer")


class Shelf:
    """A Placement of one slot. ``before_view`` runs as that is about to be looked at."""

    def __init__(self, *, reserved: int = 1) -> None:
        self.seen = provider(FREE, reserved=reserved)
        self.before_view: Callable[[], None] = lambda: None

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        return [self.seen.provider]

    def offered(self, resource_class: str) -> list[Provider]:
        return []

    def by_slot(self, slot: Slot) -> Provider | None:
        return self.seen.provider

    def root(self, host: str) -> Provider | None:
        return None

    def view(self, uuid: str, resource_class: str) -> View | None:
        self.before_view()
        return self.seen.view

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        return None


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A record of one registered host and its one slot, which nobody has used yet."""
    store = Store.open(migrated_file(tmp_path / "record.db"))
    store.register_host(HOST, PrivateKey.generate().public, "incarnation-00001")
    store.enrol(
        FREE,
        provider=f"provider-{FREE.address}",
        resource_class=CLASS,
        in_use=False,
        profile="p",
        policy="purge",
    )
    yield store
    store.close()


def facts(store: Store, cloud: Shelf) -> Facts:
    """As the command gathers them."""
    return gather(
        CheckScope(), lambda: store, lambda: cloud, NoNova, policies=[], now=datetime.now(UTC)
    )


def named(store: Store, cloud: Shelf) -> dict[str, list[str]]:
    """What is certain, by check."""
    results = judge(facts(store, cloud))
    told = {r.check.name: [f.found for f in r.findings if not f.unknown] for r in results}
    return {name: words for name, words in told.items() if words}


def damage(store: Store, table: str, column: str, value: str) -> None:
    """A hand on the file of the record."""
    with engine.writing(store._engine) as db:
        said = f"UPDATE {table} SET {column} = {value}"  # noqa: S608
        assert db.execute(sa.text(said)).rowcount == 1


@pytest.mark.parametrize("reserved", [0, 1])
def test_a_slot_whose_row_is_damaged_is_not_called_one_that_nobody_enrolled(
    store: Store, reserved: int
) -> None:
    """Who followed that would be told to enrol what is enrolled."""
    damage(store, "slots", "state", "'garbage'")
    said = named(store, Shelf(reserved=reserved))
    assert not said.keys() & {"not-enrolled", "not-enrolled-offered"}
    assert "cannot be read" in said["record-rows"][0]
    assert ("reserved" in said) is (reserved == 0)


def test_a_host_whose_row_is_damaged_is_not_called_one_that_nobody_registered(
    store: Store,
) -> None:
    damage(store, "hosts", "jwk", "'garbage'")
    said = named(store, Shelf())
    assert "host-registered" not in said
    assert said["record-rows"] == [f"host {HOST}: its row cannot be read"]
