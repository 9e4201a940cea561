"""What a slot waits for stands on its record for people, and no longer than it waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from quarantine.cloud.facts import Allocation
from quarantine.cloud.novafacts import Migration, Server
from quarantine.errors import UnavailableError
from quarantine.record.database import engine
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.rules.holds import because
from quarantine.service.handovers import Handovers
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    RC,
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    enrolled,
    open_store,
    slot_at,
)

SLOT = slot_at(1)


class NovaAway:
    """Answers nobody."""

    def migrations_of(self, server: str) -> list[Migration]:
        raise UnavailableError("Nova does not answer")

    def server(self, server: str) -> Server | None:
        raise UnavailableError("Nova does not answer")


@dataclass
class Site:
    """The loop, and what it looks at."""

    store: Store
    cloud: Cloud

    def look(self) -> SlotRecord:
        clock = self.cloud.clock
        loop = Reconciler(
            self.store,
            self.cloud,
            NotingDispatcher(self.store, clock),
            ServiceLimits(),
            clock,
            tickets=NoTickets(),
            handovers=Handovers(NovaAway(), 300.0, clock.monotonic),
            monotonic=clock.monotonic,
        )
        record = loop.look(SLOT)
        assert record is not None
        return record

    def given_to(self, consumer: str) -> None:
        """A migration takes the drive's allocation from the server, or a revert hands it back."""
        seat = self.cloud.seat(SLOT)
        seat.holder = Allocation(consumer, {RC: 1}, 1, "INSTANCE", "p", "u")
        seat.moved(2)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


def damage(store: Store, said: str) -> None:
    with engine.writing(store._engine) as db:
        db.execute(sa.text("UPDATE hosts SET jwk = :said"), {"said": said})


def test_a_migration_that_was_reverted_is_waited_for_no_more(site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    site.given_to("migration")
    assert "held by migration now, by server before; Nova is asked" in site.look().detail
    site.given_to("server")
    record = site.look()
    assert (record.state, record.consumer, record.detail) == (State.IN_USE, "server", "")


def test_a_host_whose_row_was_restored_is_unreadable_no_more(site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    with engine.reading(site.store._engine) as db:
        whole = db.scalar(sa.text("SELECT jwk FROM hosts"))
    damage(site.store, "{")
    assert "its key cannot be read" in site.look().detail
    damage(site.store, whole)
    record = site.look()
    assert (record.state, record.detail, record.alarm) == (State.IN_USE, "", "")


def test_a_slot_that_a_person_holds_waits_for_nothing_else(site: Site) -> None:
    """It was quarantined and waited for its profile to be approved."""
    record = enrolled(site.store, site.cloud, SLOT)
    record = site.store.amend(record, SlotChanges(detail="waiting for profile 'p'"))
    site.store.hold(record, because(HoldCode.BY_PERSON, "look at the bay"))
    record = site.look()
    assert (record.state, record.detail) == (State.HELD, "")
    revision = record.revision
    assert site.look().revision == revision


def test_what_placement_does_not_show_is_still_absent(site: Site) -> None:
    record = enrolled(site.store, site.cloud, SLOT)
    uuid, seat = next(iter(site.cloud.seats.items()))
    del site.cloud.seats[uuid]
    assert site.look().detail.startswith("Placement shows no resource provider")
    record = site.store.slot(SLOT) or record
    site.store.hold(record, because(HoldCode.BY_PERSON, "look at the bay"))
    assert site.look().detail.startswith("Placement shows no resource provider")
    site.cloud.seats[uuid] = seat
    assert site.look().detail == ""
