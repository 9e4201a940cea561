"""Two results: what got slower, and when it is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qualify.fio.workload import Cell
from qualify.report import table
from qualify.results.compare import compare
from qualify.results.result import CellResult
from tests.unit.qualify.results import CELLS, made, rate

BEFORE = made()
SLOW = Cell(16384, 65)


def slowed(factor: float, which: Cell = SLOW):
    return made(lambda number, cell: rate(number, cell) * (factor if cell == which else 1))


def test_the_same_is_no_slower() -> None:
    found = compare(BEFORE, BEFORE)

    assert found.passed
    assert {change.ratio for change in found.changes} == {1.0}
    assert found.differences == ()
    assert "no slower: 0 of 49" in "\n".join(table.comparison_lines(found))


@pytest.mark.parametrize(("factor", "passed"), [(0.92, True), (0.88, False), (1.5, True)])
def test_a_cell_that_lost_more_than_is_tolerated(factor: float, passed: bool) -> None:
    found = compare(BEFORE, slowed(factor))

    assert found.passed is passed
    assert compare(BEFORE, slowed(factor), tolerance=0.01).passed is (factor >= 0.99)
    if factor < 1:
        assert found.worst.cell == SLOW
        assert found.worst.ratio == pytest.approx(factor)
    assert [change.cell for change in found.slower] == ([] if passed else [SLOW])


def test_latency_is_judged_only_where_that_is_asked_for() -> None:
    after = made(latency=150_000)

    assert compare(BEFORE, after).passed
    assert {round(change.p99, 6) for change in compare(BEFORE, after).changes} == {1.5}
    assert not compare(BEFORE, after, p99_tolerance=0.4).passed
    assert compare(BEFORE, after, p99_tolerance=0.6).passed


@pytest.mark.parametrize("side", ["read", "write"])
def test_a_tail_that_rose_below_the_other_sides_is_seen(side: str) -> None:
    """Writes into a cache have a tenth of reads' tail; ten times as much is no 'unchanged'."""

    def with_p99(cell: CellResult, p99: int) -> CellResult:
        way = getattr(cell, side)
        if way is None or cell.cell != SLOW:
            return cell
        return replace(cell, **{side: replace(way, latency=replace(way.latency, p99=p99))})

    before, after = (
        replace(BEFORE, cells=tuple(with_p99(cell, p99) for cell in BEFORE.cells))
        for p99 in (10_000, 90_000)
    )
    (change,) = compare(before, after).longer
    assert (change.cell, change.p99) == (SLOW, 9.0)
    assert not compare(before, after, p99_tolerance=0.5).passed
    assert compare(after, before, p99_tolerance=0.0).passed


def test_the_verdict_names_latency_that_rose() -> None:
    found = compare(BEFORE, made(latency=128_000))
    *_others, verdict = table.comparison_lines(found)
    assert found.passed
    assert "no slower: 0 of 49 cells lost more than 10%" in verdict
    assert "p99 rose by more than 10% in 49, most in" in verdict
    assert verdict.endswith(" (+28.0 %)")
    assert compare(BEFORE, made(latency=105_000)).longer == ()
    assert len(compare(BEFORE, made(latency=105_000), p99_tolerance=0.04).longer) == 49


def test_a_cell_that_is_missing_is_no_pass() -> None:
    found = compare(BEFORE, made(cells=CELLS[1:]))

    assert found.missing == (str(CELLS[0]),)
    assert not found.passed
    assert compare(made(cells=CELLS[1:]), BEFORE).passed  # more than before is fine


def test_nothing_in_common() -> None:
    with pytest.raises(ValueError, match="in common"):
        compare(made(cells=CELLS[:1]), made(cells=CELLS[1:]))


def test_different_questions_are_named() -> None:
    after = replace(
        BEFORE, asked=replace(BEFORE.asked, depth=1), emulated=True, fio="fio-3.40", steady=None
    )

    assert compare(BEFORE, after).differences == (
        "depth: 32, then 1",
        "fio: fio-3.33, then fio-3.40",
        "emulated: False, then True",
    )


def test_another_drive_and_another_machine_are_named() -> None:
    """Figures of two models are no past and future of one."""
    after = replace(
        BEFORE,
        target=replace(BEFORE.target, description="SAMSUNG MZ1"),
        machine=replace(BEFORE.machine, cpu="Another"),
    )

    assert compare(BEFORE, after).differences == (
        "target: md raid0 of 4, then SAMSUNG MZ1",
        "processor: A processor, then Another",
    )


def test_a_run_that_was_not_steady_is_named() -> None:
    wild = made(lambda number, cell: rate(number, cell) * (1 + number % 2))

    assert "the second was not steady" in compare(BEFORE, wild).differences
