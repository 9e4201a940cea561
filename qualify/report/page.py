"""A result, or two side by side, as one page of HTML: self-contained, no script, all escaped."""

from __future__ import annotations

import importlib.resources
import string
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from qualify.errors import BadInputError
from qualify.fio.workload import size_text
from qualify.report import charts, table, views, words
from qualify.report.surface import Surface
from qualify.results.compare import Change, Comparison
from qualify.results.levels import I1_READ_IOPS, I1_WRITE_IOPS
from qualify.results.result import CellResult, Result, Way

Tile = tuple[str, str, str]
"""A name, the figure, and a line below it."""


def write(path: Path, result: Result) -> None:
    """Writes :func:`render`'s page. Raises :class:`BadInputError`."""
    _write(path, render(result))


def write_comparison(path: Path, before: Result, after: Result, found: Comparison) -> None:
    """Writes :func:`render_comparison`'s page. Raises :class:`BadInputError`."""
    _write(path, render_comparison(before, after, found))


def _write(path: Path, page: str) -> None:
    try:
        # Half a surrogate pair of JSON, or a byte of a path that is no UTF-8, becomes "?".
        path.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInputError(f"cannot write {path}: {error.strerror}") from error


def render(result: Result) -> str:
    """One result."""
    surface = views.surface(result)
    body = [_tiles(_summary(result)), _notes(result.notes, result.emulated)]
    if surface is not None:
        body.append(
            '<figure class="wide"><figcaption><b>The surface</b> IOPS by block size and mix, '
            f"linear; small blocks at the back.</figcaption>{surface}</figure>"
        )
    body.append(_grid(views.figures(result)))
    body.append(f"<h2>All cells</h2>{_cells(result.cells)}")
    body.append(f"<h2>How it was measured</h2>{_terms(_how(result))}")
    return _page(result.label or result.target.path, _heading(result), body)


def render_comparison(before: Result, after: Result, found: Comparison) -> str:
    """Two results, and what changed from ``before`` (A) to ``after`` (B)."""
    values = (views.iops(before.cells), views.iops(after.cells))
    most = max(*values[0].values(), *values[1].values())
    surfaces = [
        (f"{letter}: {_name(result)}", "One scale for both.", Surface(own, most))
        for letter, result, own in (("A", before, values[0]), ("B", after, values[1]))
    ]
    body = [
        _tiles(_verdict(found)),
        _notes(
            (
                *(f"With care: {difference}." for difference in found.differences),
                *(f"Missing in B: {name}." for name in found.missing),
            ),
            before.emulated or after.emulated,
        ),
        _grid(
            (title, words_, sheet.draw(title)) for title, words_, sheet in surfaces if sheet.fits
        ),
        _grid(
            (
                (
                    "IOPS, B to A",
                    "Blue gained, red lost; within 3 % is no change.",
                    charts.ratios(
                        {change.cell: change.ratio for change in found.changes},
                        words.change,
                        "Ratio of IOPS by block size and mix",
                    ),
                ),
                (
                    "99th percentile of latency, B to A",
                    "Blue is shorter, red is longer.",
                    charts.ratios(
                        # Turned around, so that blue is good here too; the words turn it back.
                        {change.cell: 1 / max(change.p99, 1e-9) for change in found.changes},
                        lambda ratio: words.change(1 / ratio),
                        "Ratio of the 99th percentile by block size and mix",
                    ),
                ),
            )
        ),
        _grid(views.side_by_side(before, after)),
        f"<h2>All cells</h2>{_changes(found)}",
        '<div class="pair">'
        + "".join(
            f"<div><h2>{letter}: {escape(_name(result))}</h2>{_terms(_how(result))}</div>"
            for letter, result in (("A", before), ("B", after))
        )
        + "</div>",
    ]
    title = f"{_name(before)} and {_name(after)}"
    return _page(title, _heading(before, "A: ") + _heading(after, "B: "), body)


def _page(title: str, heading: str, body: Iterable[str]) -> str:
    template = importlib.resources.files(__package__ or "").joinpath("page.html")
    # A dollar sign in a value stays as it is: the template alone is searched for them.
    return string.Template(template.read_text(encoding="utf-8")).substitute(
        title=escape(words.printable(title)), heading=heading, body="\n".join(body)
    )


def _name(result: Result) -> str:
    return result.label or f"{result.target.description}, {result.started_at}"


def _heading(result: Result, prefix: str = "") -> str:
    target = result.target
    return (
        f"<p>{prefix}{escape(target.path)}: {escape(target.description)}, "
        f"{escape(words.size(target.capacity))}; preset {escape(result.asked.preset)}, "
        f"{escape(result.started_at)}</p>"
    )


def _summary(result: Result) -> Iterator[Tile]:
    grades = result.grades
    judged = "" if result.steady is not None else "; steady state not judged"
    for name, found in (("Level by reads", grades.reads), ("by every mix", grades.every_mix)):
        # A run that was not steady earns no level, whatever its figures.
        if found is not None and not result.unsteady:
            level = "none" if found.vpu is None else f"VPU {found.vpu}"
            yield name, level, f"{found.name}, at {words.size(grades.size)}{judged}"
    if result.unsteady:
        yield "Level", "none", "the run was not steady"
    for name, ratio, figure in (
        ("4k random reads to i1", grades.i1_read, I1_READ_IOPS),
        ("4k random writes to i1", grades.i1_write, I1_WRITE_IOPS),
    ):
        if ratio is not None:
            yield name, f"{ratio:.3g}", f"{words.count(ratio * figure)} of {words.count(figure)}"
    fastest = max(result.cells, key=lambda cell: cell.iops)
    yield "Most IOPS", words.count(fastest.iops), str(fastest.cell)
    widest = max(result.cells, key=lambda cell: cell.throughput)
    yield "Most throughput", words.throughput(widest.throughput), str(widest.cell)


