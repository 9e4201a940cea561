"""What a decision on a report does to the record: certified, held, retired, or ordered again."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.protocol.identity import Slot
from eraser.protocol.order import EraseOrder
from eraser.protocol.report import EraseReport, Step
from eraser.protocol.transport.signing import PublicKey
from quarantine.doors import Clock
from quarantine.errors import ConflictError, UnavailableError, UnfinishedError
from quarantine.record.store import Store
from quarantine.record.words.facts import NonceUse, SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import Event
from quarantine.rules.alarmbook import alarm
from quarantine.rules.reports.check import ReasonedRuling, Ruling
from quarantine.service.issue.registrar import Registrar

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Testimony:
    """A report whose signature held, and our own order that it answers."""

    order: EraseOrder
    report: EraseReport
    token: str
    """The signed report as it came."""
    digest: str
    """SHA-256 of its payload."""
    key: PublicKey
    """The host's."""


@dataclass(frozen=True)
class RulingWriter:
    """Carries decisions out. Each is one transaction, but for the step from held to retired."""

    store: Store
    registrar: Registrar
    clock: Clock

    def carry_out(self, record: SlotRecord, given: Testimony, decision: ReasonedRuling) -> None:
        """Raises :class:`ConflictError` where the slot or the chain moved: decide again."""
        heard = SlotChanges(heard_at=self.clock(), step=Step.REPORT, fraction=1.0, detail="")
        order = given.order
        nonce = NonceUse(given.report.nonce, order.order_id, given.digest, self.clock())
        if decision.ruling is Ruling.POSTPONE:
            # The nonce stays good: the very same order is sent again. This answer to it counts
            # once, or its repetition would speak of the next try too, and use up all of them.
            once = NonceUse(given.digest, order.order_id, given.digest, self.clock())
            self.store.transition(
                record, Event.POSTPONED, reason=decision.reason, changes=heard, nonce=once
            )
            LOG.info("%s: postponed: %s", record.slot, decision.reason)
        elif decision.ruling is Ruling.NOTE:
            self.store.amend(record, SlotChanges(), note=decision.reason, nonce=nonce)
            LOG.info("%s: %s", record.slot, decision.reason)
        elif decision.ruling is Ruling.HOLD and decision.erased:
            with _known_or_told(record.slot, decision):
                held = self.registrar.withhold(
                    record,
                    order=order,
                    report=given.report,
                    report_token=given.token,
                    host_key=given.key,
                    changes=heard,
                    nonce=nonce,
                    hold=decision.hold,
                    reasons=decision.reasons,
                )
            self._held(held, decision)
        elif decision.ruling is Ruling.HOLD:
            self.hold(record, given.report, given.digest, decision)
        else:
            self.registrar.certify(
                record,
                order=order,
                report=given.report,
                report_token=given.token,
                host_key=given.key,
                changes=heard,
                nonce=nonce,
            )

    def hold(
        self, record: SlotRecord, report: EraseReport, digest: str, decision: ReasonedRuling
    ) -> None:
        """Holds the slot without a certificate; ``digest`` is that of the report as it was signed.

        The report answers the record's order. Raises :class:`ConflictError` where the slot moved.
        """
        now = self.clock()
        with _known_or_told(record.slot, decision):
            held = self.store.hold(
                record,
                decision.hold,
                detail={"report": digest, "verdict": report.verdict.value},
                changes=SlotChanges(heard_at=now, step=Step.REPORT, fraction=1.0, detail=""),
                nonce=NonceUse(report.nonce, report.order_id, digest, now),
            )
        self._held(held, decision)

    def _held(self, record: SlotRecord, decision: ReasonedRuling) -> None:
        """What a person must know; and the drive's end, where nobody has to decide it.

        Died before that second step, the drive is held, which is as safe: the reason is there.
        """
        if not decision.retire:
            _call(record.slot, decision)
            return
        LOG.error("%s: held: %s", record.slot, decision.reason)
        erased = "erased" if decision.erased else "not proved to be erased: destroy it"
        # First: lists and alarms are cut at their end, and a host's words are as long as it likes.
        reason = f"{erased}; {'; '.join(decision.retire)}"
        try:
            self.store.transition(record, Event.RETIRED, reason=reason)
        except ConflictError as error:
            # A person was quicker, and decides.
            LOG.warning("%s: not retired: %s", record.slot, error)
            return
        except UnavailableError as error:
            # The report is done with, so nobody comes back to this: a person retires the drive.
            LOG.warning("%s: not retired: %s", record.slot, error)
            _call(record.slot, decision)
            return
        alarm(record.slot, AlarmCode.RETIRED, f"retired: {reason}")


@contextlib.contextmanager
def _known_or_told(slot: Slot, decision: ReasonedRuling) -> Iterator[None]:
    """Where nobody knows whether the hold within was written people hear of it: the report that
    comes again may find it done, and then counts as accepted before."""
    try:
        yield
    except UnfinishedError:
        _call(slot, decision)
        raise


def _call(slot: Slot, decision: ReasonedRuling) -> None:
    alarm(slot, AlarmCode.HELD, f"held: {decision.hold.code}: {decision.reason}")
