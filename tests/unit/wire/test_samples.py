"""The policies that the documentation shows are policies, and say what it says of them."""

from __future__ import annotations

from pathlib import Path

from eraser.wire import codec
from eraser.wire.policy import Policy

SAMPLES = Path(__file__).parents[3] / "docs" / "samples"


def read(name: str) -> Policy:
    return codec.load(Policy, (SAMPLES / name).read_bytes(), name)


def test_the_purge_sample_is_the_built_in_policy() -> None:
    assert read("policy-purge.json") == Policy()


def test_the_clear_sample_differs_in_its_permission_alone() -> None:
    assert read("policy-allow-clear.json") == Policy(name="allow-clear", allow_clear=True)
