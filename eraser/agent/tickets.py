"""Keeps the tickets of a host moving: level-triggered on what is on disk, like the orders.

The Celery task only verifies a ticket and writes it down. A child of its own looks at the drive,
because a drive that is mute must not keep the others waiting; the signed receipt is made of what
the gate's book says then. Losing a message, the broker or this process changes nothing but the
time it takes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from eraser.agent.hoststate import HostState
from eraser.agent.orders import RESTART_SECONDS, SEND_RETRY_SECONDS, Send
from eraser.errors import EraserError
from eraser.gate import intake
from eraser.ownership import pending
from eraser.ownership import store as books
from eraser.protocol import codec
from eraser.protocol.inbound import MessageKind
from eraser.protocol.ticket import RECEIPT_TYPE, Ticket

LOG = logging.getLogger(__name__)

MAX_RUNNING = 4
"""Looks at drives at the same time: each takes a moment, and tickets come one by one."""


class TicketLooks(Protocol):
    """The processes that look at the drives of new tickets."""

    def start(self, address: str) -> None:
        """Starts one for a slot."""

    def running(self, address: str) -> bool:
        """Whether one of ours is at it."""


@dataclass
class _TicketWatch:
    """What is remembered of one slot's ticket; all of it may be forgotten."""

    ticket: Ticket
    sent: bool = False
    starts: int = 0
    started_at: float = 0.0
    trouble: str = ""


@dataclass
class TicketRounds:
    """One host's tickets. :meth:`turn` does a round and returns; call it a few times a second."""

    state: HostState
    looks: TicketLooks
    send: Send
    clock: Callable[[], float] = time.monotonic
    _watches: dict[str, _TicketWatch] = field(default_factory=dict)
    _came: list[Ticket] = field(default_factory=list)
    _read: bool = False
    _quiet_until: float = 0.0

    def again(self, ticket: Ticket) -> None:
        """A ticket came, perhaps not for the first time: our receipt may have been missed.

        Called from another thread than :meth:`turn`.
        """
        self._came.append(ticket)

    def turn(self) -> None:
        """One round over the tickets that have no receipt yet. One broken slot stops no other."""
        # Once, for what an earlier worker left; later ones come by again().
        if not self._read:
            for ticket in pending.everything(self.state.directory):
                self._watches.setdefault(ticket.slot.address, _TicketWatch(ticket))
            self._read = True
        while self._came:
            ticket = self._came.pop(0)
            watch = self._watches.get(ticket.slot.address)
            # Another ticket begins anew; of the same one only the receipt is sent again.
            if watch is None or watch.ticket != ticket:
                self._watches[ticket.slot.address] = _TicketWatch(ticket)
            else:
                watch.sent = False
        waiting = [watch for watch in self._watches.values() if not watch.sent]
        # While the broker is away a receipt could not be sent, so none is made.
        if not waiting or self.clock() < self._quiet_until:
            return
        for watch in waiting:
            try:
                self._move(watch)
            except (EraserError, OSError) as error:
                self._trouble(watch, str(error))

    def _move(self, watch: _TicketWatch) -> None:
        address = watch.ticket.slot.address
        # Only the book answers: what a look found is worth nothing until it stands there.
        receipt = intake.answer(books.load(self.state.directory), watch.ticket)
        if receipt is not None:
            token = self.state.key.sign(codec.canonical(receipt), RECEIPT_TYPE)
            watch.sent = self._post(token)
            if watch.sent:
                LOG.info("ticket of %s is %s", watch.ticket.slot, receipt.state.value)
            return
        # Each look has a process, and one that is stuck with a mute drive stays.
        busy = sum(self.looks.running(each) for each in self._watches)
        if self.looks.running(address) or busy >= MAX_RUNNING or not self._due(watch):
            return
        watch.starts += 1
        watch.started_at = self.clock()
        self.looks.start(address)

    def _due(self, watch: _TicketWatch) -> bool:
        if not watch.starts:
            return True
        pause = RESTART_SECONDS[min(watch.starts, len(RESTART_SECONDS)) - 1]
        return self.clock() - watch.started_at >= pause

    def _post(self, token: str) -> bool:
        try:
            self.send(MessageKind.RECEIPT, token)
        except OSError as error:
            LOG.warning("the broker did not take a receipt, trying again: %s", error)
            self._quiet_until = self.clock() + SEND_RETRY_SECONDS
            return False
        return True

    def _trouble(self, watch: _TicketWatch, what: str) -> None:
        if watch.trouble != what:
            LOG.error("ticket of %s: %s", watch.ticket.slot, what)
        watch.trouble = what
