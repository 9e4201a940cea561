"""Erased, not erased, or unknown: the decision, row by row. Pure.

docs/decisions/verdict.md has the same table in words and says why each row is as it is.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eraser.media.passread import status_text
from eraser.proof.classify import BlockClass
from eraser.proof.sampling import needed
from eraser.proof.tally import Blocks, VerificationResult
from eraser.protocol.conclusions.visits import came_back, read_otherwise
from eraser.protocol.policy import Method
from eraser.protocol.report import MethodRecord, Verdict, VisitRecord

PROBE_FLOOR = needed(0.999, 0.01)
"""688. Where content decides nothing, so many probes must be gone: fewer would not even exclude
that one block in a hundred was skipped (99.9 % confidence)."""
PLANTED_SHARE = 0.9
"""Of the canaries asked for. A drive that takes fewer does not write as it should."""


class Fill(enum.StrEnum):
    """What the drive promises that erased (deallocated) blocks read as: DLFEAT bits 2:0."""

    ZEROS = "zeros"
    ONES = "ones"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, fill: int | None) -> Fill:
        """From one namespace's byte value (00h, FFh, None for not reported)."""
        return {0x00: cls.ZEROS, 0xFF: cls.ONES}.get(-1 if fill is None else fill, cls.UNKNOWN)

    @classmethod
    def together(cls, each: Iterable[Fill]) -> Fill:
        """What all namespaces promise alike; nothing where they differ."""
        found = set(each)
        return found.pop() if len(found) == 1 else cls.UNKNOWN

    @property
    def block_class(self) -> BlockClass | None:
        """The only class that keeps the promise."""
        return {Fill.ZEROS: BlockClass.ZEROS, Fill.ONES: BlockClass.ONES}.get(self)


class Basis(enum.StrEnum):
    """What the number in the confidence sentence rests on."""

    CONTENT = "content"
    """Every block read could only have passed if it held no data: n is what was read."""
    PROBES = "probes"
    """Noise may be anybody's: n is what is known to have changed."""


@dataclass(frozen=True)
class Proof:
    """All that the verdict looks at, apart from the methods' own."""

    result: VerificationResult
    expected: tuple[Fill, ...]
    """Of each namespace, in the result's order: DLFEAT is said of each."""
    canaries_asked: int
    """Places where a canary should stand, of all namespaces."""
    missing_probes: tuple[str, ...] = ()
    visits: tuple[VisitRecord, ...] = ()
    """What the drive showed when it was used as by its next tenant."""


