"""Do the commands, the drive's own log and the claimed label of a report fit together?

Pure. Every function yields contradictions; none means that the testimony hangs together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eraser.protocol.conclusions.applied import Applied, apply, tolerated
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label, Method
from eraser.protocol.report import ControllerFacts, EraseReport, MethodRecord, Verdict
from quarantine.errors import BadInputError
from quarantine.evidence.checks import sanitizelog
from quarantine.evidence.checks.sanitizelog import SanitizeStatus
from quarantine.evidence.checks.sentcommands import SentCommands

MOST_RECORDS = 4096
"""In one report: as often as a drive has namespaces, some times over."""

SANITIZE_MASK = 0x20F
"""CDW10 of Sanitize (Base 2.0, figure 311): SANACT 2:0, AUSE 3, NDAS 9. The last two stay 0."""
PURGE_REQUIRED = 0x800
"""CDW10 of Sanitize, bit 11 (PREQ): purge as IEEE Std 2883 defines that, or fail."""
FORMAT_SES_MASK = 0xE00
"""CDW10 of Format NVM (Base 2.0, figure 189): SES, bits 11:9."""


@dataclass(frozen=True)
class _Believed:
    """What a command of a method has to look like, and what the drive has to offer for it."""

    mask: int
    bits: int
    """CDW10 with the mask."""
    sanicap: int = 0
    """Identify Controller bytes 331:328 (Base 2.0, figure 275); OACS and FNA likewise."""
    oacs: int = 0
    fna: int = 0


_BELIEVED = {
    Method.SANITIZE_CRYPTO: _Believed(SANITIZE_MASK, 4, sanicap=0x1),
    Method.SANITIZE_BLOCK: _Believed(SANITIZE_MASK, 2, sanicap=0x2),
    Method.FORMAT_USER_DATA: _Believed(FORMAT_SES_MASK, 1 << 9, oacs=0x2),
    Method.FORMAT_CRYPTO: _Believed(FORMAT_SES_MASK, 2 << 9, oacs=0x2, fna=0x4),
}


def offered(method: Method, facts: ControllerFacts) -> bool:
    """Whether the drive, by its own Identify data, has the method."""
    wanted = _BELIEVED[method]
    return (
        facts.sanicap & wanted.sanicap == wanted.sanicap
        and facts.oacs & wanted.oacs == wanted.oacs
        and facts.fna & wanted.fna == wanted.fna
    )


def applied(order: EraseOrder, facts: ControllerFacts) -> Applied:
    """The order's policy with the quirks of its drive, as the host had to work it out."""
    ids = order.identity
    return apply(order.policy, ids.vendor_id, ids.model, facts.firmware)


def planned(policy: Applied, label: Label, facts: ControllerFacts) -> tuple[Method, ...]:
    """What had to be run for ``label``: all purge methods offered, or the first clear method."""
    if label is Label.PURGE:
        return tuple(m for m in policy.purge_methods if offered(m, facts))
    return tuple(m for m in policy.clear_methods if offered(m, facts))[:1]


