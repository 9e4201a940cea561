"""Two results side by side: what changed, cell by cell. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from qualify.fio.workload import Cell, size_text
from qualify.results.result import CellResult, Result, Way

TAIL_TOLERANCE: Final = 0.10
"""Share that a 99th percentile may gain without a word, where nobody said what is too much."""


@dataclass(frozen=True)
class Change:
    """One cell of both. Ratios are the second result's value to the first's."""

    block: int
    reads: int
    before: float
    """IOPS."""
    after: float
    ratio: float
    """Of IOPS; that of throughput is the same."""
    p99: float
    """Ratio of the 99th percentile of reads or of writes, whichever rose more: above 1 is slower.
    That of the slower side alone would hide what became of the other one."""

    @property
    def cell(self) -> Cell:
        """Which."""
        return Cell(self.block, self.reads)


@dataclass(frozen=True)
class Comparison:
    """All that two results say of each other."""

    changes: tuple[Change, ...]
    missing: tuple[str, ...]
    """Cells of the first that the second lacks."""
    differences: tuple[str, ...]
    """In what was asked: ratios of different questions say little."""
    tolerance: float
    p99_tolerance: float | None

    @property
    def worst(self) -> Change:
        """The cell that lost most IOPS."""
        return min(self.changes, key=lambda change: change.ratio)

    @property
    def slower(self) -> tuple[Change, ...]:
        """Cells that lost more IOPS, or gained more latency, than is tolerated."""
        return tuple(
            change
            for change in self.changes
            if change.ratio < 1 - self.tolerance
            or (self.p99_tolerance is not None and change.p99 > 1 + self.p99_tolerance)
        )

    @property
    def longer(self) -> tuple[Change, ...]:
        """Cells whose 99th percentile rose by more than is tolerated, or, where that is not judged,
        by more than 10 %; the most first."""
        least = TAIL_TOLERANCE if self.p99_tolerance is None else self.p99_tolerance
        rose = (change for change in self.changes if change.p99 > 1 + least)
        return tuple(sorted(rose, key=lambda change: -change.p99))

    @property
    def passed(self) -> bool:
        """Nothing is slower, and nothing that was measured before is missing."""
        return not self.slower and not self.missing


def compare(
    before: Result, after: Result, *, tolerance: float = 0.10, p99_tolerance: float | None = None
) -> Comparison:
    """Compares ``after`` with ``before``.

    ``tolerance`` is the share of a cell's IOPS that may be lost. Latency is shown, and judged only
    where ``p99_tolerance`` says how much more is too much: tails of short runs are noise. Raises
    ``ValueError`` where the two have no cell in common.
    """
    theirs = {cell.cell: cell for cell in after.cells}
    changes = tuple(
        _change(cell, theirs[cell.cell]) for cell in before.cells if cell.cell in theirs
    )
    if not changes:
        raise ValueError("expected results with cells in common, found none")
    return Comparison(
        changes,
        tuple(str(cell.cell) for cell in before.cells if cell.cell not in theirs),
        tuple(_differences(before, after)),
        tolerance,
        p99_tolerance,
    )


def _change(before: CellResult, after: CellResult) -> Change:
    return Change(
        before.block,
        before.reads,
        before.iops,
        after.iops,
        _ratio(after.iops, before.iops),
        max(
            (_ratio(new.latency.p99, old.latency.p99) for old, new in _ways(before, after)),
            default=_ratio(after.p99, before.p99),
        ),
    )


def _ways(before: CellResult, after: CellResult) -> list[tuple[Way, Way]]:
    """Reads of both, and writes of both, where both have them."""
    pairs = ((before.read, after.read), (before.write, after.write))
    return [(one, other) for one, other in pairs if one is not None and other is not None]


def _ratio(after: float, before: float) -> float:
    """1 where there was nothing before: then nothing can have been lost."""
    if before > 0:
        return after / before
    return 1.0


def _differences(before: Result, after: Result) -> Iterator[str]:
    pairs = (
        ("preset", before.asked.preset, after.asked.preset),
        ("engine", before.asked.engine, after.asked.engine),
        ("depth", before.asked.depth, after.asked.depth),
        ("jobs", before.asked.jobs, after.asked.jobs),
        ("seconds per cell", before.asked.seconds, after.asked.seconds),
        ("working set", size_text(before.target.size), size_text(after.target.size)),
        ("kind of target", before.target.kind, after.target.kind),
        ("target", before.target.description, after.target.description),
        ("written first", before.asked.filled, after.asked.filled),
        ("fio", before.fio, after.fio),
        ("kernel", before.machine.kernel, after.machine.kernel),
        ("cpus", before.machine.cpus, after.machine.cpus),
        ("processor", before.machine.cpu, after.machine.cpu),
        ("emulated", before.emulated, after.emulated),
    )
    for name, one, other in pairs:
        if one != other:
            yield f"{name}: {one}, then {other}"
    for result, which in ((before, "first"), (after, "second")):
        if result.steady is not None and not result.steady.state.reached:
            yield f"the {which} was not steady"
