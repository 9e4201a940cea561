"""A command is sent once, whichever nvme-cli sends it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from eraser.controller import nvmecli
from eraser.protocol.report import Verdict
from tests.lab.nvme.linux import case as lab
from tests.unit.case.test_lacking import Make, rearranged_and_formatted, sanitized


@pytest.mark.parametrize(
    ("called", "told"),
    [
        ("nvme version 1.16", False),
        ("nvme version 2.3 (git 2.3)", False),
        ("nvme version 2.9.1", False),
        ("nvme version 2.13 (git 2.13)", False),
        # It sends again, and cannot be told not to: operators.md excepts it.
        ("nvme version 2.14 (git 2.14)", False),
        ("nvme version 2.15 (git 2.15)", True),
        ("nvme version 2.16 (git 2.16-22-g0a1b2c3)", True),
        ("nvme version 3.0-rc1 (git 3.0-rc1)", False),
        ("nvme version of the lab", False),
        ("", False),
    ],
)
def test_which_are_told_not_to_send_again(called: str, told: bool) -> None:
    assert nvmecli.once(called) == (("--no-retries",) if told else ())


@pytest.mark.parametrize("make", [sanitized, rearranged_and_formatted])
def test_each_command_of_a_case_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    sent, real = list[tuple[str, ...]](), lab.LabProcesses.run

    def run(processes: lab.LabProcesses, argv: Any, **how: Any) -> Any:
        done = real(processes, [one for one in argv if one != "--no-retries"], **how)
        if argv[1] == "version":
            said = b"nvme version 2.16 (git 2.16)\nlibnvme version 1.16\n"
            return dataclasses.replace(done, stdout=said)
        sent.append(tuple(argv))
        return done

    monkeypatch.setattr(lab.LabProcesses, "run", run)
    made = make(tmp_path, monkeypatch)
    report = made.run()
    made.close()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    passed = [argv for argv in sent if argv[1].endswith("-passthru") and "--read" not in argv]
    assert len(passed) >= 2
    assert all(argv[-1] == "--no-retries" for argv in passed)
    assert report.tools["nvme-cli"] == "nvme version 2.16 (git 2.16)"


def test_one_that_does_not_tell_is_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disk stands still: taken for one that need not be told, it would repeat commands."""
    made = sanitized(tmp_path, monkeypatch)
    real, killed = lab.LabProcesses.run, [True]

    def run(processes: lab.LabProcesses, argv: Any, **how: Any) -> Any:
        done = real(processes, argv, **how)
        if argv[1] == "version" and killed:
            killed.pop()
            return dataclasses.replace(done, exit_code=None, stdout=b"")
        return done

    monkeypatch.setattr(lab.LabProcesses, "run", run)
    with pytest.raises(OSError, match="tell its version"):
        made.run()
    report = made.run()
    made.close()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
