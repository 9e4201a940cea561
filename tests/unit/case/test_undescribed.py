"""A namespace that does not describe itself: everything is erased all the same, then held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eraser.case.state import CaseState
from eraser.errors import BadInputError
from eraser.protocol.report import Verdict
from eraser.state.journal import read
from tests.lab.nvme.acts import Act
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.nature import Nature
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile, Stated
from tests.lab.nvme.spec import AdminOp, Reply
from tests.unit.case.bed import Bed
from tests.unit.case.test_restore import DRIVE, FORMAT_ONLY, PLAIN, fit, make_bed

ODD = 2
LEFT = Leftovers(namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(ODD, 0.25)])


class Undescribed(Nature):
    """NSZE 0, as of another command set's namespace (Key Value): its host's kernel makes no disk of
    it."""

    def answers(self, act: Act) -> Reply | None:
        command = act.command
        if not act.is_admin(AdminOp.IDENTIFY) or command is None or command.nsid != ODD:
            return None
        return Reply(data=bytes(4096)) if command.cdw10 & 0xFF == 0 else None


def make_odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile) -> Bed:
    made = make_bed(tmp_path, monkeypatch, drive)
    made.anew(nature=Undescribed())
    made.leave(LEFT)
    return made


def test_a_sanitize_reaches_it_and_the_layout_is_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_odd(tmp_path, monkeypatch, DRIVE)
    report = made.run()
    fit(report)
    assert [method.verdict for method in report.methods] == [Verdict.ERASED] * 2


def test_without_namespace_management_it_is_erased_and_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_odd(tmp_path, monkeypatch, _fixed(DRIVE))
    report = made.run()
    assert [method.verdict for method in report.methods] == [Verdict.ERASED] * 2
    assert report.fit is False
    assert "namespace 2" in " ".join(report.profile_differences)


def test_format_erases_what_it_can_name_and_nothing_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_odd(tmp_path, monkeypatch, FORMAT_ONLY)
    made.policy = PLAIN
    report = made.run()
    assert made.names() == ["format_nvm"]
    assert report.fit is False
    assert "no block device of [2]" in report.reasons[0]
    restored = CaseState.of(read(made.files.journal)).restored
    assert restored is not None
    assert "namespaces 2 were not erased" in restored.problems[0]


def test_no_profile_is_made_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_odd(tmp_path, monkeypatch, DRIVE)
    with pytest.raises(BadInputError, match="describe themselves"):
        made.approved()


def _fixed(drive: DriveProfile) -> DriveProfile:
    return replace(drive, namespace_management=False, most_namespaces=2)


def test_a_drive_without_room_for_any_namespace_is_held_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NN 0, as of a drive that answers with nothing: who it is cannot be known either."""
    made = make_bed(tmp_path, monkeypatch, DRIVE)
    drive = made.bench.drive
    drive.profile = replace(drive.profile, stated=(Stated(516, bytes(4)),))
    report = made.run()
    assert (report.verdict, report.fit, report.methods) == (Verdict.UNKNOWN, False, ())
    assert len(report.reasons) == 1
    assert "expected NN of at least 1, found 0" in report.reasons[0]
    assert "power-cycle the slot" in report.reasons[0]
