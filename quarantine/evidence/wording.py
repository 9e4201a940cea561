"""The sentences of a certificate, each computed from facts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label, VerificationMode
from eraser.protocol.profile import NamespaceLayout, layout_differences
from eraser.protocol.report import (
    ControllerFacts,
    EraseReport,
    LinkRecord,
    MethodRecord,
    Verdict,
    VerificationRecord,
)
from quarantine.errors import BadInputError
from quarantine.evidence import display, downgrades
from quarantine.evidence.checks import methods, outcomes, reading, sanitizelog, sentcommands
from quarantine.evidence.sections import Sanitization, VerificationStatement
from quarantine.evidence.terms import TECHNIQUES

_MANUFACTURERS = {
    0x025E: "Solidigm",
    0x1179: "Toshiba",
    0x1344: "Micron",
    0x144D: "Samsung",
    0x15B7: "SanDisk",
    0x1B36: "Red Hat (emulated)",
    0x1B96: "Western Digital",
    0x1BB1: "Seagate",
    0x1C5C: "SK hynix",
    0x1E0F: "KIOXIA",
    0x8086: "Intel",
}
"""PCI vendor ids (PCI ID repository) of the usual makers; others are shown by number alone."""


def headline(
    drive: ControllerIdentity,
    done: Sanitization,
    verified: VerificationStatement,
    *,
    withheld: bool,
    unread: Sequence[str] = (),
) -> str:
    """What was reported, what was read, and what came of it.

    ``unread`` is what the reading does not have.
    """
    good = outcomes.succeeded(done.techniques)
    bad = [name for name in outcomes.tried(done.techniques) if name not in good]
    without = f" {' and '.join(bad)} did not succeed." if bad else ""
    # Before its colon stands the method's name.
    how = verified.method.partition(":")[0]
    but = f" except for {', and '.join(unread)}" if unread else ""
    read = f"It was then read back{' in full' if how == 'full' else f' by {how}'}{but}, and"
    # Without a namespace nothing could be read, and the sentence may not sound as if.
    if not verified.blocks:
        read = "Nothing of it was read back, and it"
    came = "was not handed out" if withheld else "was accepted for its next use"
    return (
        f"The drive {drive.model}, serial number {drive.serial}, reported success of "
        f"{' and '.join(good)}.{without} {read} {came}."
    )


NOT_ATTESTED = "Not attested: "


def attestation(statement: str, organisation: str) -> str:
    """Who vouches for what cryptographic erase alone rests on."""
    if not statement:
        return (
            f"{NOT_ATTESTED}nothing but cryptographic erase succeeded, and nobody stated here that "
            "all user data was ever stored encrypted under the key that was changed, with which "
            "cipher and strength. That is the maker's word."
        )
    return (
        f"Stated by {organisation} for this model and firmware, and not checked here: {statement}"
    )


def probes(record: VerificationRecord) -> str:
    """What became of canaries and fingerprints; each that was not looked for is accounted for."""
    taken, compared = record.fingerprints_taken, record.fingerprints_checked
    rest = (
        f" The other {taken - compared:,} were not: canaries were written over them, or they were "
        "not read again."
        if compared < taken
        else ""
    )
    return (
        f"{record.canaries_planted:,} canaries were written before, and {record.canaries_checked:,}"
        f" looked for and found gone. Of {taken:,} blocks fingerprinted before, {compared:,} were "
        f"compared and found changed.{rest}"
    )


def manufacturer(identity: ControllerIdentity) -> str:
    """The maker's name where the PCI vendor id is a known one, and the id."""
    number = f"PCI vendor {identity.vendor_id:#06x}"
    name = _MANUFACTURERS.get(identity.vendor_id)
    return f"{name} ({number})" if name else number


def version(number: int) -> str:
    """VS (Identify Controller bytes 83:80): major, minor, tertiary."""
    return f"{number >> 16}.{(number >> 8) & 0xFF}.{number & 0xFF}" if number else "not reported"


