"""What was done to find out, and what nobody may read into a certificate. Pure.

Each sentence follows from the report: nothing is called undone that was done.
"""

from __future__ import annotations

from collections.abc import Iterator

from eraser.protocol.conclusions import buffers, unallocated, visits
from eraser.protocol.condition import Buffer
from eraser.protocol.policy import Label, VerificationMode
from eraser.protocol.report import ActRecord, EraseReport, VisitRecord


def done(report: EraseReport) -> Iterator[str]:
    """How the drive was used as by its next tenant (docs/decisions/visit.md), by visit."""
    for visit in report.visits:
        acts = [f"left alone for {visit.idle:g} s"] if visit.idle else []
        # Acts of which nothing could be done are named among what was not (_not_visited).
        acts += [f"{act.act} ({_count(act)})" for act in visit.acts if act.done]
        if acts:
            yield f"{_when(visit, report)}: {', '.join(acts)}."


def _count(act: ActRecord) -> str:
    """Hosts of before say how often they looked alone, which is no number of blocks."""
    refused = f"; {_counted(act.refused, 'command')} refused" if act.refused else ""
    if act.blocks:
        return _counted(act.blocks, "block") + refused
    return _counted(act.done, "look") + refused


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count > 1 else ''}"


def _when(visit: VisitRecord, report: EraseReport) -> str:
    writes = "with writes" if visit.wrote else "without writes"
    if visits.is_last(visit, report):
        return f"After the last technique, {writes}"
    return f"Before technique {visits.before(visit, report) + 1}, {writes}"


def not_done(report: EraseReport) -> Iterator[str]:
    """What the certificate does not say, said."""
    yield from _unreached(report)
    yield from _unread(report)
    yield from _metadata(report)
    yield "Not erased: SMART, error, telemetry and event logs, which drives keep by design."
    yield "Not done: reading the media below the drive's firmware."
    yield "Not done: a second verification by another tool or by other people."
    if report.achieved is Label.CLEAR:
        yield (
            "Not reached by Format NVM: capacity that belongs to no formatted namespace, and spare "
            "blocks, except as far as the drive's firmware includes them."
        )
    if report.verification is None or not report.verification.canaries_planted:
        yield "Not done: planting canaries before the erase and missing them after it."
    if report.verification is not None and report.verification.done is VerificationMode.NIST:
        yield (
            "Not claimed: conformity to NIST SP 800-88 revision 1, which was withdrawn on "
            "2025-09-26; its layout of places alone was used."
        )
    # Taken ones may all lie under canaries.
    if report.verification is None or not report.verification.fingerprints_checked:
        yield "Not done: comparing blocks with fingerprints taken before the erase."
    if report.verification is None or not any(n.reread for n in report.verification.namespaces):
        yield "Not done: reading blocks once more after another reset of the controller."
    yield from _not_visited(report)


def _unreached(report: EraseReport) -> Iterator[str]:
    """What no erase command reaches, as far as the drive has it; and what was looked at of it."""
    facts = report.facts_after or report.facts_before
    condition = None if facts is None else facts.condition
    if condition is None:
        yield (
            "Not examined: boot partitions, replay protected memory (RPMB), firmware images. "
            "No erase command reaches them."
        )
    else:
        if condition.boot is not None:
            read = "as far as a digest" if condition.boot.digests else "in size alone"
            yield f"Not erased: boot partitions, which were examined {read}."
        elif condition.boot_untold:
            yield "Not examined: boot partitions, of which this host's kernel lets nobody read."
        if condition.rpmb_units:
            yield "Not erased, and not examined: replay protected memory (RPMB)."
        # A profile may permit it, and without a word it would read as if there were none of these.
        if condition.unreadable:
            yield (
                "Not examined, for the drive gave no sensible answer about it: "
                f"{', '.join(condition.unreadable)}."
            )
        # The images themselves are never read; their revisions are, where the drive tells them.
        slots = "their revisions alone were read" if condition.firmware else "nor their revisions"
        yield f"Not examined: the content of firmware images; {slots}."
    # NVMe-MI Send (1Dh) with VPD Write, where a drive takes it in-band; OACS bit 6, VWCI.
    yield (
        "Not examined: vital product data (VPD), where the drive has some that its user can write "
        "(NVMe-MI); no erase command reaches it."
    )
    yield _buffers(report)
    yield (
        "Not examined: a host memory buffer (HMB), where the drive used one; it lay in the memory "
        "of the host or guest, and a reset of the controller ends its use."
    )


