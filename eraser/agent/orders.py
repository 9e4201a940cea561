"""Keeps the accepted orders of a host moving: level-triggered on what is on disk.

The Celery task only verifies an order and writes it down; the rounds do the rest, again and
again, from the files alone: it starts a runner for every open case, restarts one that died, sends
progress, and sends the signed report when there is one. Losing a message, the broker or this
process changes nothing but the time it takes.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from eraser.agent.admission import StartQueue, StartRound
from eraser.agent.hoststate import HostState
from eraser.errors import BadInputError, EraserError
from eraser.protocol import codec
from eraser.protocol.inbound import MessageKind
from eraser.protocol.order import EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    PROGRESS_TYPE,
    REPORT_TYPE,
    EraseReport,
    Hello,
    Outcome,
    Progress,
    SeenDrive,
    Step,
)
from eraser.protocol.ticket import GateTestimony
from eraser.state import answers
from eraser.state.answers import OrderAnswer
from eraser.state.case_dir import CaseEnding

LOG = logging.getLogger(__name__)

SEND_RETRY_SECONDS = 2.0
"""After the broker refused a message: long enough not to hammer it, short against an erase."""

RESTART_SECONDS = (0.5, 5.0, 30.0)
"""Pauses before a runner that died is started again; the last one repeats."""

MANY_ENDINGS = 3
"""Runners of one case that ended in the same step without a report, until people are told why."""

_SHOWN = 400
"""Characters of that."""


@dataclass(frozen=True)
class CaseLook:
    """What the files of a case say at one moment."""

    report: EraseReport | None
    step: Step
    fraction: float
    detail: str
    answered: int | None = 0
    """Which look of its order the report answers, where there is one; None where nobody knows."""
    ended: CaseEnding | None = None
    """How the case ended whose report this release cannot read: a newer one wrote it."""

    @property
    def outcome(self) -> Outcome | None:
        """How the case ended; None of one that has not."""
        if self.report is not None:
            return self.report.outcome
        return None if self.ended is None else self.ended.outcome


class Holder(enum.Enum):
    """Who has a slot's lock."""

    NOBODY = "nobody"
    RUNNER = "runner"
    COMMAND = "command"
    """What a runner left behind: a command that has not come back."""


class Cases(Protocol):
    """The cases on disk and the processes that run them."""

    def look(self, order: EraseOrder) -> CaseLook:
        """Reads the case's files."""

    def holder(self, order: EraseOrder) -> Holder:
        """Who works on the slot."""

    def start(self, order: EraseOrder) -> None:
        """Starts a detached runner for the case; it resumes what the journal has."""

    def last_words(self, order: EraseOrder) -> str:
        """The last line of the case's log, as its runners wrote it; or nothing."""

    def renew(self, order: EraseOrder) -> None:
        """Removes an ended case, so that the next runner begins it anew."""

    def retire(self, orders: tuple[EraseOrder, ...]) -> None:
        """Removes the files of finished cases that none of ``orders`` belongs to."""

    def drives(self, orders: tuple[EraseOrder, ...]) -> tuple[SeenDrive, ...]:
        """The NVMe functions of this host; identities only of drives that no case works on."""


class Send(Protocol):
    """Hands one signed message to the control plane. Raises ``OSError`` when it cannot."""

    def __call__(self, kind: MessageKind, token: str) -> None: ...


@dataclass
class _OrderWatch:
    """What the rounds remember of one order; all of it may be forgotten."""

    sent: bool = False
    look: int = 0
    """The look of the order whose report was sent; a higher one asks for another report."""
    unmarked: OrderAnswer | None = None
    """The order has been answered so, and that is not on the disk yet."""
    repeated: bool = False
    shown: tuple[Step, float, str] | None = None
    shown_at: float = 0.0
    trouble: str = ""
    """What was logged last, so that it is not logged ten times a second."""
    starts: int = 0
    started_at: float = 0.0
    seen_ended: int = 0
    """How many of the starts had come to their end at the last look."""
    ended_in: Step | None = None
    endings: int = 0
    """Runners in a row that ended in that step."""
    why: str = ""
    """Why the last of them did."""


def _wants_another_look(order: EraseOrder, look: CaseLook, repeated: bool) -> bool:
    """ "In use" is an answer for now, until the controller asks anew.

    The same bytes once more are no new question: anybody at the broker can repeat them, also when
    the controller has long given the case up and the drive is somebody's again.
    """
    if look.outcome is not Outcome.IN_USE:
        return False
    # No look is counted by an older control plane, or none can be read: a repetition is all there
    # is.
    if order.look == 0 or look.answered is None:
        return repeated
    return order.look > look.answered


def _shown(why: str) -> str:
    """For people: it may quote what a drive, or a damaged file, says."""
    return "".join(c if c.isprintable() else "?" for c in why)[:_SHOWN]


