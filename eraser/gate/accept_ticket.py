"""A ticket at the door: the drive is looked at, and the book says what the ticket is worth."""

from __future__ import annotations

from pathlib import Path

from eraser.errors import BadInputError, DriveError
from eraser.gate import intake
from eraser.gate.admit import LOOK_SECONDS, facts_of, locked_slots
from eraser.gate.read_drives import look
from eraser.host.sysfs import Host
from eraser.ownership import pending
from eraser.ownership import store as books
from eraser.ownership.cases import read_case
from eraser.protocol.ticket import TicketReceipt


def take_in(
    state_dir: Path, run_dir: Path, host: Host, address: str
) -> TicketReceipt | intake.Later:
    """Looks at the drive of the ticket that came for a slot, and writes down what it is worth.

    Raises ``EraserError`` and ``OSError`` where the state directory cannot be used.
    """
    ticket = pending.get(state_dir, address)
    if ticket is None:
        raise BadInputError(f"{address}: expected a ticket of this slot, found none")
    # A ticket that comes again is answered from the book, whatever the drive does.
    if (known := intake.answer(books.load(state_dir), ticket)) is not None:
        return known
    with locked_slots(host, (address,), run_dir) as locked:
        # Before the book's lock, for which every start waits: the drive may be mute.
        drive = None if locked else look(host, [address], LOOK_SECONDS)[address]
        case = read_case(state_dir, address)
        with books.opened(state_dir) as book:
            facts = facts_of(book.book, address, drive, case, locked)
            found = intake.take_ticket(book.book, ticket, facts, host.clock.utc())
            if isinstance(found, intake.Later):
                return found
            book.write(found)
            receipt = intake.answer(found, ticket)
    if receipt is None:
        raise DriveError(f"{address}: expected the ticket in the book, found it gone; try again")
    return receipt
