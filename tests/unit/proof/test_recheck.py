"""A second look at a certified drive: what agrees, what differs, what nobody can tell."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from eraser.clock import MACHINE
from eraser.media.reader import BlockDevice
from eraser.proof import recheck
from eraser.proof.recheck import Agreement
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.protocol import codec
from eraser.protocol.conclusions.claim import Claim
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import NamespaceVerification
from eraser.protocol.transport import claims
from tests.unit.conftest import Image
from tests.unit.quarantine.testimony import REPORT

FULL, STATISTICAL, NIST = VerificationMode.FULL, VerificationMode.STATISTICAL, VerificationMode.NIST
BLOCKS, BLOCK = 40_000, 4096


def certified(image: Image, mode: VerificationMode, fill: bytes = b"") -> tuple[Claim, VerifyPlan]:
    """A drive as it was certified: blank, or with ``fill`` at its end."""
    path = image(b"")
    os.truncate(path, BLOCKS * BLOCK)
    with open(path, "r+b") as file:
        file.seek((BLOCKS - 1) * BLOCK)
        file.write(fill)
    base = claims.read(codec.canonical(REPORT), None, "report")
    plan = VerifyPlan(
        mode, bytes.fromhex(base.seed), 0.99, 0.01, (NamespacePlan(1, path, BLOCKS * BLOCK),),
        per_random=0,
    )  # fmt: skip
    result = Verifier(plan, BlockDevice, MACHINE).run()
    assert result is not None
    return replace(base, done=mode, confidence=0.99, residual=0.01,
                   namespaces=result.namespaces), plan  # fmt: skip


def look(claim: Claim, plan: VerifyPlan) -> recheck.Recheck:
    result = Verifier(plan, BlockDevice, MACHINE).run()
    assert result is not None
    return recheck.compare(claim, result)


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_unchanged_and_then_not(image: Image, mode: VerificationMode) -> None:
    claim, plan = certified(image, mode)
    [namespace] = plan.namespaces
    found = look(claim, plan)
    assert (found.agreement, found.differ, found.reasons) == (Agreement.AGREES, 0, ())
    assert found.read == claim.namespaces[0].read, "the very same places"
    places = list(plan.places(namespace))
    with open(namespace.path, "r+b") as file:
        for place in places[100:103]:
            file.seek(place * BLOCK)
            file.write(os.urandom(BLOCK))
    found = look(claim, plan)
    assert (found.agreement, found.differ) == (Agreement.DIFFERS, 3)
    assert found.reasons == (f"namespace 1: 3 of {found.read} blocks do not look as certified",)
    assert found.namespaces[0].looks == {"zeros": found.read - 3, "random": 3}


def test_a_certificate_in_the_layout_of_nist_is_checked_whole(image: Image) -> None:
    claim, plan = certified(image, NIST)
    found = look(replace(claim, done=NIST), plan)
    assert (found.agreement, found.read) == (Agreement.AGREES, BLOCKS)
    assert not any("between the places" in text for text in found.unchecked)


def test_a_look_that_was_certified_is_no_difference(image: Image) -> None:
    claim, plan = certified(image, FULL, fill=os.urandom(BLOCK))
    with open(plan.namespaces[0].path, "r+b") as file:
        file.seek((BLOCKS - 1) * BLOCK)
        file.write(os.urandom(BLOCK))
    found = look(claim, plan)
    assert (found.agreement, found.differ) == (Agreement.AGREES, 0)
    assert any("noise" in text for text in found.unchecked), "and that nobody can tell is said"


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_more_noise_than_was_certified_is_a_difference(
    image: Image, mode: VerificationMode
) -> None:
    """One block of noise at the end, and now all are: each of them is a look that was certified."""
    claim, plan = certified(image, mode, fill=os.urandom(BLOCK))
    with open(plan.namespaces[0].path, "r+b") as file:
        file.write(os.urandom(BLOCKS * BLOCK))
    found = look(claim, plan)
    assert found.agreement is Agreement.DIFFERS
    assert found.differ >= found.read - 1


def test_another_pattern_than_was_certified_is_a_difference(image: Image) -> None:
    claim, plan = certified(image, FULL, fill=b"")
    assert claim.namespaces[0].uniform == "00" * 16
    with open(plan.namespaces[0].path, "r+b") as file:
        file.write(b"abcdefgh" * (BLOCKS * BLOCK // 8))
    [read] = look(claim, plan).namespaces
    assert read.differ == BLOCKS
    result = Verifier(plan, BlockDevice, MACHINE).run()
    assert result is not None
    other = replace(claim, namespaces=result.namespaces)
    assert other.namespaces[0].uniform == (b"abcdefgh" * 2).hex()
    assert look(other, plan).agreement is Agreement.AGREES
    with open(plan.namespaces[0].path, "r+b") as file:
        file.write(b"stuvwxyz" * (BLOCKS * BLOCK // 8))
    assert (look(other, plan).agreement, look(other, plan).differ) == (Agreement.DIFFERS, BLOCKS)


def test_what_cannot_be_read_is_unknown(image: Image) -> None:
    claim, plan = certified(image, FULL)

    counts = replace(claim.namespaces[0], unreadable=0)
    result = Verifier(plan, BlockDevice, MACHINE).run()
    assert result is not None
    worse: NamespaceVerification = replace(counts, read=BLOCKS - 2, zeros=BLOCKS - 2, unreadable=2)
    found = recheck.compare(claim, replace(result, namespaces=(worse,)))
    assert (found.agreement, found.reasons) == (Agreement.UNKNOWN, ("2 blocks cannot be read",))


def test_another_layout_is_another_drive_than_certified(image: Image) -> None:
    claim, _plan = certified(image, STATISTICAL)
    assert recheck.layout_differences(claim, {1: BLOCKS}) == ()
    found = recheck.layout_differences(claim, {1: BLOCKS - 1, 2: 7})
    assert found == (
        f"namespace 1: expected {BLOCKS} blocks, found {BLOCKS - 1} blocks",
        "namespace 2: expected none, found 7 blocks",
    )
    assert recheck.layout_differences(claim, {}) == (
        f"namespace 1: expected {BLOCKS} blocks, found none",
    )
    assert recheck.other_layout(claim, found).agreement is Agreement.DIFFERS


def test_a_temporary_namespace_had_its_places_and_is_no_more(image: Image) -> None:
    """It had its share of the sample: what is left is read at the very places of then."""
    _, whole = certified(image, STATISTICAL)
    [stays] = whole.namespaces
    room = NamespacePlan(2, stays.path, stays.size, temporary=True)
    both = replace(whole, namespaces=(stays, room))
    result = Verifier(both, BlockDevice, MACHINE).run()
    assert result is not None
    assert [each.temporary for each in result.namespaces] == [False, True]
    base, _ = certified(image, STATISTICAL)
    claim = replace(base, namespaces=result.namespaces)
    assert recheck.layout_differences(claim, {1: BLOCKS}) == ()
    assert recheck.layout_differences(claim, {1: BLOCKS, 2: BLOCKS}) == (
        f"namespace 2: expected none, found {BLOCKS} blocks",
    )
    again = replace(whole, gone=BLOCKS)
    assert list(again.places(stays)) == list(both.places(stays))
    found = look(claim, again)
    assert (found.agreement, found.read) == (Agreement.AGREES, result.namespaces[0].read)
    assert f"{BLOCKS} blocks of capacity" in "".join(found.unchecked)
