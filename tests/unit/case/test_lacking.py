"""The machine lacks processes or memory for a program: the drive is not to blame."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol.report import EraseReport, Verdict
from tests.lab.nvme.linux import case as lab
from tests.unit.case.bed import Bed, mortal
from tests.unit.case.test_restore import FORMAT_ONLY, PLAIN
from tests.unit.case.test_temporary import CHANGED
from tests.unit.case.test_temporary import bed as changeable

Make = Callable[[Path, pytest.MonkeyPatch], Bed]


def sanitized(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    made = Bed(directory)
    mortal(monkeypatch, made)
    return made


def rearranged_and_formatted(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    """A tenant changed the namespaces of a drive that has Format alone."""
    made = changeable(directory, monkeypatch, FORMAT_ONLY)
    made.policy = PLAIN
    made.leave(CHANGED)
    return made


def starting(monkeypatch: pytest.MonkeyPatch, lacks: int) -> list[str]:
    """The programs that were asked for; the one of this number is not started, once."""
    asked, real = list[str](), lab.LabProcesses.run

    def run(processes: lab.LabProcesses, argv: Any, **how: Any) -> Any:
        asked.append(" ".join((*argv[:2], *argv[3:5])))
        if len(asked) == lacks:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        return real(processes, argv, **how)

    monkeypatch.setattr(lab.LabProcesses, "run", run)
    return asked


def ended(made: Bed) -> EraseReport:
    """As the worker does: a runner that ended without a report is started again."""
    try:
        return made.run()
    except OSError:
        return made.run()


@pytest.mark.parametrize("make", [sanitized, rearranged_and_formatted])
def test_no_shortage_of_a_moment_holds_a_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    lacks = 0
    while True:
        lacks += 1
        directory = tmp_path / str(lacks)
        directory.mkdir()
        with monkeypatch.context() as patched:
            made = make(directory, patched)
            asked = starting(patched, lacks)
            report = ended(made)
        fit = (report.verdict, report.fit)
        assert fit == (Verdict.ERASED, True), (asked[:lacks], report.reasons)
        assert not made.kept
        made.close()
        if lacks > len(asked):
            break
    assert lacks > 4


def test_what_was_not_sent_is_not_taken_for_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ends with the error, and not with a drive of which nobody knows what it does."""
    made = rearranged_and_formatted(tmp_path, monkeypatch)
    real, met = lab.LabProcesses.run, list[str]()

    def run(processes: lab.LabProcesses, argv: Any, **how: Any) -> Any:
        if argv[1] == "admin-passthru" and how.get("patience") == 0.0:
            met.append(argv[3])
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return real(processes, argv, **how)

    monkeypatch.setattr(lab.LabProcesses, "run", run)
    for _ in range(2):
        with pytest.raises(OSError, match="nvme-cli was not started"):
            made.run()
    assert len(met) == 2, "by the child that outlives us, and at once"
    assert not made.files.finished()
    made.close()
