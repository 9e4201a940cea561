"""The host testifies, the control plane decides (promise 7).

Pure: an order, the report that answers it and the slot's record, to one decision. A signed report
that contradicts itself is alarming, whatever its verdict says: it holds the slot.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace

from eraser.protocol import codec
from eraser.protocol.conclusions import buffers, unallocated
from eraser.protocol.conclusions.remarks import remarks
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.fitness import Consequence, HealthFinding
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label, Unallocated
from eraser.protocol.profile import layout_differences
from eraser.protocol.report import EraseReport, Outcome, Verdict
from quarantine.errors import BadInputError
from quarantine.evidence import certificate, disclosure
from quarantine.evidence.certificate import CertificateEvidence, Link
from quarantine.evidence.checks import bounds, consistency, images, methods, reading
from quarantine.evidence.sections import Certificate, Issuer
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import HoldCode, HoldReason
from quarantine.record.words.states import WORKING, State
from quarantine.rules import holds
from quarantine.rules.reports import causes

MAX_CERTIFICATE_BYTES = codec.MAX_DOCUMENT_BYTES // 2
"""As far as a host fills it; readers take twice as much, for the slot's history comes on top."""


class Ruling(enum.StrEnum):
    """What becomes of the slot."""

    CERTIFY = "certify"
    """Erased, proved as the policy asks, and fit: write the certificate."""
    HOLD = "hold"
    """A human must decide."""
    POSTPONE = "postpone"
    """Nothing was sent to the drive and nothing is wrong: the order comes again."""
    NOTE = "note"
    """A person held the slot while its drive was being erased: history says what its host says,
    and no more follows. Released, the drive is erased again."""
    REFUSE = "refuse"
    """The report answers another order: nothing changes, the refusal is recorded."""


@dataclass(frozen=True)
class ReasonedRuling:
    """A ruling with every reason for it; no reasons for a certificate."""

    ruling: Ruling
    reasons: tuple[str, ...] = ()
    erased: bool = False
    """For a hold: the erase itself stands, proved as the policy asks; the certificate says what
    was achieved and that the drive was not handed out."""
    retire: tuple[str, ...] = ()
    """For a hold: why the drive is retired: the policy's table of health says so, or its host
    found what no order can ever mend."""
    code: HoldCode = HoldCode.OTHER
    """For a hold: which of the reasons is the gravest."""
    unchanged: bool = False
    """The report was counted before, or is of an older case: nothing follows from it now."""

    @property
    def reason(self) -> str:
        """All reasons in one line."""
        return "; ".join(self.reasons)

    @property
    def hold(self) -> HoldReason:
        """For a hold: why."""
        return holds.because(self.code, self.reason)


def held(
    code: HoldCode, *reasons: str, erased: bool = False, retire: tuple[str, ...] = ()
) -> ReasonedRuling:
    """A hold; there is none without a code."""
    return ReasonedRuling(Ruling.HOLD, reasons, erased, retire, code)


def check(
    order: EraseOrder,
    report: EraseReport,
    record: SlotRecord,
    installed: tuple[str, ...] = (),
) -> ReasonedRuling:
    """Decides on a report whose signature already held.

    ``installed`` are the firmware revisions by slot in the drive's last certificate; empty where it
    has none, or where that does not tell.
    """
    stale = tuple(_stale(order, report, record))
    if stale:
        return ReasonedRuling(Ruling.REFUSE, stale)
    if record.state not in WORKING:
        text = f"its host ended the erase that was under way ({report.outcome}, {report.verdict})"
        return ReasonedRuling(Ruling.NOTE, (f"{text}; released, the drive is erased again",))
    if report.outcome is Outcome.IN_USE:
        return _nothing_sent(ReasonedRuling(Ruling.POSTPONE, ("the drive is in use",)), report)
    if report.outcome is Outcome.WRONG_DRIVE:
        return _elsewhere(held(HoldCode.ANOTHER_DRIVE, _another_drive(order, report)), report)
    if report.outcome is Outcome.ABSENT:
        text = "no NVMe controller answers in the slot"
        return _elsewhere(held(HoldCode.NO_CONTROLLER, text), report)
    if report.outcome is Outcome.NO_METHOD:
        text = f"policy {order.policy.name!r} allows no method that the drive offers"
        return _nothing_sent(held(HoldCode.NO_METHOD, text), report)
    # Each once: a host that knows the policy says the same of the drive's health as we.
    retire = tuple(dict.fromkeys((*_health(order, report, Consequence.RETIRE), *report.retire)))
    if report.verdict is not Verdict.ERASED:
        return held(
            causes.of_unproved(order, report),
            f"verdict {report.verdict}",
            *report.reasons,
            retire=(*retire, *_failed(order, report)),
        )
    # A link of the chain cannot be taken back. So where nothing else contradicts, its certificate
    # is tried out: one that would contradict itself, or that nobody could read, is never made.
    claims = tuple(_claims(order, report)) or tuple(_unsayable(order, report))
    loaded = tuple(images.loaded(installed, order, report))
    code = causes.of_unfit(
        order,
        report,
        contradicted=bool(claims),
        loaded=bool(loaded),
        differs=any(_profile(order, report)),
    )
    if not report.fit:
        reasons = ("erased, but not fit to be handed out", *report.reasons, *claims, *loaded)
        return held(code, *reasons, erased=_provable(claims, report), retire=retire)
    wrong = (*claims, *_unfit(order, report), *report.retire)
    if loaded and not wrong:
        # Its host is honest and cannot know: the erase itself stands.
        return held(code, *loaded, erased=_provable(claims, report))
    reasons = (*wrong, *loaded)
    return (
        held(code, *reasons, retire=retire)
        if reasons
        else ReasonedRuling(Ruling.CERTIFY, retire=retire)
    )