def judge(methods: Sequence[MethodRecord], evidence: Proof) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict over ``methods`` (in the order they were run) and what was read afterwards.

    The reasons are empty for erased, and else name counts.
    """
    verdict, reason, _basis = finding(methods, evidence)
    reasons = [reason] if reason else []
    word, doubt = _word(methods)
    # The drive's own word can only make the finding worse, never better.
    if doubt:
        reasons.append(doubt)
        if verdict is Verdict.ERASED or word is Verdict.NOT_ERASED:
            # An unknown finding stays unknown, unless the drive itself says that nothing was
            # erased.
            verdict = word
    if verdict is not Verdict.ERASED:
        reasons += [f"missing probe: {text}" for text in evidence.missing_probes]
    return verdict, tuple(reasons)


def _word(methods: Sequence[MethodRecord]) -> tuple[Verdict, str]:
    """The best verdict that the drive's own word leaves possible, and why it is not erased.

    The method that ran last is the one whose result is on the medium.
    """
    if not methods:
        return Verdict.UNKNOWN, "no method was carried out"
    last = methods[-1]
    if last.verdict is Verdict.ERASED:
        return Verdict.ERASED, ""
    why = f"{last.method.value}: {last.reason or 'no proof of success from the drive'}"
    # One that succeeded before the last failed has erased what the tenant left; what the failed one
    # put in its place is what nobody knows.
    if all(m.verdict is Verdict.NOT_ERASED for m in methods):
        return Verdict.NOT_ERASED, why
    return Verdict.UNKNOWN, why


Finding = tuple[Verdict, str, Basis]


def _erased(basis: Basis) -> Finding:
    return Verdict.ERASED, "", basis


def _not_erased(reason: str) -> Finding:
    return Verdict.NOT_ERASED, reason, Basis.CONTENT


def _unknown(reason: str) -> Finding:
    return Verdict.UNKNOWN, reason, Basis.CONTENT


@dataclass(frozen=True)
class _Group:
    """All namespaces that promise the same, looked at as one."""

    promise: Fill
    looks: Blocks
    written: Blocks
    patterns: int

    @classmethod
    def all_of(cls, evidence: Proof) -> tuple[_Group, ...]:
        """The groups of a drive."""
        result = evidence.result
        rows = tuple(
            zip(evidence.expected, result.each_looks, result.written, result.patterns, strict=True)
        )
        made = []
        for promise in dict.fromkeys(evidence.expected):
            mine = [row for row in rows if row[0] is promise]
            looks, written = Blocks(), Blocks()
            for row in mine:
                looks, written = looks.plus(row[1]), written.plus(row[2])
            made.append(cls(promise, looks, written, len({p for row in mine for p in row[3]})))
        return tuple(made)


def finding(methods: Sequence[MethodRecord], evidence: Proof) -> Finding:
    """What was read, judged without the drive's own word: verdict, reason, and what bears it."""
    result = evidence.result
    # Ahead of all that could make it unknown: data that is still there is proof, also where a drive
    # stops answering in the middle of the reading.
    canaries = sum(n.canaries for n in result.namespaces)
    unchanged = sum(n.unchanged for n in result.namespaces)
    if canaries or unchanged:
        return _not_erased(
            f"{canaries} canaries and {unchanged} blocks of the last owner are still there"
        )
    if shown := _shown(evidence.visits):
        return _not_erased(shown)
    # DLFEAT is said of each namespace, so those that promise the same are judged together.
    findings = [
        _kept(promised, methods, group, evidence)
        if (promised := group.promise.block_class)
        else _free(group, evidence, None)
        for group in _Group.all_of(evidence)
    ] or [_unknown("no block was read")]
    # Data that was found outweighs what could not be read, in whichever namespace it is.
    for worst in (Verdict.NOT_ERASED, Verdict.UNKNOWN):
        if worst is Verdict.UNKNOWN and (
            unread := unreadable(result) or unstable(result) or otherwise(result, evidence.visits)
        ):
            return _unknown(unread)
        for each in findings:
            if each[0] is worst:
                return each
    bases = {each[2] for each in findings}
    # The weaker basis counts for the whole drive.
    return _erased(Basis.PROBES if Basis.PROBES in bases else Basis.CONTENT)


def _shown(visits: Sequence[VisitRecord]) -> str:
    """What came back of the last owner's data, or of canaries, when the drive was used otherwise
    than a verification uses it; empty for nothing. A method that had reported success by then has
    not erased, whatever the one after it did."""
    found = list(came_back(visits))
    if not found:
        return ""
    names = ", ".join(dict.fromkeys(act.act for act in found))
    return (
        f"after an erase that it reported as done, {sum(a.canaries for a in found)} canaries and"
        f" {sum(a.unchanged for a in found)} blocks of the last owner were there when it was used"
        f" as its next tenant will ({names})"
    )


def otherwise(result: VerificationResult, visits: Sequence[VisitRecord]) -> str:
    """What was there when the drive was asked otherwise, and not in the reading; empty for
    nothing."""
    found = list(read_otherwise(visits))
    data = [act for act in found if act.structured and not result.looks.structured]
    if data:
        return (
            f"{sum(act.structured for act in data)} blocks look like somebody's data when they are"
            f" asked for otherwise ({', '.join(act.act for act in data)})"
        )
    # Noise may be an encrypted tenant's, and what was erased stays what it is until it is written.
    changed = [act for act in found if act.otherwise]
    if changed:
        return (
            f"{sum(act.otherwise for act in changed)} blocks read otherwise than anything that the"
            f" erase left, when they are asked for otherwise ({', '.join(a.act for a in changed)})"
        )
    return ""


def unreadable(result: VerificationResult) -> str:
    """Why not all was read that was to be, by the drive's own statuses; empty when all was."""
    if result.incomplete:
        return result.incomplete
    blocks = sum(n.unreadable for n in result.namespaces)
    if not blocks:
        return ""
    counts: dict[int | None, int] = {}
    for namespace in result.namespaces:
        for found in namespace.statuses:
            counts[found.status] = counts.get(found.status, 0) + found.blocks
    why = "; ".join(f"{count}: {status_text(status)}" for status, count in counts.items())
    return f"{blocks} blocks cannot be read" + (f" ({why})" if why else "")


def unstable(result: VerificationResult) -> str:
    """What the second reading, after another reset, found otherwise; empty for nothing.

    What a block reads as after it was deallocated stays so until it is written (NVM 1.0,
    3.2.3.2.1), so no honest drive answers a cache's content once and the medium's later.
    """
    changed = sum(n.changed for n in result.namespaces)
    if not changed:
        return ""
    again = sum(n.reread for n in result.namespaces)
    return (
        f"at least {changed} of {again} blocks read otherwise after another controller reset:"
        " what this drive answers does not last"
    )


