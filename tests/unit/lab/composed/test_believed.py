"""Reports on honest drives of the grammar, oddities and all: the control plane believes each."""

from __future__ import annotations

from pathlib import Path

import pytest

from eraser.protocol.order import EraseOrder
from eraser.protocol.profile import Profile
from eraser.protocol.report import Verdict
from quarantine.evidence.checks import bounds, methods, reading
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.trial import attempt, shipped


def honest(count: int) -> list[int]:
    """The first seeds whose drives are honest."""
    return [seed for seed in range(1, 100) if compose(seed).honest][:count]


@pytest.mark.parametrize("seed", honest(6))
def test_nothing_that_an_honest_drive_does_contradicts(seed: int, tmp_path: Path) -> None:
    policy = shipped()
    report = attempt(compose(seed), tmp_path, policy).report
    if report.verdict is not Verdict.ERASED:
        assert report.reasons
        return
    assert report.identity is not None
    assert report.facts_after is not None
    facts = report.facts_after
    profile = Profile("any", 0, 0, report.identity.model, (facts.firmware,), facts.namespaces)
    order = EraseOrder(
        "order-0000000001", report.slot, report.identity, profile, policy, 1,
        "nonce-00000000001", "incarnation-00001", 3600,
    )  # fmt: skip
    found = [
        *bounds.contradictions(report),
        *methods.contradictions(order, report),
        *reading.contradictions(order, report),
    ]
    assert found == []
