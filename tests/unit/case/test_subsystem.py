"""Another controller of the same drive may be a tenant's: nothing is sent past it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eraser.protocol.condition import ExpectedCondition
from eraser.protocol.report import Outcome
from tests.lab.nvme import identify
from tests.lab.nvme.profile import DriveProfile
from tests.unit.case.bed import Bed
from tests.unit.case.test_restore import DRIVE, fit, make_bed

TWO_PORTS = replace(DRIVE, other_controllers=(2,))
UNTOLD = replace(TWO_PORTS, namespace_management=False)
"""It lists no controllers, as a drive without namespace management need not."""


def bed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, named: int | None
) -> Bed:
    made = make_bed(tmp_path, monkeypatch, drive)
    condition = None if named is None else replace(made.profile.condition or ExpectedCondition())
    if condition is not None and named is not None:
        condition = replace(condition, controllers=named)
    made.profile = replace(made.profile, condition=condition)
    return made


@pytest.mark.parametrize("drive", [TWO_PORTS, UNTOLD], ids=["two", "untold"])
@pytest.mark.parametrize("named", [None, 1])
def test_it_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, named: int | None
) -> None:
    made = bed(tmp_path, monkeypatch, drive, named)
    by_driver = made.bench.commands("set_features")
    report = made.run()
    assert report.outcome is Outcome.IN_USE
    assert report.fit is False
    assert "another host may use the drive" in report.reasons[0]
    assert "nothing was sent to it" in report.reasons[0]
    assert made.sent(report) == []
    assert made.names() == []
    assert made.bench.commands("set_features") == by_driver


@pytest.mark.parametrize(("named", "refused"), [(1, True), (0, False)])
def test_a_list_without_even_the_controller_that_was_asked_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: int, refused: bool
) -> None:
    monkeypatch.setattr(identify, "controller_list", lambda _profile, _at_least: bytes(4096))
    report = bed(tmp_path, monkeypatch, TWO_PORTS, named).run()
    assert (report.outcome is Outcome.IN_USE) is refused
    if not refused:
        fit(report)


@pytest.mark.parametrize(
    ("drive", "named"), [(TWO_PORTS, 2), (TWO_PORTS, 3), (UNTOLD, 0)], ids=["2", "3", "untold"]
)
def test_a_profile_that_names_them_lets_it_be_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, named: int
) -> None:
    made = bed(tmp_path, monkeypatch, drive, named)
    report = made.run()
    if named == 3:
        assert report.fit is False
        assert "controllers in the subsystem 3, found 2" in " ".join(report.profile_differences)
    else:
        fit(report)


def test_more_than_the_profile_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bed(tmp_path, monkeypatch, replace(TWO_PORTS, other_controllers=(2, 5)), 2)
    assert made.run().outcome is Outcome.IN_USE


def test_a_profile_is_proposed_with_what_the_drive_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, drive, number in (("two", TWO_PORTS, 2), ("untold", UNTOLD, 0), ("one", DRIVE, 1)):
        (tmp_path / name).mkdir()
        made = make_bed(tmp_path / name, monkeypatch, drive)
        assert made.profile.condition is not None
        assert made.profile.condition.controllers == number