def meaning(order: EraseOrder, report: EraseReport, organisation: str) -> str:
    """The method as the operator's named mapping, not as a standard's blessing."""
    by = f"as {organisation} maps it in policy {order.policy.name!r}"
    if report.achieved is Label.PURGE:
        return (
            f"Purge, {by}: a Sanitize operation of the whole NVM subsystem whose success the "
            "drive's own log (81h) reports; what summaries of IEEE 2883-2022 class as Purge."
        )
    return (
        f"Clear, {by}: Format NVM with a secure erase setting, reported successful; what "
        "summaries of IEEE 2883-2022 class as Clear. It is not Purge."
    )


def link(seen: LinkRecord) -> str:
    """``4 lanes at 16 GT/s; drive and slot can 4 at 16``."""
    able = ""
    if seen.width_able and seen.speed_able:
        able = f"; drive and slot can {seen.width_able} at {seen.speed_able:g} GT/s"
    return f"PCI Express, {seen.width} lanes at {seen.speed:g} GT/s{able}"


def description(record: MethodRecord) -> str:
    """The operation, and what of it was reported: that it did its work is the drive's word."""
    technique = TECHNIQUES[record.method]
    if record.verdict is not Verdict.ERASED:
        return f"{technique.operation}: it did not succeed"
    return f"{technique.operation}: reported as done; by NVM Express it {technique.does}"


def reported(record: MethodRecord) -> str:
    """What the drive said of the method. Raises ``BadInputError`` for a log that is none, of one
    whose success is claimed."""
    without = ""
    if record.verdict is not Verdict.ERASED:
        without = f"No success of this run is on record: {record.reason or record.verdict}."
    if not record.method.is_sanitize:
        return without or "The drive completed the command with status 0 (success)."
    try:
        log = sanitizelog.parse(record.log_after, f"{record.method}: log after")
    except BadInputError as error:
        if not without:
            raise
        return f"{without} {outcomes.UNTOLD}: {error}."
    # Global Data Erased is the drive's word that nothing was written since.
    seal = "set" if log.global_data_erased else "not set"
    other = "" if log.cdw10 == record.cdw10 else "; that is another command's"
    # As an earlier one left it, where the drive refused this one.
    if without and log.succeeded and not record.changed:
        other += "; it was not seen to change"
    purged = ""
    if log.cdw10 & methods.PURGE_REQUIRED:
        purged = f", Purged as IEEE Std 2883 defines it {'set' if log.purged else 'not set'}"
    return (
        f"Log 81h after: {log.status_name} (SSTAT {log.status}), SCDW10 {log.cdw10:#x}, "
        f"Global Data Erased {seal}{purged}{other}."
    ) + (without and f" {without}")


def verification_method(record: VerificationRecord) -> str:
    """How it was verified, by name: in full, or by quick sampling."""
    if not reading.total_blocks(record):
        return "none: there was no namespace to read"
    if reading.read_everything(record):
        return "full: every addressable 4 KiB block was read"
    if record.done is VerificationMode.NIST:
        return (
            f"sampling in a layout of the withdrawn NIST SP 800-88r1: {_layout(record)}; and "
            "besides quick sampling: stratified pseudorandom 4 KiB blocks; new places each time"
        )
    return "quick sampling: stratified pseudorandom 4 KiB blocks, new places each time"


def confidence(record: VerificationRecord) -> str:
    """What the reads are worth: n, seed, bound, and the assumption under all of them."""
    whole, noise = reading.read_everything(record), reading.shows_noise(record)
    if not reading.total_blocks(record):
        return "No block was read, for there was no namespace: nothing is claimed."
    assumption = (
        "This assumes that the drive's firmware answers reads truthfully, "
        "at any later time and to any host alike"
        + ("" if not noise and (whole or record.fresh) else _ALIKE)
        + "; the media itself was not read below it."
    )
    blocks, share = reading.total_blocks(record), display.percent(reading.residual_shown(record))
    likely = f"with a probability of {display.probability(record.confidence)}"
    if whole:
        places = f"All {blocks:,} blocks of 4 KiB were read"
    else:
        places = (
            f"{record.sampled:,} of {blocks:,} blocks of 4 KiB were read at places chosen with "
            f"seed {record.seed}, drawn {_when(record)}"
        )
        if record.done is VerificationMode.NIST:
            places += f", and {_layout(record)}, which bound no small remainder any better"
    # What bears the claim: known places where noise was read, else all blocks, else the sample.
    if noise:
        return (
            f"{places}. Some read as noise, whose origin nobody can tell by its look; so the claim "
            f"rests on n = {reading.counted_places(record):,} places whose content before the "
            f"erase was known, none of which kept it. If more than {share} of the blocks, "
            f"scattered, had kept theirs, the check would have found some {likely}. {assumption}"
        )
    if whole:
        return f"{places}, and none of them holds data{_but(record)}. {assumption}"
    return (
        f"{places}, and none of them holds data{_but(record)}. If more than {share} of the blocks, "
        f"scattered, still did, the check would have found some {likely}. A single small remainder "
        f"can escape a sample. {assumption}"
    )


