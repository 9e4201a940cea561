"""A tenant's sanitize that waits in the Media Verification state: ended, then erased as ever."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.controller.spec import SanitizeLog
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.leftovers import Leftovers
from tests.unit.case.bed import Bed
from tests.unit.case.test_restore import DRIVE, FORMAT_ONLY, fit, make_bed
from tests.unit.controller.labdrive import FULL, lab_controller

OPEN = Leftovers(verifying=True)
EXIT = 5


def exits(bed: Bed) -> list[int]:
    return [entry.cdws[0] for entry in bed.bench.commands("sanitize") if entry.cdws[0] == EXIT]


def test_log_81h_tells_it(tmp_path: Path) -> None:
    controller = lab_controller(tmp_path, FULL, OPEN)
    log = SanitizeLog.parse(controller.sanitize_log())
    assert (log.state.value, log.progress, log.verifying) == ("running", 0xFFFF, True)
    assert not SanitizeLog.parse(controller.sanitize_log()[:32]).verifying, "older drives"


def test_it_is_left_and_the_drive_is_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, DRIVE)
    made.leave(OPEN)
    report = made.run()
    fit(report)
    assert exits(made) == [EXIT]
    assert [command.cdw10 for command in report.commands if command.cdw10 == EXIT] == [EXIT]


def test_a_drive_that_stays_in_it_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_bed(tmp_path, monkeypatch, DRIVE)
    made.policy = replace(made.policy, limits=replace(made.policy.limits, stuck=60, sanitize=600))
    made.leave(OPEN)

    def stays(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == 0x84 and words["cdw10"] == EXIT:
            words["cdw10"] = 7
        return done()

    made.firmware = stays
    report = made.run()
    assert not report.fit
    assert "Media Verification" in " ".join(report.reasons)
    assert [entry.cdws[0] for entry in made.bench.commands("sanitize")] == [7]


def test_a_drive_without_it_is_sent_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, drive in (("sanitize", DRIVE), ("format", FORMAT_ONLY)):
        (tmp_path / name).mkdir()
        made = make_bed(tmp_path / name, monkeypatch, drive)
        fit(made.run())
        assert exits(made) == []