def _answer(order: EraseOrder, report: EraseReport) -> OrderAnswer:
    ending = CaseEnding(report.outcome, report.verdict, report.fit, report.identity)
    return OrderAnswer(order.order_id, order.look, ending)


@dataclass
class OrderRounds:
    """The rounds over one host's orders. :meth:`turn` does one and returns; call it a few times a
    second."""

    state: HostState
    cases: Cases
    send: Send
    version: str
    line: StartQueue
    hello_interval: float
    progress_interval: float
    testify: Callable[[], GateTestimony] | None = None
    """Describes the last gate; it never raises."""
    clock: Callable[[], float] = time.monotonic
    _watches: dict[str, _OrderWatch] = field(default_factory=dict)
    _hello_at: float | None = None
    _quiet_until: float = 0.0

    def again(self, order: EraseOrder) -> None:
        """An order came, perhaps not for the first time: our report may have been missed.

        Called from another thread than :meth:`turn`, which does what follows from it.
        """
        self._watches.setdefault(order.order_id, _OrderWatch()).repeated = True

    def turn(self) -> None:
        """One round over all accepted orders. One broken case stops no other.

        Raises ``OSError`` where the orders cannot be listed: nothing is started, said or removed.
        """
        orders = self.state.orders()
        known = {order.order_id for order in orders}
        # Also of an order that cannot be read for now: all that is remembered may be forgotten.
        for gone in set(self._watches) - known:
            del self._watches[gone]
        # Counted once: each case that starts takes its place from what is left.
        turn = self.line.round(sum(map(self._running, orders)))
        for order in orders:
            watch = self._watches.setdefault(order.order_id, _OrderWatch())
            try:
                self._move(order, watch, turn)
                watch.trouble = ""
            except (EraserError, OSError) as error:
                if watch.trouble != str(error):
                    LOG.error("case %s on %s: %s", order.order_id, order.slot, error)
                watch.trouble = str(error)
        # Also where cases failed: the control plane must hear of the host whatever they do.
        self._greet(orders)
        if not self.state.unread:
            # The case of an order that cannot be read is nobody's to remove.
            self.cases.retire(orders)

    def _running(self, order: EraseOrder) -> bool:
        try:
            # A command that never comes back would keep a place in line for good.
            return self.cases.holder(order) is Holder.RUNNER
        except (EraserError, OSError):
            return True  # taken for busy; _move meets the same error and names it

    def _move(self, order: EraseOrder, watch: _OrderWatch, turn: StartRound) -> None:
        """One step of one case."""
        # Before the look: what comes during it counts for the next turn.
        repeated, watch.repeated = watch.repeated, False
        # The report was taken by the broker and nobody asks again: no file is read for it.
        if watch.sent and not repeated and order.look <= watch.look:
            self._mark(order, watch)
            return
        look = self.cases.look(order)
        if _wants_another_look(order, look, repeated):
            # Before its files: from here on it is in flight, whoever dies.
            watch.unmarked = None
            answers.forget(self.state.directory, order.slot.address)
            self.cases.renew(order)
            watch.sent, watch.starts, watch.seen_ended, watch.endings = False, 0, 0, 0
            look = self.cases.look(order)
        if look.report is not None:
            # Tried in each turn until the broker takes it.
            watch.sent = self._post(MessageKind.REPORT, self._sign(look.report, REPORT_TYPE))
            watch.look = order.look
            if watch.sent:
                watch.unmarked = _answer(order, look.report)
                self._mark(order, watch)
            return
        if look.ended is not None:
            LOG.error(
                "case %s on %s has ended, and this release cannot send its report (%s): the one "
                "that wrote it does, or releasing the slot has the drive erased again",
                order.order_id,
                order.slot,
                look.detail,
            )
            watch.sent, watch.look = True, order.look
            return
        try:
            answered = self._was_answered(order)
        except (BadInputError, OSError) as error:
            # People are told at once: by itself nothing goes on here.
            said = f"nothing is sent to the drive, which may be somebody's by now: {error}"
            self._show(order, watch, dataclasses.replace(look, detail=_shown(said)))
            raise
        if answered:
            LOG.error(
                "order %s for %s: expected the case that answered it, found none; nothing is sent "
                "to the drive until the control plane asks anew",
                order.order_id,
                order.slot,
            )
            watch.sent, watch.look = True, order.look
            return
        holder = self.cases.holder(order)
        if holder is Holder.NOBODY:
            look = self._with_why(order, watch, look)
        # It has the lock, so no runner could start; people are told what is waited for.
        if holder is Holder.COMMAND:
            look = dataclasses.replace(look, detail="a command of an earlier run is still going")
        if holder is not Holder.NOBODY or not self._due(watch):
            self._show(order, watch, look)
            return
        # A place is taken last, by a case that really starts: none is lost to one that need not.
        if wait := turn.take():
            self._show(order, watch, dataclasses.replace(look, detail=wait))
            return
        # Before the start: a runner that cannot be started is paused for like one that died.
        watch.starts += 1
        watch.started_at = self.clock()
        if watch.starts > 1:
            LOG.warning("the runner of %s ended without a report: starting it again", order.slot)
        self.cases.start(order)
        # After it: progress is for people alone, and what it meets keeps no erase from its start.
        self._show(order, watch, look)

    def _mark(self, order: EraseOrder, watch: _OrderWatch) -> None:
        """Writes down that the order was answered, where that is not on the disk yet."""
        if watch.unmarked is None:
            return
        directory, address = self.state.directory, order.slot.address
        try:
            known = answers.answer(directory, address, order.order_id)
        except BadInputError:
            known = None  # damaged, and about to be written anew
        if known != watch.unmarked:
            answers.note(directory, address, watch.unmarked)
        watch.unmarked = None

    def _was_answered(self, order: EraseOrder) -> bool:
        """A greater look alone is the controller's word that it wants the case begun anew: what is
        on the disk of it may have been lost since."""
        known = answers.answer(self.state.directory, order.slot.address, order.order_id)
        return known is not None and order.look <= known.look

    def _with_why(self, order: EraseOrder, watch: _OrderWatch, look: CaseLook) -> CaseLook:
        """With what people should know of a case whose runners end again and again in one step."""
        if watch.seen_ended < watch.starts:
            watch.seen_ended = watch.starts
            watch.endings = watch.endings + 1 if watch.ended_in is look.step else 1
            watch.ended_in = look.step
            # What kept the last one from its start, as a full disk does, is newer than the log.
            why = watch.trouble or self.cases.last_words(order)
            watch.why = _shown(why)
        if not watch.starts or watch.endings < MANY_ENDINGS:
            return look
        said = f": {watch.why}" if watch.why else ""
        return dataclasses.replace(
            look, detail=f"runner after runner ends without a report and is started again{said}"
        )

    def _silent(self) -> bool:
        """The broker refused a message a moment ago: nothing is made to be said to it."""
        return self.clock() < self._quiet_until

    def _due(self, watch: _OrderWatch) -> bool:
        if not watch.starts:
            return True
        pause = RESTART_SECONDS[min(watch.starts, len(RESTART_SECONDS)) - 1]
        return self.clock() - watch.started_at >= pause

    def _show(self, order: EraseOrder, watch: _OrderWatch, look: CaseLook) -> None:
        shown = (look.step, round(look.fraction, 3), look.detail)
        moved = watch.shown is None or watch.shown[0] is not look.step
        # A sequence number is a synced write, so none is drawn for what is not sent.
        if shown == watch.shown or self._silent():
            return
        if not moved and self.clock() - watch.shown_at < self.progress_interval:
            return
        progress = Progress(
            order_id=order.order_id,
            slot=order.slot,
            generation=order.generation,
            incarnation=order.incarnation,
            sequence=self.state.next_sequence("progress"),
            step=look.step,
            fraction=look.fraction,
            detail=look.detail,
        )
        if self._post(MessageKind.PROGRESS, self._sign(progress, PROGRESS_TYPE)):
            watch.shown, watch.shown_at = shown, self.clock()

    def _greet(self, orders: tuple[EraseOrder, ...]) -> None:
        if self._hello_at is not None and self.clock() - self._hello_at < self.hello_interval:
            return
        if self._silent():
            return  # whoever asks all drives ten times a second keeps them from their guests
        open_cases = tuple(order for order in orders if not self._watches[order.order_id].sent)
        hello = Hello(
            host=self.state.card.host,
            incarnation=self.state.card.incarnation,
            sequence=self.state.next_sequence("hello"),
            version=self.version,
            drives=self.cases.drives(open_cases),
            cases=tuple(order.order_id for order in open_cases),
            accepted=self.state.newest(),
            gate=None if self.testify is None else self.testify(),
            # What this release can read of an order: other members are left out of it.
            reads_stuck=True,
            counts_looks=True,
        )
        if self._post(MessageKind.HELLO, self._sign(hello, HELLO_TYPE)):
            self._hello_at = self.clock()

    def _sign(self, message: EraseReport | Progress | Hello, typ: str) -> str:
        return self.state.key.sign(codec.canonical(message), typ)

    def _post(self, kind: MessageKind, token: str) -> bool:
        """Whether the broker took the message. After a refusal all wait a little."""
        if self._silent():
            return False
        try:
            self.send(kind, token)
        except OSError as error:
            LOG.warning("the broker did not take a %s, trying again: %s", kind, error)
            self._quiet_until = self.clock() + SEND_RETRY_SECONDS
            return False
        return True
