"""What a verification proves, in one sentence and one record. Computed, never written. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from eraser.proof.classify import BlockClass
from eraser.proof.sampling import bound, needed
from eraser.proof.tally import VerificationResult
from eraser.proof.verdict import Basis, Fill, Proof, everywhere, finding, judge
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import MethodRecord, Verdict, VerificationRecord


def sentence(methods: Sequence[MethodRecord], evidence: Proof) -> str:
    """What this verification proves and no more, for the certificate."""
    verdict, reasons = judge(methods, evidence)
    if verdict is not Verdict.ERASED:
        return f"Nothing is claimed: {reasons[0]}."
    result = evidence.result
    looks = result.looks
    # First what was read and how it looked, then the probes, then what follows from both.
    found = ", ".join(f"{looks.of(kind):,} {kind.value}" for kind in BlockClass if looks.of(kind))
    whole = result.done is VerificationMode.FULL
    places = (
        f"All {looks.total:,} blocks of 4096 bytes were read"
        if whole
        else f"Of {sum(n.blocks for n in result.namespaces):,} blocks of 4096 bytes"
        f" {looks.total:,} were read, n = {result.sampled:,} of them at random places"
        f" drawn after the erase (seed {result.seed})"
    )
    probes = (
        f"None of {result.canaries_checked:,} canaries written before the erase and none of"
        f" {result.fingerprints_checked:,} fingerprinted blocks was found again"
    )
    # The basis decides which n bears the claim.
    _verdict, _reason, basis = finding(methods, evidence)
    trust = "Assuming that the firmware tells the truth"
    # A full reading of noise proves no more than a sample of it: known places alone count.
    if basis is Basis.PROBES:
        n = everywhere(result)
        limit = _percent(bound(n, result.confidence))
        claim = (
            f"{trust} and treats blocks that were read or written before the erase as all others,"
            f" less than {limit} of the blocks kept what they held before the erase, with"
            f" {_likely(result.confidence)} % confidence from the n = {n:,} places whose"
            " former content is known; what reads as noise cannot be judged by its look"
        )
    elif whole:
        # A filler of the last owner's may look so too (docs/decisions/verdict.md, "Given up").
        but = ", unless it is a short value that some repeat throughout" if looks.pattern else ""
        claim = f"{trust}, no addressable block holds old data{but}"
    else:
        limit = _percent(bound(_counted(result), result.confidence))
        claim = (
            f"{trust}, less than {limit} of the blocks hold anything else, with"
            f" {_likely(result.confidence)} % confidence"
        )
    again = sum(n.reread for n in result.namespaces)
    twice = (
        f" {again:,} were read again after another controller reset, and agreed." if again else ""
    )
    return f"{places}: {found}. {probes}.{twice} {claim}."


def _counted(result: VerificationResult) -> int:
    """The places that the bound counts. Rounding draws some more than were asked for, not in every
    namespace: what holds for all of them together, wherever a remainder lies, is the number
    asked for (docs/decisions/sampling.md)."""
    return min(result.sampled, needed(result.confidence, result.residual))


def _likely(confidence: float) -> str:
    """In percent, every digit that was asked for: one that is rounded up would be a lie."""
    # By repr, which is what the policy said: the binary value may have many digits more.
    return f"{(Decimal(repr(confidence)) * 100).normalize():f}"


def _percent(fraction: float) -> str:
    """Three significant digits, rounded up: a bound that is printed smaller would be a lie."""
    shown = f"{fraction * 100:.2e}"
    # The format rounds to the nearest, which may be below the bound.
    if float(shown) < fraction * 100:
        mantissa, exponent = shown.split("e")
        shown = f"{float(mantissa) + 0.01:.2f}e{exponent}"
    return f"{float(shown):.10f}".rstrip("0").rstrip(".") + " %"


def record(
    methods: Sequence[MethodRecord], evidence: Proof, finished_at: str
) -> VerificationRecord:
    """The report's part about reading, sentence included; ``finished_at`` is when it ended, UTC."""
    result = evidence.result
    return VerificationRecord(
        asked=result.asked,
        done=result.done,
        seed=result.seed,
        confidence=result.confidence,
        residual=result.residual,
        sampled=result.sampled,
        canaries_planted=result.canaries_planted,
        canaries_checked=result.canaries_checked,
        fingerprints_taken=result.fingerprints_taken,
        fingerprints_checked=result.fingerprints_checked,
        expected=Fill.together(evidence.expected).value,
        namespaces=tuple(
            replace(namespace, expected=promise.value)
            for namespace, promise in zip(result.namespaces, evidence.expected, strict=True)
        ),
        missing_probes=evidence.missing_probes,
        sentence=sentence(methods, evidence),
        seconds=result.seconds,
        bytes_read=result.bytes_read,
        fresh=True,
        finished_at=finished_at,
        probed=everywhere(result),
    )