def _verdict(found: Comparison) -> Iterator[Tile]:
    slower, cells = len(found.slower), len(found.changes)
    calm = "p99 rose" if found.longer else "no slower"
    yield (
        "Verdict",
        calm if found.passed else "slower" if slower else "incomplete",
        "; ".join((f"{slower} of {cells} cells slower", *table.tails_of(found))),
    )
    worst, best = found.worst, max(found.changes, key=lambda change: change.ratio)
    for name, change in (("Worst cell", worst), ("Best cell", best)):
        yield name, words.change(change.ratio), f"{change.cell}: {_from_to(change)}"
    middle = sorted(change.ratio for change in found.changes)[cells // 2]
    yield "Median cell", words.change(middle), "of IOPS"


def _from_to(change: Change) -> str:
    return f"{words.count(change.before)} to {words.count(change.after)}"


def _tiles(tiles: Iterable[Tile]) -> str:
    inner = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{escape(figure)}</b>'
        f"<small>{escape(below)}</small></div>"
        for name, figure, below in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _notes(notes: Iterable[str], warn: bool) -> str:
    inner = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<ul class="notes{" warn" if warn else ""}">{inner}</ul>' if inner else ""


def _grid(figures: Iterable[views.Figure]) -> str:
    inner = "".join(
        f"<figure><figcaption><b>{escape(title)}</b> {escape(below)}</figcaption>{picture}</figure>"
        for title, below, picture in figures
    )
    return f'<div class="grid">{inner}</div>' if inner else ""


def _cells(cells: Iterable[CellResult]) -> str:
    heads = (
        "<tr><th>Block</th><th>Mix</th><th>IOPS</th><th>Throughput</th><th>Rounds</th>"
        '<th class="first">Reads: p50</th><th>p99</th><th>p99.99</th>'
        '<th class="first">Writes: p50</th><th>p99</th><th>p99.99</th></tr>'
    )
    rows = "".join(
        f"<tr><td>{size_text(cell.block)}</td><td>{cell.cell.mix}</td>"
        f"<td>{words.count(cell.iops)}</td><td>{words.throughput(cell.throughput)}</td>"
        f"<td>{_spread(cell)}</td>{_way(cell.read)}{_way(cell.write)}</tr>"
        for cell in sorted(cells, key=lambda cell: (cell.block, -cell.reads))
    )
    return f'<div class="scroll"><table><thead>{heads}</thead><tbody>{rows}</tbody></table></div>'


def _spread(cell: CellResult) -> str:
    """Of one round alone there is none."""
    return f"±{cell.deviation:.1%}" if len(cell.rounds) > 1 else "one"


def _way(way: Way | None) -> str:
    if way is None:
        return '<td class="first"></td><td></td><td></td>'
    seen = way.latency
    return (
        f'<td class="first">{words.latency(seen.p50)}</td><td>{words.latency(seen.p99)}</td>'
        f"<td>{words.latency(seen.p99_99)}</td>"
    )


def _changes(found: Comparison) -> str:
    slower = set(found.slower)
    rows = "".join(
        f"<tr{' class=lost' if change in slower else ''}><td>{size_text(change.block)}</td>"
        f"<td>{change.cell.mix}</td><td>{words.count(change.before)}</td>"
        f"<td>{words.count(change.after)}</td><td>{words.change(change.ratio)}</td>"
        f"<td>{words.change(change.p99)}</td></tr>"
        for change in sorted(found.changes, key=lambda change: (change.block, -change.reads))
    )
    return (
        '<div class="scroll"><table><thead><tr><th>Block</th><th>Mix</th><th>A, IOPS</th>'
        "<th>B, IOPS</th><th>Change</th><th>p99</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _how(result: Result) -> Iterator[tuple[str, str]]:
    asked, target, cost, host = result.asked, result.target, result.cost, result.machine
    yield "Target", f"{target.path} ({target.kind}), disks {', '.join(target.members) or 'unknown'}"
    yield "Worked on", words.size(target.size) + (", written first" if asked.filled else "")
    yield "Load", f"{asked.engine}, {asked.jobs} jobs with {asked.depth} commands each, direct I/O"
    rounds = max(len(cell.rounds) for cell in result.cells)
    yield "Time", f"{asked.seconds} s a cell, {rounds} rounds, {words_of(cost.wall)} in all"
    if result.steady is not None:
        state = result.steady.state
        yield (
            "Steady state",
            f"{'reached' if state.reached else 'not reached'}: furthest "
            f"{state.deviation:.1%} from the mean, line {state.slope:+.1%} (10 % allowed)",
        )
    yield "Machine", f"{host.cpu}, {host.cpus} processors, Linux {host.kernel}"
    yield "Tools", f"nvme-bench {result.version}, {result.fio}"
    yield (
        "Cost",
        f"the bench {cost.bench_share:.2%} of one processor and "
        f"{cost.bench_memory / 2**20:.0f} MiB, fio {cost.fio_cpu:.0f} CPU seconds",
    )
    for line in table.grade_lines(result):
        name, _, rest = line.partition(": ")
        yield name[0].upper() + name[1:], rest


def words_of(seconds: float) -> str:
    """``1 h 02 min``, ``83 s``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def _terms(rows: Iterable[tuple[str, str]]) -> str:
    inner = "".join(
        f"<dt>{escape(term)}</dt><dd>{escape(words.printable(value))}</dd>" for term, value in rows
    )
    return f"<dl>{inner}</dl>"
