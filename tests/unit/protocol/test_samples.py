"""The policies that the documentation shows are policies, and say what it says of them."""

from __future__ import annotations

from pathlib import Path

from eraser.protocol import codec
from eraser.protocol.conclusions.applied import apply
from eraser.protocol.fitness import HealthFinding
from eraser.protocol.policy import Policy

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
    assert HealthFinding.WORN in policy.health.retire


def test_known_models_have_a_public_thread_each() -> None:
    policy = read("policy-known-models.json")
    (intel,) = policy.quirks
    assert intel.fits(0x8086, "INTEL SSDPEKNW512G8", "002C")
    assert not intel.fits(0x8086, "INTEL SSDPE2KX020T8", "VDV10131")
    assert not intel.fits(0x144D, "INTEL SSDPEKNW512G8", "002C")
    assert all("/issues/" in quirk.reason for quirk in policy.quirks)
    applied = apply(policy, 0x8086, "INTEL SSDPEKNW010T8", "002C")
    assert applied.purge_methods == ()  # so it is a case for allow_clear
    assert applied.clear_methods == policy.clear_methods


def test_the_whole_policy_is_shown() -> None:
    shown = codec.parse((SAMPLES / "policy-purge.json").read_bytes(), "sample")
    assert shown == codec.plain(Policy())
