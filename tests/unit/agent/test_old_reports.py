"""Reports whose cases are gone are kept for a while and no longer."""

from __future__ import annotations

import os
import time
from pathlib import Path

from eraser.agent.old_reports import DAY, EVERY, OldReports
from eraser.clock import MACHINE, Clock


class At(Clock):
    """The day is the real one."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def report(directory: Path, name: str, days: float) -> Path:
    path = directory / f"{name}.json"
    path.write_text("{}")
    at = time.time() - days * DAY
    os.utime(path, (at, at))
    return path


def test_old_copies_go_and_younger_ones_stay(tmp_path: Path) -> None:
    clock = At()
    old = OldReports(tmp_path, 30, clock)
    young = report(tmp_path, "young", 29)
    report(tmp_path, "old", 31)
    (tmp_path / "note").touch()
    os.utime(tmp_path / "note", (0, 0))
    old.turn()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["note", young.name]
    later = report(tmp_path, "later", 99)
    old.turn()
    assert later.exists(), "a look an hour is enough"
    clock.now += EVERY
    old.turn()
    assert not later.exists()


def test_a_copy_that_somebody_else_removes_meanwhile_keeps_no_other(tmp_path: Path) -> None:
    """The worker that this one replaces looks as well. A link to nothing is gone as much."""
    for name in ("a", "c"):
        report(tmp_path, name, 31)
    (tmp_path / "b.json").symlink_to(tmp_path / "gone")
    OldReports(tmp_path, 30, At()).turn()
    assert [path.name for path in tmp_path.iterdir()] == ["b.json"]


def test_a_host_without_reports_has_nothing_to_remove(tmp_path: Path) -> None:
    OldReports(tmp_path / "none", 30, MACHINE).turn()
