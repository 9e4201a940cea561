"""Which pictures a result has, and what stands in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from qualify.fio.workload import Cell, size_text
from qualify.report import charts, words
from qualify.report.charts import Series
from qualify.report.surface import Surface
from qualify.results.result import CellResult, Latency, Result, Way

Figure = tuple[str, str, str]
"""Title, one line of explanation, and the picture."""

_MIX_STYLES: Final = {100: "m0", 95: "m1", 70: "m2", 65: "m2", 50: "m3", 35: "m4", 5: "m5", 0: "m6"}


def mix_style(reads: int) -> str:
    """From reads' blue to writes' orange; 70/30 is 65/35's colour, dashed."""
    # A mix that is none of ours, from somebody else's result, gets the color of its neighbor.
    nearest = min(_MIX_STYLES, key=lambda known: abs(known - reads))
    return _MIX_STYLES[nearest] + (" dashed" if reads == 70 else "")


def iops(cells: Sequence[CellResult]) -> dict[Cell, float]:
    """Of all cells."""
    return {cell.cell: cell.iops for cell in cells}


def surface(result: Result, most: float | None = None) -> str | None:
    """None where there are too few sizes or mixes for one."""
    values = iops(result.cells)
    found = Surface(values, max(values.values()) if most is None else most)
    return found.draw("IOPS by block size and mix") if found.fits else None


def figures(result: Result) -> Iterator[Figure]:
    """All pictures but the surface, in the page's order."""
    cells = result.cells
    sizes = sorted({cell.block for cell in cells})
    if len(cells) > 1:
        yield (
            "IOPS",
            "Each square a cell, the mean of its rounds. Darker (on a dark page: brighter) is "
            "more, by the logarithm.",
            charts.heat(iops(cells), words.count, "IOPS by block size and mix"),
        )
        yield (
            "99th percentile of latency",
            "The worse of reads and writes in each cell.",
            charts.heat(
                {cell.cell: float(cell.p99) for cell in cells},
                words.latency,
                "99th percentile of latency by block size and mix",
            ),
        )
    if len(sizes) > 1:
        yield (
            "IOPS by block size",
            "A line for each mix of reads and writes in percent; logarithmic.",
            _by_size(cells, lambda cell: cell.iops, words.count, "IOPS by block size", log=True),
        )
        yield (
            "Throughput by block size",
            "Reads and writes together.",
            _by_size(
                cells,
                lambda cell: cell.throughput,
                words.throughput,
                "Throughput by block size",
                log=False,
            ),
        )
    yield from _latencies(cells, sizes[0])
    if result.steady is not None:
        yield _rounds(result)


def _rounds(result: Result) -> Figure:
    if result.steady is None:
        raise ValueError("expected a result that was judged")
    state = result.steady.state
    tracked = Cell(result.steady.block, result.steady.reads)
    values = next((cell.rounds for cell in result.cells if cell.cell == tracked), ())
    # A result of somebody else's may contradict itself.
    if state.mean <= 0 or not 1 <= state.first < len(values):
        return "Steady state", "The tracked cell has no such rounds.", ""
    return (
        "Steady state",
        f"{tracked}, round by round. The band is 10 % around the mean of rounds {state.first} to "
        f"{state.last}, the dashed line is the one through them: "
        f"{'steady' if state.reached else 'not steady'}.",
        charts.rounds(values, state.first, state.mean, state.slope, words.count),
    )


def _by_size(
    cells: Sequence[CellResult],
    value: Callable[[CellResult], float],
    say: charts.Say,
    title: str,
    *,
    log: bool,
) -> str:
    sizes = sorted({cell.block for cell in cells})
    found = {cell.cell: value(cell) for cell in cells}
    series = [
        Series(
            Cell(1, reads).mix,
            mix_style(reads),
            tuple(found.get(Cell(size, reads)) for size in sizes),
        )
        for reads in sorted({cell.reads for cell in cells}, reverse=True)
    ]
    return charts.lines([size_text(size) for size in sizes], series, say, title, log=log)


_POINTS: Final[tuple[tuple[str, Callable[[Latency], int]], ...]] = (
    ("p50", lambda seen: seen.p50),
    ("p95", lambda seen: seen.p95),
    ("p99", lambda seen: seen.p99),
    ("p99.9", lambda seen: seen.p99_9),
    ("p99.99", lambda seen: seen.p99_99),
    ("longest", lambda seen: seen.longest),
)


def _latencies(cells: Sequence[CellResult], size: int) -> Iterator[Figure]:
    """Percentiles of the smallest blocks: where a queue shows first."""
    ways: tuple[tuple[str, Callable[[CellResult], Way | None]], ...] = (
        ("reads", lambda cell: cell.read),
        ("writes", lambda cell: cell.write),
    )
    for name, way in ways:
        series = [
            Series(
                cell.cell.mix,
                mix_style(cell.reads),
                tuple(float(value(seen.latency)) for _name, value in _POINTS),
            )
            for cell in sorted(cells, key=lambda cell: -cell.reads)
            if cell.block == size and (seen := way(cell)) is not None
        ]
        if series:
            yield (
                f"Latency of {size_text(size)} {name}",
                "All commands of the measured rounds together; logarithmic.",
                charts.lines(
                    [point for point, _value in _POINTS],
                    series,
                    words.latency,
                    f"Latency percentiles of {size_text(size)} {name}",
                    log=True,
                ),
            )


def side_by_side(before: Result, after: Result) -> Iterator[Figure]:
    """Pure reads and pure writes of both, by block size."""
    shared = {cell.cell for cell in before.cells} & {cell.cell for cell in after.cells}
    for reads, name in ((100, "reads"), (0, "writes")):
        sizes = sorted(cell.block for cell in shared if cell.reads == reads)
        if not sizes:
            continue
        for what, value, say, log in (
            ("IOPS", _iops, words.count, True),
            ("Throughput", _throughput, words.throughput, False),
        ):
            series = [
                Series(
                    which,
                    style,
                    tuple(
                        next(value(c) for c in result.cells if c.cell == Cell(size, reads))
                        for size in sizes
                    ),
                )
                for which, style, result in (
                    ("A", "before dashed", before),
                    ("B", "after", after),
                )
            ]
            title = f"{what} of {name}"
            places = [size_text(size) for size in sizes]
            yield title, "", charts.lines(places, series, say, title, log=log)


def _iops(cell: CellResult) -> float:
    return cell.iops


def _throughput(cell: CellResult) -> float:
    return cell.throughput
