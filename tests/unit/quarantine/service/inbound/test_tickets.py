"""Tickets as certified cases make them, and what a host's receipt of one is worth."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.report import VisitRecord
from eraser.protocol.ticket import TICKET_TYPE, Counters, Ticket, TicketReceipt, TicketState
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import BadInputError
from quarantine.operations import slots
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import Custody, State
from quarantine.rules.reports import ticket as ticket_rules
from quarantine.rules.reports.receipts import ReceiptRuling, judge
from quarantine.service.issue import tickets
from tests.unit.quarantine.testimony import (
    BLOCK,
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    NAMESPACE,
    ORDER,
    POLICY,
    RECORD,
    REPORT,
    log81,
)

PLANTING = (1025 + 2) + 129 * 7 + (129 + 2)
"""Commands on sectors of 512 bytes: canaries with the ends, those by sector, those deallocated."""
VISIT = 2 * 4 * (2 + 256) - 2 * (256 - 144)
"""Two rounds of four acts with the ends, of which writes of 4 KiB go onto an eighth of all."""
VISITS = (VisitRecord(1, True, (), ()), VisitRecord(2, False, (), ()))
OTHER_LAYOUT = replace(FACTS, namespaces=(replace(NAMESPACE, nsid=2),))


def most(plantings: int, visits: int) -> int:
    """With a sixteenth on top."""
    return math.ceil((plantings * PLANTING + visits * VISIT) * 17 / 16)


MOST = most(2, 0)
UNITS = math.ceil(MOST * 8 / 1000)
KEY = PrivateKey.generate()
DIGEST = "c" * 64
TICKET = ticket_rules.build(ORDER, REPORT, DIGEST)
VALID = TicketReceipt(
    order_id=ORDER.order_id,
    slot=ORDER.slot,
    generation=ORDER.generation,
    incarnation=ORDER.incarnation,
    state=TicketState.VALID,
    reason="",
    counters=TICKET.counters,
)


def certified(**changes: Any) -> SlotRecord:
    record = replace(
        RECORD,
        state=State.CERTIFIED,
        certificate=DIGEST,
        ticket_token=KEY.sign(codec.canonical(TICKET), TICKET_TYPE),
        ticket_incarnation=ORDER.incarnation,
    )
    return replace(record, **changes)


def counted(**changes: Any) -> TicketReceipt:
    return replace(VALID, counters=replace(TICKET.counters, **changes))


def test_a_ticket_has_the_ids_of_its_case_and_the_drives_own_counters() -> None:
    assert (
        Ticket(
            order_id=ORDER.order_id,
            slot=ORDER.slot,
            identity=ORDER.identity,
            generation=ORDER.generation,
            incarnation=ORDER.incarnation,
            certificate=DIGEST,
            counters=Counters(HEALTH.host_write_commands, HEALTH.data_units_written, 12, True),
            own_writes=MOST,
        )
        == TICKET
    )


@pytest.mark.parametrize(
    ("methods", "erased"),
    [
        ((replace(BLOCK, log_after=log81(1, 2, erased=False)),), False),
        ((BLOCK,), True),
        # Format leaves no log, and a drive that says nothing is not said to be erased.
        ((BLOCK, FORMAT), None),
    ],
)
def test_global_data_erased_is_the_last_methods(methods: Any, erased: bool | None) -> None:
    ticket = ticket_rules.build(ORDER, replace(REPORT, methods=methods), DIGEST)
    assert ticket.counters.global_data_erased is erased


@pytest.mark.parametrize(
    ("changes", "plantings", "visits"),
    [
        ({"methods": (CRYPTO, BLOCK)}, 2, 0),
        # An older host visits nothing; what follows the last method writes nothing.
        ({"methods": (CRYPTO, BLOCK), "visits": VISITS}, 2, 1),
        ({"methods": (CRYPTO, replace(BLOCK, attempts=3))}, 4, 0),
        # A run that died may have planted, and visited, and nothing tells of it.
        ({"methods": (CRYPTO, BLOCK), "visits": VISITS, "resumed": 1}, 3, 2),
        # One planting for the Formats of all namespaces.
        ({"methods": (replace(FORMAT, nsid=1), replace(FORMAT, nsid=2))}, 1, 0),
        ({"methods": (BLOCK, replace(FORMAT, nsid=1))}, 2, 0),
        # Those of the layout that was found, and those of the one that was restored.
        ({"methods": (replace(FORMAT, nsid=2), FORMAT), "facts_before": OTHER_LAYOUT}, 2, 0),
    ],
)
def test_what_the_case_wrote_is_its_own_each_time_that_it_did(
    changes: dict[str, Any], plantings: int, visits: int
) -> None:
    ticket = ticket_rules.build(ORDER, replace(REPORT, **changes), DIGEST)
    assert ticket.own_writes == most(plantings, visits)


def test_a_policy_without_canaries_has_no_writes_of_its_own() -> None:
    policy = replace(POLICY, verification=replace(POLICY.verification, canaries=0))
    report = replace(REPORT, visits=VISITS)
    assert ticket_rules.build(replace(ORDER, policy=policy), report, DIGEST).own_writes == 0


def test_no_report_that_can_be_read_has_figures_that_cannot() -> None:
    """Namespaces that do not describe themselves get no canary."""
    nothing = replace(FACTS, namespaces=(replace(NAMESPACE, blocks=0, block_bytes=0),))
    for facts in (None, nothing, replace(FACTS, namespaces=())):
        changed = replace(REPORT, facts_before=facts, facts_after=facts)
        assert ticket_rules.build(ORDER, changed, DIGEST).own_writes == 0


def test_a_report_without_counters_makes_no_ticket() -> None:
    for missing in ({"health": None}, {"verification": None}):
        with pytest.raises(BadInputError, match="hold the slot"):
            ticket_rules.build(ORDER, replace(REPORT, **missing), DIGEST)


def test_what_is_issued_is_signed_as_a_ticket_and_names_the_hosts_life() -> None:
    issued = tickets.issue(TICKET, KEY)
    assert issued.ticket_incarnation == ORDER.incarnation
    # Whatever stood there before: nobody has seen this one.
    assert (issued.ticket_at, issued.ticket_ready) == (None, False)
    assert isinstance(issued.ticket_token, str)
    payload = signing.verify(issued.ticket_token, KEY.public, TICKET_TYPE, "ticket")
    assert codec.load(Ticket, payload, "ticket") == TICKET


@pytest.mark.parametrize(
    "changes",
    [
        {"ticket_token": None},
        {"ticket_token": PrivateKey.generate().sign(codec.canonical(TICKET), TICKET_TYPE)},
        {"ticket_token": KEY.sign(codec.canonical(TICKET), "another+json")},
        {"order_id": "order-0000000002"},
        {"generation": ORDER.generation + 1},
        {"certificate": "d" * 64},
    ],
)
def test_a_stored_ticket_of_another_key_or_case_is_not_sent(changes: dict[str, Any]) -> None:
    assert ticket_rules.read(certified(), [KEY.public]) == TICKET
    with pytest.raises(BadInputError, match="erased again"):
        ticket_rules.read(certified(**changes), [KEY.public])


@pytest.mark.parametrize(
    ("receipt", "ruling"),
    [
        (VALID, ReceiptRuling.READY),
        # The case's own writes may be counted late, and hosts reboot.
        (counted(host_write_commands=HEALTH.host_write_commands + MOST), ReceiptRuling.READY),
        (counted(power_cycles=99, global_data_erased=False), ReceiptRuling.READY),
        # Somebody else's are not, nor do counters go back.
        (counted(host_write_commands=HEALTH.host_write_commands + MOST + 1), ReceiptRuling.HOLD),
        (counted(host_write_commands=HEALTH.host_write_commands - 1), ReceiptRuling.HOLD),
        (
            counted(host_write_commands=HEALTH.host_write_commands + 1, global_data_erased=False),
            ReceiptRuling.HOLD,
        ),
        # Some drives count commands late or never, and units at once: 8 sectors are of each.
        (counted(data_units_written=HEALTH.data_units_written + UNITS), ReceiptRuling.READY),
        (counted(data_units_written=HEALTH.data_units_written + UNITS + 1), ReceiptRuling.HOLD),
        (counted(data_units_written=HEALTH.data_units_written - 1), ReceiptRuling.HOLD),
        (
            counted(data_units_written=HEALTH.data_units_written + 1, global_data_erased=False),
            ReceiptRuling.HOLD,
        ),
        (replace(VALID, counters=None), ReceiptRuling.HOLD),
        (replace(VALID, state=TicketState.VOID, reason="vanished"), ReceiptRuling.HOLD),
        (replace(VALID, state=TicketState.USED), ReceiptRuling.HOLD),
        (replace(VALID, generation=ORDER.generation - 1), ReceiptRuling.NOTHING),
        (replace(VALID, generation=ORDER.generation + 1), ReceiptRuling.REFUSE),
        (replace(VALID, order_id="order-0000000002"), ReceiptRuling.REFUSE),
    ],
)
def test_a_receipt(receipt: TicketReceipt, ruling: ReceiptRuling) -> None:
    found, reason = judge(certified(), receipt, [KEY.public])
    assert found is ruling, reason
    assert bool(reason) is (ruling is not ReceiptRuling.READY)


def test_the_hosts_reason_is_the_holds() -> None:
    receipt = replace(VALID, state=TicketState.VOID, reason="the drive vanished")
    assert "the drive vanished" in judge(certified(), receipt, [KEY.public])[1]


@pytest.mark.parametrize("state", sorted(set(State) - {State.CERTIFIED}))
def test_a_receipt_moves_no_slot_that_is_not_certified(state: State) -> None:
    for said in TicketState:
        receipt = replace(VALID, state=said)
        assert judge(certified(state=state), receipt, [KEY.public])[0] is ReceiptRuling.NOTHING


def test_a_guest_may_be_quicker_than_our_own_note_of_the_return() -> None:
    used = replace(VALID, state=TicketState.USED)
    begun = certified(ticket_ready=True, custody_stage=Custody.RETURNING)
    assert judge(begun, used, [KEY.public])[0] is ReceiptRuling.NOTHING
    assert (
        judge(replace(begun, custody_stage=Custody.HELD), used, [KEY.public])[0]
        is ReceiptRuling.HOLD
    )
    assert judge(certified(ticket_ready=True), VALID, [KEY.public])[0] is ReceiptRuling.NOTHING


def test_people_see_how_far_a_ticket_is_and_what_is_wrong() -> None:
    now = datetime.now(UTC)
    record = certified(ticket_at=None)
    assert slots.view(replace(record, ticket_token=None)).ticket == ""
    assert "not sent" in slots.view(record).ticket
    assert "no receipt" in slots.view(replace(record, ticket_at=now)).ticket
    assert "valid" in slots.view(replace(record, ticket_at=now, ticket_ready=True)).ticket
    said = replace(record, alarm="a", reason="b", detail="b")
    assert slots.view(said).remarks == "ALARM: a; b"
    assert {"ticket_token", "order_token", "nonce"}.isdisjoint(vars(slots.view(record)))