_ALIKE = ", and that it treats blocks which it was asked for before the erase like all others"
"""Where nothing but such blocks bears the claim."""


def _but(record: VerificationRecord) -> str:
    """A tenant's filler of one short value looks as what an erase leaves, so it is let through
    (docs/decisions/verdict.md) and not called nothing."""
    if not any(n.pattern for n in record.namespaces):
        return ""
    return ", unless it is a short value that some repeat throughout"


def _when(record: VerificationRecord) -> str:
    return "after the last technique" if record.fresh else "before the erase"


def _layout(record: VerificationRecord) -> str:
    """The NIST layout by its counts. Revision 1 was withdrawn, and no claim of it is made here."""
    inside = sum(n.window_blocks for n in record.namespaces)
    # Rounded down to two decimals: more than was read may not be claimed.
    share = math.floor(inside / max(1, reading.total_blocks(record)) * 1e4) / 100
    count = sum(n.windows for n in record.namespaces)
    small = any(n.window_blocks == n.blocks for n in record.namespaces)
    but = ", except of namespaces that are one window, whole" if small else ""
    return (
        f"{count:,} windows with {inside * reading.BLOCK:,} bytes ({share:g} %), two of at least "
        "5 % of its subsection in each of 1,000 equal subsections, with the first and last block"
        f"{but}"
    )


NOT_SEEN = "Not seen: "
"""How the exception begins that names a planned method of which no record was left."""
_DELETED, _CREATED = "namespace(s) deleted", "namespace(s) created"
_FORMATTED = "namespace(s) given another LBA format"
_CUT_OFF = "such command(s) cut off, their end unknown"


