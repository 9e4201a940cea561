"""Tickets: what lets a certified drive start once, made with the certificate, sent until receipted.

The counters in a ticket are those of the certified report, which the host signed and still has.
The host reads the drive again when it takes the ticket, so whatever was written since is seen.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from eraser.wire import codec, signing
from eraser.wire.errors import BadInputError as BadWireError
from eraser.wire.order import EraseOrder
from eraser.wire.report import EraseReport
from eraser.wire.signing import PrivateKey, PublicKey
from eraser.wire.ticket import TICKET_TYPE, Counters, Ticket
from quarantine.errors import BadInputError, ConflictError
from quarantine.evidence import sanitizelog
from quarantine.record.base import Clock, utc_now
from quarantine.record.facts import SlotChanges, SlotRecord
from quarantine.record.states import State
from quarantine.record.store import Store

LOG = logging.getLogger(__name__)

WAITING = "waiting for the host's receipt of the ticket"


class Post(Protocol):
    """Hands a ticket to a host's queue. Raises :class:`UnavailableError`."""

    def __call__(self, host: str, token: str) -> None: ...


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
        own_writes=report.verification.canaries_planted * _plantings(report),
    )


def _plantings(report: EraseReport) -> int:
    """How often the case may have planted its canaries; the report counts those of one time.

    They go onto the drive before each command, for Format once for all namespaces, and again after
    an interruption.
    """
    sanitized, formatted = 0, Counter[int]()
    for method in report.methods:
        if method.method.is_sanitize:
            sanitized += method.attempts
        else:
            formatted[method.nsid] += method.attempts
    return sanitized + max(formatted.values(), default=0) + report.resumed


def issue(ticket: Ticket, key: PrivateKey) -> SlotChanges:
    """What the record gets in the transaction that certifies: signed now, sent later."""
    return SlotChanges(
        ticket_token=key.sign(codec.canonical(ticket), TICKET_TYPE),
        ticket_incarnation=ticket.incarnation,
        ticket_at=None,
        ticket_ready=False,
    )


def read(record: SlotRecord, key: PublicKey) -> Ticket:
    """The record's own ticket as signed: the database's word alone is not enough.

    Raises :class:`BadInputError` where it has none of this case.
    """
    try:
        payload = signing.verify(record.ticket_token or "", key, TICKET_TYPE, "stored ticket")
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


@dataclass
class Tickets:
    """Sends tickets. Calling it again for the same case sends the same ticket again."""

    store: Store
    key: PrivateKey
    post: Post
    clock: Clock = utc_now

    def send(self, record: SlotRecord) -> SlotRecord:
        """Sends the case's ticket to its host; the record with the time of sending.

        Raises :class:`UnavailableError` when the broker does not take it, :class:`BadInputError`
        for a stored ticket that is no good, :class:`ConflictError` when the record moved on.
        """
        if record.state is not State.CERTIFIED:
            raise ConflictError(
                f"{record.slot}: expected a certified slot to send a ticket for, "
                f"found it {record.state}"
            )
        read(record, self.key.public)
        assert record.ticket_token is not None
        self.post(record.slot.host, record.ticket_token)
        LOG.info("%s: ticket of order %s sent", record.slot, record.order_id)
        try:
            return self.store.amend(record, SlotChanges(ticket_at=self.clock(), detail=WAITING))
        except ConflictError:
            # The host was quicker: its receipt is recorded already.
            return self.store.slot(record.slot) or record
