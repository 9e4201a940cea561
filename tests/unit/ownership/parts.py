"""One certified drive in one slot, from which each test changes what it is about."""

from __future__ import annotations

import dataclasses

from eraser.controller.spec import SanitizeState
from eraser.ownership.facts import CaseSeen, CaseStanding, DriveSeen, SlotFacts, Starting
from eraser.ownership.model import Allowance, Book, KeptTicket, Owner, PciIds, SlotEntry, SteadyTime
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.ticket import Counters, Ticket, TicketState

ADDRESS = "0000:01:00.0"
OTHER_ADDRESS = "0000:02:00.0"
INCARNATION = "1" * 32
ORDER_ID = "order-0000-0000-0001"
DRIVE = ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, "SN1", "Model", "nqn.x")
ANOTHER = dataclasses.replace(DRIVE, serial="SN2")
MINE = "11111111-1111-1111-1111-111111111111"
THEIRS = "22222222-2222-2222-2222-222222222222"
STARTING = Starting(MINE, "instance-1")
AT = "2026-11-21T12:00:00.000+00:00"
LATER = "2026-11-21T13:00:00.000+00:00"
NOW = SteadyTime("boot-1", 1000.0)
REPORTED = Counters(1000, 40, 7, True)
TICKET = Ticket(
    ORDER_ID, Slot("compute-1", ADDRESS), DRIVE, 5, INCARNATION, "c" * 64, REPORTED, 100
)
KEPT = KeptTicket(TICKET, TicketState.VALID, "", REPORTED, AT)
OWNER = Owner(
    MINE, "instance-1", DRIVE, PciIds.of(DRIVE), INCARNATION, AT, adopted=False, let_in=NOW
)
ALLOWED = Allowance("operator", "the disk is fine", AT, "")
SEEN = DriveSeen("nvme", DRIVE, REPORTED, SanitizeState.SUCCESS)
CASE = CaseSeen(CaseStanding.ERASED, ORDER_ID, 5, DRIVE)
FACTS = SlotFacts(ADDRESS, SlotEntry(ADDRESS, ticket=KEPT), SEEN, CASE, INCARNATION)
OWNED = dataclasses.replace(FACTS, entry=SlotEntry(ADDRESS, owner=OWNER))
EMPTY = Book(INCARNATION)


def facts(base: SlotFacts = FACTS, **changes: object) -> SlotFacts:
    """``base`` with members changed; ``drive__x``, ``entry__x`` and ``case__x`` reach inside."""
    for name, value in changes.items():
        outer, _, inner = name.partition("__")
        if inner:
            value = dataclasses.replace(getattr(base, outer), **{inner: value})
        base = dataclasses.replace(base, **{outer: value})  # type: ignore[arg-type]
    return base


def kept(**changes: object) -> KeptTicket:
    """The ticket with members of what was kept changed."""
    return dataclasses.replace(KEPT, **changes)  # type: ignore[arg-type]


def ticket(**changes: object) -> Ticket:
    """The wire's ticket changed."""
    return dataclasses.replace(TICKET, **changes)  # type: ignore[arg-type]


def owner(**changes: object) -> Owner:
    """The owner changed."""
    return dataclasses.replace(OWNER, **changes)  # type: ignore[arg-type]
