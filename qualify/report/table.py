"""A result, and a comparison, as lines of text. Who prints them makes them printable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from qualify.fio.workload import Cell, size_text
from qualify.report import words
from qualify.results.compare import TAIL_TOLERANCE, Comparison
from qualify.results.result import CellResult, Grade, Result


def lines(result: Result) -> Iterator[str]:
    """The whole result."""
    target, asked = result.target, result.asked
    yield (
        f"{target.path}: {target.description}, "
        f"{words.size(target.capacity)}; {words.size(target.size)} measured"
    )
    yield (
        f"{asked.preset}: {asked.engine}, depth {asked.depth} x {asked.jobs} "
        f"jobs, {asked.seconds} s a cell; {result.fio}"
    )
    yield ""
    if len(result.cells) == 1:
        yield from _single(result.cells[0])
    else:
        for title, value in _TABLES:
            yield title
            yield from _grid(result.cells, value)
            yield ""
    yield from _steady(result)
    yield from grade_lines(result)
    yield from result.notes
    cost = result.cost
    yield (
        f"took {cost.wall:.0f} s; the bench itself {cost.bench_share:.1%} of one CPU and "
        f"{cost.bench_memory / 2**20:.0f} MiB, fio {cost.fio_cpu:.0f} CPU seconds"
    )


_TABLES: tuple[tuple[str, Callable[[CellResult], str]], ...] = (
    ("IOPS (columns: reads/writes in percent)", lambda cell: words.count(cell.iops)),
    ("Throughput in MB/s", lambda cell: f"{cell.throughput / 1e6:,.0f}"),
    ("99th percentile of latency", lambda cell: words.latency(cell.p99)),
)


def _grid(cells: Sequence[CellResult], value: Callable[[CellResult], str]) -> Iterator[str]:
    values = {cell.cell: value(cell) for cell in cells}
    mixes = sorted({cell.reads for cell in cells}, reverse=True)
    sizes = sorted({cell.block for cell in cells})
    width = max(7, *(len(text) for text in values.values())) + 2
    yield f"{'':6}" + "".join(f"{Cell(1, reads).mix:>{width}}" for reads in mixes)
    for block in sizes:
        row = (values.get(Cell(block, reads), "") for reads in mixes)
        yield f"{size_text(block):>6}" + "".join(f"{text:>{width}}" for text in row)


def _single(cell: CellResult) -> Iterator[str]:
    yield f"{cell.cell}: {words.count(cell.iops)} IOPS, {words.throughput(cell.throughput)}"
    for name, way in (("reads", cell.read), ("writes", cell.write)):
        if way is not None:
            seen = way.latency
            yield (
                f"  latency of {name}: p50 {words.latency(seen.p50)}, p99 "
                f"{words.latency(seen.p99)}, p99.99 {words.latency(seen.p99_99)}, longest "
                f"{words.latency(seen.longest)}"
            )


def _steady(result: Result) -> Iterator[str]:
    if result.steady is None:
        yield "steady state not judged: the run had fewer than 5 rounds"
        return
    state = result.steady.state
    cell = Cell(result.steady.block, result.steady.reads)
    yield (
        f"{'steady' if state.reached else 'NOT steady'} over rounds {state.first} to {state.last} "
        f"by {cell}: furthest {state.deviation:.1%} from the mean, line {state.slope:+.1%} "
        "(10 % each allowed)"
    )


def grade_lines(result: Result) -> Iterator[str]:
    """The levels, and the ratios to the source's array."""
    grades = result.grades
    if result.unsteady:
        yield "no level: the run was not steady; let it go on for more rounds"
    for name, found in (("reads", grades.reads), ("every mix", grades.every_mix)):
        if found is not None and not result.unsteady:
            yield (
                f"level by {name}: {level(found)} for {words.size(grades.size)} "
                f"({words.count(found.iops)} IOPS at 4K, {words.throughput(found.throughput)})"
            )
    for name, ratio in (("randread", grades.i1_read), ("randwrite", grades.i1_write)):
        if ratio is not None:
            figure = "2,374k" if name == "randread" else "1,710k"
            yield f"4k {name}: {ratio:.4g} of the i1 array's {figure} IOPS"


def level(found: Grade) -> str:
    """``Balanced (VPU 10)``."""
    return found.name if found.vpu is None else f"{found.name} (VPU {found.vpu})"


def comparison_lines(found: Comparison) -> Iterator[str]:
    """What changed."""
    for difference in found.differences:
        yield f"note: {difference}"
    yield "IOPS, second to first (columns: reads/writes in percent)"
    yield from _ratios(found)
    yield ""
    worst = found.worst
    yield (
        f"worst cell: {worst.cell}, {words.count(worst.before)} to {words.count(worst.after)} IOPS "
        f"({words.change(worst.ratio)}), p99 {words.change(worst.p99)}"
    )
    for name in found.missing:
        yield f"missing in the second: {name}"
    allowed = f"lost more than {found.tolerance:.0%} of their IOPS"
    if found.p99_tolerance is not None:
        allowed += f", or gained more than {found.p99_tolerance:.0%} of p99"
    slower = len(found.slower)
    verdict = f"{'slower' if slower else 'no slower'}: {slower} of {len(found.changes)} cells"
    yield "; ".join((f"{verdict} {allowed}", *tails_of(found)))


def tails_of(found: Comparison) -> Iterator[str]:
    """What the verdict says of latency that rose; nothing where none did."""
    longer = found.longer
    if longer:
        least = TAIL_TOLERANCE if found.p99_tolerance is None else found.p99_tolerance
        most = longer[0]
        yield (
            f"p99 rose by more than {least:.0%} in {len(longer)}, most in {most.cell} "
            f"({words.change(most.p99)})"
        )


def _ratios(found: Comparison) -> Iterator[str]:
    slower = {change.cell for change in found.slower}
    values = {
        change.cell: words.change(change.ratio) + (" !" if change.cell in slower else "  ")
        for change in found.changes
    }
    mixes = sorted({cell.reads for cell in values}, reverse=True)
    yield f"{'':6}" + "".join(f"{Cell(1, reads).mix + '  ':>12}" for reads in mixes)
    for block in sorted({cell.block for cell in values}):
        row = (values.get(Cell(block, reads), "") for reads in mixes)
        yield f"{size_text(block):>6}" + "".join(f"{text:>12}" for text in row)
