"""Messages from hosts: verified on arrival, believed only as far as ids and keys reach.

A message may come twice, late, or in another order; the same one again changes nothing. What is
refused is recorded and logged as an alarm, and changes nothing either.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot, host_name, pci_address
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    PROGRESS_TYPE,
    REPORT_TYPE,
    EraseReport,
    Hello,
    Outcome,
    Progress,
    Step,
)
from eraser.protocol.ticket import RECEIPT_TYPE, TicketReceipt
from eraser.protocol.transport import signing
from eraser.protocol.transport.believed import Believed
from quarantine.doors import Clock, Monotonic, utc_now
from quarantine.errors import (
    BadInputError,
    ConflictError,
    QuarantineError,
    UnavailableError,
    UnreadableError,
)
from quarantine.logs import named
from quarantine.record.store import Store
from quarantine.record.words.facts import HostRecord, SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.record.words.states import WAITING_FOR_PEOPLE, WORKING, Event, State
from quarantine.rules import defences
from quarantine.rules.action import ServiceLimits
from quarantine.rules.alarmbook import alarm, calling_for_hold
from quarantine.rules.alarms import is_round
from quarantine.rules.reports import receipts
from quarantine.rules.reports.check import ReasonedRuling, Ruling, check, held
from quarantine.service.inbound.apply_ruling import RulingWriter, Testimony
from quarantine.service.inbound.authenticate import QUIET_SECONDS, Authenticator
from quarantine.service.inbound.bells import Bells
from quarantine.service.inbound.past_hellos import PastHellos
from quarantine.service.inbound.repeated_hellos import SameHellos
from quarantine.service.issue import drive_inventory
from quarantine.service.issue.registrar import Registrar

LOG = logging.getLogger(__name__)

_TOLD = 3
"""News of one hello that an alarm has in full."""

CALLS = 32
"""Times in a row that people hear of the news of one host's gate as they come; then seldom."""

NOTES = 32
"""Lines of its host's gate that a slot's history gets in one state: a host that says another one
with each hello must not fill it, nor keep the hellos of all others waiting."""

HUNG_SECONDS = 5.0
"""That a look may take which fails; a service that is busy says so at once."""

TRIES = 8
"""Rounds of read, decide, compare-and-set; each lost one means that somebody else got on."""

FAILURES = 2
"""Times that judging a report meets a mistake of ours, until its slot is held for it."""

PATIENCE = 30
"""Times that a report is put off because the machine lacks memory or descriptors."""

_POSTPONED_BEFORE: Final = ReasonedRuling(Ruling.POSTPONE, ("postponed before",), unchanged=True)
_TOO_LATE: Final = ReasonedRuling(Ruling.NOTE, ("it comes too late",), unchanged=True)


class LooksLater(Protocol):
    """Who has slots looked at that hellos give reason to look at."""

    def __call__(self, slot: Slot, *, first: bool) -> object:
        """Soon; ``first``: what its host says keeps the drive from being on offer."""


class LooksAgain(Protocol):
    """What the inbox asks of the reconciler: look again, now."""

    def look(self, slot: Slot) -> object:
        """One slot."""

    def ring(self, host: str, address: str | None = None) -> Sequence[Slot]:
        """One host's slots, in a time box: those that it did not reach."""


