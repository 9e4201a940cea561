"""Blocks that cannot be read, and answers that do not last: one more erase, then a person."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from eraser.case import verify
from eraser.errors import DriveError
from eraser.media.reader import BlockDevice
from eraser.proof.verify import Verifier
from eraser.protocol.report import Verdict
from tests.unit.case.fakes import Bed
from tests.unit.case.test_probes import SIZE, FileController, FileDrive, bed, proof

__all__ = ["bed"]

CRYPTO, BLOCK = 4, 2


class Worn(BlockDevice):
    """A drive with eight blocks at its end that cannot be read until it was erased often enough."""

    heals_after = 0
    drive: FileDrive

    def __init__(self, path: str, **how: Any) -> None:
        super().__init__(path, **how)
        if len(self.drive.started) < self.heals_after:
            os.truncate(path, SIZE - 8 * 4096)

    def close(self) -> None:
        if self._fd >= 0:
            os.truncate(self.path, SIZE)
        super().close()


def wear(bed: Bed, monkeypatch: pytest.MonkeyPatch, heals_after: int) -> None:
    assert isinstance(bed.drive, FileDrive)
    monkeypatch.setattr(Worn, "drive", bed.drive, raising=False)
    monkeypatch.setattr(Worn, "heals_after", heals_after)
    monkeypatch.setattr(verify, "Verifier", lambda plan, _disk, clock: Verifier(plan, Worn, clock))


def test_what_another_erase_makes_readable_is_erased(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    wear(bed, monkeypatch, heals_after=3)
    report = bed.run()
    assert bed.drive.started == [CRYPTO, BLOCK, BLOCK]
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert proof(report).namespaces[0].unreadable == 0


def test_what_stays_unreadable_is_held_after_one_more_erase(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    wear(bed, monkeypatch, heals_after=99)
    report = bed.run()
    assert bed.drive.started == [CRYPTO, BLOCK, BLOCK]
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "8 blocks cannot be read" in report.reasons[0]
    assert [(s.status, s.blocks) for s in proof(report).namespaces[0].statuses] == [(None, 8)]


@pytest.mark.parametrize("lasting", [False, True])
def test_a_drive_that_remembers_after_its_second_reset(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    """It answers blank from what it keeps beside the medium, until it is reset once more."""
    assert isinstance(bed.drive, FileDrive)
    drive: FileDrive = bed.drive
    real = FileController.reset

    def reset(controller: FileController, *, timeout: float) -> None:
        real(controller, timeout=timeout)
        if drive.resets == 2 or (lasting and drive.resets == 4):
            Path(drive.media).write_bytes(bytes(SIZE // 2) + b"\x55" * (SIZE // 2))

    monkeypatch.setattr(FileController, "reset", reset)
    report = bed.run()
    assert bed.drive.started == [CRYPTO, BLOCK, BLOCK]
    if lasting:
        assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
        assert "read otherwise after another controller reset" in report.reasons[0]
    else:
        assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
        assert proof(report).namespaces[0].reread >= 64


def test_a_drive_that_drops_writes_is_erased_and_not_handed_out(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BlockDevice, "write_block", lambda *_given, **_options: None)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False), "the content still decides"
    assert re.search("called 6[4-6] writes done", " ".join(report.reasons))


def test_a_second_reset_that_fails_keeps_the_drive(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FileController.reset

    def reset(controller: FileController, *, timeout: float) -> None:
        real(controller, timeout=timeout)
        assert isinstance(bed.drive, FileDrive)
        if bed.drive.resets == 2:
            raise DriveError("the controller took too long")

    monkeypatch.setattr(FileController, "reset", reset)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert any("took too long" in reason for reason in report.reasons)


def test_disks_that_come_back_under_other_names_are_not_read(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = FileController.reset

    def reset(controller: FileController, *, timeout: float) -> None:
        real(controller, timeout=timeout)
        assert isinstance(bed.drive, FileDrive)
        if bed.drive.resets == 2:
            hold.paths = {1: "/dev/null"}

    opened: Any = verify.CaseSession.open
    hold: Any = None

    def open_(session: Any) -> None:
        nonlocal hold
        opened(session)
        hold = session._hold

    monkeypatch.setattr(FileController, "reset", reset)
    monkeypatch.setattr(verify.CaseSession, "open", open_)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "expected the disks" in report.reasons[0]
