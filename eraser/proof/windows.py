"""The layout of NIST SP 800-88r1, 4.7.3: two windows in each of a thousand subsections. Pure.

Revision 1 was withdrawn on 2025-09-26 and its successor names no layout; it is here for those
whose rules still ask for it. What it proves of small leftovers is little, so the statistical sample
is always read as well. docs/decisions/sampling.md has the drawing in words.
"""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.proof.sampling import below, words

SUBSECTIONS = 1000
"""Equal parts of the addressable space: the "suggested minimum" of 4.7.3."""
PER_SUBSECTION = 2
"""Windows in each, which do not overlap."""
PARTS = 20
"""A window is at least one part in so many (5 %) of its subsection; two are a tenth."""
_DOMAIN = b"nvme-quarantine windows 1\0"


@dataclass(frozen=True)
class Windows:
    """Runs of blocks, ascending and apart: run k is ``starts[k]`` to ``stops[k]`` (exclusive)."""

    starts: array[int]
    stops: array[int]
    drawn: int
    """Windows as the layout counts them; one that touches the next is one run with it."""

    @property
    def blocks(self) -> int:
        """Blocks in all runs."""
        return sum(self.stops) - sum(self.starts)

    def __contains__(self, block: int) -> bool:
        at = bisect.bisect_right(self.starts, block) - 1
        return at >= 0 and block < self.stops[at]

    def runs(self, start: int) -> Iterator[tuple[int, int]]:
        """The runs, or what is left of them, from block ``start`` on."""
        for first, stop in zip(self.starts, self.stops, strict=True):
            if stop > start:
                yield max(first, start), stop


NONE = Windows(array("Q"), array("Q"), 0)
"""No run at all."""


def everything(blocks: int) -> Windows:
    """One run of all blocks."""
    return Windows(array("Q", [0]), array("Q", [blocks]), 1)


def windows(seed: bytes, blocks: int) -> Windows:
    """The windows of a namespace of ``blocks`` blocks; the same arguments give the same ones.

    Subsection k of :data:`SUBSECTIONS` is the blocks from k * blocks // SUBSECTIONS on, so that no
    two differ by more than one block. Its two windows have a twentieth of it each, rounded up, and
    every pair of places at which they do not overlap is equally likely. The first and the last
    block are runs of their own where no window has them. A namespace whose subsections have fewer
    than :data:`PARTS` blocks is one run from end to end.
    """
    if blocks < SUBSECTIONS * PARTS:
        return everything(blocks)
    stream = words(_DOMAIN + seed)
    runs: list[tuple[int, int]] = [(0, 1)]
    for number in range(SUBSECTIONS):
        start = number * blocks // SUBSECTIONS
        size = (number + 1) * blocks // SUBSECTIONS - start
        length = -(-size // PARTS)
        # Two windows leave a gap of size - 2 * length blocks. Shrunk to a point each, they are two
        # different ones of gap + 2 points; the second one then moves back by what was shrunk.
        points = size - 2 * length + 2
        one = below(stream, points)
        two = below(stream, points - 1)
        two += two >= one
        low, high = min(one, two), max(one, two) - 1 + length
        runs += [(start + low, start + low + length), (start + high, start + high + length)]
    runs.append((blocks - 1, blocks))
    starts, stops = array("Q"), array("Q")
    for first, stop in runs:
        if stops and first <= stops[-1]:
            stops[-1] = max(stops[-1], stop)
        else:
            starts.append(first)
            stops.append(stop)
    return Windows(starts, stops, SUBSECTIONS * PER_SUBSECTION)
