"""A drive that erased only what it had been asked for: is it found as often as the sentence claims?

The places that it saw before its erase are blank, of all others a fraction kept what it held. A
sentence that rests on places drawn anew finds it with the confidence that it prints; one that rests
on the places seen before would never.
"""

from __future__ import annotations

import math
from random import Random

import pytest

from eraser.media.blocks import BLOCK
from eraser.proof.plan import NamespacePlan, VerifyPlan
from eraser.proof.sampling import stratum
from eraser.protocol.policy import VerificationMode

TRIALS = 1000
CONFIDENCE, RESIDUAL = 0.99, 0.02
"""228 places. The bound is exact for each n; small ones make a thousand trials cheap."""
LAYOUTS = {"one": (1.0,), "halves": (0.5, 0.5), "a small one": (0.9, 0.09, 0.01)}
_CYCLE = 10_000


def _plan(seed: bytes, sizes: tuple[int, ...]) -> VerifyPlan:
    namespaces = tuple(
        NamespacePlan(nsid, f"/dev/none{nsid}", blocks * BLOCK)
        for nsid, blocks in enumerate(sizes, start=1)
    )
    return VerifyPlan(VerificationMode.STATISTICAL, seed, CONFIDENCE, RESIDUAL, namespaces)


def _places(plan: VerifyPlan) -> set[tuple[int, int]]:
    return {(n.nsid, place) for n in plan.namespaces for place in plan.places(n)}


@pytest.mark.parametrize("blocks", [5_000, 50_000, 1_000_000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_is_found_as_often_as_the_sentence_claims(blocks: int, layout: str) -> None:
    chance = Random(f"{blocks} {layout}")
    sizes = tuple(math.floor(blocks * part) for part in LAYOUTS[layout])
    plan = _plan(chance.randbytes(32), sizes)
    # Of what is not seen, so that the residue is RESIDUAL of all; scattered evenly, which is what
    # a sample by strata misses most easily, and where the strata are largest.
    widest = max(stratum(n.blocks, plan.share(n)) for n in plan.namespaces)
    hosts = {
        n.nsid: n.blocks
        for n in plan.namespaces
        if stratum(n.blocks, plan.share(n)) == widest and n.blocks >= blocks // 2
    }
    seen_at_most = len(_places(plan))
    share = RESIDUAL * blocks / (sum(hosts.values()) - seen_at_most)
    kept = math.ceil(share * _CYCLE)

    found = 0
    for _ in range(TRIALS):
        seen = _places(_plan(chance.randbytes(32), sizes))
        multiplier = 10 * chance.randrange(_CYCLE) + chance.choice((1, 3, 7, 9))
        offset = chance.randrange(_CYCLE)
        found += any(
            nsid in hosts
            and (place * multiplier + offset) % _CYCLE < kept
            and (nsid, place) not in seen
            for nsid, place in _places(_plan(chance.randbytes(32), sizes))
        )

    deviation = math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / TRIALS)
    assert found / TRIALS >= CONFIDENCE - 4 * deviation


def test_at_the_places_that_it_was_asked_for_nothing_is_ever_found() -> None:
    """Why the fingerprints' own seed will not do."""
    plan = _plan(b"s" * 32, (50_000,))
    seen = _places(plan)
    assert not any(place not in seen for place in _places(plan))
