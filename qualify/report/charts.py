"""Heat maps and line charts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from qualify.fio.workload import Cell, size_text
from qualify.report import svg, words
from qualify.report.scale import Axis, axis, ratio_step, step

Say = Callable[[float], str]
"""A value for people."""


@dataclass(frozen=True)
class Series:
    """One line of a chart: its name, its class, and a value (or none) for each place."""

    name: str
    style: str
    values: tuple[float | None, ...]


def heat(values: Mapping[Cell, float], say: Say, title: str) -> str:
    """Block sizes down, mixes across; the colour is the logarithm, for values of any size."""
    above = [value for value in values.values() if value > 0]
    least, most = min(above, default=0.0), max(above, default=0.0)
    return _squares(values, lambda value: f"q{step(value, least, most)}", say, title)


def ratios(values: Mapping[Cell, float], say: Say, title: str) -> str:
    """As :func:`heat`, coloured by what was lost or gained."""
    return _squares(values, lambda value: f"d{ratio_step(value)}", say, title)


def _squares(values: Mapping[Cell, float], style: Say, say: Say, title: str) -> str:
    mixes = sorted({cell.reads for cell in values}, reverse=True)
    sizes = sorted({cell.block for cell in values})
    left, top, high = 46.0, 24.0, 34.0
    wide = min(150.0, (560.0 - left) / len(mixes))
    parts: list[str] = []
    for column, reads in enumerate(mixes):
        x = left + (column + 0.5) * wide
        parts.append(svg.text(x, top - 9, Cell(1, reads).mix, "label", "middle"))
    for row, block in enumerate(sizes):
        y = top + row * high
        parts.append(svg.text(left - 9, y + high / 2 + 4, size_text(block), "label", "end"))
        for column, reads in enumerate(mixes):
            cell = Cell(block, reads)
            if cell not in values:
                continue
            x, name, said = left + column * wide, style(values[cell]), say(values[cell])
            parts.append(svg.box(x + 1, y + 1, wide - 2, high - 2, name, f"{cell}: {said}"))
            parts.append(
                svg.text(x + wide / 2, y + high / 2 + 4, said, f"figure t{name}", "middle")
            )
    return svg.picture(left + len(mixes) * wide + 2, top + len(sizes) * high + 2, title, parts)


def lines(
    places: Sequence[str], series: Sequence[Series], say: Say, title: str, *, log: bool
) -> str:
    """A line per series over places that are evenly apart, and a legend above it."""
    width, left, right, bottom = 560.0, 76.0, 12.0, 28.0
    legend, rows = _legend(series, left, width - right)
    top = 12.0 + 18.0 * rows
    height = top + 236.0 + bottom
    seen = [value for each in series for value in each.values if value is not None]
    up = axis(seen, height - bottom, top, log=log)
    apart = (width - left - right) / max(len(places), 1)
    across = [left + apart * (index + 0.5) for index in range(len(places))]
    parts = [*legend, *_frame(up, left, width - right, say)]
    for x, place in zip(across, places, strict=True):
        parts.append(svg.text(x, height - bottom + 18, place, "label", "middle"))
    for each in series:
        points = [
            (x, up(value))
            for x, value in zip(across, each.values, strict=True)
            if value is not None
        ]
        parts.append(svg.path(points, f"line {each.style}"))
        parts.extend(
            svg.dot((x, up(value)), 3, f"dot {each.style}", f"{each.name}, {place}: {say(value)}")
            for x, place, value in zip(across, places, each.values, strict=True)
            if value is not None
        )
    return svg.picture(width, height, title, parts)


def rounds(values: Sequence[float], first: int, mean: float, slope: float, say: Say) -> str:
    """IOPS round by round, the band that is allowed around the mean, and the line through them.

    ``first`` is the window's first round, from 1; ``slope`` the line's gain as a share of the mean.
    """
    width, height, left, right, top, bottom = 560.0, 250.0, 64.0, 14.0, 14.0, 40.0
    # Not from zero: what is judged lies within a few percent.
    low, high = min(*values, mean * 0.85), max(*values, mean * 1.15)
    margin = (high - low) * 0.08
    up = Axis((max(0.0, low - margin), high + margin), height - bottom, top)
    apart = (width - left - right) / len(values)
    across = [left + apart * (index + 0.5) for index in range(len(values))]
    start, end = across[first - 1] - apart / 2, across[-1] + apart / 2
    # The 10 % that a steady cell may lie away from its mean (rounds/steady.py).
    above, below = up(mean * 1.1), up(mean * 0.9)
    parts = [svg.box(start, above, end - start, below - above, "band")]
    parts.extend(
        svg.text(left - 9, up(value) + 4, say(value), "label", "end")
        for value in (mean * 0.9, mean, mean * 1.1)
    )
    parts.append(svg.line((start, up(mean)), (end, up(mean)), "grid"))
    # The least-squares line passes through the mean in the middle of the window.
    fit = [up(mean * (1 - slope / 2)), up(mean * (1 + slope / 2))]
    parts.append(svg.line((across[first - 1], fit[0]), (across[-1], fit[1]), "fit"))
    parts.append(svg.path(list(zip(across, map(up, values), strict=True)), "line only"))
    for number, (x, value) in enumerate(zip(across, values, strict=True), 1):
        parts.append(svg.dot((x, up(value)), 3.5, "dot only", f"round {number}: {say(value)}"))
        parts.append(svg.text(x, height - bottom + 18, str(number), "label", "middle"))
    parts.append(svg.text((left + width - right) / 2, height - 5, "round", "axis", "middle"))
    return svg.picture(width, height, "IOPS of the tracked cell, round by round", parts)


def _frame(up: Axis, left: float, right: float, say: Say) -> Iterator[str]:
    for tick in up.ticks:
        y = up(tick)
        yield svg.line((left, y), (right, y), "grid")
        yield svg.text(left - 9, y + 4, words.brief(say(tick)) if tick else "0", "label", "end")


def _legend(series: Sequence[Series], left: float, right: float) -> tuple[list[str], int]:
    """The parts, and how many rows they take."""
    parts: list[str] = []
    x, row = left, 0
    for each in series:
        # SVG as text measures no text: 7 pixels a letter are near enough, and 34 for line and gaps.
        wide = 34 + 7.0 * len(each.name)
        if x + wide > right and x > left:
            x, row = left, row + 1
        y = 10 + 18 * row
        parts.append(svg.line((x, y), (x + 18, y), f"line {each.style}"))
        parts.append(svg.text(x + 23, y + 4, each.name, "label"))
        x += wide
    return parts, row + 1