def exceptions(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """What went otherwise than an auditor would take for granted."""
    for line in downgrades.seen(order, report):
        yield f"Downgraded: {line}"
    for method in methods.unseen(order, report):
        yield (f"{NOT_SEEN}{method} was planned; no record of it was left by an interrupted case.")
    for record in methods.superseded(report):
        why = record.reason or record.verdict
        yield f"{record.method} was run more than once; an earlier run: {why}."
    for record in report.methods:
        if record.adopted:
            # Also where the drive refused ours because another's of the same kind was running.
            yield (
                f"{record.method} was found running without a journal that tells of its beginning; "
                "its end was observed."
            )
        if record.attempts > 1:
            yield f"{record.method} took {record.attempts} attempts."
    if changes := _layout_changes(report):
        # A case that was cut off in an act of the next tenant, or beside a temporary namespace, has
        # such commands too, on a drive that was as its profile all the time.
        was = (
            "was the profile's and" if _as_profiled(order, report) else "was not the profile's and"
        )
        yield f"The layout {was} was changed by the erase: {changes}."
    before, after = report.facts_before, report.facts_after
    # The certificate names the latter, an attestation is looked up by it, and a reset may have
    # activated it when the techniques were over.
    if before is not None and after is not None and before.firmware != after.firmware:
        yield (
            f"The firmware was {before.firmware} before the erase and is {after.firmware} after "
            "it; which of them carried out the techniques is not known."
        )
    yield from _smaller(order, report)
    if temporary := reading.temporary(report.verification):
        yield (
            f"{sum(n.blocks for n in temporary)} blocks of 4,096 bytes belonged to no namespace: "
            f"they were made temporary ones ({', '.join(str(n.nsid) for n in temporary)}), erased "
            "and read with the rest, and freed again."
        )
    if report.resumed:
        yield f"The case was interrupted and taken up again {report.resumed} time(s)."
    if report.verification is not None:
        for probe in report.verification.missing_probes:
            yield f"Missing probe: {probe}"
    for line in report.untold:
        yield f"Not known, so what is said of before the erase is not complete: {line}"
    for reason in report.reasons:
        yield f"Remark of the host: {reason}"


def _smaller(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Namespaces that the profile lets be smaller."""
    found = () if report.facts_after is None else report.facts_after.namespaces
    sizes = {namespace.nsid: namespace.size for namespace in found}
    for wanted in order.profile.namespaces:
        # One that is missing counts as whole: it is no matter of the tolerance.
        less = wanted.size - sizes.get(wanted.nsid, wanted.size)
        if 0 < less <= order.profile.size_tolerance:
            yield (
                f"Namespace {wanted.nsid} has {less} bytes less than the profile names, which "
                "permits it (size_tolerance)."
            )


def _layout_changes(report: EraseReport) -> str:
    """Commands that changed namespaces, or may have, counted; empty for a drive that kept its
    own."""
    counts = dict.fromkeys((_DELETED, _CREATED, _FORMATTED, _CUT_OFF), 0)
    # What each namespace's format is, so that a Format to the same one shows as no change.
    formats: dict[int, int | None] = {each.nsid: None for each in _layouts(report.facts_after)}
    formats |= {layout.nsid: _format_of(layout) for layout in _layouts(report.facts_before)}
    temporary = {namespace.nsid for namespace in reading.temporary(report.verification)}
    for sent in report.commands:
        # Among I/O commands the number is Reservation Register's (Base 2.0, 7).
        if sent.status or "io-passthru" in sent.argv:
            continue
        if sent.opcode == sentcommands.NAMESPACE_OPCODE:
            what = _DELETED if sent.cdw10 & 0xF else _CREATED
        elif sent.opcode == sentcommands.FORMAT_OPCODE:
            what, given = _FORMATTED, sent.cdw10 & ~methods.FORMAT_SES_MASK
            same = sent.nsid in temporary or formats.get(sent.nsid) == given
            # The next Format is compared with what this one set.
            every = tuple(formats) if sent.nsid == methods.ALL_NAMESPACES else (sent.nsid,)
            formats |= dict.fromkeys(every, given)
            if sent.cdw10 & methods.FORMAT_SES_MASK:
                continue  # an erase
            if same and sent.status == 0:
                continue  # an act of the next tenant: it gives a namespace the format that it has
        else:
            continue
        counts[_CUT_OFF if sent.status is None else what] += 1
    deleted, created, *others = counts.values()
    own = deleted == len(temporary)
    if deleted == created and not any(others) and (own or _kept(report)):
        return ""  # they came and went, once or as often as a next tenant makes one
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def _as_profiled(order: EraseOrder, report: EraseReport) -> bool:
    """Whether the drive had its profile's namespaces before the erase, all of them attached."""
    facts, profile = report.facts_before, order.profile
    if facts is None or facts.detached:
        return False
    return not layout_differences(profile.namespaces, facts.namespaces, profile.size_tolerance)


def _layouts(facts: ControllerFacts | None) -> tuple[NamespaceLayout, ...]:
    return () if facts is None else (*facts.namespaces, *facts.detached)


def _kept(report: EraseReport) -> bool:
    """Whether the namespaces are those that there were."""
    before, after = _layouts(report.facts_before), _layouts(report.facts_after)
    return bool(before) and before == after


def _format_of(layout: NamespaceLayout) -> int:
    """Dword 10 of a Format without an erase to what it has (Base 2.0, 5.14)."""
    number, protection = layout.lba_format, layout.protection
    extended = int(bool(layout.extended_metadata))
    # LBA format 3:0, metadata extended 4, protection information 7:5 and its place 8, the LBA
    # format's upper bits 13:12 (as eraser/erase/plan.py has them).
    low = number & 0xF | extended << 4 | (protection & 0b111) << 5 | (protection >> 3 & 1) << 8
    return low | (number >> 4) << 12
