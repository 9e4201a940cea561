"""What becomes of a ticket when it comes to the host. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from eraser.controller.spec import SanitizeState
from eraser.ownership.counters import since_report
from eraser.ownership.facts import CaseStanding, SlotFacts
from eraser.ownership.model import Book, KeptTicket
from eraser.protocol.ticket import Ticket, TicketReceipt, TicketState


@dataclass(frozen=True)
class Later:
    """Nothing can be said of the ticket yet; it stays and is looked at again."""

    reason: str


def answer(book: Book, ticket: Ticket) -> TicketReceipt | None:
    """The receipt of a ticket that the book knows, or has a newer one than; None for a new one."""
    kept = book.entry(ticket.slot.address).ticket
    if kept is None or kept.ticket.generation < ticket.generation:
        return None
    # The same one comes again where our receipt was missed: the answer does not change.
    if kept.ticket == ticket:
        return _receipt(book, ticket, kept.state, kept.reason, kept)
    other = "another of this generation" if kept.ticket.generation == ticket.generation else "newer"
    return _receipt(book, ticket, TicketState.VOID, f"this host has a ticket that is {other}", None)


def _receipt(
    book: Book, ticket: Ticket, state: TicketState, reason: str, kept: KeptTicket | None
) -> TicketReceipt:
    return TicketReceipt(
        order_id=ticket.order_id,
        slot=ticket.slot,
        generation=ticket.generation,
        incarnation=book.incarnation,
        state=state,
        reason=reason,
        counters=None if kept is None else kept.counters,
    )


def take_ticket(book: Book, ticket: Ticket, facts: SlotFacts, at: str) -> Book | Later:
    """The book with the ticket in it, valid or void for good; one that it knows changes nothing."""
    if answer(book, ticket) is not None:
        return book
    found = _never(ticket, facts)
    if not found:
        # Void is for good, so what may pass by itself (a driver, a lock, a drive that boots) is
        # none.
        if later := _not_yet(facts):
            return Later(later)
        found = _wrong(ticket, facts)
    state = TicketState.VOID if found else TicketState.VALID
    # With the counters of now: from here on the drive is at rest, and a start compares with these.
    kept = KeptTicket(ticket, state, found, facts.drive.counters, at)
    return book.with_entry(dataclasses.replace(book.entry(ticket.slot.address), ticket=kept))


def _never(ticket: Ticket, facts: SlotFacts) -> str:
    """What no later look at the drive can mend; empty where there is nothing of it."""
    case, owner = facts.case, facts.entry.owner
    if ticket.incarnation != facts.incarnation:
        return "the ticket is for another incarnation of this host: register it, and erase again"
    # An open case without an order is one by hand, or one that could not be read: both may pass.
    readable = case.order_id or case.standing is not CaseStanding.OPEN
    if readable and (ticket.order_id, ticket.generation) != (case.order_id, case.generation):
        newest = f"{case.generation} ({case.order_id})" if case.order_id else "none"
        return f"expected the newest accepted order's ticket, found another's; newest is {newest}"
    if case.standing not in (CaseStanding.ERASED, CaseStanding.OPEN):
        return f"expected an erased and fit drive on this host's disk, found {case.standing.value}"
    if case.standing is CaseStanding.ERASED and case.identity != ticket.identity:
        return "expected the drive of this host's own report, found another on the ticket"
    # An owner may have written to it, whatever its counters show.
    if owner is not None:
        return f"domain {owner.name!r} was let in on it since {owner.since}"
    if facts.entry.away:
        return f"expected a drive as its erase left it, found: {facts.entry.away}; erase it again"
    return ""


def _not_yet(facts: SlotFacts) -> str:
    drive = facts.drive
    if facts.case.standing is CaseStanding.OPEN:
        # An erase by hand that was interrupted, or a file that could not be read this time.
        return f"found an erase that has not ended ({facts.case.detail})"
    if facts.locked:
        return f"the slot is locked by {facts.locked}"
    if drive.driver != "nvme":
        return (
            f"expected the nvme driver, found {drive.driver or 'none'}; is the drive in its slot?"
        )
    if drive.trouble or drive.identity is None:
        return drive.trouble or "the drive did not say who it is"
    if drive.counters is None:
        return "the drive did not tell its counters (log 02h)"
    return ""


def _wrong(ticket: Ticket, facts: SlotFacts) -> str:
    """What is wrong with the drive as it was read."""
    drive = facts.drive
    if drive.identity is None or drive.counters is None:
        return "the drive could not be read"
    if differences := ticket.identity.differences(drive.identity):
        return f"another drive is in the slot: {'; '.join(differences)}"
    if facts.came_back:
        return "the drive left its slot since its erase began, and came back; erase it again"
    if drive.namesake:
        return drive.namesake
    if drive.sanitize in (SanitizeState.RUNNING, SanitizeState.FAILED):
        return f"expected a drive at rest, found its sanitize {drive.sanitize.value}"
    if written := since_report(ticket.counters, drive.counters, ticket.own_writes):
        return f"the drive was written to since its erase was reported: {written}"
    return ""
