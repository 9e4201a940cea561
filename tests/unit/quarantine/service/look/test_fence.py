"""One process is in the midst of a step while another one, or a person, decides on the slot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import View
from quarantine.errors import ConflictError, UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.rules.offermark import RESHAPED
from quarantine.service.look import ChecksOrphanGuests
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    LIFE,
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    available,
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

    meanwhile: Callable[[], None] = lambda: None
    told: list[float] = field(default_factory=list)

    def of(self, record: SlotRecord, unchanged: float) -> tuple[str, ...]:
        self.told.append(unchanged)
        self.meanwhile()
        return ()


@pytest.mark.parametrize("read", [False, True])
def test_nova_is_asked_anew_where_the_drive_was_got_since(store: Store, read: bool) -> None:
    """Of a slot that was on offer nobody knows since when somebody has had it."""
    cloud, nova = Cloud(store._clock), SlowNova()
    available(store, cloud, SLOT)
    cloud.clock.forward(3600)
    cloud.claim(SLOT, "server")
    cloud.burn(SLOT)
    if read:
        process(store, cloud).look(SLOT)
        cloud.clock.forward(100)
    cloud.delete(SLOT)
    process(store, cloud, orphan_guests=nova).look(SLOT)
    cloud.clock.forward(ServiceLimits().resend_after + 1)
    process(store, cloud, orphan_guests=nova).look(SLOT)
    assert now(store).state is State.ERASING
    assert nova.told == [100.0 if read else 0.0, ServiceLimits().resend_after + 1]


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


def void(store: Store, cloud: Cloud) -> None:
    """The host calls its ticket void."""
    hears(store, ticket=TicketState.VOID)


def registered_anew(store: Store, cloud: Cloud) -> None:
    """The host lost its state."""
    key = PrivateKey.generate().public
    store.register_host(SLOT.host, key, "incarnation-00002", replace=True)


def held_and_released(store: Store, cloud: Cloud) -> None:
    """By a person, and no look between the two goes through."""
    store.transition(now(store), Event.HELD, reason="by a person")
    cloud.broken[now(store).provider] = UnavailableError("504")
    with pytest.raises(UnavailableError):
        process(store, cloud, GATE).look(SLOT)
    cloud.broken.clear()
    store.transition(now(store), Event.RELEASED_BY_OPERATOR, reason="settled")


def retired_and_enrolled(store: Store, cloud: Cloud) -> None:
    """As that, and its record of the custody goes."""
    record = store.transition(now(store), Event.HELD, reason="by a person")
    store.transition(record, Event.RETIRED, reason="by a person")
    store.enrol(
        SLOT,
        provider=record.provider,
        resource_class=record.resource_class,
        in_use=False,
        profile="p",
        policy="q",
    )


@pytest.mark.parametrize(
    "ended",
    [void, registered_anew, held_and_released, retired_and_enrolled],
    ids=lambda each: each.__name__,
)
def test_a_drive_that_is_ordered_anew_is_not_put_on_offer_by_one_who_had_begun_to(
    store: Store, monkeypatch: pytest.MonkeyPatch, ended: Callable[[Store, Cloud], None]
) -> None:
    cloud = Cloud(store._clock)
    certified(store, cloud, SLOT)
    cloud.seat(SLOT).reserved = True
    cloud.clock.forward(60)
    hears(store)
    reshape = cloud.reshape

    def late(view: View, consumer: str, *, hold: bool) -> None:
        """The return is under way while it is taken back, and the drive ordered."""
        monkeypatch.setattr(cloud, "reshape", reshape)
        cloud.clock.forward(60)
        ended(store, cloud)
        process(store, cloud, GATE).look(SLOT)
        try:
            reshape(view, consumer, hold=hold)
        finally:
            raise Killed

    monkeypatch.setattr(cloud, "reshape", late)
    with pytest.raises(Killed):
        process(store, cloud, GATE).look(SLOT)
    assert now(store).state is State.ERASING
    assert not cloud.on_offer(SLOT)


def test_a_recall_that_comes_too_late_holds_no_drive_of_a_server(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The return goes through, and Nova claims the drive, behind the look that would recall it."""
    cloud = Cloud(store._clock)
    record = certified(store, cloud, SLOT)
    cloud.seat(SLOT).reserved = True
    cloud.clock.forward(60)
    store.amend(record, SlotChanges(custody_stage=Custody.RETURNING))
    hears(store, ticket=TicketState.VOID)
    view = cloud.view

    def just_before(uuid: str, resource_class: str) -> View | None:
        monkeypatch.setattr(cloud, "view", view)
        seen = view(uuid, resource_class)
        assert seen is not None
        assert record.custody is not None
        cloud.reshape(seen, record.custody, hold=False)
        cloud.claim(SLOT, "server")
        cloud.burn(SLOT)
        return seen

    monkeypatch.setattr(cloud, "view", just_before)
    process(store, cloud, GATE).look(SLOT)
    assert (now(store).state, now(store).consumer) == (State.IN_USE, "server")


