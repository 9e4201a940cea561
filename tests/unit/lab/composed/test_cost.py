"""What the next tenant's first acts cost is counted in the case that does them."""

from __future__ import annotations

from pathlib import Path

from eraser.protocol.policy import Policy, Verification
from tests.lab.nvme.composed.cost import costs


def test_commands_are_counted_by_part(tmp_path: Path) -> None:
    few = Policy(verification=Verification(residual=0.05, canaries=64, visit=2))
    found = costs(tmp_path, 4 << 20, few)
    assert found.between.commands > found.after.commands > 50
    assert found.case.commands > found.between.commands + found.after.commands
    assert found.case.seconds > found.between.seconds > 0
    assert found.line.count("|") == 5
