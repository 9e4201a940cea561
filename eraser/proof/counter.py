"""From what is read to what is counted, for one namespace. No I/O."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Iterable, Iterator

from eraser.proof.blocks import BLOCK, block_count
from eraser.proof.classify import BlockClass, classify, piece_class, repeated
from eraser.proof.probes import Canaries, Fingerprints
from eraser.proof.reader import Batch
from eraser.proof.tally import Tally


def merged(start: int, places: Iterable[int], probes: array[int]) -> Iterator[int]:
    """The distinct numbers of both from ``start`` on, ascending, as both are."""
    waiting = iter(probes[bisect.bisect_left(probes, start) :])
    probe = next(waiting, None)
    for place in places:
        if place < start:
            continue
        while probe is not None and probe <= place:
            if probe < place:
                yield probe
            probe = next(waiting, None)
        yield place
    if probe is not None:
        yield probe
        yield from waiting


class Counter:
    """Adds what is read of one namespace to its tally."""

    def __init__(
        self,
        blocks: int,
        canaries: Canaries | None,
        fingerprints: Fingerprints | None,
        tally: Tally,
    ) -> None:
        self._canaries = canaries
        self._prints = fingerprints
        self._tally = tally
        both = {*(canaries.positions if canaries else ())}
        both.update(fingerprints.positions if fingerprints else ())
        self.probes = array("Q", sorted(n for n in both if n < blocks))
        """Every block with a probe, ascending."""

    def window(self, start: int, window: memoryview | None) -> None:
        """A run of blocks from ``start`` on, or one block that cannot be read."""
        count = 1 if window is None else block_count(len(window))
        if window is None:
            self._unreadable(start)
        elif piece := repeated(window):
            self._uniform(piece, count, len(window), self._probes_in(start, start + count))
        else:
            for at in range(count):
                self._block(start + at, window[at * BLOCK : (at + 1) * BLOCK])
        self._tally.cursor = start + count

    def batch(self, batch: Batch) -> None:
        """A batch of scattered blocks. Every block with a probe lies in some batch, so those
        between a batch's first and last block lie in this one."""
        indexes, data = batch.indexes, batch.data
        if not batch.failed and (piece := repeated(data)):
            probes = self._probes_in(indexes[0], indexes[-1] + 1)
            self._uniform(piece, len(indexes), len(data), probes)
        else:
            for at, index in enumerate(indexes):
                if at in batch.failed:
                    self._unreadable(index)
                else:
                    self._block(index, data[at * BLOCK : (at + 1) * BLOCK])
        self._tally.cursor = indexes[-1] + 1

    def _probes_in(self, start: int, stop: int) -> int:
        return bisect.bisect_left(self.probes, stop) - bisect.bisect_left(self.probes, start)

    def _uniform(self, piece: bytes, count: int, size: int, probes: int) -> None:
        kind = piece_class(piece)
        self._tally.looks.add(kind, count)
        self._tally.written.add(kind, probes)
        self._tally.bytes_read += size
        if kind is BlockClass.PATTERN:
            self._tally.saw_pattern(piece)

    def _block(self, index: int, view: memoryview) -> None:
        tally = self._tally
        block = bytes(view)  # once, because everything below wants it so
        kind = classify(block)
        tally.looks.add(kind)
        tally.bytes_read += len(block)
        if self._probes_in(index, index + 1):
            tally.written.add(kind)
        if kind is BlockClass.PATTERN:
            tally.saw_pattern(block[:16])
        if kind.uniform:
            return
        if self._canaries and self._canaries.is_canary(index, block):
            tally.canaries += 1
        elif self._prints and self._prints.unchanged(index, block):
            tally.unchanged += 1

    def _unreadable(self, index: int) -> None:
        tally = self._tally
        tally.unreadable += 1
        tally.canaries_unreadable += bool(self._canaries and self._canaries.is_planted_at(index))
        tally.fingerprints_unreadable += bool(self._prints and self._prints.has(index))