def contradictions(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Everything about label and methods that a certificate could not stand on."""
    yield from _label(order, report)
    if not report.methods:
        yield "expected at least one method that was carried out, found none"
        return
    if len(report.methods) > MOST_RECORDS:
        yield f"expected {MOST_RECORDS} records of methods at most, found {len(report.methods)}"
        return
    yield from _plan(order, report)
    yield from _reach(report)
    # By identity: two runs of one method may have equal records.
    passed = {id(record) for record in tolerated(order.policy, report.methods)}
    sent = SentCommands(report.commands)
    for record in standing(report):
        if id(record) not in passed:
            yield from _method(record, report, sent)
    yield from sent.breaking_seal(report)


def standing(report: EraseReport) -> tuple[MethodRecord, ...]:
    """The last record of each method and namespace: a repeated one stands for those before it."""
    # In a dict the later record takes the earlier one's place.
    return tuple({(record.method, record.nsid): record for record in report.methods}.values())


def superseded(report: EraseReport) -> tuple[MethodRecord, ...]:
    """The others, named on the certificate."""
    stand = {id(record) for record in standing(report)}
    return tuple(record for record in report.methods if id(record) not in stand)


def unseen(order: EraseOrder, report: EraseReport) -> tuple[Method, ...]:
    """Planned methods that no record speaks of: lost with a journal, named on the certificate."""
    if report.achieved is None or report.facts_before is None:
        return ()
    done = {record.method for record in report.methods}
    facts = report.facts_before
    plan = planned(applied(order, facts), report.achieved, facts)
    return tuple(m for m in plan if m not in done)


def failed(record: MethodRecord) -> bool:
    """Whether the drive's own log says that this sanitize failed (SSTAT 3).

    Not by what stood there before: a drive that refuses the command shows an earlier failure.
    """
    if not record.method.is_sanitize or record.verdict is not Verdict.NOT_ERASED:
        return False
    if not record.changed:
        return False
    try:
        log = sanitizelog.parse(record.log_after, f"{record.method}: log after")
    except BadInputError:
        return False
    # SCDW10 tells whether the log is of this very command.
    return log.status == SanitizeStatus.FAILED and log.cdw10 == record.cdw10


def _label(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    wanted = order.policy.label
    if report.asked is not wanted:
        yield f"expected the label {wanted} to have been asked for, found {report.asked}"
    if report.achieved is None:
        yield "expected a label that was achieved, found none"
        return
    weaker = wanted is Label.PURGE and report.achieved is Label.CLEAR
    if weaker and not order.policy.allow_clear:
        yield (
            f"policy {order.policy.name!r} asks for {wanted} and allows no downgrade, "
            f"found {report.achieved}"
        )
    facts = report.facts_before
    # A host goes by the same: what a quirk skips is not offered, and one that failed is no Clear.
    if (
        weaker
        and facts is not None
        and (kept := planned(applied(order, facts), Label.PURGE, facts))
    ):
        yield (
            f"expected {Label.CLEAR} in place of {Label.PURGE} only where nothing of that is "
            f"offered, the drive offers {', '.join(kept)} for {Label.PURGE}"
        )
    if weaker != report.downgraded:
        yield (
            f"expected downgraded to be {weaker} for {wanted} asked and {report.achieved} "
            f"achieved, found {report.downgraded}"
        )
    for record in report.methods:
        # Purge is made of Sanitize alone and Clear of Format alone: a mix is neither.
        if record.method.is_sanitize != (report.achieved is Label.PURGE):
            yield f"method {record.method} is no part of the label {report.achieved}"


def _plan(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    if report.achieved is None:
        return
    if report.facts_before is None:
        yield "expected what the drive offered before the erase, found nothing"
        return
    policy = applied(order, report.facts_before)
    plan = planned(policy, report.achieved, report.facts_before)
    # Each method once, in the order of its first run.
    done = tuple(dict.fromkeys(record.method for record in report.methods))
    # What was read back is what the last one left.
    last = report.methods[-1].method
    if not plan:
        yield f"the drive says that it offers no method for {report.achieved}, yet one is claimed"
        return
    # Fewer methods on offer than the policy names are less than was asked for: that needs leave.
    short = report.achieved is Label.PURGE and len(plan) < len(policy.purge_methods)
    if short and order.policy.label is Label.PURGE and not order.policy.allow_fewer:
        yield (
            f"policy {order.policy.name!r} asks for all of {', '.join(policy.purge_methods)} and "
            f"allows no fewer, the drive offers {', '.join(plan)}"
        )
    strange = [m for m in done if m not in plan]
    if strange:
        yield f"expected the methods {', '.join(plan)}, found also {', '.join(strange)}"
    missing = [m for m in plan if m not in done]
    adopted = any(record.adopted for record in report.methods)
    if missing and not adopted:
        # Without a journal a sanitize found running says nothing of those before it.
        yield f"expected the methods {', '.join(plan)}, found none of {', '.join(missing)}"
    if not strange and not adopted and last is not plan[-1]:
        yield f"expected {plan[-1]} to stand last and be verified, found {last}"


ALL_NAMESPACES = 0xFFFFFFFF
"""The number that a Format of all namespaces names (Base 2.0, 5.14)."""
FNA_ERASES_ALL = 0x2
"""FNA, bit 1: a Format of one namespace that erases, erases all (Base 2.0, figure 275)."""


def _reach(report: EraseReport) -> Iterator[str]:
    """Format erases the namespace that it names; each that was read has to be one of these."""
    facts, read = report.facts_before, report.verification
    if report.achieved is not Label.CLEAR or facts is None or read is None:
        return
    for layout in () if report.facts_after is None else report.facts_after.detached:
        yield f"namespace {layout.nsid} is not attached: Format does not reach it"
    formatted = {
        record.nsid
        for record in standing(report)
        if not record.method.is_sanitize and record.verdict is Verdict.ERASED
    }
    # By either all namespaces were erased, whichever was named.
    if ALL_NAMESPACES in formatted or (formatted and facts.fna & FNA_ERASES_ALL):
        return
    for namespace in read.namespaces:
        if namespace.nsid not in formatted:
            yield (
                f"expected a Format of namespace {namespace.nsid}, found none: by FNA "
                f"{facts.fna:#x} one of another does not erase it"
            )


def _method(record: MethodRecord, report: EraseReport, sent: SentCommands) -> Iterator[str]:
    name = str(record.method)
    if record.verdict is not Verdict.ERASED:
        yield f"{name}: expected the verdict erased, found {record.verdict} ({record.reason})"
    wanted = _BELIEVED[record.method]
    if record.cdw10 & wanted.mask != wanted.bits:
        yield (
            f"{name}: expected CDW10 & {wanted.mask:#x} to be {wanted.bits:#x}, "
            f"found CDW10 {record.cdw10:#x}"
        )
    if record.method.is_sanitize:
        yield from _sanitize(record, report, name, sent)
    # Format leaves no log: its status is all that the drive says of it, so a lost one does not do.
    elif not sent.has(record, (0,)):
        yield f"{name}: expected a Format with CDW10 {record.cdw10:#x} and status 0, found none"


def _sanitize(
    record: MethodRecord, report: EraseReport, name: str, sent: SentCommands
) -> Iterator[str]:
    try:
        after = sanitizelog.parse(record.log_after, f"{name}: log after")
    except BadInputError as error:
        yield str(error)
        return
    if not after.succeeded:
        yield f"{name}: expected success in log 81h, found {after.status_name}"
    if after.cdw10 != record.cdw10:
        yield (
            f"{name}: expected SCDW10 {record.cdw10:#x} in log 81h, found {after.cdw10:#x}: "
            "the success is another command's"
        )
    if after.cdw10 & PURGE_REQUIRED and not after.purged:
        yield f"{name}: expected the drive to report that it purged, as it was asked, found not"
    if not record.changed:
        yield f"{name}: log 81h was not seen to change: the success may be an older one's"
    if record.adopted:
        return
    try:
        sanitizelog.parse(record.log_before, f"{name}: log before")
    except BadInputError as error:
        yield str(error)
    # A status of None is a command whose exit was lost with its sender, and a sender that died at
    # once left no record of it at all: log 81h speaks for both.
    if not report.resumed and not sent.has(record, (0, None)):
        yield f"{name}: expected a Sanitize with CDW10 {record.cdw10:#x} as sent, found none"
