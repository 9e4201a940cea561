"""The bytes of a drive: one sparse backing file that outsiders may read while the drive lives.

The file holds exactly what the drive still keeps of anybody's data. An erase leaves no trace in
it, whatever the drive then answers for the emptied range (see ``fill``), so that a test can audit
the file from outside.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.fill import CHUNK, ZEROS, Fill, FillMap

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]

Buffers = Sequence[memoryview]


class Media:
    """Reads, writes and erases; all offsets and lengths are bytes of the whole media."""

    def __init__(self, path: Path, size: int, fills: FillMap | None = None) -> None:
        """Open the backing file, or make it ``size`` bytes long (a multiple of 4096).

        Raises DriveError where the file system cannot punch holes or the size is wrong.
        """
        if size <= 0 or size % CHUNK:
            raise DriveError(f"drive size must be a positive multiple of {CHUNK}, found {size}")
        self.size = size
        self.fills = fills or FillMap.uniform(size)
        self._plain = self.fills.plain
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Tests make drives by the thousand, and not all are closed.
        self._closed = weakref.finalize(self, os.close, self._fd)
        found = os.fstat(self._fd).st_size
        if found == 0:
            os.ftruncate(self._fd, size)
        elif found != size:
            self.close()
            raise DriveError(
                f"{path} should be {size} bytes, is {found}: give it a file of its own"
            )

    def close(self) -> None:
        """Close the backing file."""
        self._closed()

    def read(self, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``."""
        if self._plain:
            return os.pread(self._fd, length, offset)
        return b"".join(self._pieces(offset, offset + length))

    def read_into(self, offset: int, buffers: Buffers) -> None:
        """Fill ``buffers``, one after the other, from ``offset`` on."""
        if self._plain:
            os.preadv(self._fd, buffers, offset)
            return
        content = memoryview(self.read(offset, sum(len(buffer) for buffer in buffers)))
        at = 0
        for buffer in buffers:
            buffer[:] = content[at : at + len(buffer)]
            at += len(buffer)

    def write_from(self, offset: int, buffers: Buffers) -> None:
        """Store ``buffers``, one after the other, from ``offset`` on."""
        if not self._plain:
            self._pin_edges(offset, offset + sum(len(buffer) for buffer in buffers))
        os.pwritev(self._fd, buffers, offset)

    def empty(self, start: int, end: int, fill: Fill = ZEROS) -> bool:
        """Drop [start, end) from the file; it reads as ``fill`` from now on.

        Tells whether the map of fills changed and has to be saved. Parts of a 4 KiB chunk cannot
        be a hole: they get the fill's bytes instead.
        """
        first, last = -(-start // CHUNK) * CHUNK, end // CHUNK * CHUNK
        if first >= last:
            self._store(start, end, fill)
            return False
        self._store(start, first, fill)
        self._store(last, end, fill)
        changed = self.fills.set(first, last, fill)
        self._plain = self.fills.plain
        self._punch(first, last - first)
        return changed

    def empty_scattered(self, start: int, end: int, fill: Fill, *, keep: float) -> bool:
        """Empty whole chunks, but a fraction ``keep`` of them survives.

        It is the same scattered chunks each time, or a second erase would mend the first.
        """
        changed = self.fills.set(start, end, fill)
        self._plain = self.fills.plain
        for data_start, data_end in list(self.data(start, end)):
            for at in range(data_start, data_end, CHUNK):
                if not _survives(at, keep):
                    self._punch(at, CHUNK)
        return changed

    def empty_except(self, start: int, end: int, fill: Fill, keep: Callable[[int], int]) -> bool:
        """Empty [start, end), but ``keep`` tells for each chunk by its offset which sectors stay.

        It is a bit for each sector of 512 bytes. Tells of the map of fills as ``empty`` does.
        """
        first, last = -(-start // CHUNK) * CHUNK, end // CHUNK * CHUNK
        if first >= last:
            self._store(start, end, fill)
            return False
        self._store(start, first, fill)
        self._store(last, end, fill)
        changed = self.fills.set(first, last, fill)
        self._plain = self.fills.plain
        for data_start, data_end in list(self.data(first, last)):
            at = data_start
            for chunk in range(data_start, data_end, CHUNK):
                bits = keep(chunk)
                if not bits:
                    continue
                if chunk > at:
                    self._punch(at, chunk - at)
                at = chunk + CHUNK
                for sector in range(8):
                    if not bits >> sector & 1:
                        begin = chunk + sector * 512
                        self._store(begin, begin + 512, fill)
            if data_end > at:
                self._punch(at, data_end - at)
        return changed

    def blank(self, start: int, length: int) -> bytes:
        """What ``length`` bytes from ``start`` would read as if they were emptied."""
        return b"".join(
            part.fill.bytes_at(part.start, part.end - part.start)
            for part in self.fills.between(start, start + length)
        )

    def deallocated(self, start: int, end: int) -> bool:
        """Whether any byte of [start, end) lies in a deallocated or never written chunk."""
        at = start
        for data_start, data_end in [*self.data(start, end), (end, end)]:
            if data_start > at and any(
                part.fill.deallocated for part in self.fills.between(at, data_start)
            ):
                return True
            at = data_end
        return False

    def data(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The ranges of [start, end) that the file really holds."""
        at = start
        while at < end:
            try:
                at = os.lseek(self._fd, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            if at >= end:
                return
            hole = min(os.lseek(self._fd, at, os.SEEK_HOLE), end)
            yield at, hole
            at = hole

    def _pieces(self, start: int, end: int) -> Iterator[bytes]:
        at = start
        for data_start, data_end in [*self.data(start, end), (end, end)]:
            for part in self.fills.between(at, data_start):
                yield part.fill.bytes_at(part.start, part.end - part.start)
            if data_end > data_start:
                yield os.pread(self._fd, data_end - data_start, data_start)
            at = data_end

    def _pin_edges(self, start: int, end: int) -> None:
        """Before a write that covers only part of a chunk: store what the rest reads as."""
        edges = {at // CHUNK * CHUNK for at in (start, end) if at % CHUNK}
        for chunk in edges:
            os.pwrite(self._fd, self.read(chunk, CHUNK), chunk)

    def _store(self, start: int, end: int, fill: Fill) -> None:
        if end > start:
            self.write_from(start, [memoryview(fill.bytes_at(start, end - start))])

    def _punch(self, offset: int, length: int) -> None:
        if _LIBC.fallocate(self._fd, _PUNCH_HOLE_KEEP_SIZE, offset, length):
            code = ctypes.get_errno()
            raise DriveError(
                f"the file system of the backing file must support holes, fallocate answered "
                f"{os.strerror(code)}: use ext4, XFS, btrfs or tmpfs"
            )


def _survives(offset: int, keep: float) -> bool:
    digest = hashlib.blake2b(offset.to_bytes(8, "little"), digest_size=4).digest()
    return int.from_bytes(digest, "little") < keep * 2**32
