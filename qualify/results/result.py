"""The result of a run: facts, as one JSON object that ``result.schema.json`` describes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from qualify.fio.fiojson import Side
from qualify.fio.histogram import PERCENTILES, Histogram
from qualify.fio.workload import KIB, Cell
from qualify.results.levels import I1_READ_IOPS, I1_WRITE_IOPS, grade
from qualify.rounds import steady
from qualify.rounds.journal import Entry
from qualify.rounds.plan import Plan
from qualify.rounds.steady import Steady

SCHEMA: Final = "nvme-bench/1"


@dataclass(frozen=True)
class Latency:
    """Completion latency in nanoseconds."""

    mean: float
    p50: int
    p95: int
    p99: int
    p99_9: int
    p99_99: int
    longest: int


@dataclass(frozen=True)
class Way:
    """The reads, or the writes, of a cell."""

    iops: float
    throughput: float
    """Bytes a second."""
    latency: Latency


@dataclass(frozen=True)
class CellResult:
    """A cell over the rounds of the window. IOPS and throughput are the means of the rounds; the
    latencies are those of all commands together."""

    block: int
    """Bytes."""
    reads: int
    """Percent."""
    iops: float
    throughput: float
    deviation: float
    """The furthest round's distance from the mean, as a share of it."""
    rounds: tuple[float, ...]
    """IOPS of all rounds, those before the window too."""
    read: Way | None
    write: Way | None

    @property
    def cell(self) -> Cell:
        """Which."""
        return Cell(self.block, self.reads)

    @property
    def p99(self) -> int:
        """The worse of reads' and writes', in nanoseconds."""
        return max(way.latency.p99 for way in (self.read, self.write) if way is not None)


@dataclass(frozen=True)
class SteadyState:
    """By which cell it was judged, and what its last rounds show."""

    block: int
    reads: int
    state: Steady


@dataclass(frozen=True)
class Grade:
    """A performance level; ``vpu`` is None where not even the smallest one's promises hold."""

    vpu: int | None
    name: str
    iops: float
    """What was held against the level's promise."""
    throughput: float


@dataclass(frozen=True)
class Grades:
    """For a volume of ``size`` bytes. A run that was judged and not steady has no level."""

    size: int
    reads: Grade | None
    """By reads alone, as the source's figures were taken."""
    every_mix: Grade | None
    """By the worst mix."""
    i1_read: float | None
    """Ratio of 4K random reads to the source's array of four drives."""
    i1_write: float | None


@dataclass(frozen=True)
class Measured:
    """What was measured."""

    path: str
    kind: str
    capacity: int
    description: str
    members: tuple[str, ...]
    size: int
    """Bytes that were worked on."""


@dataclass(frozen=True)
class Asked:
    """How."""

    preset: str
    engine: str
    depth: int
    jobs: int
    seconds: int
    rounds: tuple[int, int]
    filled: bool
    """All of the place was written before it was measured."""
    readonly: bool


@dataclass(frozen=True)
class Machine:
    """Where."""

    kernel: str
    cpus: int
    cpu: str


@dataclass(frozen=True)
class Cost:
    """What measuring took. Shares are of one CPU."""

    wall: float
    """Seconds of measuring, filling included; pauses after an interruption left out."""
    bench_cpu: float
    """CPU seconds of the bench itself, its children left out."""
    bench_share: float
    bench_memory: int
    """Bytes at its peak."""
    fio_cpu: float
    """CPU seconds of fio's jobs over all runs."""


@dataclass(frozen=True)
class Result:
    """One run of the bench."""

    schema: str
    version: str
    fio: str
    label: str
    emulated: bool
    """The drive or the processor is a model: the figures say nothing of hardware."""
    started_at: str
    target: Measured
    asked: Asked
    machine: Machine
    steady: SteadyState | None
    cells: tuple[CellResult, ...]
    grades: Grades
    notes: tuple[str, ...]
    cost: Cost

    @property
    def unsteady(self) -> bool:
        """It was judged, and is not steady: its figures are no level's promise."""
        return self.steady is not None and not self.steady.state.reached

    def text(self) -> str:
        """As JSON, with a newline at its end."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=True) + "\n"


def cells_of(plan: Plan, entries: Sequence[Entry]) -> tuple[CellResult, ...]:
    """Each cell over the last rounds of its window, in the plan's order."""
    found: dict[Cell, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.cell, []).append(entry)
    return tuple(_cell(cell, found[cell]) for cell in plan.cells if cell in found)


def _cell(cell: Cell, entries: list[Entry]) -> CellResult:
    # Only the window has bins: those of earlier rounds were let go of.
    window = [entry.sample for entry in entries[-steady.WINDOW :]]
    rates = [sample.iops for sample in window]
    mean = sum(rates) / len(rates)
    return CellResult(
        cell.block,
        cell.reads,
        iops=mean,
        throughput=sum(sample.throughput for sample in window) / len(window),
        deviation=max(abs(rate - mean) for rate in rates) / mean if mean else 0.0,
        rounds=tuple(entry.sample.iops for entry in entries),
        read=_way([sample.read for sample in window]),
        write=_way([sample.write for sample in window]),
    )


def _way(sides: list[Side]) -> Way | None:
    count = sum(side.count for side in sides)
    if count == 0:
        return None
    latency = Histogram.merged(side.latency for side in sides)
    p50, p95, p99, p99_9, p99_99 = (latency.percentile(percent) for percent in PERCENTILES)
    return Way(
        iops=sum(side.iops for side in sides) / len(sides),
        throughput=sum(side.throughput for side in sides) / len(sides),
        latency=Latency(
            # The mean of all commands: rounds with more of them weigh more.
            sum(side.mean * side.count for side in sides) / count,
            p50,
            p95,
            p99,
            p99_9,
            p99_99,
            max(side.longest for side in sides),
        ),
    )


def grades_of(size: int, cells: Sequence[CellResult]) -> Grades:
    """The levels that the cells reach on ``size`` bytes.

    A promise of IOPS is held against 4K blocks, one of throughput against the best block size. A
    run without large blocks shows at least so much, so its level is one that is surely reached.
    """
    mixes: dict[int, tuple[float, float]] = {}
    for cell in cells:
        iops, throughput = mixes.get(cell.reads, (0.0, 0.0))
        if cell.block == 4 * KIB:
            iops = cell.iops
        mixes[cell.reads] = iops, max(throughput, cell.throughput)
    # Without 4K blocks a mix says nothing of a promise of IOPS.
    small = {reads: pair for reads, pair in mixes.items() if pair[0] > 0}
    # IOPS and throughput may come from different mixes: both promises hold in every one.
    worst = (
        (min(p[0] for p in small.values()), min(p[1] for p in small.values()))
        if len(small) > 1
        else None
    )
    return Grades(
        size,
        reads=_grade(size, small.get(100)),
        every_mix=_grade(size, worst),
        i1_read=small[100][0] / I1_READ_IOPS if 100 in small else None,
        i1_write=small[0][0] / I1_WRITE_IOPS if 0 in small else None,
    )


def _grade(size: int, seen: tuple[float, float] | None) -> Grade | None:
    if seen is None:
        return None
    level = grade(size, *seen)
    if level is None:
        return Grade(None, "below every level", *seen)
    return Grade(level.vpu, level.name, *seen)
