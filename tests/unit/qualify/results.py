"""Results as a run would make them, from samples that a test chooses."""

from __future__ import annotations

from collections.abc import Callable

from qualify.fio.fiojson import Sample, Side
from qualify.fio.histogram import Histogram
from qualify.fio.workload import Cell, matrix
from qualify.results import result
from qualify.rounds import steady
from qualify.rounds.journal import Entry
from qualify.rounds.plan import Plan

CELLS = matrix()
PLAN = Plan(CELLS, (5, 25), Cell(4096, 0))

Rate = Callable[[int, Cell], float]
"""IOPS of a cell in a round (from 1)."""


def rate(_round: int, cell: Cell) -> float:
    """Smooth and without any round's noise."""
    return 4_000_000_000 / (cell.block + 20_000) * (0.5 + cell.reads / 200)


def side(iops: float, block: int, latency: int = 100_000) -> Side:
    count = round(iops)
    if count == 0:
        return Side(0.0, 0.0, 0, 0.0, 0, Histogram({}))
    bins = {latency: count - count // 100, latency * 10: count // 100}
    return Side(iops, iops * block, count, float(latency), latency * 10, Histogram(bins))


def sample(iops: float, cell: Cell, latency: int = 100_000) -> Sample:
    reads = iops * cell.reads / 100
    return Sample(
        side(reads, cell.block, latency),
        side(iops - reads, cell.block, latency),
        seconds=1.0,
        cpu=0.5,
        version="fio-3.33",
        utilization={"nvme0n1": 99.0},
    )


def entries(
    rates: Rate = rate, cells: tuple[Cell, ...] = CELLS, rounds: int = 5, latency: int = 100_000
) -> list[Entry]:
    return [
        Entry(number, cell, sample(rates(number, cell), cell, latency), 1.5, 0.25)
        for number in range(1, rounds + 1)
        for cell in cells
    ]


def made(
    rates: Rate = rate,
    cells: tuple[Cell, ...] = CELLS,
    *,
    label: str = "a label",
    description: str = "md raid0 of 4",
    latency: int = 100_000,
) -> result.Result:
    plan = Plan(cells, (5, 25), min(cells, key=lambda cell: (cell.reads, cell.block)))
    done = entries(rates, cells, latency=latency)
    found = result.cells_of(plan, done)
    state = steady.judge([e.sample.iops for e in done if e.cell == plan.tracked])
    return result.Result(
        schema=result.SCHEMA,
        version="0.1.0",
        fio="fio-3.33",
        label=label,
        emulated=False,
        started_at="2026-11-20T10:00:00+00:00",
        target=result.Measured(
            "/dev/md/data", "device", 7_200 * 10**9, description, ("nvme0n1", "nvme1n1"), 10 << 30
        ),
        asked=result.Asked("matrix", "libaio", 32, 32, 60, (5, 25), filled=True, readonly=False),
        machine=result.Machine("6.1.0", 32, "A processor"),
        steady=result.SteadyState(plan.tracked.block, plan.tracked.reads, state) if state else None,
        cells=found,
        grades=result.grades_of(7_200 * 10**9, found),
        notes=("A note.",),
        cost=result.Cost(15000.0, 12.0, 0.0008, 31 << 20, 4000.0),
    )
