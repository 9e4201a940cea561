"""What the ticket of a certified case says, and whether a stored one is that case's. Pure.

The counters in a ticket are those of the certified report, which the host signed and still has.
The host reads the drive again when it takes the ticket, so whatever was written since is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from eraser.protocol import codec
from eraser.protocol.conclusions import ownwrites
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.order import EraseOrder
from eraser.protocol.report import EraseReport
from eraser.protocol.ticket import TICKET_TYPE, Counters, Ticket
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence.checks import sanitizelog
from quarantine.record.words.facts import SlotRecord


def build(order: EraseOrder, report: EraseReport, certificate: str) -> Ticket:
    """The one ticket of a certified case; ``certificate`` is its digest.

    Raises :class:`BadInputError` for a report without the counters, which nothing certified lacks.
    """
    if report.health is None or report.verification is None:
        raise BadInputError(
            f"report of order {report.order_id}: expected health and verification for a ticket, "
            "found some missing; hold the slot"
        )
    log_after = report.methods[-1].log_after if report.methods else ""
    erased = sanitizelog.parse(log_after, "log after").global_data_erased if log_after else None
    return Ticket(
        order_id=order.order_id,
        slot=order.slot,
        identity=order.identity,
        generation=order.generation,
        incarnation=order.incarnation,
        certificate=certificate,
        counters=Counters(
            host_write_commands=report.health.host_write_commands,
            data_units_written=report.health.data_units_written,
            power_cycles=report.health.power_cycles,
            global_data_erased=erased,
        ),
        own_writes=ownwrites.at_most(order.policy.verification, report),
    )


def read(record: SlotRecord, keys: Sequence[PublicKey]) -> Ticket:
    """The record's own ticket, signed by one of ``keys``: the database's word is not enough.

    Raises :class:`BadInputError` where it has none of this case.
    """
    try:
        token = record.ticket_token or ""
        _key, payload = signing.verify_any(token, keys, TICKET_TYPE, "stored ticket")
        ticket = codec.load(Ticket, payload, "stored ticket")
    except BadWireError as error:
        raise BadInputError(f"{record.slot}: {error}; the drive is erased again") from error
    if (ticket.slot, ticket.order_id, ticket.generation, ticket.certificate) != (
        record.slot,
        record.order_id,
        record.generation,
        record.certificate,
    ):
        raise BadInputError(
            f"{record.slot}: expected the stored ticket to be of order {record.order_id}, found "
            f"one of order {ticket.order_id}; the drive is erased again"
        )
    return ticket
