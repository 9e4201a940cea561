"""The bound by probes counts no more places than are earned, wherever a remainder lies."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from eraser.media.blocks import BLOCK
from eraser.proof import probecount
from eraser.proof.plan import NamespacePlan, VerifyPlan
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.sampling import bound, share, stratum
from eraser.protocol.policy import VerificationMode

KEY = b"k" * 32
ASKED = 1024
LARGE = 100_000_000
CONFIDENCE = 0.999


def plan_of(
    sizes: list[int], asked: int = ASKED, mode: VerificationMode = VerificationMode.STATISTICAL
) -> VerifyPlan:
    total = sum(sizes)
    namespaces = tuple(
        NamespacePlan(
            nsid,
            f"/dev/none{nsid}",
            blocks * BLOCK,
            Canaries(KEY, nsid, blocks, share(asked, blocks, total)),
        )
        for nsid, blocks in enumerate(sizes, start=1)
    )
    return VerifyPlan(mode, b"s" * 32, CONFIDENCE, 0.0001, namespaces)


def looked_at(plan: VerifyPlan) -> VerifyPlan:
    """All its places were, as where the first block alone held something."""
    made = [
        replace(n, fingerprints=prints_of(n, sum(1 for _ in plan.places(n))))
        for n in plan.namespaces
    ]
    return replace(plan, namespaces=tuple(made))


def prints_of(namespace: NamespacePlan, looked: int) -> Fingerprints:
    prints = Fingerprints(KEY, namespace.nsid)
    prints.blocks, prints.looked = namespace.blocks, looked
    prints._add(0, memoryview(bytes(BLOCK)))
    return prints


def canaries(plan: VerifyPlan, *lost: int) -> int:
    return probecount.canaries(plan, lost or [0] * len(plan.namespaces))


def compared(plan: VerifyPlan, *hidden: int) -> int:
    return probecount.compared(plan, hidden or [0] * len(plan.namespaces))


@pytest.mark.parametrize(
    "sizes",
    [
        [LARGE],
        [LARGE, *[64] * 31],
        [LARGE, *[64] * 127],
        [1_000_000] * 32,
        [999_983, 7, 1],
        [3, 3, 3],
    ],
    ids=lambda sizes: f"{len(sizes)} of {sum(sizes)}",
)
def test_a_remainder_in_one_namespace_alone_is_no_larger_than_the_bound_says(
    sizes: list[int],
) -> None:
    plan = plan_of(sizes)
    n, total = canaries(plan), sum(sizes)
    assert min(ASKED, total) <= n <= math.ceil(min(ASKED, total) * 1.001)
    for namespace in plan.namespaces:
        assert namespace.canaries
        # Its first and its last block may be all that the drive did erase.
        inside = max(namespace.canaries.count, 1)
        if namespace.blocks > inside:
            left = bound(inside, CONFIDENCE) * namespace.blocks / total
            assert left <= bound(n, CONFIDENCE) * (1 + 1e-9)


def test_what_is_lost_of_the_large_one_is_not_made_up_for_by_small_ones() -> None:
    plan = plan_of([LARGE, *[64] * 127])
    placed = sum(len(n.canaries.positions) for n in plan.namespaces if n.canaries)
    assert placed > 1400
    assert canaries(plan, 100, *[0] * 127) == ASKED - 100


def test_where_a_namespace_has_none_nothing_is_counted() -> None:
    plan = plan_of([LARGE, LARGE])
    first, second = plan.namespaces
    assert canaries(replace(plan, namespaces=(first, replace(second, canaries=None)))) == 0
    looked = looked_at(plan)
    assert compared(looked) >= plan.needed
    first, second = looked.namespaces
    assert compared(replace(plan, namespaces=(first, replace(second, fingerprints=None)))) == 0


@pytest.mark.parametrize("sizes", [[LARGE], [LARGE, *[64] * 127]], ids=["one", "many"])
def test_blocks_that_fingerprints_speak_for_count_as_the_places_asked_for(sizes: list[int]) -> None:
    plan = looked_at(plan_of(sizes))
    # By strata: none is larger than the whole over this number (docs/decisions/sampling.md).
    most = sum(sizes) // max(stratum(n.blocks, plan.share(n)) for n in plan.namespaces)
    assert plan.needed <= compared(plan) <= most
    assert compared(plan, 50, *[0] * (len(sizes) - 1)) <= most - 50


def test_of_a_drive_that_was_looked_at_whole_every_block_counts() -> None:
    plan = plan_of([300, 200], mode=VerificationMode.FULL)
    made = [replace(n, fingerprints=prints_of(n, n.blocks)) for n in plan.namespaces]
    whole = replace(plan, namespaces=tuple(made))
    assert compared(whole) == 500
    assert compared(whole, 6, 0) == 294 * 500 // 300
    blank = [replace(n, fingerprints=Fingerprints(KEY, n.nsid)) for n in plan.namespaces]
    assert compared(replace(plan, namespaces=tuple(blank))) == 0