def _provable(claims: tuple[str, ...], report: EraseReport) -> bool:
    """Nothing contradicts the erase, and all is there that a certificate names."""
    return not claims and None not in (report.facts_before, report.facts_after, report.health)


def _stale(order: EraseOrder, report: EraseReport, record: SlotRecord) -> Iterator[str]:
    """The ids: each must be the order's, and the order the record's present one."""
    # What a person holds in mid-erase, its host ends all the same.
    by_person = record.state is State.HELD and record.hold_code == HoldCode.BY_PERSON
    if record.state not in WORKING and not by_person:
        yield f"expected a slot that waits for a report, found it {record.state}"
    for name, expected, found in (
        ("slot", str(order.slot), str(record.slot)),
        ("order id", record.order_id, order.order_id),
        ("generation", record.generation, order.generation),
        ("nonce", record.nonce, order.nonce),
    ):
        if expected != found:
            yield f"order: expected the record's {name} {expected}, found {found}"
    for name, expected, found in (
        ("slot", str(order.slot), str(report.slot)),
        ("order id", order.order_id, report.order_id),
        ("generation", order.generation, report.generation),
        ("nonce", order.nonce, report.nonce),
        ("incarnation", order.incarnation, report.incarnation),
    ):
        if expected != found:
            yield f"report: expected the order's {name} {expected}, found {found}"


def _nothing_sent(decision: ReasonedRuling, report: EraseReport) -> ReasonedRuling:
    """For outcomes that say that the drive was left alone: the rest must say so too."""
    if report.methods:
        return _contradicts(report, "methods")
    return _not_erased(decision, report)


def _elsewhere(decision: ReasonedRuling, report: EraseReport) -> ReasonedRuling:
    """For outcomes that are about the slot as it is now. A case that was resumed may have sent
    something to its drive before that was pulled, or before a boot gave its address to another."""
    if report.methods or report.commands:
        text = "the ordered drive was sent commands that change it before it left the slot"
        decision = replace(decision, reasons=(*decision.reasons, text))
    return _not_erased(decision, report)


def _not_erased(decision: ReasonedRuling, report: EraseReport) -> ReasonedRuling:
    if report.verdict is Verdict.ERASED or report.fit:
        return _contradicts(report, "an erase or fitness")
    return replace(decision, reasons=(*decision.reasons, *report.reasons))


def _contradicts(report: EraseReport, claimed: str) -> ReasonedRuling:
    text = f"the report says {report.outcome} and yet claims {claimed}"
    return held(HoldCode.REPORT_CONTRADICTS, text)


def _another_drive(order: EraseOrder, report: EraseReport) -> str:
    """Both drives, told apart by what differs; the serial shown as its digest would be useless."""
    found = report.identity or order.identity
    differences = "; ".join(order.identity.differences(found))
    # Without any the report is of a case that had its own drive before; its reasons name the other.
    return "another drive is in the slot than ordered" + (differences and f" ({differences})")


