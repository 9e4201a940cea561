"""A control plane without Placement or broker, for tests of what its hosts say."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eraser.agent.hoststate import CONTROLLER_FILE, HostState, keygen
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    REPORT_TYPE,
    EraseReport,
    Hello,
    Progress,
    SeenDrive,
    Step,
)
from eraser.protocol.ticket import (
    RECEIPT_TYPE,
    TICKET_TYPE,
    Defence,
    DefenceSeen,
    DefenceStanding,
    GateTestimony,
    Ticket,
    TicketReceipt,
    TicketState,
)
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey, verify
from quarantine.errors import BrokerAwayError, RefusedError, UnavailableError
from quarantine.evidence.sections import Issuer
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotChanges, SlotRecord
from quarantine.record.words.states import Event
from quarantine.service.inbound.messages import Inbox
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.issue.registrar import Registrar
from quarantine.service.issue.tickets import Tickets
from tests.lab.record import migrated_file
from tests.unit.quarantine.testimony import IDENTITY, PROFILE, REPORT, SLOT

INCARNATION = "incarnation-00001"
WORN = {"fit": False, "reasons": ("health: expected at most 100 %",)}


@dataclass
class Posted:
    """A broker that can be away."""

    tokens: list[tuple[str, str]] = field(default_factory=list)
    away: bool = False

    def __call__(self, host: str, token: str) -> None:
        if self.away:
            raise BrokerAwayError("broker: away")
        self.tokens.append((host, token))


@dataclass
class Looks:
    """A reconciler that only notes what it was asked."""

    slots: list[Slot] = field(default_factory=list)
    bells: list[tuple[str, str | None]] = field(default_factory=list)
    broken: bool = False

    def look(self, slot: Slot) -> None:
        self.slots.append(slot)
        if self.broken:
            raise UnavailableError("placement: away")

    def ring(self, host: str, address: str | None = None) -> tuple[()]:
        self.bells.append((host, address))
        return ()


@dataclass
class Plane:
    """A control plane without Placement or broker, and two hosts' keys."""

    store: Store
    controller: PrivateKey
    host: PrivateKey
    other_host: PrivateKey
    posted: Posted
    looks: Looks
    inbox: Inbox
    dispatcher: Dispatcher
    posted_tickets: Posted
    tickets: Tickets
    directory: Path

    def record(self, slot: Slot = SLOT) -> SlotRecord:
        found = self.store.slot(slot)
        assert found is not None
        return found

    def enrol(
        self, slot: Slot = SLOT, identity: ControllerIdentity | None = IDENTITY
    ) -> SlotRecord:
        record = self.store.enrol(
            slot,
            provider=secrets.token_hex(16),
            resource_class="CUSTOM_NVME",
            in_use=False,
            profile=PROFILE.name,
            policy="purge",
        )
        if identity is not None:
            record = self.store.amend(record, SlotChanges(identity=identity))
        return self.store.transition(record, Event.CUSTODY_TAKEN)

    def ordered(self, slot: Slot = SLOT, identity: ControllerIdentity = IDENTITY) -> EraseOrder:
        self.dispatcher.order(self.enrol(slot, identity))
        return self.order(slot)

    def order(self, slot: Slot = SLOT) -> EraseOrder:
        token = self.record(slot).order_token
        assert token is not None
        payload = verify(token, self.controller.public, ORDER_TYPE, "order")
        return codec.load(EraseOrder, payload, "order")

    def answer(self, **changes: Any) -> EraseReport:
        order = self.order()
        report = replace(
            REPORT,
            order_id=order.order_id,
            nonce=order.nonce,
            generation=order.generation,
            incarnation=order.incarnation,
        )
        return replace(report, **changes)

    def signed(self, message: object, typ: str, key: PrivateKey | None = None) -> str:
        return (key or self.host).sign(codec.canonical(message), typ)

    def report(self, **changes: Any) -> str:
        return self.signed(self.answer(**changes), REPORT_TYPE)

    def progress(self, sequence: int, step: Step, fraction: float = 0.5) -> Progress:
        order = self.order()
        return Progress(
            order.order_id, SLOT, order.generation, INCARNATION, sequence, step, fraction, "text"
        )


