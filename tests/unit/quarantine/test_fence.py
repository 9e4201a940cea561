"""One process is in the midst of a step while another one, or a person, decides on the slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.protocol.report import Hello
from eraser.protocol.ticket import (
    Defence,
    DefenceSeen,
    DefenceStanding,
    GateTestimony,
    TicketSeen,
    TicketState,
)
from quarantine.cloud.facts import View
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.service.look import ChecksOrphanGuests
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    LIFE,
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    certified,
    enrolled,
    open_store,
    slot_at,
)

SLOT = slot_at(1)
GATE = ServiceLimits()
NO_GATE = ServiceLimits(tickets=False)


class Killed(BaseException):
    """The process ends here."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path, Clock()) as store:
        yield store


def process(
    store: Store,
    cloud: Cloud,
    limits: ServiceLimits = NO_GATE,
    orphan_guests: ChecksOrphanGuests | None = None,
) -> Reconciler:
    """One control plane's hands."""
    return Reconciler(
        store,
        cloud,
        NotingDispatcher(store, cloud.clock),
        limits,
        cloud.clock,
        tickets=NoTickets(),
        orphan_guests=orphan_guests,
        monotonic=cloud.clock.monotonic,
    )


def now(store: Store) -> SlotRecord:
    found = store.slot(SLOT)
    assert found is not None
    return found


def hears(
    store: Store,
    *,
    ticket: TicketState = TicketState.VALID,
    defences: DefenceStanding = DefenceStanding.PRESENT,
) -> None:
    """The host's next hello."""
    host, record = store.host(SLOT.host), now(store)
    assert host is not None
    assert record.order_id is not None
    seen = TicketSeen(
        address=SLOT.address,
        order_id=record.order_id,
        generation=record.generation,
        state=ticket,
        reason="",
    )
    gate = GateTestimony(
        defences=tuple(DefenceSeen(each, defences, "") for each in Defence),
        tickets=(seen,),
        domains=(),
        allowances=(),
    )
    number = host.sequence + 1
    hello = Hello(
        host=SLOT.host,
        incarnation=LIFE,
        sequence=number,
        version="1",
        drives=(),
        cases=(),
        gate=gate,
    )
    store.host_seen(SLOT.host, number, hello)


@pytest.mark.parametrize("claimed", ["", "claimed", "claimed and seen"])
def test_a_look_that_was_delayed_behind_a_return_gives_no_order(
    store: Store, monkeypatch: pytest.MonkeyPatch, claimed: str
) -> None:
    """It ends an alarm; behind its write another process gives the slot back, and Nova claims it.
    The record that it reads next is newer than what it has seen of Placement."""
    cloud = Cloud(store._clock)
    certified(store, cloud, SLOT)
    store.amend(now(store), SlotChanges(ticket_ready=False, ticket_at=cloud.clock()))
    cloud.seat(SLOT).reserved = True
    cloud.clock.forward(60)
    hears(store, defences=DefenceStanding.ABSENT)
    process(store, cloud, GATE).look(SLOT)
    assert now(store).alarm
    hears(store)
    amend = store.amend

    def delayed(record: SlotRecord, changes: SlotChanges, **words: str) -> SlotRecord:
        after = amend(record, changes, **words)
        monkeypatch.setattr(store, "amend", amend)
        store.amend(after, SlotChanges(ticket_ready=True))
        process(store, cloud, GATE).look(SLOT)
        assert cloud.on_offer(SLOT)
        if claimed:
            cloud.claim(SLOT, "server")
            cloud.burn(SLOT)
        if "seen" in claimed:
            process(store, cloud, GATE).look(SLOT)
        return after

    monkeypatch.setattr(store, "amend", delayed)
    process(store, cloud, GATE).look(SLOT)
    assert now(store).state is (State.IN_USE if claimed else State.AVAILABLE)


@dataclass
class SlowNova:
    """While it is asked, ``meanwhile`` happens."""

    meanwhile: Callable[[], None]

    def of(self, record: SlotRecord) -> tuple[str, ...]:
        self.meanwhile()
        return ()


def test_no_order_goes_out_for_a_drive_that_was_claimed_while_nova_was_asked(
    store: Store,
) -> None:
    """Nothing is written to Placement with an order, and so nothing of it is refused there."""
    cloud = Cloud(store._clock)
    enrolled(store, cloud, SLOT)

    def claim() -> None:
        cloud.delete(SLOT)
        cloud.burn(SLOT, reserved=False)
        cloud.claim(SLOT, "server")
        cloud.burn(SLOT)

    process(store, cloud, GATE, SlowNova(claim)).look(SLOT)
    assert (now(store).state, now(store).hold_code) == (State.HELD, HoldCode.CLAIMED)
    assert now(store).order_token is None


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