def _buffers(report: EraseReport) -> str:
    """An older host did not look, and another one's kernel lets nobody: there may be some."""
    found = buffers.seen(report.facts_before, report.facts_after)
    memory = (
        f"{buffers.named(found)}, which the drive has"
        if found
        else f"{buffers.named(tuple(Buffer), ' or ')}, where the drive has one"
    )
    if report.achieved is Label.CLEAR:
        return f"Not reached by Format NVM, and not examined: {memory}."
    return f"Not examined: {memory}; by NVM Express a sanitize operation covers both."


def unread(report: EraseReport) -> int:
    """Bytes that belonged to no namespace, beyond those that temporary ones had; 0 where nothing
    was verified, which is said elsewhere."""
    if report.facts_after is None or report.verification is None:
        return 0
    return unallocated.unread(report)


def loose(report: EraseReport) -> tuple[int, ...]:
    """Namespaces that exist, were attached to nothing of ours after the erase, and are in no
    reading; nothing where nothing was verified."""
    if report.facts_after is None or report.verification is None:
        return ()
    read = {namespace.nsid for namespace in report.verification.namespaces}
    found = (layout.nsid for layout in report.facts_after.detached)
    return tuple(nsid for nsid in found if nsid not in read)


def left_out(report: EraseReport) -> tuple[str, ...]:
    """What the reading does not have, for the headline."""
    found = []
    if nsids := loose(report):
        found.append(f"{_named(nsids)}, which {'is' if len(nsids) == 1 else 'are'} not attached")
    if left := unread(report):
        found.append(f"{left:,} bytes that belong to no namespace")
    return tuple(found)


def _named(nsids: tuple[int, ...]) -> str:
    return f"namespace{'s' if len(nsids) > 1 else ''} {' and '.join(map(str, nsids))}"


def _unread(report: EraseReport) -> Iterator[str]:
    if nsids := loose(report):
        yield f"Not read: {_named(nsids)}, not attached."
    if left := unread(report):
        yield f"Not read: {left:,} bytes that belong to no namespace."


def _metadata(report: EraseReport) -> Iterator[str]:
    """Of formats that have any: no read of the block layer shows it (docs/decisions/visit.md)."""
    layouts = report.facts_after.namespaces if report.facts_after else ()
    each = [f"namespace {n.nsid}: {n.metadata_bytes} bytes" for n in layouts if n.metadata_bytes]
    if each:
        yield f"Not examined: metadata beside the blocks ({', '.join(each)} for each)."


def _not_visited(report: EraseReport) -> Iterator[str]:
    """What its next tenant does first, and the host did not do (docs/decisions/visit.md)."""
    if not report.visits:
        yield (
            "Not done: using the drive as its next tenant will, with resets, writes and ways of "
            "reading that no verification has."
        )
        return
    # One without acts was left out, and says why (docs/decisions/resume.md).
    if not any(visit.wrote and visit.acts for visit in report.visits):
        yield "Not done: writing to the drive, as its next tenant will, between two erases."
    last = [visit for visit in report.visits if visits.is_last(visit, report)]
    if not last:
        yield (
            "Not done: using the drive, as its next tenant will, after the last technique: what "
            "was done came before it."
        )
    # A second passes in any case (PAUSE in eraser/case/visit.py): more is a policy's wish.
    if not any(visit.idle > 1 for visit in last):
        yield "Not done: leaving the drive alone for a while before the last look at it."
    # Each once, in the order in which the visits name them.
    left = dict.fromkeys(text for visit in report.visits for text in visit.not_done)
    never = dict.fromkeys(
        f"{act.act} ({'the drive refused all' if act.refused else 'nothing was asked'})"
        for visit in report.visits
        for act in visit.acts
        if not act.done
    )
    if left or never:
        yield f"Not done of what a next tenant may do first: {'; '.join((*left, *never))}."
