"""The case machine as a whole: killed anywhere, any number of times, whatever came between.

Hypothesis chooses where each process dies and what happens to the drive until the next one comes.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eraser.protocol.report import EraseReport, Verdict
from eraser.state.journal import read
from tests.unit.case import test_probes
from tests.unit.case.fakes import FAILED, RUNNING, SUCCESS, Bed, Crash, FakeDrive, Plug, bed
from tests.unit.case.test_probes import FileDrive

__all__ = ["bed", "file_bed"]

CRYPTO, BLOCK = 4, 2
ACTS = 45
"""More than a run has, so that some runs end."""

KILLS = st.lists(st.tuples(st.integers(0, ACTS), st.booleans()), max_size=8)
EVENTS = st.sampled_from(["nothing", "time", "written", "anothers sanitize"])
GAPS = st.lists(st.tuples(st.integers(0, ACTS), st.booleans(), EVENTS), max_size=8)

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
file_bed = test_probes.bed


def killed(bed: Bed, at: int, after: bool) -> EraseReport | None:
    try:
        return bed.run(Plug(at, after))
    except Crash:
        return None


def verdicts(bed: Bed) -> int:
    return sum(line.kind == "Verified" for line in read(bed.files.journal))


def anew(bed: Bed, drive: FakeDrive) -> None:
    bed.files.clear()
    bed.drive = drive


@quick
@given(KILLS, st.integers(0, 12))
def test_it_ends_in_one_verdict_and_repeats_no_command(
    bed: Bed, kills: list[tuple[int, bool]], looks: int
) -> None:
    anew(bed, FakeDrive(written=True, looks=looks))
    seen = [report for at, after in kills if (report := killed(bed, at, after)) is not None]
    report = bed.run()
    assert all(each == report for each in seen), "once said, it is said again and nothing else"
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert bed.drive.started == [CRYPTO, BLOCK]
    assert verdicts(bed) == 1
    assert bed.run() == report


def between(drive: FakeDrive, event: str) -> None:
    """What befalls a drive that nobody holds."""
    if event == "time":
        while drive.status == RUNNING:
            drive.log()
    elif event == "written" and drive.status not in (RUNNING, FAILED):
        drive.write()
    elif event == "anothers sanitize":
        drive.sanitize(0x0B)
        drive.started = [cdw10 for cdw10 in drive.started if cdw10 != 0x0B]


@quick
@example([(11, False, "nothing"), (5, False, "nothing")], 0, SUCCESS, True)
@given(GAPS, st.integers(0, 6), st.sampled_from([SUCCESS, FAILED]), st.booleans())
def test_whatever_comes_between_a_dirty_drive_is_never_fit(
    bed: Bed, gaps: list[tuple[int, bool, str]], looks: int, ends: int, stale: bool
) -> None:
    drive = FakeDrive(written=True, looks=looks, ends=ends, stale=stale)
    anew(bed, drive)
    events = Counter[str]()
    for at, after, event in gaps:
        if killed(bed, at, after) is not None:
            break
        between(drive, event)
        events[event] += 1
    report = bed.run()
    if report.fit:
        assert not drive.written
        assert report.verdict is Verdict.ERASED
        assert ends == SUCCESS
    elif ends == SUCCESS and not stale:
        pytest.fail(f"an honest drive was held: {report.reasons}")
    assert bed.run() == report
    # Each gap can cost one command more: an end that nobody watched, somebody's write, or a command
    # that nobody saw answered, of which a stale log says nothing.
    bounds = Counter(drive.started)
    strangers = events["written"] + events["anothers sanitize"] + events["time"]
    assert bounds[CRYPTO] + bounds[BLOCK] <= 3 + strangers + len(gaps) * (stale or ends == FAILED)


@settings(quick, max_examples=8)
@given(KILLS, st.booleans())
def test_with_real_probes_and_reads(
    file_bed: Bed, kills: list[tuple[int, bool]], lies: bool
) -> None:
    drive = test_probes.fresh(file_bed)
    drive.lies = lies
    anew(file_bed, drive)
    for at, after in kills:
        if killed(file_bed, at, after) is not None:
            break
    report = file_bed.run()
    assert isinstance(file_bed.drive, FileDrive)
    left = any(file_bed.drive.media.read_bytes())
    assert (report.verdict is Verdict.ERASED) == (not lies) == (not left), report.reasons
    assert file_bed.drive.started == [CRYPTO, BLOCK]
    assert verdicts(file_bed) == 1
