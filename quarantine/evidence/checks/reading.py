"""Do the counts of a verification add up to what the policy asked for?

Pure. Every function yields contradictions; none means that the reading proves what it claims.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from eraser.protocol.conclusions.visits import came_back, is_last, read_otherwise
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Method, VerificationMode
from eraser.protocol.report import EraseReport, NamespaceVerification, VerificationRecord
from quarantine.evidence.checks.sentcommands import SentCommands

BLOCK = 4096
"""Bytes of one block as counted here, whatever the drive's sector size is."""


_MOST = 2.0**63
"""Places. A host may name a residual so small that their number is none."""


def needed(confidence: float, residual: float) -> int:
    """n = ceil(ln(1-C) / ln(1-f)): samples that find a residue of fraction f with probability C.

    For independent samples, each missing with (1-f); drawing without replacement only helps.
    """
    return math.ceil(min(_MOST, math.log1p(-confidence) / math.log1p(-residual)))


def bound(samples: int, confidence: float) -> float:
    """The fraction of blocks that ``samples`` clean reads exclude at ``confidence``."""
    return -math.expm1(math.log1p(-confidence) / samples) if samples > 0 else 1.0


PROBE_FLOOR = needed(0.999, 0.01)
"""688. Where content decides nothing, so many known places must have changed."""


def known_places(verification: VerificationRecord) -> int:
    """Places whose former content was known and is gone. The larger kind; they may overlap."""
    return max(verification.canaries_checked, verification.fingerprints_checked)


def counted_places(verification: VerificationRecord) -> int:
    """The known places that bear a claim about each namespace, which the host alone can count
    (docs/decisions/sampling.md)."""
    known, probed = known_places(verification), verification.probed
    # None is a host that does not count by namespace: there all known places count.
    return known if probed is None else max(0, min(known, probed))


def shows_noise(verification: VerificationRecord) -> bool:
    """Some blocks read as noise, which may be anybody's ciphertext: their look proves nothing."""
    return any(n.random for n in verification.namespaces)


def residual_shown(verification: VerificationRecord) -> float:
    """The fraction of blocks that this reading excludes at its confidence; 0 for none left.

    Where every block could only have passed if it held no data, all that were read count; where
    noise was found only the places whose former content was known do.
    """
    if shows_noise(verification):
        return bound(counted_places(verification), verification.confidence)
    if read_everything(verification):
        return 0.0
    # Rounding draws some more than were asked for, not in every namespace: what holds wherever a
    # remainder lies is the number asked for (docs/decisions/sampling.md).
    asked = needed(verification.confidence, verification.residual)
    return bound(min(verification.sampled, asked), verification.confidence)


def total_blocks(verification: VerificationRecord) -> int:
    """All 4 KiB blocks of all namespaces."""
    return sum(n.blocks for n in verification.namespaces)


def temporary(verification: VerificationRecord | None) -> tuple[NamespaceVerification, ...]:
    """The namespaces that stood over capacity of none while it was erased and read."""
    return tuple(n for n in verification.namespaces if n.temporary) if verification else ()


def read_everything(verification: VerificationRecord) -> bool:
    """Every block of every namespace was read; the mode's name alone is not believed."""
    return bool(verification.namespaces) and all(
        n.read == n.blocks for n in verification.namespaces
    )


