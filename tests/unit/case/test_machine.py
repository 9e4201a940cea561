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
from tests.lab.nvme.faults import HEALTHY, EraseFault, Faults
from tests.unit.case.bed import Bed, bed
from tests.unit.case.fakes import Crash, Plug

__all__ = ["bed"]

CRYPTO, BLOCK = 4, 2
ACTS = 45
"""More than a run has, so that some runs end."""

KILLS = st.lists(st.tuples(st.integers(0, ACTS), st.booleans()), max_size=8)
EVENTS = st.sampled_from(["nothing", "time", "written", "anothers sanitize"])
GAPS = st.lists(st.tuples(st.integers(0, ACTS), st.booleans(), EVENTS), max_size=8)

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ENDS = {
    "well": HEALTHY,
    "failed": Faults(sanitize=EraseFault.FAIL),
    "stale": Faults(sanitize=EraseFault.STALE),
    "lies": Faults(sanitize=EraseFault.LIE),
}


def killed(bed: Bed, at: int, after: bool) -> EraseReport | None:
    try:
        return bed.run(Plug(at, after))
    except Crash:
        return None


def verdicts(bed: Bed) -> int:
    return sum(line.kind == "Verified" for line in read(bed.files.journal))


@quick
@given(KILLS, st.integers(0, 12))
def test_it_ends_in_one_verdict_and_repeats_no_command(
    bed: Bed, kills: list[tuple[int, bool]], looks: int
) -> None:
    bed.files.clear()
    bed.anew(looks=looks)
    seen = [report for at, after in kills if (report := killed(bed, at, after)) is not None]
    report = bed.run()
    assert all(each == report for each in seen), "once said, it is said again and nothing else"
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert bed.started == [CRYPTO, BLOCK]
    assert not bed.kept
    assert verdicts(bed) == 1
    assert bed.run() == report


def between(bed: Bed, event: str) -> None:
    """What befalls a drive that nobody holds."""
    if event == "time":
        bed.sanitizer.end()
    elif event == "written" and not bed.running and not bed.drive.state.sanitize.locked:
        bed.dirty()
    elif event == "anothers sanitize":
        bed.another(0x0B)


@quick
@example([(11, False, "nothing"), (5, False, "nothing")], 0, "stale")
@given(GAPS, st.integers(0, 6), st.sampled_from(["well", "failed", "stale"]))
def test_whatever_comes_between_a_dirty_drive_is_never_fit(
    bed: Bed, gaps: list[tuple[int, bool, str]], looks: int, ends: str
) -> None:
    bed.files.clear()
    bed.anew(looks=looks, faults=ENDS[ends])
    events = Counter[str]()
    for at, after, event in gaps:
        if killed(bed, at, after) is not None:
            break
        between(bed, event)
        events[event] += 1
    report = bed.run()
    if report.fit:
        assert not bed.kept
        assert report.verdict is Verdict.ERASED
        assert ends != "failed"
    elif ends == "well":
        pytest.fail(f"an honest drive was held: {report.reasons}")
    assert bed.run() == report
    # Each gap can cost one command more: an end that nobody watched, somebody's write, or a command
    # that nobody saw answered, of which a stale log says nothing.
    bounds = Counter(bed.started)
    strangers = events["written"] + events["anothers sanitize"] + events["time"]
    assert bounds[CRYPTO] + bounds[BLOCK] <= 3 + strangers + len(gaps) * (ends != "well")


@settings(quick, max_examples=8)
@given(KILLS, st.booleans())
def test_a_liar_is_found_out_wherever_the_runs_die(
    bed: Bed, kills: list[tuple[int, bool]], lies: bool
) -> None:
    bed.files.clear()
    bed.anew(faults=ENDS["lies" if lies else "well"])
    for at, after in kills:
        if killed(bed, at, after) is not None:
            break
    report = bed.run()
    left = any(bed.drive.backing.read_bytes())
    assert (report.verdict is Verdict.ERASED) == (not lies) == (not left), report.reasons
    assert bed.started == [CRYPTO, BLOCK]
    assert verdicts(bed) == 1
