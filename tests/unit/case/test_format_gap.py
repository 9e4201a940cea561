"""A Format whose run died: between that run and the next one the drive was nobody's."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eraser.case import verify
from eraser.case.entries import MethodDone, Planted
from eraser.case.state import CaseState
from eraser.controller.lock import SlotLock
from eraser.controller.passthru import FORMAT_NVM
from eraser.protocol.policy import Method
from eraser.protocol.report import MethodRecord, Verdict
from eraser.state.journal import read
from tests.unit.case.bed import Bed
from tests.unit.case.fakes import SLOT, Crash, Plug
from tests.unit.case.test_restore import FORMAT_ONLY, PLAIN, TWO, fit, make_bed

USER_DATA = 0x200


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


def test_an_end_that_no_run_watched_is_no_end(made: Bed) -> None:
    """Its child ended and let go of the slot: until the next run anybody may have written."""
    dies_in_format(made, result=True)
    report = made.run()
    fit(report)
    assert [place for place, _where in made.planted] == [0, 0]
    assert report.methods[0].attempts == 2
    assert made.names() == ["format_nvm", "format_nvm"]
    assert [command.opcode for command in report.commands] == [FORMAT_NVM, FORMAT_NVM]


def test_an_end_that_the_next_run_waited_for_counts(
    made: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child had the slot until this run took it."""
    dies_in_format(made, result=True)
    child = SlotLock(SLOT.address, made.directory / "run")
    child.acquire()
    child.path.write_text(str(1 << 30))

    passes = made.clock.wait

    def wait(seconds: float) -> None:
        child.release()
        passes(seconds)

    monkeypatch.setattr(made.clock, "wait", wait)
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 1
    assert made.names() == ["format_nvm"]
    assert CaseState.of(read(made.files.journal)).canaries_planted, "ours followed these"


@pytest.mark.parametrize("result", [True, False])
def test_a_round_of_formats_that_a_run_did_not_end_is_done_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: bool
) -> None:
    """What was written meanwhile onto the first namespace, no Format of the rest reaches."""
    made = make_bed(tmp_path, monkeypatch, replace(FORMAT_ONLY, namespaces=TWO))
    made.policy = PLAIN
    dies_in_format(made, 2, result=result)
    report = made.run()
    fit(report)
    assert [method.nsid for method in report.methods] == [1, 2, 1, 2]
    assert made.planted[-1] == (2, (1, 2)), "with canaries of its own"
    assert not CaseState.of(read(made.files.journal)).retried, "the reading has its own round yet"


def test_a_run_that_ends_between_two_formats_costs_one_round_and_no_other_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in itertools.count():
        place = tmp_path / f"at-{at}"
        place.mkdir()
        made = make_bed(place, monkeypatch, replace(FORMAT_ONLY, namespaces=TWO))
        made.policy = PLAIN
        with contextlib.suppress(Crash):
            made.run(Plug(at, after=True))
        done = [method.nsid for method in CaseState.of(read(made.files.journal)).methods]
        if done == [1, 2]:
            return  # what is done about an erase that has ended is the matter of test_gap.py
        report = made.run()
        fit(report)
        assert [method.nsid for method in report.methods] == [1, 2] * (2 if done else 1), at


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
