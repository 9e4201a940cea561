"""A hold that comes while another process is about to give the slot back, and dies in the midst."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.cloud.facts import View
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    certified,
    open_store,
    slot_at,
)

SLOT = slot_at(1)
NO_GATE = ServiceLimits(tickets=False)


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path, Clock()) as store:
        yield store


def process(store: Store, cloud: Cloud) -> Reconciler:
    """One control plane's hands."""
    return Reconciler(
        store,
        cloud,
        NotingDispatcher(store, cloud.clock),
        NO_GATE,
        cloud.clock,
        tickets=NoTickets(),
        monotonic=cloud.clock.monotonic,
    )


def now(store: Store) -> SlotRecord:
    found = store.slot(SLOT)
    assert found is not None
    return found


def test_a_held_drive_is_not_put_on_offer_by_one_who_had_begun_to(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud = Cloud()
    certified(store, cloud, SLOT)
    reshape = cloud.reshape

    def late(view: View, consumer: str, *, hold: bool) -> None:
        """Its request is under way while a person holds the slot, who looks at it at once."""
        store.transition(now(store), Event.HELD, reason="by a person")
        process(store, cloud).look(SLOT)
        try:
            reshape(view, consumer, hold=hold)
        finally:
            raise Killed

    monkeypatch.setattr(cloud, "reshape", late)
    with pytest.raises(Killed):
        process(store, cloud).look(SLOT)
    assert now(store).state is State.HELD
    assert not cloud.on_offer(SLOT)


def test_what_is_held_is_locked_anew_once(store: Store) -> None:
    cloud = Cloud()
    record = certified(store, cloud, SLOT)
    cloud.seat(SLOT).reserved = True
    begun = store.amend(record, SlotChanges(custody_stage=Custody.RETURNING))
    store.transition(begun, Event.HELD, reason="by a person")
    before = cloud.seat(SLOT).provider.generation
    for _ in range(3):
        process(store, cloud).look(SLOT)
    assert cloud.seat(SLOT).provider.generation == before + 1
    released = store.transition(now(store), Event.RELEASED_BY_OPERATOR, reason="settled")
    process(store, cloud).look(released.slot)
    assert now(store).state is State.ERASING