@dataclass
class Inbox:
    """The door for everything that hosts say."""

    store: Store
    believed: Believed
    """Whose orders and tickets are our own."""
    registrar: Registrar
    looker: LooksAgain
    bells: bool = True
    """Whether a bell makes us look; else it is heard and nothing follows."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    clock: Clock = utc_now
    monotonic: Monotonic = time.monotonic
    unreached: list[Slot] = field(default_factory=list)
    """Slots that a bell was for and that wait for a look; whoever passes bells on takes them."""
    later: LooksLater | None = None
    """Who is told of what hellos give reason to look at; None: this inbox looks, at once. Each look
    may take seconds of Placement's, and all other hosts' hellos would wait for it."""
    _away_until: float = -math.inf
    _authenticator: Authenticator = field(init=False)
    _ruling_writer: RulingWriter = field(init=False)
    _bells: Bells = field(init=False)
    _same: SameHellos = field(init=False)
    _past: PastHellos = field(init=False)
    _times_put_off: dict[str, int] = field(default_factory=dict)
    """How often a report was put off, by its digest."""
    _news: dict[str, tuple[int, float]] = field(default_factory=dict)
    """How often each registered host had news of its gate, and when last."""
    _sequences: dict[Slot, tuple[str, int]] = field(default_factory=dict)
    """Each slot's last progress, with its order; forgotten, a screen shows a step backwards."""

    def __post_init__(self) -> None:
        self._authenticator = Authenticator(self.store, self.monotonic)
        self._bells, self._same = Bells(self.monotonic), SameHellos(self.monotonic)
        self._past = PastHellos(self.monotonic)
        self._ruling_writer = RulingWriter(self.store, self.registrar, self.clock)

    def report(self, token: str, sender: str = "") -> ReasonedRuling:
        """A host's report; ``sender``: whose list it lay in, where that is known, here and in the
        others. Raises :class:`RefusedError` (recorded) where it counts for nothing.

        :class:`ConflictError` and :class:`UnavailableError` mean: try the same message again.
        """
        host, report, raw = self._authenticator.open(
            token, EraseReport, REPORT_TYPE, "report", _slot_host, sender
        )
        digest = hashlib.sha256(raw).hexdigest()
        with named(case=report.order_id):
            return self._counted(host, report, token, raw, digest)

    def _counted(
        self, host: HostRecord, report: EraseReport, token: str, raw: bytes, digest: str
    ) -> ReasonedRuling:
        failed = 0
        for _ in range(TRIES):
            try:
                decision = self._decide(host, report, token, raw, digest)
            except ConflictError as error:
                LOG.info("report of %s: %s", report.slot, error)
                continue
            except UnreadableError as error:
                decision = self._unjudged(report, digest, error)
            except QuarantineError:
                raise
            except (MemoryError, OSError) as error:
                # What the machine lacks now it has again later: the same message waits for that.
                tries = self._times_put_off[digest] = self._times_put_off.get(digest, 0) + 1
                if tries < PATIENCE:
                    raise UnavailableError(f"report of {report.slot}: {error!r}") from error
                LOG.exception("report of %s", report.slot)
                decision = self._unjudged(report, digest, error)
            except Exception as error:
                # A mistake of ours. The host says this once: what does not pass by is a person's.
                LOG.exception("report of %s", report.slot)
                failed += 1
                if failed < FAILURES:
                    continue
                decision = self._unjudged(report, digest, error)
            self._times_put_off.pop(digest, None)
            # A host that starts says again all that it ever said: a look each would keep the others
            # waiting.
            if not decision.unchanged:
                self.look(report.slot)
            return decision
        raise ConflictError(f"{report.slot}: expected to record a report, lost every round; again")

    def _unjudged(self, report: EraseReport, digest: str, error: Exception) -> ReasonedRuling:
        """Holds the slot whose order this report answers; where it answers none, raises ``error``
        again, for a report that is old, or of nobody's order, holds nothing."""
        record = self.store.slot(report.slot)
        if (
            record is None
            or record.order_token is None
            or record.state not in WORKING
            or record.order_id != report.order_id
            or record.generation != report.generation
        ):
            raise error
        text = f"expected to judge its report, met {type(error).__name__}; the log has more"
        decision = held(HoldCode.UNJUDGED, text)
        if isinstance(error, UnreadableError):
            text = f"{error}; release it when the database is restored"
            decision = held(HoldCode.RECORD_DAMAGED, text)
        # Not by its order, which may be what cannot be read.
        self._ruling_writer.hold(record, report, digest, decision)
        return decision

    def progress(self, token: str, sender: str = "") -> None:
        """A host's progress: shown to people, decides nothing."""
        _host, progress, _raw = self._authenticator.open(
            token, Progress, PROGRESS_TYPE, "progress", _slot_host, sender
        )
        order, last = self._sequences.get(progress.slot, ("", 0))
        if order == progress.order_id and last >= progress.sequence:
            return
        record = self.store.slot(progress.slot)
        if (
            record is None
            or record.state not in WORKING
            or record.order_id != progress.order_id
            or record.generation != progress.generation
        ):
            # Progress is overtaken by its own report every day: no alarm.
            LOG.debug("progress of %s comes too late", progress.slot)
            return
        changes = SlotChanges(
            heard_at=self.clock(),
            step=progress.step,
            fraction=min(max(progress.fraction, 0.0), 1.0),
            detail=progress.detail,
        )
        try:
            if record.state is State.ERASING and progress.step in (Step.VERIFY, Step.REPORT):
                self.store.transition(record, Event.VERIFYING_SEEN, changes=changes)
            else:
                self.store.amend(record, changes)
        except ConflictError:
            LOG.debug("progress of %s met another writer; the next one will do", progress.slot)
            return
        self._sequences[progress.slot] = progress.order_id, progress.sequence

    def receipt(self, token: str, sender: str = "") -> None:
        """A host's word about a ticket. Raises as :meth:`report` does.

        Valid lets the slot be given back. Anything else ends the case: a ticket is never revived.
        """
        host, receipt, raw = self._authenticator.open(
            token, TicketReceipt, RECEIPT_TYPE, "receipt", _slot_host, sender
        )
        with named(case=receipt.order_id):
            self._receipted(host, receipt, raw)

    def _receipted(self, host: HostRecord, receipt: TicketReceipt, raw: bytes) -> None:
        for _ in range(TRIES):
            try:
                changed = self._take_receipt(host, receipt, raw)
            except ConflictError as error:
                LOG.info("receipt of %s: %s", receipt.slot, error)
                continue
            if changed:
                self.look(receipt.slot)
            return
        raise ConflictError(f"{receipt.slot}: expected to record a receipt, lost every round")

    def hello(self, token: str, sender: str = "") -> None:
        """A host is alive and names the drives in its slots: see ``drive_inventory``."""
        if self._said_again(token, sender):
            return
        host, hello, raw = self._authenticator.open(
            token, Hello, HELLO_TYPE, "hello", lambda h: h.host, sender
        )
        late = hello.sequence <= host.sequence and not _is_copy(hello, host)
        if late and self._past.goes_on(host.name, hello.sequence):
            self._authenticator.refuse(
                "hello",
                host.name,
                f"expected a number above {host.sequence}, found {hello.sequence} and others: "
                "its state directory is a backup's, or two machines speak with one key; nothing "
                "that it says of its drives is heard. Make it a new incarnation ('nvme-eraser "
                "keygen' in an empty directory), and register it with --replace",
                raw,
            )
        if hello.sequence > host.sequence:
            # Before it is kept: told twice after a crash, and never not at all.
            self._tell(host, hello)
        try:
            host = self.store.host_seen(host.name, hello.sequence, hello)
        except ConflictError as error:
            LOG.info("%s", error)  # repeated or overtaken: the newer one has been heard
            return
        records = self.store.slots(host=host.name)
        changed: dict[Slot, None] = {}
        if not self._same.same(hello, records):
            taken = drive_inventory.take(self.store, hello, self.clock)
            changed = dict.fromkeys(taken.changed)
            # Only what was compared as a whole, and changed nothing, need not be compared again.
            if taken.whole and not changed:
                self._same.compared(hello, records)
            records = self.store.slots(host=host.name)
        grave: set[Slot] = set()
        for record in records:
            said = defences.weigh(record, host, self.limits)
            if defences.wants_look(record, said):
                changed[record.slot] = None
                if said.recall or said.running:
                    grave.add(record.slot)
        if not changed:
            self._same.quiet(host, hello, records)
        for slot in changed:
            if self.later is None:
                self.look(slot)
            else:
                self.later(slot, first=slot in grave)

    def _said_again(self, token: str, sender: str) -> bool:
        """Whether a hello says what its host said last, of which nothing followed; then it is on
        record that the host lives. False for everything else, also for what will be refused."""
        try:
            seen = signing.unverified_payload(token, "hello")
            hello = codec.load(Hello, seen, "hello")
            if sender and hello.host != sender:
                return False
            known = self._same.again(hello)
            # The costly check of the signature comes last; nothing that was read counts without it.
            if known is None or signing.verify(token, known.key, HELLO_TYPE, "hello") != seen:
                return False
        except BadWireError:
            return False
        if not self.store.heard_again(hello, known.key, known.hello.sequence, known.slots):
            return False
        self._same.heard(known, hello)
        return True

    def _tell(self, host: HostRecord, hello: Hello) -> None:
        """What the host says of its last gate for the first time: people hear of it once, and each
        slot's history has its own."""
        old = host.hello.gate if host.hello else None
        news = list(defences.news(old, hello.gate))
        if not news:
            return
        # Whatever it calls an address is part of the text: each would be a subject.
        said = [f"{codec.shown(at)}: {text}" if at else text for at, text in news[:_TOLD]]
        if len(news) > _TOLD:
            said.append(
                f"and {len(news) - _TOLD} more; each slot's history has its own, up to {NOTES}"
            )
        self._call(host.name, "; ".join(said))
        of_slots: dict[str, list[str]] = {}
        for address, text in news:
            if address:
                of_slots.setdefault(address, []).append(text)
        for address, texts in of_slots.items():
            record = self._named(host.name, address)
            for text in texts[: 0 if record is None else self._room(record)]:
                try:
                    record = self.store.amend(record, SlotChanges(), note=text) if record else None
                except ConflictError as error:
                    LOG.warning("not in the slot's history: %s", error)
                    record = self._named(host.name, address)

    def _call(self, host: str, text: str) -> None:
        """People hear of a host's news; of one that never stops having some, more and more seldom:
        it must not hide all other alarms."""
        now = self.monotonic()
        times, last = self._news.get(host, (0, now))
        times = times + 1 if now - last < QUIET_SECONDS else 1
        self._news[host] = times, now
        if times <= CALLS:
            alarm(f"host {host}", AlarmCode.GATE_NEWS, text)
        elif is_round(times):
            alarm(f"host {host}", AlarmCode.GATE_NEWS, f"news again ({times} times): {text}")
        else:
            LOG.warning("host %s: %s", host, text)

    def _room(self, record: SlotRecord) -> int:
        """How many more lines its host may have written there while the slot is in this state."""
        lines = reversed(self.store.newest_history(record.slot, 2 * NOTES))
        since = itertools.takewhile(lambda line: line.became is None, lines)
        return NOTES - sum(line.by is None and line.hold_code is None for line in since)

    def _named(self, host: str, address: str) -> SlotRecord | None:
        """The slot that a host calls so, where it is one that we have, and can read."""
        try:
            return self.store.slot(Slot(host, address))
        except ValueError:
            return None
        except UnreadableError as error:
            # The hello is not kept yet: what is wrong with one slot must not end it for all others.
            LOG.info("not in the slot's history: %s", error)
            return None

    def bell(self, host: str, address: str | None = None) -> float:
        """Somebody says that something happened: unsigned, so it only makes us look.

        Returns what :meth:`quarantine.service.inbound.bells.Bells.ring` does; whom the look did not
        reach is in :attr:`unreached`.
        """
        try:
            host_name(host)
            if address is not None:
                address = pci_address(address)
        except ValueError as error:
            raise BadInputError(f"bell: {error}") from error
        if not self.bells:
            return 0.0

        def look() -> None:
            self.unreached += self.looker.ring(host, address)

        return self._bells.ring((host, address), look)

    def _decide(
        self, host: HostRecord, report: EraseReport, token: str, raw: bytes, digest: str
    ) -> ReasonedRuling:
        record = self.store.slot(report.slot)
        if record is None:
            self._authenticator.refuse(
                "report", host.name, f"{report.slot}: expected an enrolled slot", raw
            )
        spent = self.store.nonce(report.nonce)
        if spent is not None and spent.digest == digest:
            LOG.info("%s: this report was accepted before", report.slot)
            self.registrar.write_missing(report.slot, report.order_id)
            return _accepted_before(record)
        if spent is not None:
            self._authenticator.refuse(
                "report", host.name, f"{report.slot}: the nonce is used", raw
            )
        # An answer "in use" leaves the order's nonce unspent, and spends its own digest.
        if self.store.nonce(digest) is not None:
            LOG.info("%s: this answer was counted before", report.slot)
            return _POSTPONED_BEFORE
        # As of receipts: what a new case overtook is no host's mistake. One that has the present
        # order's id is none of those.
        if report.generation < record.generation and report.order_id != record.order_id:
            LOG.info("%s: a report of an older case comes too late", report.slot)
            return _TOO_LATE
        if record.order_token is None:
            self._authenticator.refuse("report", host.name, f"{report.slot}: no order is out", raw)
        try:
            order = self._order(record.order_token)
        except BadInputError as error:
            # Its row was altered, or the key that signed it is named no more: the order is void,
            # and when its time is over another one is made.
            self._authenticator.refuse("report", host.name, f"{report.slot}: {error}", raw)
        if record.state is State.QUARANTINED and record.order_id == report.order_id:
            if report.outcome is Outcome.IN_USE:
                return _POSTPONED_BEFORE
            # Called overdue, or sent by a dispatcher that died before it said so.
            record = self.store.transition(record, Event.ORDERED, reason="the host has the order")
        decision = self._checked(order, report, record)
        if decision.ruling is Ruling.REFUSE:
            self._authenticator.refuse(
                "report", host.name, f"{report.slot}: {decision.reason}", raw
            )
        given = Testimony(order, report, token, digest, host.key)
        try:
            self._ruling_writer.carry_out(record, given, decision)
        except UnreadableError as error:
            # A certificate says what the drive's past was; so does that of one that is held.
            if decision.ruling is not Ruling.CERTIFY and not decision.erased:
                raise
            decision = _without_past(decision, error)
            self._ruling_writer.carry_out(record, given, decision)
        return decision

    def _checked(
        self, order: EraseOrder, report: EraseReport, record: SlotRecord
    ) -> ReasonedRuling:
        """A record that is damaged holds: the very report would only be refused again."""
        try:
            images = self.registrar.images(order.identity)
        except (BadInputError, UnreadableError) as error:
            decision = check(order, report, record)
            return _without_past(decision, error) if decision.ruling is Ruling.CERTIFY else decision
        return check(order, report, record, images)

    def _take_receipt(self, host: HostRecord, receipt: TicketReceipt, raw: bytes) -> bool:
        """Whether the record changed."""
        record = self.store.slot(receipt.slot)
        if record is None:
            self._authenticator.refuse(
                "receipt", host.name, f"{receipt.slot}: expected an enrolled slot", raw
            )
        ruling, reason = receipts.judge(record, receipt, self.believed.tickets)
        heard = SlotChanges(heard_at=self.clock())
        if ruling is receipts.ReceiptRuling.REFUSE:
            self._authenticator.refuse("receipt", host.name, f"{receipt.slot}: {reason}", raw)
        elif ruling is receipts.ReceiptRuling.HOLD:
            changes = replace(heard, new_case=True)
            with calling_for_hold(record.slot, f"held: {reason}"):
                self.store.hold(record, receipts.because(receipt, reason), changes=changes)
        elif ruling is receipts.ReceiptRuling.READY:
            changes = replace(heard, ticket_ready=True, detail="")
            self.store.amend(record, changes, note="the host has a valid ticket for the drive")
        else:
            LOG.info("%s: %s", record.slot, reason)
        return ruling is not receipts.ReceiptRuling.NOTHING

    def _order(self, token: str) -> EraseOrder:
        """Our own order, as signed: the database's word alone is not enough."""
        try:
            keys = self.believed.orders
            _key, payload = signing.verify_any(token, keys, ORDER_TYPE, "order")
            return _as_asked(codec.load(EraseOrder, payload, "order"), payload)
        except BadWireError as error:
            raise BadInputError(f"stored order: {error}; its drive is erased again") from error

    def look(self, slot: Slot) -> None:
        """At once, for latency only: whatever fails here is met again by the loop, or wanted again
        by the next hello."""
        if self.is_away:
            return
        began = self.monotonic()
        try:
            self.looker.look(slot)
        except QuarantineError as error:
            LOG.warning("%s: the loop will look again: %s", slot, error)
            now = self.monotonic()
            if isinstance(error, UnavailableError) and now - began >= HUNG_SECONDS:
                # Each further one may take as long, and all that hosts say would wait for it: they
                # have the other half of the time.
                self._away_until = now + (now - began)

    @property
    def is_away(self) -> bool:
        """What a look asks hung a moment ago: none is made now."""
        return self.monotonic() < self._away_until


