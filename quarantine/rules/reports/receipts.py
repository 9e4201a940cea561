"""What a host's receipt of a ticket is worth: the slot goes back, is held, or nothing changes.

Pure. The signature, the host and its incarnation were checked by
``quarantine.service.inbound.messages``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import Final

from eraser.protocol.ticket import Ticket, TicketReceipt, TicketState, units_of
from eraser.protocol.transport.signing import PublicKey
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import HoldCode, HoldReason
from quarantine.record.words.states import Custody, State
from quarantine.rules import holds
from quarantine.rules.reports import ticket as stored

_CODES: Final = {True: HoldCode.TICKET_CONTRADICTS, False: HoldCode.TICKET_REFUSED}
"""Why a receipt holds, by whether it calls its ticket valid."""


class ReceiptRuling(enum.StrEnum):
    """What becomes of the slot."""

    READY = "ready"
    """The host would let a guest start on the drive: it may be given back."""
    HOLD = "hold"
    """It would not, or its word contradicts itself: a person must decide."""
    NOTHING = "nothing"
    """The receipt comes late or again."""
    REFUSE = "refuse"
    """It answers the ticket of another case: recorded, and nothing changes."""


def judge(
    record: SlotRecord, receipt: TicketReceipt, keys: Sequence[PublicKey]
) -> tuple[ReceiptRuling, str]:
    """The ruling with its reason; raises :class:`BadInputError` for a stored ticket that is damaged
    or that none of ``keys`` signed."""
    # Before the ids are compared: a receipt that was overtaken by a recall is no host's mistake.
    if receipt.generation < record.generation:
        return ReceiptRuling.NOTHING, "a receipt of an older case comes too late"
    if (receipt.order_id, receipt.generation) != (record.order_id, record.generation):
        return ReceiptRuling.REFUSE, (
            f"expected order {record.order_id}, generation {record.generation}, "
            f"found {receipt.order_id}, generation {receipt.generation}"
        )
    if record.state is not State.CERTIFIED:
        # What becomes of a ticket after the return is in the host's hellos.
        return ReceiptRuling.NOTHING, f"a receipt comes to a slot that is {record.state}"
    if receipt.state is TicketState.VALID:
        found = "; ".join(_contradictions(stored.read(record, keys), receipt))
        if found:
            return ReceiptRuling.HOLD, f"the host calls the ticket valid, and yet: {found}"
        if record.ticket_ready:
            return ReceiptRuling.NOTHING, "this receipt was accepted before"
        return ReceiptRuling.READY, ""
    begun = record.custody_stage is Custody.RETURNING
    if receipt.state is TicketState.USED and record.ticket_ready and begun:
        # We had begun to give the slot back: a guest may have it before we have noted that.
        return ReceiptRuling.NOTHING, "the ticket is used; Placement tells by whom"
    return ReceiptRuling.HOLD, (
        f"the host calls the ticket {receipt.state}: {receipt.reason or 'without a reason'}"
    )


def because(receipt: TicketReceipt, text: str) -> HoldReason:
    """Why a receipt holds the slot."""
    return holds.because(_CODES[receipt.state is TicketState.VALID], text)


def _contradictions(ticket: Ticket, receipt: TicketReceipt) -> Iterator[str]:
    """What the drive's own counters say against a ticket that the host calls valid."""
    if receipt.counters is None:
        yield "expected the drive's counters as read when the ticket was taken, found none"
        return
    before, after = ticket.counters, receipt.counters
    written = (
        after.host_write_commands - before.host_write_commands,
        after.data_units_written - before.data_units_written,
    )
    own = (ticket.own_writes, units_of(ticket.own_writes))
    for what, more, most in zip(("host write commands", "data units"), written, own, strict=True):
        if not 0 <= more <= most:
            yield (
                f"expected 0 to {most} {what} since the report (the case's own, counted late), "
                f"found {more}"
            )
    if any(written) and before.global_data_erased and not after.global_data_erased:
        # Either alone may be a habit of the drive: counters lag, and a reset may clear the bit.
        yield "expected Global Data Erased as at the report, found it cleared and writes counted"