def _kept(
    promised: BlockClass, methods: Sequence[MethodRecord], group: _Group, evidence: Proof
) -> Finding:
    """The drive promised a value for deallocated blocks. Was it kept?"""
    looks, written = group.looks, group.written
    kept, others = looks.of(promised), looks.total - looks.of(promised)
    if not looks.total:
        return _unknown("no block was read")
    # No probe is needed: a block that reads as promised holds nothing to be anybody's.
    if not others:
        return _erased(Basis.CONTENT)
    count = (
        f"{others} of {looks.total} blocks do not read as {promised.value}, which the drive"
        " promises for erased blocks"
    )
    if looks.structured:
        return _not_erased(f"{count}; {looks.structured} look like somebody's data")
    if written.of(promised):
        # The erase did deallocate what was written, so what reads otherwise was passed over.
        return _not_erased(f"{count}, although blocks written before the erase do")
    # Noise after a change of key is the old ciphertext, read with the new key. A block erase leaves
    # what flash reads as when it is blank: noise after one was not reached.
    noisy = looks.random and methods and methods[-1].method is Method.SANITIZE_BLOCK
    # Some blocks keep the promise and some do not, and too few probes tell what written blocks do.
    if kept and not _enough(evidence):
        if noisy:
            return _not_erased(f"{count}, and a block erase leaves no noise")
        return _unknown(f"{count}, and too few probes tell why; {_probes_wanted(evidence)}")
    if noisy:
        return _unknown(
            f"{count}; {looks.random} read as noise, which a block erase leaves nowhere"
        )
    # No written block was deallocated: the drive made no promise about such blocks.
    return _free(group, evidence, promised)


def _free(group: _Group, evidence: Proof, promised: BlockClass | None) -> Finding:
    """Nothing is promised: only what became of known blocks tells."""
    looks, written = group.looks, group.written
    if not looks.total:
        return _unknown("no block was read")
    if looks.structured:
        return _unknown(
            f"{looks.structured} of {looks.total} blocks look like somebody's data, and the drive"
            " does not say what erased blocks read as"
        )
    if not _enough(evidence):
        silent = "the drive does not say what erased blocks read as"
        why = silent if promised is None else "the drive did not deallocate"
        return _unknown(f"{why}; {_probes_wanted(evidence)}")
    # A tenant's filler that was passed over here and there would be the second.
    if group.patterns > 1:
        return _unknown("more than one pattern was found; an erase leaves one")
    if written.uniform and looks.random:
        if written.random:
            return _unknown(
                f"of the blocks written before the erase {written.random} read as noise and"
                f" {written.uniform} do not: no erase that we know leaves both"
            )
        return _not_erased(
            f"{looks.random} of {looks.total} blocks hold noise, although every block known to"
            " have been written reads as blank"
        )
    # Noise is judged by known places alone, and by those that stand for every namespace.
    counted, floor = everywhere(evidence.result), _floor(evidence.result)
    if looks.random and counted < floor:
        return _unknown(
            f"{looks.random} of {looks.total} blocks read as noise, which canaries or fingerprints"
            f" alone can tell from data: expected {floor} that count wherever a remainder lies,"
            f" found that {counted} of them count (a namespace may have none)"
        )
    return _erased(Basis.PROBES if looks.random else Basis.CONTENT)


def _enough(evidence: Proof) -> bool:
    result = evidence.result
    floor = _floor(result)
    planted = result.canaries_planted >= PLANTED_SHARE * evidence.canaries_asked
    return (planted and result.canaries_checked >= floor) or (result.fingerprints_checked >= floor)


def _floor(result: VerificationResult) -> int:
    # A drive with fewer blocks than that needs a probe in each.
    return min(PROBE_FLOOR, sum(n.blocks for n in result.namespaces))


def everywhere(result: VerificationResult) -> int:
    """Places of known content that count wherever a remainder lies: of the larger kind, since they
    may overlap (:mod:`eraser.proof.probecount`)."""
    # Never their sum: one block may be both a canary and fingerprinted.
    return max(result.canaries_counted, result.compared)


def _probes_wanted(evidence: Proof) -> str:
    result = evidence.result
    return (
        f"expected {PROBE_FLOOR} canaries or fingerprints to tell by, found"
        f" {result.canaries_checked} of {evidence.canaries_asked} canaries and"
        f" {result.fingerprints_checked} fingerprints"
    )
