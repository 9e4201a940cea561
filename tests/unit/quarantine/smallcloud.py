"""A Placement in memory with its generations, a clock moved by hand, and a record beside it.

Each request costs ``request_seconds`` on the clock, so that what is slow can be played in no time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import (
    CONSUMER_TYPE,
    ONE_TIME_USE,
    Allocation,
    Inventory,
    Provider,
    View,
    provider_name,
)
from quarantine.errors import BrokerAwayError, ConflictError
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges, SlotRecord
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.offermark import RESHAPED
from tests.lab.record import migrated_file

RC: Final = "CUSTOM_NVME"
STANDARD: Final = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})
LIFE: Final = "incarnation-00001"
STARTED: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@dataclass
class Clock:
    """Wall clock and monotonic clock in one."""

    seconds: float = 1000.0

    def __call__(self) -> datetime:
        """The wall clock."""
        return STARTED + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        """Seconds since some moment."""
        return self.seconds

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds


@dataclass
class Seat:
    """One provider."""

    provider: Provider
    reserved: bool = False
    holder: Allocation | None = None
    burns: bool = True
    resource_class: str = RC
    traits: frozenset[str] = frozenset({"OWNER_NOVA"})

    def moved(self, times: int = 1) -> None:
        """Writes, as Placement counts them."""
        after = self.provider.generation + times
        self.provider = replace(self.provider, generation=after)


@dataclass
class Cloud:
    """Placement, and what Nova does with it."""

    clock: Clock = field(default_factory=Clock)
    request_seconds: float = 0.0
    seats: dict[str, Seat] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)
    """What a request about a provider, or about ``list`` or ``offered``, raises."""
    empty: bool = False
    """Placement lists nothing, as one of another region would."""

    def add(self, slot: Slot, resource_class: str = RC) -> str:
        """nova-compute reports a drive; the provider's uuid."""
        uuid = f"rp-{slot}"
        provider = Provider(uuid, provider_name(slot), 1)
        self.seats[uuid] = Seat(provider, resource_class=resource_class)
        return uuid

    def seat(self, slot: Slot) -> Seat:
        """The slot's provider."""
        return self.seats[f"rp-{slot}"]

    def on_offer(self, slot: Slot) -> bool:
        """Whether a server could get it; asks nobody."""
        seat = self.seat(slot)
        return not seat.reserved and seat.holder is None

    # What Nova and operators do

    def claim(self, slot: Slot, server: str) -> None:
        """The scheduler's claim; the burn comes later."""
        assert self.on_offer(slot)
        seat = self.seat(slot)
        seat.holder = Allocation(server, {RC: 1}, 1, "INSTANCE", "p", "u")
        seat.moved()

    def burn(self, slot: Slot, *, reserved: bool = True) -> None:
        """Nova reserves a one-time-use device; ``reserved=False``: a person lowers it again."""
        self.seat(slot).reserved = reserved
        self.seat(slot).moved()

    def delete(self, slot: Slot) -> None:
        """The server goes. Placement's generation stands still."""
        self.seat(slot).holder = None

    # What the control plane asks

    def _ask(self, about: str) -> None:
        self.asked.append(about)
        self.clock.forward(self.request_seconds)
        if about in self.broken:
            raise self.broken[about]

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        self._ask("list")
        found = [] if self.empty else [s.provider for s in self.seats.values() if s.burns]
        return [provider for provider in found if host in (None, provider.host)]

    def by_host(self, host: str) -> list[Provider]:
        self._ask("list")
        found = [] if self.empty else [s.provider for s in self.seats.values()]
        return [provider for provider in found if provider.host == host]

    def offered(self, resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        self._ask("offered")
        return [
            s.provider
            for s in ([] if self.empty else self.seats.values())
            if not s.reserved and s.holder is None and s.resource_class == resource_class
            if not traits or s.burns
        ]

    def burning_traits(self) -> list[str]:
        self._ask("traits")
        return [] if self.empty else [ONE_TIME_USE]

    def resource_classes(self) -> frozenset[str]:
        self._ask("classes")
        made = {s.resource_class for s in self.seats.values()}
        return frozenset() if self.empty else STANDARD | made

    def by_slot(self, slot: Slot) -> Provider | None:
        self._ask(f"rp-{slot}")
        seat = None if self.empty else self.seats.get(f"rp-{slot}")
        return None if seat is None else seat.provider

    def view(self, uuid: str, resource_class: str) -> View | None:
        # The real one asks for the provider, its inventories and its allocations.
        for _ in range(3):
            self._ask(uuid)
        seat = None if self.empty else self.seats.get(uuid)
        if seat is None:
            return None
        stock = Inventory(seat.resource_class, 1, int(seat.reserved), 1, 1, 1, 1.0)
        held = () if seat.holder is None else (seat.holder,)
        return View(seat.provider, resource_class or RC, (stock,), held)

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        self._ask(uuid)
        seat = self.seats.get(uuid)
        if seat is None:
            return None
        held = frozenset() if seat.holder is None else frozenset({seat.holder.consumer})
        return seat.provider.generation, held

    def burns(self, uuid: str) -> bool:
        self._ask(uuid)
        return uuid in self.seats and self.seats[uuid].burns

    def traits(self, uuid: str) -> tuple[int, frozenset[str]]:
        self._ask(uuid)
        seat = self.seats[uuid]
        mine = frozenset({ONE_TIME_USE}) if seat.burns else frozenset()
        return seat.provider.generation, seat.traits | mine

    def put_reserved(self, view: View, *, full: bool) -> int:
        seat = self._unmoved(view)
        seat.reserved = full
        seat.moved()
        return seat.provider.generation

    def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
        seat = self._unmoved(view)
        seat.reserved = False
        held = Allocation(consumer, {RC: 1}, 1, CONSUMER_TYPE, "p", "u")
        seat.holder = held if hold else None
        seat.moved(RESHAPED)

    def _unmoved(self, view: View) -> Seat:
        self._ask(view.provider.uuid)
        seat = self.seats[view.provider.uuid]
        if seat.provider.generation != view.provider.generation:
            raise ConflictError("409")
        return seat


@dataclass
class NotingDispatcher:
    """Sends to nobody."""

    store: Store
    clock: Clock
    broken: bool = False

    def order(self, record: SlotRecord) -> SlotRecord:
        if self.broken:
            raise BrokerAwayError("the broker does not answer")
        changes = SlotChanges(order_id="o", order_token="o", ordered_at=self.clock())
        if record.state is State.QUARANTINED:
            return self.store.transition(record, Event.ORDERED, changes=changes)
        return self.store.amend(record, changes)


class NoTickets:
    """Is never asked."""

    def send(self, record: SlotRecord) -> SlotRecord:
        raise AssertionError("expected no ticket to be sent")


@contextlib.contextmanager
def open_store(directory: Path, clock: Clock) -> Iterator[Store]:
    """An empty record, with the host of :func:`slot_at` in it. It outlives no power cut."""
    store = Store.open(migrated_file(directory / "record.db"), clock=clock)
    sa.event.listen(store._engine, "connect", lambda db, _: db.execute("PRAGMA synchronous = OFF"))
    greet(store, "cmp1")
    yield store
    store.close()


def slot_at(number: int, host: str = "cmp1") -> Slot:
    """A slot of a host."""
    return Slot(host, f"0000:{number // 32:02x}:{number % 32:02x}.0")


def drive_in(slot: Slot) -> ControllerIdentity:
    """Its drive."""
    return ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, f"S{slot}", "M", "nqn.2014.org:x")


