"""What upgrade check gathers: from a record with damaged rows, and while slots move."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import Provider, View
from quarantine.doors import utc_now
from quarantine.errors import UnavailableError
from quarantine.record.database import engine
from quarantine.record.store import Store
from quarantine.upgrade.catalogue import judge
from quarantine.upgrade.facts import Facts
from quarantine.upgrade.finding import Finding
from quarantine.upgrade.read import CheckScope, gather
from tests.lab.record import migrated_file
from tests.unit.quarantine.upgradefacts import CLASS, FREE, HOST, provider


class NoNova:
    """Nobody answers for Nova."""

    def newest_microversion(self) -> tuple[int, int]:
        raise UnavailableError("Nova does not answer")


class Shelf:
    """A Placement of one slot. ``before_view`` and ``after_view`` run as that is looked at."""

    def __init__(self, *, reserved: int = 1) -> None:
        self.seen = provider(FREE, reserved=reserved)
        self.before_view: Callable[[], None] = lambda: None
        self.after_view: Callable[[], None] = lambda: None

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
        found = self.seen.view
        self.after_view()
        return found

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


def facts(store: Store, cloud: Shelf, *hosts: str) -> Facts:
    """As the command gathers them."""
    question = CheckScope(hosts=frozenset(hosts))
    return gather(question, lambda: store, lambda: cloud, NoNova, policies=[], clock=utc_now)


def named(store: Store, cloud: Shelf) -> dict[str, list[str]]:
    """What is certain, by check."""
    results = judge(facts(store, cloud))
    told = {r.check.name: [f.found for f in r.findings if not f.unknown] for r in results}
    return {name: words for name, words in told.items() if words}


def write(store: Store, table: str, column: str, value: str) -> None:
    """Another process, or a hand on the file of the record."""
    with engine.writing(store._engine) as db:
        said = f"UPDATE {table} SET {column} = {value}"  # noqa: S608
        assert db.execute(sa.text(said)).rowcount == 1


@pytest.mark.parametrize("reserved", [0, 1])
def test_a_slot_whose_row_is_damaged_is_not_called_one_that_nobody_enrolled(
    store: Store, reserved: int
) -> None:
    """Who followed that would be told to enrol what is enrolled."""
    write(store, "slots", "state", "'garbage'")
    said = named(store, Shelf(reserved=reserved))
    assert not said.keys() & {"not-enrolled", "not-enrolled-offered"}
    assert "cannot be read" in said["record-rows"][0]
    assert ("reserved" in said) is (reserved == 0)


def test_a_host_whose_row_is_damaged_is_not_called_one_that_nobody_registered(
    store: Store,
) -> None:
    write(store, "hosts", "jwk", "'garbage'")
    said = named(store, Shelf())
    assert "host-registered" not in said
    assert said["record-rows"] == [f"host {HOST}: its row cannot be read"]


def test_a_host_that_nobody_knows_is_not_told_to_be_good(store: Store) -> None:
    """Of a name that is misspelt there is nothing to find."""

    def not_known(*hosts: str) -> list[Finding]:
        results = {result.check.name: result for result in judge(facts(store, Shelf(), *hosts))}
        return list(results["host-registered"].findings)

    assert not_known() == not_known(HOST) == []
    (said,) = not_known(HOST, "cpm1")
    assert (said.where, said.unknown) == ("cpm1", True)


def test_a_slot_that_is_claimed_after_its_row_was_read_is_no_failure(store: Store) -> None:
    """The record is read first and a large cloud is asked for minutes: rows move meanwhile."""
    cloud = Shelf()

    def claimed() -> None:
        write(store, "slots", "state", "'in_use'")
        cloud.seen = provider(FREE, server="server", reserved=0)

    cloud.before_view = claimed
    assert "reserved" not in named(store, cloud)


def test_a_slot_that_is_released_after_it_was_looked_at_is_no_failure(store: Store) -> None:
    """So the row that is read again is held against a look of after it."""
    write(store, "slots", "state", "'in_use'")
    cloud = Shelf()
    cloud.seen = provider(FREE, server="server", reserved=0)

    def released() -> None:
        write(store, "slots", "state", "'released'")
        cloud.seen = provider(FREE)

    cloud.after_view = released
    assert "reserved" not in named(store, cloud)


def test_a_slot_that_stands_still_with_low_reserved_is_a_failure(store: Store) -> None:
    assert "reserved" in named(store, Shelf(reserved=0))


def test_a_record_that_goes_away_while_placement_is_asked_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not as if Placement did not answer, and not as if nothing had moved."""

    def away() -> None:
        raise UnavailableError("the record is away")

    cloud = Shelf()
    cloud.after_view = lambda: monkeypatch.setattr(store, "every_slot", away)
    seen = facts(store, cloud)
    assert seen.record_trouble == "the record is away"
    assert seen.placement_trouble == ""


def test_a_placement_that_is_busy_for_once_leaves_no_cloud_unjudged(store: Store) -> None:
    """One 503 in a thousand: of 10,000 slots no check ever came to its end."""
    cloud = Shelf()
    busy = iter([True])

    def answers() -> None:
        if next(busy, False):
            raise UnavailableError("Placement answered 503")

    cloud.before_view = answers
    assert facts(store, cloud).placement_trouble == ""
