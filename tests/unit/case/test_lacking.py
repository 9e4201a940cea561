"""The machine lacks processes or memory for a program: the drive is not to blame."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from eraser.protocol.report import EraseReport, Verdict
from tests.lab.nvme.linux import case as lab
from tests.unit.case.bed import Bed, bed

__all__ = ["bed"]


def starting(monkeypatch: pytest.MonkeyPatch, lacks: int) -> list[str]:
    """The programs that were asked for; the one of this number is not started, once."""
    asked, real = list[str](), lab.LabProcesses.run

    def run(processes: lab.LabProcesses, argv: Any, **how: Any) -> Any:
        asked.append(" ".join(argv[:3]))
        if len(asked) == lacks:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(processes, argv, **how)

    monkeypatch.setattr(lab.LabProcesses, "run", run)
    return asked


def ended(bed: Bed) -> EraseReport:
    """As the worker does: a runner that ended without a report is started again."""
    try:
        return bed.run()
    except OSError:
        return bed.run()


@pytest.mark.parametrize("lacks", range(1, 5))
def test_no_shortage_of_a_moment_holds_a_drive(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    asked = starting(monkeypatch, lacks)
    report = ended(bed)
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), (asked[:lacks], report.reasons)
    assert not bed.kept
    assert len(asked) > lacks
