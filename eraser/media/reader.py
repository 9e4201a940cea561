"""One block device, read and written past every cache.

O_DIRECT always: a verification that reads the page cache confirms what was written there, not
what the drive holds. A file system that cannot do it is an error, never a reason to read buffered.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import stat
import struct
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from eraser.errors import DriveError
from eraser.media.aio import AioRequest, Group, Queue, open_queue
from eraser.media.blocks import BLOCK, block_count, block_length
from eraser.media.passread import Rescue

LOG = logging.getLogger(__name__)

_BLKSSZGET = 0x1268
_BLKGETSIZE64 = 0x80081272

WINDOW = 2 << 20
"""Bytes per sequential read: one huge page."""
WINDOWS = 3
"""Sequential reads in flight. More only spread the looking over more memory than stays cached.

Looking in threads of their own gained nothing where it was measured: an emulated guest on two
busy cores, which it shares with the emulated drive."""
BATCH = 32
"""Scattered reads that are sent, and looked at, together."""
BATCHES = 8
"""Batches in flight: up to 256 reads of 4 KiB, for batches are delivered in order and the slowest
read of the oldest one keeps those behind it waiting. Both kinds together stay below 10 MiB."""


Tick = Callable[[float, str], None]
"""Called now and then with the fraction done (0 to 1) and a few words."""


@dataclass(frozen=True)
class Batch:
    """Blocks at ``indexes``, as they were asked for, one after the other in ``data``; those at the
    positions ``failed`` could not be read. ``data`` is valid until the next batch is asked for."""

    indexes: array[int]
    data: memoryview
    failed: tuple[int, ...] = ()


class OpenDisk(Protocol):
    """The door to blocks: :class:`BlockDevice`, or what stands for it in a simulator."""

    def __call__(
        self, path: str, *, writable: bool = False, rescue: Rescue | None = None
    ) -> BlockDevice: ...


class BlockDevice:
    """A namespace's block device (or, for tests and images, a plain file) under O_DIRECT.

    Raises :class:`DriveError` where it cannot be opened so, is empty, or has sectors that do not
    fit into 4096 bytes. ``size`` and ``logical_block`` are bytes. ``rescue`` reads what the kernel
    cannot, or says why the drive does not give it.
    """

    def __init__(self, path: str, *, writable: bool = False, rescue: Rescue | None = None) -> None:
        self.path = path
        self.rescue = rescue
        self.rescued = 0
        """Blocks that only the rescue could read, so far."""
        self.failures: dict[int, int | None] = {}
        """Status of each block that came as unreadable, None where the drive gave none."""
        # O_DSYNC: what was written is on the medium when the write returns.
        mode = os.O_RDWR | os.O_DSYNC if writable else os.O_RDONLY
        try:
            self._fd = os.open(path, mode | os.O_DIRECT | os.O_CLOEXEC)
        except OSError as error:
            raise DriveError(
                f"{path}: expected to open it past the page cache (O_DIRECT), found"
                f" {error.strerror}"
            ) from error
        self._queues: list[Queue] = []
        self._page = mmap.mmap(-1, BLOCK)
        try:
            self.size, self.logical_block = self._geometry()
        except BaseException:
            self.close()
            raise
        self.blocks = block_count(self.size)

    def _geometry(self) -> tuple[int, int]:
        try:
            if stat.S_ISBLK(os.fstat(self._fd).st_mode):
                raw = fcntl.ioctl(self._fd, _BLKGETSIZE64, bytes(8))
                size = int(struct.unpack("=Q", raw)[0])
                logical = int(struct.unpack("=i", fcntl.ioctl(self._fd, _BLKSSZGET, bytes(4)))[0])
            else:
                size, logical = os.fstat(self._fd).st_size, 512
        except OSError as error:
            raise DriveError(f"{self.path}: expected its size, found {error.strerror}") from error
        # A sector larger than a block could not be read block by block under O_DIRECT.
        if size == 0 or not 512 <= logical <= BLOCK or size % logical:
            raise DriveError(
                f"{self.path}: expected whole sectors of 512 to {BLOCK} bytes, found {size} bytes"
                f" in sectors of {logical}; look at the namespace's LBA format"
            )
        return size, logical

    @property
    def descriptor(self) -> int:
        """For commands of our own to the namespace."""
        return self._fd

    def __enter__(self) -> BlockDevice:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; reads in flight are waited for."""
        if self._fd >= 0:
            for queue in self._queues:
                queue.close()
            self._queues.clear()
            self._page.close()
            os.close(self._fd)
            self._fd = -1

    def _queue(self, groups: int, slots: int, slot_bytes: int) -> Queue:
        queue = open_queue(self._fd, groups, slots, slot_bytes)
        self._queues.append(queue)
        return queue

    def _release(self, queue: Queue) -> None:
        # close() of the device may have closed it already.
        if queue in self._queues:
            self._queues.remove(queue)
            queue.close()

    def read_blocks(
        self, indexes: Iterable[int]
    ) -> Generator[tuple[int, memoryview | None], None, None]:
        """Each block, None where it cannot be read. The view is valid until the next one.

        The last block of the device is shorter than 4096 bytes where the size is no multiple.
        """
        for batch in self.read_batches(indexes):
            if len(batch.indexes) == 1:
                yield batch.indexes[0], None if batch.failed else batch.data
                continue
            for at, index in enumerate(batch.indexes):
                failed = at in batch.failed
                yield index, None if failed else batch.data[at * BLOCK : (at + 1) * BLOCK]

    def read_batches(self, indexes: Iterable[int]) -> Generator[Batch, None, None]:
        """:meth:`read_blocks` in batches of :data:`BATCH`: what makes many clean blocks cheap.

        A short last block comes in a batch of its own. Raises ``ValueError`` for an index that
        the device has not.
        """
        queue = self._queue(BATCHES, BATCH, BLOCK)
        groups = queue.read(self._batch_requests(indexes))
        try:
            for group in groups:
                offsets = group.request.offsets
                found = array("Q", [offset // BLOCK for offset in offsets])
                failed = tuple(at for at in group.failed if not self._again(group, at, offsets[at]))
                yield Batch(found, group.data, failed)
        finally:
            # The generator ends before its queue, whose memory it reads into.
            groups.close()
            self._release(queue)

    def _batch_requests(self, indexes: Iterable[int]) -> Iterator[AioRequest]:
        source = iter(indexes)
        # All reads of a group have one length, so a short last block needs a group of its own.
        short = self.blocks - 1 if self.size % BLOCK else self.blocks
        while chunk := list(islice(source, BATCH)):
            last = max(chunk)
            if min(chunk) < 0 or last >= self.blocks:
                raise ValueError(f"expected blocks below {self.blocks}, found {chunk}")
            if last != short:
                yield AioRequest([n * BLOCK for n in chunk], BLOCK)
                continue
            if whole := [n * BLOCK for n in chunk if n != short]:
                yield AioRequest(whole, BLOCK)
            yield AioRequest([short * BLOCK], block_length(short, self.size))

    def read_sequential(
        self, start: int, stop: int
    ) -> Generator[tuple[int, memoryview | None], None, None]:
        """Blocks ``start`` to ``stop`` (exclusive) in windows of at most :data:`WINDOW` bytes.

        A window that fails is read again block by block: each block that still fails comes as
        ``(index, None)`` by itself, the others as views. A view is valid until the next one.
        """
        queue = self._queue(WINDOWS, 1, WINDOW)
        groups = queue.read(self._window_requests(start, stop))
        try:
            for group in groups:
                first = group.request.offsets[0] // BLOCK
                if group.failed:
                    yield from self._split(group, first)
                else:
                    yield first, group.data
        finally:
            groups.close()
            self._release(queue)

    def _window_requests(self, start: int, stop: int) -> Iterator[AioRequest]:
        if not 0 <= start <= stop <= self.blocks:
            raise ValueError(f"expected blocks 0 to {self.blocks}, found {start} to {stop}")
        end = min(stop * BLOCK, self.size)
        for at in range(start * BLOCK, end, WINDOW):
            yield AioRequest([at], min(WINDOW, end - at))

    def _split(
        self, group: Group, first: int
    ) -> Generator[tuple[int, memoryview | None], None, None]:
        offset, length = group.request.offsets[0], group.request.length
        for at in range(0, length, BLOCK):
            piece = group.data[at : min(at + BLOCK, length)]
            # One bad block fails a whole window: the others must not count as unreadable.
            read = self._pread(piece, offset + at)
            yield first + at // BLOCK, piece if read else None

    def _again(self, group: Group, at: int, offset: int) -> bool:
        """One more try for a single read that failed, so that a passing fault is not a verdict."""
        length = group.request.length
        return self._pread(group.data[at * length : (at + 1) * length], offset)

    def _pread(self, into: memoryview, offset: int) -> bool:
        try:
            if os.preadv(self._fd, [into], offset) == len(into):
                return True
        except OSError as error:
            LOG.debug("%s: read of %d bytes at %d: %s", self.path, len(into), offset, error)
        status = None if self.rescue is None else self.rescue.read(self._fd, offset, into)
        if status == 0:
            self.rescued += 1
            return True
        # The status is kept for the verdict's reason.
        self.failures[offset // BLOCK] = status
        return False

    def write_block(self, index: int, data: bytes, *, by_sector: bool = False) -> None:
        """Write one block; it has reached the medium on return (O_DSYNC, which is FUA on NVMe).

        ``by_sector``: with a write for each of the drive's own logical blocks, which are smaller on
        most. Raises :class:`DriveError` when the drive does not take it, and ``ValueError`` where
        there is no such block or ``data`` is not as long as it.
        """
        length = block_length(index, self.size)
        if index < 0 or length <= 0 or len(data) != length:
            raise ValueError(f"expected {length} bytes for block {index}, found {len(data)}")
        # O_DIRECT needs memory that is aligned to a page, which ``data`` need not be.
        self._page[:length] = data
        piece = min(self.logical_block, length) if by_sector else length
        for at in range(0, length, piece):
            try:
                self._pwrite(index * BLOCK, at, piece)
            except OSError as error:
                raise DriveError(
                    f"{self.path}: expected block {index} to be written, found {error.strerror}"
                ) from error

    def _pwrite(self, offset: int, at: int, length: int) -> None:
        """``length`` bytes of the page from ``at``, to ``offset + at``. Raises ``OSError``."""
        with memoryview(self._page) as page:
            done = os.pwritev(self._fd, [page[at : at + length]], offset + at)
        if done != length:
            raise DriveError(f"{self.path}: expected {length} bytes written, found {done}")
