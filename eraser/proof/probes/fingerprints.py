"""What stood on a namespace before an erase, as keyed hashes: no byte of it is kept."""

from __future__ import annotations

import bisect
import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from eraser.errors import BadInputError
from eraser.media.blocks import BLOCK, block_count
from eraser.media.reader import BlockDevice, Tick
from eraser.proof.classify import repeated
from eraser.proof.probes import probefile
from eraser.proof.probes.probefile import check_key
from eraser.proof.sampling import SEQUENTIAL_PER_RANDOM

_PEEK = 1 << 20
"""Places that are drawn ahead, to see whether they lie close together: 8 MiB at most."""

_HEAD = 8 * 8
"""Bytes of a dump before the blocks' numbers and digests."""

_Piece = tuple[Sequence[int], list[memoryview | None] | None]
"""Blocks to look at with their content (None for unreadable), or None where all are uniform."""


def _pieces(device: BlockDevice, wanted: Iterator[int]) -> Iterator[_Piece]:
    close = device.blocks // SEQUENTIAL_PER_RANDOM
    if close > _PEEK:
        return _scattered(device, wanted)
    head = array("Q", islice(wanted, close + 1))
    # More places than one block in SEQUENTIAL_PER_RANDOM: then reading all in a row is faster.
    read = _in_a_row if len(head) > close else _scattered
    return read(device, chain(head, wanted))


def _scattered(device: BlockDevice, wanted: Iterator[int]) -> Iterator[_Piece]:
    for batch in device.read_batches(wanted):
        if not batch.failed and repeated(batch.data):
            yield batch.indexes, None
            continue
        yield (
            batch.indexes,
            [
                None if at in batch.failed else batch.data[at * BLOCK : (at + 1) * BLOCK]
                for at in range(len(batch.indexes))
            ],
        )


def _in_a_row(device: BlockDevice, wanted: Iterator[int]) -> Iterator[_Piece]:
    following = next(wanted, None)
    for start, window in device.read_sequential(0, device.blocks):
        stop = start + (1 if window is None else block_count(len(window)))
        here = array("Q")
        while following is not None and following < stop:
            here.append(following)
            following = next(wanted, None)
        if not here:
            continue
        if window is None:
            yield here, [None]
        elif repeated(window):
            yield here, None
        else:
            # A window holds blocks that were not drawn as well: only the drawn ones are taken out.
            offsets = [(index - start) * BLOCK for index in here]
            yield here, [window[at : at + BLOCK] for at in offsets]


