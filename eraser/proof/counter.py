"""From what is read to what is counted, for one namespace. No I/O."""

from __future__ import annotations

import bisect
import hashlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence

from eraser.media.blocks import BLOCK, block_count
from eraser.media.reader import Batch
from eraser.proof.classify import BlockClass, classes, piece_class, repeated, uniform
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.tally import Tally

GROUPS = 256
"""Groups of the blocks that are read twice. One number each is kept, whatever their count."""
_WRAP = (1 << 64) - 1


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


def probed(canaries: Canaries | None, fingerprints: Fingerprints | None, blocks: int) -> array[int]:
    """Every block below ``blocks`` with a probe, ascending. Of a block that was deallocated since
    nothing is known: it need not read as those that were written."""
    both = {*(canaries.positions if canaries else ())}
    both.update(fingerprints.positions if fingerprints else ())
    both.difference_update(canaries.deallocated if canaries else ())
    return array("Q", sorted(n for n in both if n < blocks))


class Counter:
    """Adds what is read of one namespace to its tally.

    ``again`` are the blocks that will be read twice, every one with a probe among them;
    ``failures`` tells why a block came as unreadable.
    """

    def __init__(
        self,
        canaries: Canaries | None,
        fingerprints: Fingerprints | None,
        probes: array[int],
        again: array[int],
        tally: Tally,
        failures: Mapping[int, int | None],
    ) -> None:
        self._canaries = canaries
        self._prints = fingerprints
        self._tally = tally
        self._failures = failures
        self._again = again
        self._probes = probes

    @property
    def wanted(self) -> array[int]:
        """Blocks that are read whatever the sample is."""
        return self._again

    def window(self, start: int, window: memoryview | None) -> None:
        """A run of blocks from ``start`` on, or one block that cannot be read."""
        count = 1 if window is None else block_count(len(window))
        if window is None:
            self._unreadable(start)
        # One comparison decides for a whole window that repeats one piece.
        elif piece := repeated(window):
            self._uniform(piece, count, len(window), start, start + count)
        else:
            self._blocks(range(start, start + count), window)
        # The cursor moves last: a run that resumes there counts no block twice.
        self._tally.cursor = start + count

    def batch(self, batch: Batch) -> None:
        """A batch of scattered blocks. Every block of :attr:`wanted` lies in some batch, so those
        between a batch's first and last block lie in this one."""
        indexes, data = batch.indexes, batch.data
        if batch.failed:
            for at, index in enumerate(indexes):
                if at in batch.failed:
                    self._unreadable(index)
                else:
                    self._blocks([index], data[at * BLOCK : (at + 1) * BLOCK])
        elif piece := repeated(data):
            self._uniform(piece, len(indexes), len(data), indexes[0], indexes[-1] + 1)
        else:
            self._blocks(indexes, data)
        self._tally.cursor = indexes[-1] + 1

    def reread(self, batch: Batch) -> None:
        """A batch of the second reading: is it as the first, and is still no probe there?"""
        again, indexes, data = self._tally.again, batch.indexes, batch.data
        if not batch.failed and (piece := repeated(data)):
            again.read += len(indexes)
            self._tally.bytes_read += len(data)
            for index in indexes:
                self._add(self._tally.twice, index, piece)
        else:
            for at, index in enumerate(indexes):
                if at in batch.failed:
                    again.unreadable += 1
                else:
                    self._block_again(index, bytes(data[at * BLOCK : (at + 1) * BLOCK]))

    def _block_again(self, index: int, block: bytes) -> None:
        again = self._tally.again
        again.read += 1
        self._tally.bytes_read += len(block)
        self._add(self._tally.twice, index, block)
        if uniform(block):
            return
        if self._canaries and self._canaries.is_canary(index, block):
            again.canaries += 1
        elif self._prints and self._prints.unchanged(index, block):
            again.unchanged += 1

    def _add(self, sums: dict[str, int], index: int, block: bytes) -> None:
        """Adds a block to its group's sum: the same blocks make the same sum, in any order.

        A repeated block counts by its 16 bytes, however it was read.
        """
        piece = block[:16] if len(block) > 16 and block[16:] == block[:-16] else block
        value = int.from_bytes(hashlib.blake2b(piece, digest_size=8).digest(), "big")
        group = str(bisect.bisect_left(self._again, index) * GROUPS // len(self._again))
        # The odd factor of the place makes two blocks that were swapped change the sum.
        sums[group] = (sums.get(group, 0) + value * (2 * index + 1)) & _WRAP

    def _uniform(self, piece: bytes, count: int, size: int, start: int, stop: int) -> None:
        kind, here = piece_class(piece), self._probes
        self._tally.looks.add(kind, count)
        self._tally.written.add(
            kind, bisect.bisect_left(here, stop) - bisect.bisect_left(here, start)
        )
        self._tally.bytes_read += size
        if kind is BlockClass.PATTERN:
            self._tally.saw_pattern(piece)
        here = self._again
        # Blocks that are read twice need their sums here too, without a look at each by itself.
        for at in range(bisect.bisect_left(here, start), bisect.bisect_left(here, stop)):
            self._add(self._tally.once, here[at], piece)

    def _blocks(self, indexes: Sequence[int], data: memoryview) -> None:
        """Blocks at ``indexes``, ascending, one after the other in ``data``.

        What they look like is told of all at once. By itself is looked at what may be a probe:
        each block where one was, each that is read twice, and all of them where any holds the
        mark of our canaries, wherever it was moved.
        """
        tally, kinds = self._tally, classes(data)
        for kind in BlockClass:
            tally.looks.add(kind, kinds.count(kind))
        tally.bytes_read += len(data)
        # A drive may show a canary at another place than where it was written.
        every = self._canaries is not None and self._canaries.marked(data)
        own = {*_between(self._again, indexes), *_between(self._probes, indexes)}
        # No block here is anything but its look, which is counted already.
        if not every and not own and BlockClass.PATTERN not in kinds:
            return
        for at, (index, kind) in enumerate(zip(indexes, kinds, strict=True)):
            if every or index in own or kind is BlockClass.PATTERN:
                self._block(index, kind, bytes(data[at * BLOCK : (at + 1) * BLOCK]))

    def _block(self, index: int, kind: BlockClass, block: bytes) -> None:
        tally = self._tally
        if _has(self._probes, index):
            tally.written.add(kind)
        if _has(self._again, index):
            self._add(tally.once, index, block)
        if kind is BlockClass.PATTERN:
            tally.saw_pattern(block[:16])
        # Canaries and fingerprinted blocks are never uniform.
        if kind.uniform:
            return
        if self._canaries and self._canaries.is_canary(index, block):
            tally.canaries += 1
        elif self._prints and self._prints.unchanged(index, block):
            tally.unchanged += 1

    def _unreadable(self, index: int) -> None:
        tally = self._tally
        tally.unreadable += 1
        tally.saw_status(self._failures.get(index))
        tally.canaries_unreadable += bool(self._canaries and self._canaries.is_planted_at(index))
        tally.fingerprints_unreadable += bool(self._prints and self._prints.has(index))


def _between(blocks: array[int], indexes: Sequence[int]) -> array[int]:
    """Those of ``blocks`` from the first to the last of ``indexes``."""
    first = bisect.bisect_left(blocks, indexes[0])
    return blocks[first : bisect.bisect_right(blocks, indexes[-1])]


def _has(blocks: array[int], index: int) -> bool:
    at = bisect.bisect_left(blocks, index)
    return at < len(blocks) and blocks[at] == index