def greet(store: Store, host: str) -> None:
    """The host is registered."""
    store.register_host(host, PrivateKey.generate().public, LIFE)


def enrolled(
    store: Store,
    cloud: Cloud,
    slot: Slot,
    *,
    server: str | None = None,
    profile: str = "p",
    policy: str = "q",
    drive: ControllerIdentity | None = None,
) -> SlotRecord:
    """A slot with its drive, or with that one: used by that server, or free and reserved."""
    uuid = cloud.add(slot)
    if server is not None:
        cloud.claim(slot, server)
    cloud.burn(slot)
    record = store.enrol(
        slot,
        provider=uuid,
        resource_class=RC,
        in_use=server is not None,
        profile=profile,
        policy=policy,
        consumer=server,
    )
    return store.amend(record, SlotChanges(identity=drive or drive_in(slot)))


def certified(
    store: Store, cloud: Cloud, slot: Slot, *, drive: ControllerIdentity | None = None
) -> SlotRecord:
    """A slot whose drive was just erased; under our custody."""
    record = enrolled(store, cloud, slot, drive=drive)
    seat = cloud.seat(slot)
    seat.holder = Allocation(f"custody-{slot}", {RC: 1}, 1, CONSUMER_TYPE, "p", "u")
    seat.moved()
    custody = SlotChanges(custody=f"custody-{slot}", custody_stage=Custody.HELD)
    record = store.transition(record, Event.CUSTODY_TAKEN, changes=custody)
    order = SlotChanges(order_id=f"order-{slot}")
    record = store.transition(record, Event.ORDERED, changes=order)
    last = store.last_certificate()
    token = f"certificate-{slot}"
    return store.transition(
        record,
        Event.CERTIFIED,
        certificate=NewCertificate(token, token, last.digest if last else ""),
        changes=SlotChanges(ticket_token="t", ticket_incarnation=LIFE, ticket_ready=True),
    )


def available(store: Store, cloud: Cloud, slot: Slot) -> SlotRecord:
    """A slot that is rightly on offer, as the last look left it."""
    record = certified(store, cloud, slot)
    seat = cloud.seat(slot)
    seat.holder, seat.reserved = None, False
    seat.moved()
    record = store.transition(
        record, Event.RETURNED, changes=SlotChanges(custody=None, custody_stage=Custody.NONE)
    )
    noted = SlotChanges(provider_generation=seat.provider.generation, read_at=store._clock())
    return store.amend(record, noted)