class Fingerprints:
    """Keyed hashes of what stood on a namespace before the erase. No byte of it is kept.

    Only blocks that are neither uniform nor a pattern count: others may honestly read the same
    afterwards. ``looked`` random blocks were looked at and ``len(self)`` of them count. With more
    than ``cap`` every second one is dropped, again and again: what stays is spread evenly, and
    ``stride`` says that one of so many was kept.
    """

    def __init__(self, key: bytes, nsid: int, *, cap: int = 131072) -> None:
        self._key = check_key(key)
        self.nsid = nsid
        self.cap = max(2, cap)
        self.blocks = 0
        self.looked = 0
        self.unreadable = 0
        self.stride = 1
        self._seen = 0
        self._indexes: array[int] = array("Q")
        self._digests = bytearray()

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def positions(self) -> array[int]:
        """The blocks with a fingerprint, ascending."""
        return self._indexes

    def compared(self, blocks: int) -> int:
        """Of the blocks looked at, as many as these fingerprints speak for on a namespace that
        has ``blocks`` now: what was looked at past its end was not seen again."""
        if not self.blocks:
            return 0
        # The places are spread evenly; where looking ended early, more of them lie in front.
        return self.looked * min(blocks, self.blocks) // (self.blocks * self.stride)

    def take(
        self, device: BlockDevice, positions: Iterable[int], progress: Tick | None = None
    ) -> None:
        """Look at ``positions`` (ascending; ``range(device.blocks)`` for all) before the erase.

        Where they lie so close that all of the device is read faster in a row, it is.
        """
        self.blocks = device.blocks
        for indexes, blocks in _pieces(device, iter(positions)):
            if blocks is None:
                self.looked += len(indexes)
            else:
                for index, block in zip(indexes, blocks, strict=True):
                    self._look(index, block)
            if progress:
                progress(indexes[-1] / device.blocks, f"{len(self)} fingerprints")
        if progress:
            progress(1.0, f"{len(self)} fingerprints")

    def _look(self, index: int, block: memoryview | None) -> None:
        if block is None:
            self.unreadable += 1
            return
        self.looked += 1
        # Not classify: which of the two other kinds a block is does not matter here, and telling
        # noise from data costs more than the hash.
        if repeated(block) is None:
            self._add(index, block)

    def _add(self, index: int, block: memoryview) -> None:
        if self._indexes and index <= self._indexes[-1]:
            raise ValueError(f"expected ascending blocks, found {index} after {self._indexes[-1]}")
        # Every stride-th block is kept, so what stays is spread evenly over the namespace.
        if self._seen % self.stride == 0:
            # Thinning doubles the stride, so this block may have lost its turn: it is asked again
            # below.
            if len(self._indexes) == self.cap:
                self._thin()
            if self._seen % self.stride == 0:
                self._indexes.append(index)
                self._digests += self._digest(index, block)
        self._seen += 1

    def _thin(self) -> None:
        self.stride *= 2
        self._indexes = self._indexes[::2]
        old = self._digests
        # Each digest has 16 bytes: of every 32 the first 16 stay, as of every two indexes the
        # first.
        self._digests = bytearray(b"".join(old[at : at + 16] for at in range(0, len(old), 32)))

    def _digest(self, index: int, block: memoryview | bytes) -> bytes:
        # Salted by place: the same content in two places must not look like one block that was
        # moved, and who reads the file learns nothing of which blocks were alike.
        salt = index.to_bytes(8, "big") + self.nsid.to_bytes(4, "big")
        return hashlib.blake2b(block, digest_size=16, key=self._key, salt=salt).digest()

    def has(self, index: int) -> bool:
        """Was a fingerprint kept of this block?"""
        at = bisect.bisect_left(self._indexes, index)
        return at < len(self._indexes) and self._indexes[at] == index

    def unchanged(self, index: int, block: memoryview | bytes) -> bool:
        """Does this block still hold what it held before the erase?"""
        at = bisect.bisect_left(self._indexes, index)
        if at >= len(self._indexes) or self._indexes[at] != index:
            return False
        return self._digests[16 * at : 16 * at + 16] == self._digest(index, block)

    def dump(self) -> bytes:
        """The bytes that :func:`eraser.proof.probes.probefile.save` writes."""
        head = array("Q", [self.nsid, self.cap, self.looked, self.unreadable, self.stride])
        head.extend([self._seen, self.blocks, len(self._indexes)])
        return head.tobytes() + self._indexes.tobytes() + bytes(self._digests)

    def save(self, path: str) -> None:
        """Write a file that survives a power cut on return (fsync; replaced in one step)."""
        probefile.save(path, self._key, self.dump())

    @classmethod
    def load(cls, path: str, key: bytes) -> Fingerprints:
        """Raises :class:`BadInputError` where the file is damaged or was made with another key."""
        return cls.undump(probefile.load(path, check_key(key)), key, path)

    @classmethod
    def undump(cls, raw: bytes, key: bytes, what: str) -> Fingerprints:
        """The reverse of :meth:`dump`."""
        head: array[int] = array("Q")
        if len(raw) < _HEAD:
            raise BadInputError(f"{what}: expected fingerprints, found {len(raw)} bytes")
        head.frombytes(raw[:_HEAD])
        nsid, cap, looked, unreadable, stride, seen, blocks, count = head
        if len(raw) != _HEAD + 24 * count:
            raise BadInputError(f"{what}: expected {count} fingerprints, found {len(raw)} bytes")
        made = cls(key, nsid, cap=cap)
        made.looked, made.unreadable, made.stride, made._seen = looked, unreadable, stride, seen
        made.blocks = blocks
        made._indexes.frombytes(raw[_HEAD : _HEAD + 8 * count])
        made._digests = bytearray(raw[_HEAD + 8 * count :])
        return made
