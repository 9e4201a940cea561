"""The surface of the source's bench: block size to the right, mix to the left, height is IOPS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qualify.fio.workload import Cell, size_text
from qualify.report import svg, words
from qualify.report.scale import Axis, linear_ticks, step
from qualify.report.svg import Point

_WIDTH, _HEIGHT = 620.0, 440.0
_CENTRE = 325.0
_BACK = 215.0
"""Where the far corner of the floor is."""
_ACROSS, _DOWN, _UP = 232.0, 88.0, 190.0


@dataclass(frozen=True)
class Surface:
    """IOPS of all cells. ``most`` is the top of the scale: two surfaces may share it."""

    values: Mapping[Cell, float]
    most: float

    @property
    def sizes(self) -> list[int]:
        """Smallest first: at the back, where high values hide nothing."""
        return sorted({cell.block for cell in self.values})

    @property
    def mixes(self) -> list[int]:
        """Reads first."""
        return sorted({cell.reads for cell in self.values}, reverse=True)

    @property
    def fits(self) -> bool:
        """Three of each at least: between two there is nothing but a straight line of our own."""
        return len(self.sizes) > 2 and len(self.mixes) > 2

    def draw(self, title: str) -> str:
        """The picture."""
        height = Axis(linear_ticks(self.most, 5), 0.0, _UP)
        parts = (*_room(height), *self._sheet(height), *self._labels(height))
        return svg.picture(_WIDTH, _HEIGHT, title, parts)

    def _at(self, size: int, mix: int, height: float) -> Point:
        u = self.sizes.index(size) / (len(self.sizes) - 1)
        v = self.mixes.index(mix) / (len(self.mixes) - 1)
        return _project(u, v, height)

    def _sheet(self, height: Axis) -> Iterator[str]:
        """Back to front, so that what is nearer covers what is behind it.

        A knot is drawn after the square in front of it, which it lies on, and before all others.
        """
        parts: list[tuple[float, int, str]] = []
        for cell, value in self.values.items():
            at = self._at(cell.block, cell.reads, height(value))
            words_ = f"{cell}: {words.count(value)} IOPS"
            parts.append((self._depth(cell), 1, svg.dot(at, 2.2, "knot", words_)))
            corners = self._square(cell)
            if corners:
                mean = sum(self.values[corner] for corner in corners) / 4
                colour = step(mean, 0, height.ticks[-1], log=False)
                points = [
                    self._at(corner.block, corner.reads, height(self.values[corner]))
                    for corner in corners
                ]
                parts.append((self._depth(cell), 0, svg.polygon(points, f"sheet q{colour}")))
        yield from (drawn for _depth, _order, drawn in sorted(parts, key=lambda part: part[:2]))

    def _depth(self, cell: Cell) -> float:
        """0 in the far corner, 2 in the near one."""
        column, row = self.sizes.index(cell.block), self.mixes.index(cell.reads)
        return column / (len(self.sizes) - 1) + row / (len(self.mixes) - 1)

    def _square(self, cell: Cell) -> list[Cell]:
        """The corners of the square whose far corner is ``cell``; none where one is missing."""
        sizes, mixes = self.sizes, self.mixes
        i, j = sizes.index(cell.block), mixes.index(cell.reads)
        if i + 1 == len(sizes) or j + 1 == len(mixes):
            return []
        # Around the square, as a polygon wants them.
        corners = [Cell(sizes[i + a], mixes[j + b]) for a, b in ((0, 0), (1, 0), (1, 1), (0, 1))]
        return corners if all(corner in self.values for corner in corners) else []

    def _labels(self, height: Axis) -> Iterator[str]:
        sizes, mixes = self.sizes, self.mixes
        for size in sizes:
            x, y = self._at(size, mixes[-1], 0)
            yield svg.line((x, y), (x - 5, y + 4), "tick")
            yield svg.text(x - 8, y + 15, size_text(size), "label", "end")
        for mix in mixes:
            x, y = self._at(sizes[-1], mix, 0)
            yield svg.line((x, y), (x + 5, y + 4), "tick")
            yield svg.text(x + 8, y + 15, Cell(1, mix).mix, "label")
        for tick in height.ticks:
            x, y = _project(0, 1, height(tick))
            yield svg.line((x, y), (x - 5, y), "tick")
            yield svg.text(
                x - 9, y + 4, words.brief(words.count(tick)) if tick else "0", "label", "end"
            )
        x, y = _project(0, 1, _UP)
        yield svg.text(x - 9, y - 14, "IOPS", "axis", "middle")
        x, y = _project(0.5, 1, 0)
        yield svg.text(x - 62, y + 42, "block size", "axis", "middle")
        x, y = _project(1, 0.5, 0)
        yield svg.text(x + 72, y + 42, "reads/writes, %", "axis", "middle")


def _project(u: float, v: float, height: float) -> Point:
    """``u`` goes to the right and front, ``v`` to the left and front, each from 0 to 1."""
    return _CENTRE + (u - v) * _ACROSS, _BACK + (u + v) * _DOWN - height


def _room(height: Axis) -> Iterator[str]:
    """The floor and the two walls behind the sheet."""
    yield svg.polygon(
        [_project(0, 0, 0), _project(1, 0, 0), _project(1, 1, 0), _project(0, 1, 0)], "floor"
    )
    for side in ((0.0, 1.0), (1.0, 0.0)):
        end = _project(*side, 0)
        top = _project(*side, _UP)
        yield svg.polygon([_project(0, 0, 0), end, top, _project(0, 0, _UP)], "wall")
    for tick in height.ticks:
        level = height(tick)
        yield svg.path(
            [_project(0, 1, level), _project(0, 0, level), _project(1, 0, level)], "grid"
        )
    yield svg.line(_project(0, 0, 0), _project(0, 0, _UP), "grid")
