"""A drive that takes its host down with it: its case does not do so at each boot for ever."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import replace

import pytest

from eraser.case.entries import Resumed, Risking
from eraser.case.sanitize import MAX_AGAIN
from eraser.case.session import MAX_DOWN
from eraser.case.state import CaseState
from eraser.ownership.model import SteadyTime
from eraser.protocol.report import EraseReport, Verdict
from eraser.state.journal import read
from tests.lab.nvme.acts import Reset
from tests.unit.case.bed import Bed, bed
from tests.unit.case.fakes import Crash
from tests.unit.case.test_gap import unsealed

__all__ = ["bed"]

SANITIZE = 0x84
CRYPTO, BLOCK = 4, 2
WENT_DOWN = f"the host went down in the midst of it, {MAX_DOWN} times at least"
MOST = 30
"""Boots after which a case is taken for one without end."""


def dies(bed: Bed) -> None:
    bed.plug.dead = True
    raise Crash


def on_reset(bed: Bed, how: Reset, times: int = MOST) -> None:
    """The host goes down in resets of this kind, so many times."""
    left = itertools.repeat(True, times)

    def resetting(kind: Reset, done: Callable[[], bool]) -> bool:
        if kind is how and next(left, False):
            dies(bed)
        return done()

    bed.resetting = resetting


def boots(bed: Bed, *, anew: bool = True) -> tuple[EraseReport, int]:
    """Runs until there is a report, each but the first in a boot of its own; ``anew`` False: the
    runner alone is killed. How many it took."""
    boot = bed.kernel.root / "proc/sys/kernel/random/boot_id"
    for count in range(1, MOST):
        try:
            return bed.run(), count
        except Crash:
            if anew:
                boot.write_text(f"{uuid.uuid4()}\n")
    pytest.fail(f"no end after {MOST} boots")


def noted(bed: Bed) -> list[str]:
    return [line.kind for line in read(bed.files.journal)]


def test_a_visit_is_left_out_and_said_to_be(bed: Bed) -> None:
    bed.ask(visit=1, settle=1)
    on_reset(bed, Reset.FUNCTION)
    report, count = boots(bed)
    assert count == MAX_DOWN + 2, "the first of them left no trace"
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    between, after = report.visits
    assert (between.wrote, between.acts, after.wrote) == (True, (), False)
    assert f"every act between two erases, with its resets and writes: {WENT_DOWN}" in (
        between.not_done
    )
    assert bed.started == [CRYPTO, BLOCK]


def test_a_drive_that_is_never_reset_before_its_reading_is_held(bed: Bed) -> None:
    bed.ask(reread=64)
    on_reset(bed, Reset.CONTROLLER)
    report, count = boots(bed)
    assert count == MAX_DOWN + 2
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert f"controller reset before the verification: {WENT_DOWN}" in report.reasons
    assert Reset.FUNCTION not in bed.resets, "one of them is enough to know"
    assert report.verification is not None
    assert "reset" not in report.verification.sentence


def test_nor_is_a_reading_once_more_claimed(bed: Bed) -> None:
    bed.ask(reread=64, visit=1, settle=1)
    report, count = boots(bed)
    assert (count, report.fit) == (1, True)
    assert report.verification is not None
    assert "read again after another controller reset" in report.verification.sentence
    bed.files.clear()
    bed.anew()
    # Those of the visit are over.
    seen = itertools.count(1)
    three = 3

    def resetting(kind: Reset, done: Callable[[], bool]) -> bool:
        if kind is Reset.FUNCTION and next(seen) > three:
            dies(bed)
        return done()

    bed.resetting = resetting
    report, count = boots(bed)
    assert count == MAX_DOWN + 2
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert f"controller reset before the verification: {WENT_DOWN}" in report.reasons
    assert report.verification is not None
    assert "reset" not in report.verification.sentence
    assert all(namespace.reread == 0 for namespace in report.verification.namespaces)
    assert f"reset of the function: {WENT_DOWN}" in report.visits[-1].not_done


@pytest.mark.parametrize("how", [Reset.FUNCTION, Reset.CONTROLLER])
@pytest.mark.parametrize("times", [1, 2])
def test_two_power_cuts_in_the_midst_of_a_reset_are_nothing(
    bed: Bed, how: Reset, times: int
) -> None:
    bed.ask(visit=1, settle=1, reread=64)
    on_reset(bed, how, times)
    report, count = boots(bed)
    assert count == times + 1
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert all(visit.acts for visit in report.visits)
    assert not any("went down" in text for visit in report.visits for text in visit.not_done)


def test_a_runner_that_is_killed_is_no_host_that_went_down(bed: Bed) -> None:
    """Within a boot the order's time goes on, and ends it."""
    bed.ask(visit=1, settle=1, reread=64)
    on_reset(bed, Reset.FUNCTION, 5)
    report, count = boots(bed, anew=False)
    assert (count, report.fit) == (6, True), report.reasons
    assert all(visit.acts for visit in report.visits)


def test_a_case_that_nobody_interrupted_notes_nothing_that_a_former_release_does_not_read(
    bed: Bed,
) -> None:
    bed.ask(visit=1, settle=1, reread=64)
    assert bed.run().fit
    assert "Risking" not in noted(bed)


def test_a_sanitize_that_never_arrives_is_not_sent_for_ever(bed: Bed) -> None:
    def meanwhile(opcode: int) -> None:
        if opcode == SANITIZE:
            dies(bed)

    bed.meanwhile = meanwhile
    report, count = boots(bed)
    assert count == 2 * (MAX_AGAIN + 1) + 1, "of both methods"
    assert bed.started == []
    assert (report.verdict, report.fit) == (Verdict.NOT_ERASED, False)
    for method in report.methods:
        assert (method.verdict, method.attempts) == (Verdict.UNKNOWN, MAX_AGAIN + 1)
        assert f"{MAX_AGAIN + 1} attempts in all" in method.reason


def test_nor_is_one_whose_end_no_run_sees(bed: Bed) -> None:
    bed.firmware = unsealed
    bed.sanitizer.looks = 0

    def dies_after(opcode: int, words: dict[str, object], done: Callable[[], object]) -> object:
        answer = unsealed(opcode, words, done)  # type: ignore[arg-type]
        if (opcode, words.get("cdw10")) == (SANITIZE, CRYPTO):
            bed.sanitizer.end()
            dies(bed)
        return answer

    bed.firmware = dies_after  # type: ignore[assignment]
    report, count = boots(bed)
    assert count == MAX_AGAIN + 2
    assert bed.started == [CRYPTO] * (MAX_AGAIN + 1) + [BLOCK]
    first, second = report.methods
    assert (first.verdict, second.verdict) == (Verdict.UNKNOWN, Verdict.ERASED)
    assert f"{MAX_AGAIN + 1} attempts in all" in first.reason
    assert not report.fit


def test_what_was_over_when_the_host_went_down_counts_for_nothing() -> None:
    def downs(*entries: Risking | Resumed) -> dict[str, int]:
        state = CaseState()
        for entry in entries:
            state.apply(entry)
        return state.downs

    one, two = (Resumed("", SteadyTime(boot, 1.0)) for boot in ("one", "two"))
    three = replace(one, moment=SteadyTime("three", 1.0))
    act, over = Risking("act"), Risking("")
    assert downs(one, act, two) == {"act": 1}
    assert downs(one, act, two, three) == {"act": 1}, "it died before it did anything"
    assert downs(one, act, two, act, three) == {"act": 2}
    assert downs(one, act, over, two) == {}
    assert downs(one, act, one, two) == {}, "the runner alone died"