def _claims(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """What speaks against the erase that the report claims."""
    if report.identity is None:
        yield "expected the identity of the drive that was erased, found none"
    else:
        yield from (f"identity, {line}" for line in order.identity.differences(report.identity))
    if report.policy != order.policy.name:
        yield f"expected policy {order.policy.name!r}, found {report.policy!r}"
    if report.profile != order.profile.name:
        yield f"expected profile {order.profile.name!r}, found {report.profile!r}"
    yield from bounds.contradictions(report)
    yield from methods.contradictions(order, report)
    yield from reading.contradictions(order, report)


def _unsayable(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """What keeps the certificate of this report from holding, by the host's words alone.

    It could not be taken back: the whole chain would be called broken for ever, by one host.
    """
    if None in (report.facts_before, report.facts_after, report.health):
        return  # there will be none
    # Without a history, and issued when the host finished: our clock is not what is looked at.
    evidence = CertificateEvidence(order, "", report, "", "", "", "", (), withheld=report.reasons)
    try:
        body = certificate.build(evidence, Issuer(), Link(), report.finished_at)
        # Each number of a report is bounded as it is read, what is made of two of them is not.
        codec.decode(Certificate, codec.plain(body), "its certificate")
    except (BadInputError, BadWireError) as error:
        yield str(error)
        return
    yield from consistency.contradictions(body)
    size = certificate.file_bytes(body)
    if size > MAX_CERTIFICATE_BYTES:
        yield f"expected at most {MAX_CERTIFICATE_BYTES} bytes in its certificate, found {size}"


def _unfit(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """What speaks against handing out a drive that its host calls fit."""
    yield from _profile(order, report)
    if report.health is None:
        yield "expected the SMART log, found none: the policy's health limits are not shown"
    yield from _health(order, report, Consequence.HOLD, Consequence.RETIRE)
    memory = buffers.seen(report.facts_before, report.facts_after)
    if held := buffers.why_held(memory, report.achieved, order.policy):
        yield held
    yield from _unsteady(order, report)


def _unsteady(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Capacity in no namespace that the drive told of at one look alone. Its host may have had
    other words; one of an older release believes the last."""
    asked = order.policy.verification.unallocated
    counts = asked is Unallocated.HOLD or (
        report.achieved is Label.CLEAR and asked is not Unallocated.SKIP
    )
    if counts and (lost := unallocated.unsteady(report)) >= unallocated.SMALLEST:
        yield (
            f"{lost} bytes belonged to no namespace by one look of two, and nobody has read them: "
            "expected a drive that tells the same before its erase and after it"
        )


def _profile(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    for difference in report.profile_differences:
        yield f"called fit, and yet not as its profile: {difference}"
    if report.facts_after is None:
        return  # named by the reading's checks
    if report.facts_after.firmware not in order.profile.firmware:
        yield (
            f"expected firmware {' or '.join(order.profile.firmware)}, "
            f"found {report.facts_after.firmware!r}"
        )
    if loose := disclosure.loose(report):
        names = ", ".join(map(str, loose))
        yield f"expected every namespace attached and read, found {names} not attached"
    wanted, tolerance = order.profile.namespaces, order.profile.size_tolerance
    if layout_differences(wanted, report.facts_after.namespaces, tolerance):
        yield "expected the namespaces of the profile after the erase, found others"
    for name, expected, found in (
        ("vendor", order.profile.vendor_id, order.identity.vendor_id),
        ("device", order.profile.device_id, order.identity.device_id),
        ("model", order.profile.model, order.identity.model),
        ("total_bytes", order.profile.total_bytes, report.facts_after.total_bytes),
    ):
        # A total of 0 is a profile that does not say.
        if expected and expected != found:
            yield f"expected {name} {expected!r} of the profile, found {found!r}"


def _health(order: EraseOrder, report: EraseReport, *consequences: Consequence) -> Iterator[str]:
    """Findings in the SMART log that the policy's table gives one of ``consequences``."""
    if report.health is None:
        return
    looks = report.facts_before, report.facts_after
    for remark in remarks(report.health, order.policy.health, *looks):
        if remark.consequence in consequences:
            yield remark.text


def _failed(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """A sanitize that failed by the drive's own log, and failed again; where that retires it."""
    if order.policy.health.consequence(HealthFinding.ERASE_FAILED) is not Consequence.RETIRE:
        return
    failed = [record for record in report.methods if methods.failed(record)]
    # The last: hosts repeat that one, and the attempts of another may only have been interrupted.
    stands_last = bool(failed) and failed[-1] is report.methods[-1]
    if stands_last and sum(record.attempts for record in failed) > 1:
        names = " and ".join(dict.fromkeys(record.method.value for record in failed))
        yield f"log 81h says that {names} failed (SSTAT 3), also when it was tried again"
