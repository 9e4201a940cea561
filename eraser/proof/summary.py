"""From the tallies of a reading to its result: what was read, and which probes were checked."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from eraser.proof import probecount
from eraser.proof.plan import NamespacePlan, VerifyPlan
from eraser.proof.sampling import drawn
from eraser.proof.tally import Tally, VerificationResult
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import NamespaceVerification


def summarise(
    plan: VerifyPlan, tallies: Sequence[Tally], *, reread: bool, stopped: str, seconds: float
) -> VerificationResult:
    """The result of ``plan``. ``reread``: the second reading came to its end too."""
    full = plan.done_mode is VerificationMode.FULL
    canaries = sum(len(n.canaries.positions) for n in plan.namespaces if n.canaries)
    prints = [n.fingerprints for n in plan.namespaces if n.fingerprints]
    taken = sum(len(f) for f in prints)
    # What lies past the end of a namespace that became shorter was not checked, and a block
    # that was fingerprinted and then took a canary tells nothing about its first content.
    beyond = [_beyond(n) for n in plan.namespaces]
    hidden = [_hidden(n) for n in plan.namespaces]
    lost_canaries = sum(t.canaries_unreadable for t in tallies)
    lost_prints = sum(t.fingerprints_unreadable for t in tallies)
    return VerificationResult(
        asked=plan.mode,
        done=plan.done_mode,
        seed=plan.seed.hex(),
        confidence=plan.confidence,
        residual=plan.residual,
        sampled=sum(n.blocks if full else drawn(n.blocks, plan.share(n)) for n in plan.namespaces),
        namespaces=tuple(
            _verified(n, t, reread=reread) for t, n in zip(tallies, plan.namespaces, strict=True)
        ),
        written=tuple(t.written for t in tallies),
        patterns=tuple(t.patterns for t in tallies),
        canaries_planted=canaries,
        canaries_checked=canaries - lost_canaries - sum(c for c, _f in beyond),
        fingerprints_taken=taken,
        fingerprints_checked=taken - lost_prints - sum(f for _c, f in beyond) - sum(hidden),
        compared=probecount.compared(plan, hidden),
        canaries_counted=probecount.canaries(
            plan, [t.canaries_unreadable + c for t, (c, _f) in zip(tallies, beyond, strict=True)]
        ),
        incomplete=stopped,
        bytes_read=sum(t.bytes_read for t in tallies),
        seconds=seconds,
    )


def _beyond(namespace: NamespacePlan) -> tuple[int, int]:
    """Canaries and fingerprints past the end of the namespace as it is now."""
    lost = [
        len(p.positions) - bisect.bisect_left(p.positions, namespace.blocks) if p else 0
        for p in (namespace.canaries, namespace.fingerprints)
    ]
    return lost[0], lost[1]


def _hidden(namespace: NamespacePlan) -> int:
    """Fingerprints of blocks, within the namespace, that a canary has taken since."""
    if not namespace.canaries or not namespace.fingerprints:
        return 0
    return sum(
        index < namespace.blocks and namespace.fingerprints.has(index)
        for index in (*namespace.canaries.positions, *namespace.canaries.deallocated)
    )


def _verified(namespace: NamespacePlan, tally: Tally, *, reread: bool) -> NamespaceVerification:
    looks, again = tally.looks, tally.again
    return NamespaceVerification(
        nsid=namespace.nsid,
        blocks=namespace.blocks,
        read=looks.total,
        zeros=looks.zeros,
        ones=looks.ones,
        pattern=looks.pattern,
        random=looks.random,
        structured=looks.structured,
        # The second reading goes over every probe again, so the sum would count them twice.
        canaries=max(tally.canaries, again.canaries),
        unchanged=max(tally.unchanged, again.unchanged),
        unreadable=max(tally.unreadable, again.unreadable),
        reread=again.read,
        # Sums of an unfinished second reading differ from the first one's without any change on the
        # drive.
        changed=tally.changed if reread else 0,
        by_passthrough=tally.by_passthrough,
        statuses=tally.status_counts,
        temporary=namespace.temporary,
        uniform=_uniform(tally),
    )


def _uniform(tally: Tally) -> str:
    """The 16 bytes that every block repeats; empty where blocks differ, or some were not read."""
    looks, again = tally.looks, tally.again
    # Only where every block was read, twice alike, may the value be claimed of all.
    if not looks.total or tally.unreadable or again.unreadable or tally.changed:
        return ""
    if looks.total in (looks.zeros, looks.ones):
        return ("00" if looks.zeros else "ff") * 16
    return tally.patterns[0] if looks.total == looks.pattern and len(tally.patterns) == 1 else ""