def test_who_goes_on_with_a_return_by_an_old_record_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slot is held, and locked anew, between his look at the record and that at Placement."""
    cloud = Cloud(store._clock)
    record = certified(store, cloud, SLOT)
    cloud.seat(SLOT).reserved = True
    cloud.clock.forward(60)
    hears(store)
    store.amend(record, SlotChanges(custody_stage=Custody.RETURNING))
    view, reshape = cloud.view, cloud.reshape
    accepted: list[str] = []

    def noted(view: View, consumer: str, *, hold: bool) -> None:
        reshape(view, consumer, hold=hold)
        accepted.append(consumer)

    def after_a_hold(uuid: str, resource_class: str) -> View | None:
        monkeypatch.setattr(cloud, "view", view)
        store.transition(now(store), Event.HELD, reason="by a person")
        process(store, cloud, GATE).look(SLOT)
        return view(uuid, resource_class)

    monkeypatch.setattr(cloud, "view", after_a_hold)
    monkeypatch.setattr(cloud, "reshape", noted)
    process(store, cloud, GATE).look(SLOT)
    assert now(store).state is State.HELD
    assert not accepted


def test_a_return_that_was_refused_takes_every_other_one_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the record says that nothing is under way, nothing is: also of a look beside it."""
    cloud = Cloud(store._clock)
    certified(store, cloud, SLOT)
    cloud.seat(SLOT).reserved = True
    reshape = cloud.reshape
    under_way: list[View] = []

    def refused(view: View, consumer: str, *, hold: bool) -> None:
        monkeypatch.setattr(cloud, "reshape", reshape)
        cloud.seat(SLOT).moved()  # as nova-compute does
        beside = cloud.view(view.provider.uuid, view.resource_class)
        assert beside is not None
        under_way.append(beside)
        reshape(view, consumer, hold=hold)

    def told(record: SlotRecord, changes: SlotChanges, **words: str) -> SlotRecord:
        after = amend(record, changes, **words)
        if changes.custody_stage is Custody.HELD:
            raise Killed
        return after

    amend = store.amend
    monkeypatch.setattr(store, "amend", told)
    monkeypatch.setattr(cloud, "reshape", refused)
    with pytest.raises(Killed):
        process(store, cloud).look(SLOT)
    assert now(store).custody_stage is Custody.HELD
    custody = now(store).custody
    assert custody is not None
    with pytest.raises(ConflictError):
        reshape(under_way[0], custody, hold=False)


def test_an_erase_as_ever_is_locked_once(store: Store) -> None:
    """Who took the custody knows that nobody had it before."""
    cloud = Cloud(store._clock)
    enrolled(store, cloud, SLOT)
    before = cloud.seat(SLOT).provider.generation
    process(store, cloud).look(SLOT)
    assert now(store).state is State.ERASING
    assert cloud.seat(SLOT).provider.generation == before + RESHAPED + 1


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
