"""A Format whose run died: between that run and the next one the drive was nobody's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from eraser.case import verify
from eraser.case.entries import MethodDone, Planted
from eraser.case.state import CaseState
from eraser.controller.passthru import FORMAT_NVM
from eraser.protocol.policy import Method
from eraser.protocol.report import MethodRecord, Verdict
from eraser.state.journal import read
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import NamespaceProfile
from tests.unit.case.fakes import Crash
from tests.unit.case.test_restore import FORMAT_ONLY, PLAIN, Bed, fit, make_bed

USER_DATA = 0x200
TWO = Leftovers(namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5)])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    bed.policy = PLAIN
    return bed


def dies_in_format(made: Bed, nth: int = 1, *, result: bool) -> None:
    """In the how many-th Format; ``result``: its child writes down how it ended."""
    made.cut, made.cut_nth, made.child_writes = (FORMAT_NVM, USER_DATA), nth, result
    with pytest.raises(Crash):
        made.run()
    made.child_writes = True


def test_canaries_of_a_format_whose_end_nobody_knows_are_planted_anew(made: Bed) -> None:
    """It may never have reached the drive, and another may have taken them meanwhile."""
    dies_in_format(made, result=False)
    fit(made.run())
    assert [place for place, _where in made.planted] == [0, 0]
    assert CaseState.of(read(made.files.journal)).canaries_planted


def test_canaries_of_a_format_whose_end_was_written_down_count(made: Bed) -> None:
    dies_in_format(made, result=True)
    fit(made.run())
    assert CaseState.of(read(made.files.journal)).canaries_planted


@pytest.mark.parametrize(
    ("attempts", "planted", "again"), [(2, 0, True), (2, 9, False), (1, 0, False)]
)
def test_a_drive_that_was_still_formatting_when_they_were_planted_anew_is_erased_once_more(
    made: Bed, monkeypatch: pytest.MonkeyPatch, attempts: int, planted: int, again: bool
) -> None:
    """Nothing but the interruption kept them off, and content may not decide."""
    monkeypatch.setattr(verify.judging, "unreadable", lambda _result: "")
    monkeypatch.setattr(verify.judging, "unstable", lambda _result: "")
    state = CaseState()
    record = MethodRecord(
        Method.FORMAT_CRYPTO, 0x400, 1, attempts, False, "", "", False, Verdict.ERASED, "", 1.0, ""
    )
    state.apply(Planted(0, planted, ()))
    state.apply(MethodDone(0, record, halt=False))
    session = SimpleNamespace(state=state, policy=made.policy)
    said = verify._again(session, Verdict.UNKNOWN, None)  # type: ignore[arg-type]
    assert ("a Format that was interrupted" in said) is again
