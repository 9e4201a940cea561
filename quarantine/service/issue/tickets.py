"""Tickets let a certified drive start once: signed as it is certified, sent until receipted."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from eraser.protocol import codec
from eraser.protocol.ticket import TICKET_TYPE, Ticket
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.doors import Clock, utc_now
from quarantine.errors import ConflictError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.states import State
from quarantine.rules.reports import ticket
from quarantine.service.issue.post import Post

LOG = logging.getLogger(__name__)

WAITING = "waiting for the host's receipt of the ticket"


def issue(made: Ticket, key: PrivateKey) -> SlotChanges:
    """What the record gets in the transaction that certifies: signed now, sent later."""
    return SlotChanges(
        ticket_token=key.sign(codec.canonical(made), TICKET_TYPE),
        ticket_incarnation=made.incarnation,
        ticket_at=None,
        ticket_ready=False,
    )


@dataclass
class Tickets:
    """Sends tickets. Calling it again for the same case sends the same ticket again."""

    store: Store
    key: PrivateKey
    post: Post
    clock: Clock = utc_now
    former: tuple[PublicKey, ...] = ()
    """Keys that ``key`` followed, whose tickets are still good."""

    def send(self, record: SlotRecord) -> SlotRecord:
        """Sends the case's ticket to its host; the record with the time of sending.

        Raises :class:`BrokerAwayError` when the broker does not take it, :class:`BadInputError`
        for a stored ticket that is no good, :class:`ConflictError` when the record moved on.
        """
        if record.state is not State.CERTIFIED:
            raise ConflictError(
                f"{record.slot}: expected a certified slot to send a ticket for, "
                f"found it {record.state}"
            )
        ticket.read(record, (self.key.public, *self.former))
        assert record.ticket_token is not None
        self.post(record.slot.host, record.ticket_token)
        LOG.info("%s: ticket of order %s sent", record.slot, record.order_id)
        try:
            return self.store.amend(record, SlotChanges(ticket_at=self.clock(), detail=WAITING))
        except ConflictError:
            # The host was quicker: its receipt is recorded already.
            return self.store.slot(record.slot) or record
