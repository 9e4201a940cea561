"""Who a drive is at the end of its case is who it was at the beginning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eraser.protocol.policy import Policy, Verification
from eraser.protocol.report import Step, Verdict
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.linux.case import erase, linux, profile_of
from tests.lab.nvme.linux.kernel import Kernel

POLICY = Policy(verification=Verification(canaries=64, residual=0.05, visit=0))


@pytest.mark.parametrize("member", ["", "serial", "salt"])
def test_a_drive_that_calls_itself_otherwise_after_its_erase_is_held(
    tmp_path: Path, member: str
) -> None:
    """No profile names a serial number or a name of the subsystem (which the salt is part of):
    nothing else would tell."""
    with bench(Description(), tmp_path, size=1 << 20) as (drive, host, clock):
        kernel = Kernel(host, tmp_path / "root")

        def progress(step: Step, _fraction: float, _detail: str) -> None:
            if member and step is Step.VERIFY:
                drive.profile = replace(drive.profile, **{member: "OTHER"})

        machine = linux(kernel, clock)
        report = erase(machine, tmp_path, profile_of(machine), POLICY, progress)
    assert report.verdict is Verdict.ERASED
    assert report.fit is not bool(member)
    assert any("calls itself otherwise" in reason for reason in report.reasons) is bool(member)