def over(store: Store, controller: PrivateKey, host: PrivateKey, directory: Path) -> Plane:
    """A control plane over a record, with the key of one of its hosts."""
    posted, posted_tickets, looks = Posted(), Posted(), Looks()
    registrar = Registrar(store, controller, Issuer("Example Cloud"), directory)
    return Plane(
        store=store,
        controller=controller,
        host=host,
        other_host=PrivateKey.generate(),
        posted=posted,
        looks=looks,
        inbox=Inbox(store, Believed.both(controller.public), registrar, looks),
        dispatcher=Dispatcher(store, controller, posted),
        posted_tickets=posted_tickets,
        tickets=Tickets(store, controller, posted_tickets),
        directory=directory,
    )


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    store = Store.open(migrated_file(tmp_path / "record.db"))
    made = over(store, PrivateKey.generate(), PrivateKey.generate(), tmp_path / "certificates")
    store.register_host("cmp1", made.host.public, INCARNATION)
    store.register_host("cmp2", made.other_host.public, "incarnation-00002")
    store.put_profile(PROFILE, Initiator("a person"))
    yield made
    store.close()


def refused(plane: Plane, token: str) -> str:
    before = plane.record()
    certificates = len(plane.store.certificates())
    with pytest.raises(RefusedError) as caught:
        plane.inbox.report(token)
    assert plane.record() == before
    assert len(plane.store.certificates()) == certificates
    refusals = plane.store.refusals()
    assert refusals
    assert refusals[-1].kind == "report"
    return str(caught.value)


def hello(plane: Plane, sequence: int, drives: dict[str, ControllerIdentity | None]) -> None:
    seen = tuple(SeenDrive(address, "nvme", identity) for address, identity in drives.items())
    message = Hello("cmp1", INCARNATION, sequence, "0.1.0", seen, ())
    plane.inbox.hello(plane.signed(message, HELLO_TYPE))


def certified(plane: Plane) -> Ticket:
    """A certified slot whose ticket was sent; the ticket as its host got it."""
    plane.ordered()
    plane.inbox.report(plane.report())
    plane.tickets.send(plane.record())
    host, token = plane.posted_tickets.tokens[-1]
    assert host == SLOT.host
    payload = verify(token, plane.controller.public, TICKET_TYPE, "ticket")
    return codec.load(Ticket, payload, "ticket")


def receipt_of(ticket: Ticket, state: TicketState, reason: str = "") -> TicketReceipt:
    return TicketReceipt(
        order_id=ticket.order_id,
        slot=ticket.slot,
        generation=ticket.generation,
        incarnation=ticket.incarnation,
        state=state,
        reason=reason,
        counters=ticket.counters,
    )


def told(plane: Plane, sequence: int, gate: GateTestimony) -> None:
    """A hello with this word of the last gate."""
    drives = (SeenDrive(SLOT.address, "nvme", IDENTITY),)
    hello = Hello("cmp1", INCARNATION, sequence, "0.1.0", drives, (), (), gate)
    plane.inbox.hello(plane.signed(hello, HELLO_TYPE))


ALL_WELL = GateTestimony(
    tuple(DefenceSeen(name, DefenceStanding.PRESENT, "") for name in Defence), (), (), ()
)


UNHOOKED = replace(
    ALL_WELL,
    defences=(DefenceSeen(Defence.HOOK, DefenceStanding.ABSENT, "gone"), *ALL_WELL.defences[1:]),
)


def on_offer(plane: Plane) -> None:
    ticket = certified(plane)
    valid = receipt_of(ticket, TicketState.VALID)
    plane.inbox.receipt(plane.signed(valid, RECEIPT_TYPE))
    plane.store.transition(plane.record(), Event.RETURNED)
    plane.looks.slots.clear()


def host_of(plane: Plane, directory: Path) -> HostState:
    """A real host's memory of orders, under the key and incarnation that are registered."""
    keygen(directory, "cmp1")
    (directory / CONTROLLER_FILE).write_bytes(codec.canonical(plane.controller.public.jwk()))
    state = HostState(directory)
    plane.store.register_host("cmp1", state.key.public, state.card.incarnation, replace=True)
    return state