def _is_copy(hello: Hello, host: HostRecord) -> bool:
    """Whether this is the host's last hello once more: two workers may take one entry of its list.
    A copy of the host that counts in step with it says something else of its drives."""
    kept = host.hello
    if kept is None or hello.sequence != host.sequence:
        return False
    # What was only noted as said again is kept under its first number.
    return replace(kept, sequence=hello.sequence) == hello


def _as_asked(order: EraseOrder, payload: bytes) -> EraseOrder:
    """An order that an earlier release signed asked for no second reading, and an honest host's
    report of it has none; the member's default is what is asked for from now on."""
    policy = codec.parse(payload, "order")["policy"]
    if "reread" in policy.get("verification", {}):
        return order
    asked = replace(order.policy.verification, reread=0)
    return replace(order, policy=replace(order.policy, verification=asked))


def _slot_host(message: EraseReport | Progress | TicketReceipt) -> str:
    return message.slot.host


def _without_past(decision: ReasonedRuling, error: QuarantineError) -> ReasonedRuling:
    """Nothing is certified over what cannot be read. A drive that would be held anyway is held for
    its own reasons too, without a certificate of its erase."""
    damaged = f"{error}; release it when the database is restored"
    if decision.ruling is Ruling.CERTIFY:
        return held(HoldCode.RECORD_DAMAGED, damaged)
    return replace(decision, erased=False, reasons=(*decision.reasons, damaged))


def _accepted_before(record: SlotRecord) -> ReasonedRuling:
    if record.state in WAITING_FOR_PEOPLE:
        return ReasonedRuling(Ruling.HOLD, (record.reason,), unchanged=True)
    return ReasonedRuling(Ruling.CERTIFY, unchanged=True)
