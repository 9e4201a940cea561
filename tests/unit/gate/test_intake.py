"""A ticket comes to the host: taken in once, answered as often as it comes."""

from __future__ import annotations

import dataclasses

import pytest

from eraser.controller.spec import SanitizeState
from eraser.gate.intake import Later, answer, take_ticket
from eraser.ownership.facts import CaseStanding, SlotFacts
from eraser.ownership.model import Book, SlotEntry
from eraser.protocol.ticket import Counters, Ticket, TicketState
from tests.unit.ownership.parts import (
    ADDRESS,
    ALLOWED,
    ANOTHER,
    AT,
    DRIVE,
    EMPTY,
    FACTS,
    INCARNATION,
    KEPT,
    OWNER,
    REPORTED,
    TICKET,
    facts,
    kept,
    ticket,
)

NEW = facts(entry=SlotEntry(ADDRESS))
KNOWN = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=KEPT))


def taken(given: SlotFacts, of: Ticket = TICKET, book: Book = EMPTY) -> Book:
    found = take_ticket(book, of, given, AT)
    assert isinstance(found, Book), found
    return found


def test_a_good_one_is_valid_with_the_counters_of_now() -> None:
    counters = Counters(1050, 40, 8, True)
    book = taken(facts(NEW, drive__counters=counters))
    receipt = answer(book, TICKET)
    assert receipt is not None
    assert (receipt.state, receipt.reason) == (TicketState.VALID, "")
    assert (receipt.counters, receipt.incarnation) == (counters, INCARNATION)
    assert (receipt.order_id, receipt.slot) == (TICKET.order_id, TICKET.slot)


def test_it_leaves_what_else_is_known_of_the_slot() -> None:
    entry = SlotEntry(ADDRESS, allowance=ALLOWED, last_identity=DRIVE)
    book = taken(facts(entry=entry), book=EMPTY.with_entry(entry))
    assert book.entry(ADDRESS) == dataclasses.replace(entry, ticket=KEPT)


NEVER = [
    ({"incarnation": "2" * 32}, "another incarnation"),
    ({"case__order_id": "order-0000-0000-0002"}, "newest accepted order"),
    ({"case__generation": 6}, "newest accepted order"),
    ({"case__order_id": "", "case__generation": 0}, "newest is none"),
    ({"case__standing": CaseStanding.NONE}, "found none"),
    ({"case__standing": CaseStanding.OPEN, "case__generation": 6}, "newest accepted order"),
    ({"case__standing": CaseStanding.IN_USE}, "found in_use"),
    ({"case__standing": CaseStanding.ENDED}, "found ended"),
    ({"case__identity": ANOTHER}, "own report"),
    ({"case__identity": None}, "own report"),
    ({"entry__owner": OWNER}, "was let in"),
]
WRONG = [
    ({"drive__identity": ANOTHER}, "'SN2'"),
    ({"drive__namesake": "another SN1"}, "another SN1"),
    ({"drive__sanitize": SanitizeState.RUNNING}, "sanitize running"),
    ({"drive__sanitize": SanitizeState.FAILED}, "sanitize failed"),
    ({"drive__counters": Counters(5000, 40, 7, True)}, "written to since"),
]


@pytest.mark.parametrize(("changes", "said"), NEVER + WRONG)
def test_one_that_can_never_be_good_is_void(changes: dict[str, object], said: str) -> None:
    book = taken(facts(NEW, **changes))
    receipt = answer(book, TICKET)
    assert receipt is not None
    assert receipt.state is TicketState.VOID
    assert said in receipt.reason
    again = taken(NEW, book=book)
    assert again == book, "void stays void, whatever the drive says later"


UNREAD = {"case__order_id": "", "case__generation": 0, "case__identity": None}
NOT_YET = [
    ({"case__standing": CaseStanding.OPEN, "case__detail": "begun by hand"}, "begun by hand"),
    ({"case__standing": CaseStanding.OPEN, "case__detail": "I/O error", **UNREAD}, "I/O error"),
    ({"locked": "process 9"}, "process 9"),
    ({"drive__driver": "vfio-pci"}, "vfio-pci"),
    ({"drive__driver": None}, "found none"),
    ({"drive__trouble": "mute"}, "mute"),
    ({"drive__identity": None}, "who it is"),
    ({"drive__counters": None}, "counters"),
]


@pytest.mark.parametrize(("changes", "said"), NOT_YET)
def test_a_drive_that_cannot_be_read_is_looked_at_later(
    changes: dict[str, object], said: str
) -> None:
    found = take_ticket(EMPTY, TICKET, facts(NEW, **changes), AT)
    assert isinstance(found, Later)
    assert said in found.reason


@pytest.mark.parametrize(("changes", "_said"), NEVER)
def test_what_no_look_can_mend_needs_no_look(changes: dict[str, object], _said: str) -> None:
    mute = facts(NEW, drive__driver=None, drive__identity=None, drive__counters=None, **changes)
    assert isinstance(take_ticket(EMPTY, TICKET, mute, AT), Book)


@pytest.mark.parametrize("state", TicketState)
def test_the_same_again_is_answered_from_the_book(state: TicketState) -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=kept(state=state, reason="why")))
    assert taken(FACTS, book=book) == book
    receipt = answer(book, TICKET)
    assert receipt is not None
    assert (receipt.state, receipt.reason, receipt.counters) == (state, "why", REPORTED)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"generation": 4, "order_id": "order-0000-0000-0000"}, "newer"),
        ({"order_id": "order-0000-0000-0009"}, "another of this generation"),
        ({"own_writes": 10**9}, "another of this generation"),
        ({"counters": Counters(0, 0, 0, True)}, "another of this generation"),
    ],
)
def test_one_beside_the_books_is_void_and_not_written(
    changes: dict[str, object], said: str
) -> None:
    other = ticket(**changes)
    assert taken(NEW, other, KNOWN) == KNOWN
    receipt = answer(KNOWN, other)
    assert receipt is not None
    assert receipt.state is TicketState.VOID
    assert said in receipt.reason
    assert receipt.order_id == other.order_id


def test_a_newer_one_takes_the_place_of_an_older() -> None:
    newer = ticket(generation=6, order_id="order-0000-0000-0002")
    used = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=kept(state=TicketState.USED)))
    assert answer(used, newer) is None
    given = facts(NEW, case__generation=6, case__order_id="order-0000-0000-0002")
    found = taken(given, newer, used).entry(ADDRESS).ticket
    assert found is not None
    assert (found.ticket, found.state) == (newer, TicketState.VALID)


@pytest.mark.parametrize(
    ("then", "now", "valid"),
    [
        ("boot-1/70", "boot-1/70", True),
        ("boot-1/70", "boot-1/71", False),
        ("boot-1/70", "boot-2/9", True),
        ("", "boot-1/71", True),
        ("boot-1/70", "", True),
    ],
)
def test_a_drive_that_came_back_although_nobody_saw_it_leave(
    then: str, now: str, valid: bool
) -> None:
    found = taken(facts(NEW, entry__place=then, drive__place=now)).entry(ADDRESS).ticket
    assert found is not None
    assert (found.state is TicketState.VALID) is valid
    assert ("left its slot" in found.reason) is not valid
