"""How many probes the bound may count, wherever on the drive a remainder lies. Pure.

A namespace gets its share of them, rounded up, and its first and last block: of many small ones
each has more than its size earns. A remainder may be in none of these, so what counts is what the
namespace with the fewest for its size has, times the whole drive (docs/decisions/sampling.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eraser.proof.plan import NamespacePlan, VerifyPlan
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.sampling import drawn


def canaries(plan: VerifyPlan, lost: Sequence[int]) -> int:
    """Of the canaries in ``plan``, of which each namespace has ``lost`` some: unreadable, or past
    its end."""
    return _everywhere(
        (min(n.canaries.count, n.canaries.blocks) - gone if n.canaries else 0, n.blocks)
        for n, gone in zip(plan.namespaces, lost, strict=True)
    )


def compared(plan: VerifyPlan, hidden: Sequence[int]) -> int:
    """Of the blocks that the fingerprints speak for, blank ones included. Of each namespace
    ``hidden`` fingerprints are of blocks that took a canary since. 0 where the whole drive was
    blank: there is none."""
    if not any(n.fingerprints for n in plan.namespaces):
        return 0
    return _everywhere(
        (_earned(plan, n, n.fingerprints, under), n.blocks)
        for n, under in zip(plan.namespaces, hidden, strict=True)
    )


def _earned(
    plan: VerifyPlan, namespace: NamespacePlan, prints: Fingerprints | None, hidden: int
) -> int:
    """By what was looked at, or by what was to be: each falls short where the other does not."""
    if prints is None:
        return 0
    blocks, under = namespace.blocks, hidden * prints.stride
    spoken_for = prints.compared(blocks) - under
    # First, last, and the place of a shorter last stratum are more than a namespace earns.
    extra = 0 if prints.looked >= prints.blocks else 3
    share = min(plan.share(namespace), blocks)
    lost = max(prints.unreadable + under, drawn(blocks, share) - spoken_for)
    return max(spoken_for - extra, share - max(0, lost))


def _everywhere(earned: Iterable[tuple[int, int]]) -> int:
    """From what each namespace has earned, and its blocks."""
    # A count below 0 means more lost than earned, which proves nothing.
    each = [(max(0, count), blocks) for count, blocks in earned if blocks]
    total = sum(blocks for _count, blocks in each)
    return min((count * total // blocks for count, blocks in each), default=0)
