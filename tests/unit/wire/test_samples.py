"""The policies that the documentation shows are policies, and say what it says of them."""

from __future__ import annotations

from pathlib import Path

from eraser.wire import codec
from eraser.wire.fitness import Finding
from eraser.wire.policy import Policy

SAMPLES = Path(__file__).parents[3] / "docs" / "samples"


def read(name: str) -> Policy:
    return codec.load(Policy, (SAMPLES / name).read_bytes(), name)


def test_the_purge_sample_is_the_built_in_policy() -> None:
    assert read("policy-purge.json") == Policy()


def test_the_clear_sample_differs_in_its_permission_alone() -> None:
    assert read("policy-allow-clear.json") == Policy(name="allow-clear", allow_clear=True)


def test_the_quirks_sample_says_what_the_guide_says_of_it() -> None:
    policy = read("policy-quirks.json")
    big, old = policy.quirks
    assert (big.limits.stuck, big.skip) == (7200, ())
    assert old.fits(0x144D, "EXAMPLE SSD 2T", "1.9")
    assert not old.fits(0x144D, "EXAMPLE SSD 2T", "2.1")
    assert Finding.WORN in policy.health.retire


def test_the_whole_policy_is_shown() -> None:
    shown = codec.parse((SAMPLES / "policy-purge.json").read_bytes(), "sample")
    assert shown == codec.plain(Policy())
