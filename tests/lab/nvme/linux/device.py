"""A block device of the lab's kernel, as the eraser's reader has one."""

from __future__ import annotations

import mmap
import os

from eraser.errors import DriveError
from eraser.media.aio import AioRequest, Queue
from eraser.media.blocks import BLOCK, block_count
from eraser.media.passread import Rescue
from eraser.media.reader import BlockDevice
from tests.lab.nvme.linux.kernel import Kernel


class _Reads(Queue):
    """Direct reads, each finished when it is submitted."""

    def __init__(self, kernel: Kernel, path: str, groups: int, slots: int, slot_bytes: int) -> None:
        super().__init__(-1, groups, slots, slot_bytes)
        self._kernel, self._path = kernel, path

    def _submit(self, group: int, request: AioRequest) -> None:
        for slot, offset in enumerate(request.offsets):
            start = (group * self._slots + slot) * self._slot_bytes
            try:
                data = self._kernel.read(self._path, offset, request.length)
            except OSError:
                self._failed[group].append(slot)
            else:
                self._view[start : start + request.length] = data
        self._left[group] = 0

    def _wait(self, group: int) -> None:
        return

    def close(self) -> None:
        """Nothing is ever in flight."""


class LabDevice(BlockDevice):
    """Stands for :class:`BlockDevice`; above single reads and writes it is the eraser's own."""

    def __init__(
        self, kernel: Kernel, path: str, *, writable: bool = False, rescue: Rescue | None = None
    ) -> None:
        self._kernel = kernel
        self.path, self.rescue = path, rescue
        self.rescued, self.failures = 0, {}
        self._queues = []
        try:
            found = kernel.disk(path)
        except OSError as error:
            raise DriveError(f"{path}: expected to open it, found {error.strerror}") from error
        self.size, self.logical_block = found.size * found.block, found.block
        self.blocks = block_count(self.size)
        self._fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._page = mmap.mmap(-1, BLOCK)

    def _queue(self, groups: int, slots: int, slot_bytes: int) -> Queue:
        queue = _Reads(self._kernel, self.path, groups, slots, slot_bytes)
        self._queues.append(queue)
        return queue

    def _pread(self, into: memoryview, offset: int) -> bool:
        try:
            into[:] = self._kernel.read(self.path, offset, len(into))
        except OSError:
            status = None if self.rescue is None else self.rescue.read(self._fd, offset, into)
            if status != 0:
                self.failures[offset // BLOCK] = status
                return False
            self.rescued += 1
        return True

    def _pwrite(self, offset: int, at: int, length: int) -> None:
        self._kernel.write(self.path, offset + at, self._page[at : at + length])