def contradictions(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Everything about the verification that a certificate could not stand on."""
    record = report.verification
    if record is None:
        yield "expected a verification by reading, found none"
        return
    yield from _asked(order, record)
    yield from _amount(order, record)
    yield from _namespaces(report, record)
    yield from _probes(order, record)
    yield from _promises(report, record)
    yield from _content(report, record)
    yield from _visits(report)
    yield from _temporary(report, record)


def _visits(report: EraseReport) -> Iterator[str]:
    """What the next tenant's first acts brought to light, whatever the reading says."""
    for act in came_back(report.visits):
        yield (
            f"expected nothing of the last owner by {act.act}, found {act.canaries} "
            f"canaries and {act.unchanged} blocks as they were"
        )
    for act in read_otherwise(report.visits):
        if act.structured:
            yield (
                f"expected nothing of anybody's data by {act.act}, found {act.structured} "
                "blocks that look like it"
            )
        if act.otherwise:
            yield (
                f"expected what the erase left by {act.act}, found {act.otherwise} blocks that "
                "read otherwise than anything that was read before"
            )
    for act in (act for visit in report.visits for act in visit.acts):
        found = (act.canaries, act.unchanged, act.structured, act.blocks, act.otherwise)
        if min(act.done, act.refused, *found) < 0:
            yield f"{act.act}: expected counts of 0 or more, found a negative one"
        elif act.blocks > act.done:
            yield f"{act.act}: expected {act.done} blocks at most, found {act.blocks}"
    # Wherever it stands: the last one of all, too, may say of itself that a technique followed.
    if any(visit.wrote and is_last(visit, report) for visit in report.visits) or (
        report.visits and report.visits[-1].wrote
    ):
        yield "expected no writes after the last technique, found a visit with writes"


def _asked(order: EraseOrder, record: VerificationRecord) -> Iterator[str]:
    wanted = order.policy.verification
    if record.asked is not wanted.mode:
        yield f"expected verification {wanted.mode} to have been asked for, found {record.asked}"
    # All may be read in place of a part, and never a part in place of another.
    if record.done not in (wanted.mode, VerificationMode.FULL):
        kinds = " or ".join(dict.fromkeys((wanted.mode, VerificationMode.FULL)))
        yield f"expected a {kinds} verification, found {record.done}"
    if (record.confidence, record.residual) != (wanted.confidence, wanted.residual):
        yield (
            f"expected confidence {wanted.confidence} at residual {wanted.residual}, "
            f"found {record.confidence} at {record.residual}"
        )
    if record.done is not VerificationMode.FULL and not _is_hex(record.seed):
        yield "expected the seed that chose the places, in hexadecimal, found none"


def _amount(order: EraseOrder, record: VerificationRecord) -> Iterator[str]:
    wanted = order.policy.verification
    if record.done is VerificationMode.FULL:
        if not read_everything(record):
            yield "expected every block read for a full verification, found some that were not"
        elif record.sampled != total_blocks(record):
            yield f"expected all {total_blocks(record)} blocks sampled, found {record.sampled}"
        return
    least = min(needed(wanted.confidence, wanted.residual), total_blocks(record))
    if record.sampled < least:
        yield f"expected at least {least} blocks read at random places, found {record.sampled}"
    read = sum(n.read for n in record.namespaces)
    if record.sampled > read:
        yield f"expected {read} sampled blocks at most, as many as read, found {record.sampled}"
    yield from _shares(record)
    if record.done is VerificationMode.NIST:
        yield from _windows(record)


def _shares(record: VerificationRecord) -> Iterator[str]:
    """The bound is one of the whole drive, wherever a remainder lies, so each namespace has its
    share of the places behind it. Hosts round theirs up (docs/decisions/sampling.md)."""
    if not (0 < record.confidence < 1 and 0 < record.residual < 1):
        return  # named by what was asked for
    places = min(record.sampled, needed(record.confidence, record.residual))
    blocks = total_blocks(record)
    for n in record.namespaces:
        # Rounded down, where a host rounds up: one place less by rounding is no contradiction.
        least = min(n.blocks, places * n.blocks // max(1, blocks))
        # None at all is named with the counts.
        if 0 < n.read < least:
            yield (
                f"namespace {n.nsid}: expected at least {least} blocks read, its share of "
                f"{places} places, found {n.read}"
            )


NIST_WINDOWS = 2000
"""Two in each of a thousand subsections (SP 800-88r1, 4.7.3)."""
NIST_PARTS = 10
"""Together they are one part in so many of the media, at least."""


def _windows(record: VerificationRecord) -> Iterator[str]:
    for n in record.namespaces:
        whole = n.window_blocks == n.blocks
        if n.windows < NIST_WINDOWS and not whole:
            yield f"namespace {n.nsid}: expected {NIST_WINDOWS} windows, found {n.windows}"
        if n.window_blocks * NIST_PARTS < n.blocks:
            yield (
                f"namespace {n.nsid}: expected a tenth of {n.blocks} blocks in windows, "
                f"found {n.window_blocks}"
            )
        if n.window_blocks > n.read:
            yield (
                f"namespace {n.nsid}: expected at most {n.read} blocks in windows, as many as "
                f"read, found {n.window_blocks}"
            )


def _namespaces(report: EraseReport, record: VerificationRecord) -> Iterator[str]:
    if report.facts_after is None:
        # A host whose last look had no answer says so, and calls no drive fit: it is no liar.
        if report.fit:
            yield "expected what the drive said of itself after the erase, found nothing"
        return
    # Temporary namespaces are deleted by then: they have no size here, and may not be there.
    sizes = {n.nsid: math.ceil(n.size / BLOCK) for n in report.facts_after.namespaces}
    found = {n.nsid: n.blocks for n in record.namespaces if not n.temporary}
    there = {*sizes, *(layout.nsid for layout in report.facts_after.detached)}
    if stays := sorted(n.nsid for n in record.namespaces if n.temporary and n.nsid in there):
        yield f"expected temporary namespaces to be deleted, found {stays}"
    if len({n.nsid for n in record.namespaces}) != len(record.namespaces):
        yield "expected each namespace once in the verification, found one twice"
    if sizes != found:
        yield (
            f"expected the namespaces {_blocks(sizes)} to be verified (4 KiB blocks), "
            f"found {_blocks(found)}"
        )
    for namespace in record.namespaces:
        yield from miscounts(namespace)


def miscounts(n: NamespaceVerification) -> Iterator[str]:
    """Counts of one namespace that do not add up, or that speak against the erase."""
    where = f"namespace {n.nsid}"
    # A block is in one class by its look; what else was found of it is counted besides.
    classes = (n.zeros, n.ones, n.pattern, n.random, n.structured)
    found = (n.canaries, n.unchanged, n.unreadable, n.reread, n.changed, n.by_passthrough)
    counters = (n.read, *classes, *found, n.windows, n.window_blocks)
    if any(count < 0 for count in counters):
        yield f"{where}: expected counts of 0 or more, found a negative one"
    if n.read > n.blocks:
        yield f"{where}: expected at most {n.blocks} blocks read, found {n.read}"
    if n.blocks and not n.read:
        yield f"{where}: expected blocks to be read, found none"
    # An unreadable block is in no class and does not count as read.
    if sum(classes) != n.read:
        yield f"{where}: expected {n.read} blocks in the classes together, found {sum(classes)}"
    if n.canaries:
        yield f"{where}: {n.canaries} blocks still hold a canary"
    if n.unchanged:
        yield f"{where}: {n.unchanged} blocks are as they were before the erase"
    if n.unreadable:
        yield f"{where}: {n.unreadable} blocks could not be read"
    if n.changed:
        yield f"{where}: {n.changed} blocks read otherwise after another reset"
    if n.structured:
        yield f"{where}: {n.structured} blocks look like somebody's data"
    if n.uniform and _UNIFORM.fullmatch(n.uniform) is None:
        yield f"{where}: expected the same 16 bytes in hexadecimal, found {n.uniform[:40]!r}"
    # If all blocks repeat the same 16 bytes, all of them fall into the class of these bytes.
    elif n.uniform and {"00" * 16: n.zeros, "ff" * 16: n.ones}.get(n.uniform, n.pattern) != n.read:
        yield f"{where}: the counts have blocks that do not repeat the same 16 bytes, {n.uniform}"


_UNIFORM = re.compile("[0-9a-f]{32}")


def _probes(order: EraseOrder, record: VerificationRecord) -> Iterator[str]:
    if record.canaries_checked != record.canaries_planted:
        yield (
            f"expected all {record.canaries_planted} canaries to be checked, "
            f"found {record.canaries_checked}"
        )
    blocks = total_blocks(record)
    for name, count in (
        ("canaries", record.canaries_checked),
        ("fingerprints", record.fingerprints_checked),
    ):
        if count > blocks:
            yield f"expected {blocks} {name} to be checked at most, one a block, found {count}"
    # Fewer is honest: a canary may stand where a fingerprint was taken.
    if record.fingerprints_checked > record.fingerprints_taken:
        yield (
            f"expected at most {record.fingerprints_taken} fingerprints to be checked, "
            f"found {record.fingerprints_checked}"
        )
    wanted = min(order.policy.verification.canaries, blocks)
    if wanted and not record.canaries_planted and not record.missing_probes:
        yield f"expected {wanted} canaries or a reason for none, found neither"
    # A host that says nothing of each namespace's promise is older than the second reading.
    asked = order.policy.verification.reread and any(n.expected for n in record.namespaces)
    if asked and not any(n.reread for n in record.namespaces):
        yield "expected blocks that were read again after another controller reset, found none"


_FILLS = {1: "zeros", 2: "ones"}
"""DLFEAT, bits 2:0: what a deallocated block reads as (NVM 1.0, figure 97); any other value
promises nothing."""
_NOTHING = "unknown"


def promised(report: EraseReport) -> dict[int, str]:
    """What each attached namespace promises, by the byte that its host reports with it."""
    facts = report.facts_after
    if facts is None or len(facts.dlfeat) != len(facts.namespaces):
        # Bytes that do not match the namespaces one by one prove no promise.
        return {}
    each = zip(facts.namespaces, facts.dlfeat, strict=True)
    return {layout.nsid: _FILLS.get(dlfeat & 7, _NOTHING) for layout, dlfeat in each}


def _promises(report: EraseReport, record: VerificationRecord) -> Iterator[str]:
    """Words about promises against the bytes beside them."""
    known = ("", _NOTHING, *_FILLS.values())
    words = dict.fromkeys((record.expected, *(n.expected for n in record.namespaces)))
    for odd in (word for word in words if word not in known):
        yield f"expected a promise of {', '.join(known[1:])}, found {odd[:40]!r}"
    told = promised(report)
    for n in record.namespaces:
        # Older hosts name one promise for the whole drive.
        word = n.expected or record.expected
        if word in _FILLS.values() and told.get(n.nsid, word) != word:
            yield (
                f"namespace {n.nsid}: expected the promise of its DLFEAT, {told[n.nsid]}, "
                f"found {word}"
            )
    last = report.methods[-1].method if report.methods else None
    noisy = [n.nsid for n in record.namespaces if n.random and told.get(n.nsid) in _FILLS.values()]
    if noisy and last is Method.SANITIZE_BLOCK:
        # As its host has it too (docs/decisions/verdict.md): noise is what was not reached.
        yield (
            f"namespaces {noisy}: expected no noise after a block erase of blocks that promise a "
            "value, found some"
        )


def _temporary(report: EraseReport, record: VerificationRecord) -> Iterator[str]:
    """A temporary namespace against what was sent for it. An interrupted case may have lost the
    record of a command with the process that sent it."""
    count = sum(n.temporary for n in record.namespaces)
    if not count:
        return
    facts = [facts for facts in (report.facts_before, report.facts_after) if facts is not None]
    if not any(each.oacs & MANAGES for each in facts):
        yield "expected temporary namespaces of a drive that manages them (OACS bit 3), found none"
    made, deleted = SentCommands(report.commands).made_and_deleted()
    if not report.resumed and min(made, deleted) < count:
        yield (
            f"expected {count} temporary namespaces to be created and deleted, found {made} "
            f"creations and {deleted} deletions sent"
        )


MANAGES = 0x8
"""OACS, bit 3: Namespace Management (Base 2.0, figure 275)."""


def _content(report: EraseReport, record: VerificationRecord) -> Iterator[str]:
    """Something must decide: the value that the drive promises, or probes that are gone."""
    told = promised(report)
    # A promise counts only where the drive's own DLFEAT byte bears it. A temporary namespace is
    # deleted by the time that byte is read, so its host's word has to do.
    kept = all(
        _kept(n, n.expected or record.expected) and (n.temporary or n.nsid in told)
        for n in record.namespaces
    )
    floor = min(PROBE_FLOOR, total_blocks(record))
    # Where noise was read they bear the claim, so those alone that stand for every namespace.
    counted = counted_places(record)
    if shows_noise(record) and counted < floor:
        yield (
            f"expected {floor} canaries or fingerprints that are gone and count wherever a "
            f"remainder lies, found {counted}: what reads as noise proves nothing without them"
        )
    if kept or known_places(record) >= floor:
        return
    yield (
        f"expected every block as the drive promises, or {floor} canaries or fingerprints that "
        "are gone; found neither: the reads decide nothing"
    )


def _kept(n: NamespaceVerification, promise: str) -> bool:
    # -1 is no count: where nothing is promised, nothing is kept.
    return n.read == {"zeros": n.zeros, "ones": n.ones}.get(promise, -1)


def _is_hex(text: str) -> bool:
    return len(text) >= 16 and all(c in "0123456789abcdef" for c in text)


def _blocks(sizes: dict[int, int]) -> str:
    return ", ".join(f"{nsid}: {blocks}" for nsid, blocks in sorted(sizes.items())) or "none"
