"""Tickets: sent as they were stored; a receipt counts for its own ticket alone."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from eraser.protocol.identity import Slot
from eraser.protocol.report import REPORT_TYPE
from eraser.protocol.ticket import RECEIPT_TYPE, TicketState
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.custody import CustodyPlacement
from quarantine.doors import utc_now
from quarantine.errors import RefusedError, UnavailableError
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Event, State
from quarantine.service.executor import Executor
from quarantine.service.issue.tickets import Tickets
from tests.unit.quarantine.service.inbound.plane import INCARNATION, Plane, certified, receipt_of
from tests.unit.quarantine.testimony import SLOT


def test_the_ticket_is_stored_with_the_certificate_and_sent_as_it_stands(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    stored = plane.record()
    assert stored.ticket_incarnation == INCARNATION
    assert (stored.ticket_at, stored.ticket_ready) == (None, False)
    for _ in range(2):
        plane.tickets.send(plane.record())
    sent = {token for _host, token in plane.posted_tickets.tokens}
    assert sent == {stored.ticket_token}
    assert plane.record().ticket_at is not None
    assert plane.posted.tokens != plane.posted_tickets.tokens


def test_what_a_slot_waits_for_is_written_once_however_long_it_is(plane: Plane) -> None:
    plane.enrol()
    executor = Executor(plane.store, cast(CustodyPlacement, None), plane.dispatcher, plane.tickets)
    ghosts = "; ".join(f"server {number} holds no device in Placement" for number in range(200))
    first = executor.wait(plane.record(), ghosts)
    assert first.detail.startswith("server 0 ")
    assert executor.wait(first, ghosts).revision == first.revision


def test_only_an_order_that_is_out_is_tried_again_after_a_while(plane: Plane) -> None:
    """Its host was removed: nothing is sent, and a slot whose order is not out has nothing to say
    of when."""
    plane.ordered()
    executor = Executor(plane.store, cast(CustodyPlacement, None), plane.dispatcher, plane.tickets)
    plane.store.remove_host(SLOT.host)
    sent = len(plane.posted.tokens)
    first = executor.send(plane.record())
    again = executor.send(first)
    assert again.ordered_at is not None
    assert first.ordered_at is not None
    assert again.ordered_at > first.ordered_at
    assert "to be registered" in again.detail
    back = plane.store.transition(again, Event.POSTPONED, reason="overdue")
    waits = executor.send(back)
    assert executor.send(waits) == waits
    assert waits.ordered_at == again.ordered_at
    assert len(plane.posted.tokens) == sent


def test_no_receipt_of_another_ticket_counts_for_a_new_one(plane: Plane) -> None:
    """As a control plane of before may leave it, which knows nothing of these columns."""
    plane.ordered()
    stale = SlotChanges(ticket_at=utc_now(), ticket_ready=True)
    plane.store.amend(plane.record(), stale)
    plane.inbox.report(plane.report())
    assert (plane.record().ticket_at, plane.record().ticket_ready) == (None, False)


def test_a_certified_drive_whose_ticket_is_no_good_is_erased_again(plane: Plane) -> None:
    """As after a change of the signing key: nobody could ever send it."""
    generation = plane.ordered().generation
    plane.inbox.report(plane.report())
    replaced = Tickets(plane.store, PrivateKey.generate(), plane.posted_tickets)
    executor = Executor(plane.store, cast(CustodyPlacement, None), plane.dispatcher, replaced)
    after = executor.send_ticket(plane.record())
    assert (after.state, after.generation) == (State.QUARANTINED, generation + 1)
    assert (after.ticket_token, after.certificate, after.order_token) == (None, None, None)
    assert "stored ticket" in after.reason
    assert plane.posted_tickets.tokens == []


def test_a_ticket_that_the_broker_does_not_take_is_not_called_sent(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    plane.posted_tickets.away = True
    with pytest.raises(UnavailableError):
        plane.tickets.send(plane.record())
    assert plane.record().ticket_at is None


def test_a_valid_receipt_makes_the_slot_ready_once(plane: Plane) -> None:
    ticket = certified(plane)
    plane.looks.slots.clear()
    token = plane.signed(receipt_of(ticket, TicketState.VALID), RECEIPT_TYPE)
    for _ in range(3):
        plane.inbox.receipt(token)
    assert plane.record().ticket_ready
    assert plane.looks.slots == [SLOT], "a host that starts says again what it ever said"
    notes = [row.reason for row in plane.store.history(SLOT) if row.event is None]
    assert notes == ["the host has a valid ticket for the drive"]


@pytest.mark.parametrize("state", [TicketState.VOID, TicketState.USED])
def test_a_host_that_would_let_nobody_start_holds_the_slot(
    plane: Plane, state: TicketState
) -> None:
    ticket = certified(plane)
    said = receipt_of(ticket, state, "the drive vanished")
    plane.inbox.receipt(plane.signed(said, RECEIPT_TYPE))
    record = plane.record()
    assert record.state is State.HELD
    assert "the drive vanished" in record.reason
    assert record.generation == ticket.generation + 1
    assert record.ticket_token is None
    # The same host changes its mind: nothing revives the case.
    valid = receipt_of(ticket, TicketState.VALID)
    plane.inbox.receipt(plane.signed(valid, RECEIPT_TYPE))
    assert plane.record() == record


@pytest.mark.parametrize("what", ["key", "type", "incarnation", "order", "slot"])
def test_a_receipt_of_somebody_else_changes_nothing(plane: Plane, what: str) -> None:
    ticket = certified(plane)
    receipt, key, typ = receipt_of(ticket, TicketState.VALID), plane.host, RECEIPT_TYPE
    if what == "key":
        key = plane.other_host
    elif what == "type":
        typ = REPORT_TYPE
    elif what == "incarnation":
        receipt = replace(receipt, incarnation="incarnation-00000")
    elif what == "order":
        receipt = replace(receipt, order_id="order-0000000099")
    else:
        receipt = replace(receipt, slot=Slot(SLOT.host, "0000:7f:00.0"))
    before = plane.record()
    with pytest.raises(RefusedError):
        plane.inbox.receipt(plane.signed(receipt, typ, key))
    assert plane.record() == before
    assert len(plane.store.refusals()) == 1
