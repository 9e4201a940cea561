"""A small cloud for tests: real Placement, the Nova stand-in, a store, and a dispatcher that notes.

Each pool has a resource class and hosts of its own, so that many can share one Placement.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import sqlite3
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Hello
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding, GateTestimony
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import View, slot_of
from quarantine.cloud.placement import Placement
from quarantine.errors import BrokerAwayError
from quarantine.operations.enrol import EnrolmentTerms, enrol
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges, SlotRecord
from quarantine.record.words.states import Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from tests.lab.record import migrated_file
from tests.lab.services.faults import FaultProxy
from tests.lab.services.nova_standin import NovaStandIn, Server
from tests.lab.services.placement_http import PlacementHttp

ADDRESS: Final = "0000:81:00.0"
LIFE: Final = "incarnation-00001"
EITHER: Final = (
    pytest.param("simulated_placement", id="simulated"),
    pytest.param("placement_server", id="real", marks=pytest.mark.campaign),
)
"""Placements by their fixtures, for tests whose time is that of many requests. What the simulated
one answers is held against the real one by ``test_placement_contract.py``, in every default run."""
TIMEOUT: Final = 20.0
_NUMBER: Final = itertools.count(1)


@dataclass
class NotingDispatcher:
    """Does to the store what the real one does, and sends to nobody."""

    store: Store
    clock: SettableClock
    sent: list[str] = field(default_factory=list)
    broken: bool = False

    def order(self, record: SlotRecord) -> SlotRecord:
        """Store the order, then "send" it."""
        if record.order_token is None:
            token = f"order-{record.slot}-{record.generation}"
            record = self.store.amend(record, SlotChanges(order_id=token, order_token=token))
        if self.broken:
            raise BrokerAwayError("the broker does not answer")
        assert record.order_token is not None
        self.sent.append(record.order_token)
        changes = SlotChanges(ordered_at=self.clock(), attempts=record.attempts + 1)
        if record.state is State.QUARANTINED:
            return self.store.transition(record, Event.ORDERED, changes=changes)
        return self.store.amend(record, changes)


@dataclass
class NotingTickets:
    """Does to the store what the real one does, and sends to nobody."""

    store: Store
    clock: SettableClock
    sent: list[str] = field(default_factory=list)

    def send(self, record: SlotRecord) -> SlotRecord:
        """Note it as sent."""
        assert record.ticket_token is not None
        self.sent.append(record.ticket_token)
        return self.store.amend(record, SlotChanges(ticket_at=self.clock()))


@dataclass
class HauntedBy:
    """What Nova is made to say about ghosts."""

    reasons: tuple[str, ...] = ()
    asked: int = 0

    def of(self, record: SlotRecord, unchanged: float) -> tuple[str, ...]:
        """The same for every slot."""
        self.asked += 1
        return self.reasons


@dataclass
class SettableClock:
    """A wall clock that stands still until it is moved."""

    now: datetime = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)


class Pool:
    """What a test holds. ``slot`` is the only slot unless more hosts are started."""

    def __init__(self, url: str, proxy: FaultProxy, directory: Path, limits: ServiceLimits) -> None:
        number = next(_NUMBER)
        self.proxy = proxy
        self.limits = limits
        self.resource_class = f"CUSTOM_NVME_T{number}"
        self.slot = Slot(f"cmp_{number}", ADDRESS)
        self.nova = NovaStandIn(url, self.resource_class)
        self.raw = PlacementHttp(url)
        self.clock = SettableClock()
        self.database = migrated_file(directory / f"pool-{number}.sqlite")
        self.store = Store.open(self.database, clock=self.clock)
        self.dispatcher = NotingDispatcher(self.store, self.clock)
        self.tickets = NotingTickets(self.store, self.clock)
        self.greet(LIFE)
        self.placement = Placement.connect("lab", timeout=TIMEOUT)
        self.reconciler = self.new_reconciler()

    def new_reconciler(
        self, limits: ServiceLimits | None = None, orphan_guests: HauntedBy | None = None
    ) -> Reconciler:
        """As after a restart of the control plane."""
        return Reconciler(
            self.store,
            self.placement,
            self.dispatcher,
            limits or self.limits,
            self.clock,
            tickets=self.tickets,
            orphan_guests=orphan_guests,
        )

    def mend_broker(self) -> None:
        """It answers again, and the seconds are over in which nothing is tried after a failure."""
        self.dispatcher.broken = False
        self.reconciler = self.new_reconciler()

    def greet(self, life: str) -> None:
        """The slot's host is registered in this life, and says that its gate stands."""
        host = self.slot.host
        self.store.register_host(host, PrivateKey.generate().public, life, replace=True)
        seen = tuple(DefenceSeen(name, DefenceStanding.PRESENT, "") for name in Defence)
        gate = GateTestimony(seen, (), (), ())
        self.store.host_seen(host, 1, Hello(host, life, 1, "0.1.0", (), (), (), gate))

    @property
    def record(self) -> SlotRecord:
        """The slot's record as stored now."""
        record = self.store.slot(self.slot)
        assert record is not None
        return record

    @property
    def view(self) -> View:
        """What Placement says now."""
        provider = self.placement.by_slot(self.slot)
        assert provider is not None
        view = self.placement.view(provider.uuid, self.resource_class)
        assert view is not None
        return view

    @property
    def on_offer(self) -> bool:
        """Whether Placement would hand out the slot; asked past the fault proxy."""
        answer = self.raw("GET", f"/resource_providers?resources={self.resource_class}:1", "1.39")
        return any(
            slot_of(found["name"]) == self.slot for found in answer.body["resource_providers"]
        )

    def enrol(self, *, drive: bool = True) -> SlotRecord:
        """nova-compute starts, an operator enrols the slot, its drive becomes known."""
        self.nova.start_compute(self.slot.host, [self.slot.address])
        record = enrol(self.store, self.placement, self.slot, EnrolmentTerms("p", "q"))
        return self.store.amend(record, SlotChanges(identity=self.identity)) if drive else record

    @property
    def identity(self) -> ControllerIdentity:
        """The drive in the slot."""
        return ControllerIdentity(
            0x144D, 0xA824, 0x144D, 0xA801, f"S{self.slot.host}", "M", "nqn.2014.org:x"
        )

    def certify(self, *, receipt: bool = True) -> SlotRecord:
        """What the inbox does with a good report, and with the receipt of the ticket."""
        last = self.store.last_certificate()
        token = f"certificate-{self.slot}-{self.record.generation}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        certificate = NewCertificate(token, digest, last.digest if last else "")
        issued = SlotChanges(ticket_token=f"ticket-{token}", ticket_incarnation=LIFE)
        record = self.store.transition(
            self.record, Event.CERTIFIED, certificate=certificate, changes=issued
        )
        return self.take_ticket() if receipt else record

    def take_ticket(self) -> SlotRecord:
        """What the inbox does with a host's receipt that says valid."""
        return self.store.amend(self.record, SlotChanges(ticket_ready=True))

    def make_available(self) -> SlotRecord:
        """Enrolled, erased, certified and in Nova's pool."""
        self.enrol()
        self.reconciler.look(self.slot)
        self.certify()
        record = self.reconciler.look(self.slot)
        assert record is not None
        assert record.state is State.AVAILABLE
        return record

    def make_used(self) -> Server:
        """A tenant has the drive, and we have seen it."""
        self.make_available()
        server = self.nova.boot()
        record = self.reconciler.look(self.slot)
        assert record is not None
        assert record.state is State.IN_USE
        return server

    def states(self) -> list[State]:
        """The states passed through since enrolment, in order."""
        rows = self.store.history(self.slot)
        return [row.target for row in rows if row.event is not None]

    def put_reserved(self, reserved: int) -> None:
        """An operator's ``openstack resource provider inventory set``."""
        view = self.view
        body = {
            "resource_provider_generation": view.provider.generation,
            "total": 1,
            "max_unit": 1,
            "reserved": reserved,
        }
        path = f"/resource_providers/{view.provider.uuid}/inventories/{self.resource_class}"
        assert self.raw("PUT", path, "1.39", body).status == 200

    def drop_custody(self) -> None:
        """An operator deletes our allocation."""
        for allocation in self.view.allocations:
            assert self.raw("DELETE", f"/allocations/{allocation.consumer}", "1.39").status == 204

    def backup(self) -> None:
        """The whole database, as a nightly backup has it."""
        self._copy(self._file, f"{self._file}.backup")

    def restore(self) -> None:
        """The database of that night, in place of today's."""
        self.store.close()
        self._copy(f"{self._file}.backup", self._file)

    def _copy(self, source: str, target: str) -> None:
        with (
            contextlib.closing(sqlite3.connect(source)) as old,
            contextlib.closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)

    @property
    def _file(self) -> str:
        return self.database.removeprefix("sqlite:///")

    def close(self) -> None:
        """Give back what the test held."""
        self.store.close()


def with_limits(limits: ServiceLimits, **changes: float) -> ServiceLimits:
    """The limits with some changed."""
    return replace(limits, **changes)  # type: ignore[arg-type]
