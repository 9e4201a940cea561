"""Many direct reads in flight from one thread: Linux native AIO, or one after the other.

A verification reads tens of thousands of scattered blocks, and its time is the device's only if
many reads are under way. Threads around ``preadv`` were measured to lose most of that to the
interpreter's lock; ``io_submit`` takes a whole group with one call. The standard library has no
door to it, so the four system calls go through ``ctypes``. Where the kernel refuses
(``aio-max-nr`` used up, a seccomp filter), the same groups are read with ``preadv``.

``io_destroy`` waits for a grace period of the kernel (measured: 32 ms, as long as 90 MB take to
read), so a context whose reads have all come back is kept for the next queue of this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import mmap
import os
import platform
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

from eraser.errors import DriveError

LOG = logging.getLogger(__name__)

# arch/x86/entry/syscalls/syscall_64.tbl; include/uapi/asm-generic/unistd.h for arm64:
# io_setup, io_destroy, io_submit, io_getevents.
_CALLS = {"x86_64": (206, 207, 209, 208), "aarch64": (0, 1, 2, 4)}
# struct iocb of include/uapi/linux/aio_abi.h as eight 64-bit words.
_IOCB_WORDS, _DATA, _FD, _BUFFER, _LENGTH, _OFFSET = 8, 0, 2, 3, 4, 5
_EVENT_WORDS, _RESULT = 4, 2
_HUGE = 2 << 20
"""Bytes of a huge page, on both kinds of processor with 4 KiB pages."""
_DEPTH = 256
"""Reads that each context holds, whoever asks for one: so it fits the next queue too."""


def _address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _memory(size: int) -> memoryview:
    """``size`` bytes, aligned as O_DIRECT demands, on huge pages where they fill one.

    The kernel pins and maps a huge page at once instead of as 512 pages: most runs in an emulated
    guest read in a row faster with it, some did not.
    """
    if size < _HUGE:
        return memoryview(mmap.mmap(-1, size))
    room = mmap.mmap(-1, size + _HUGE)
    with contextlib.suppress(OSError):  # a kernel without them: small pages do as well
        room.madvise(mmap.MADV_HUGEPAGE)
    view = memoryview(room)
    start = -_address(view) % _HUGE
    return view[start : start + size]


@dataclass(frozen=True)
class AioRequest:
    """One group of reads: ``length`` bytes at each of ``offsets``."""

    offsets: Sequence[int]
    length: int


@dataclass(frozen=True)
class Group:
    """What a request brought. ``data`` holds the reads one after the other and is valid until the
    next group is asked for; ``failed`` numbers the reads that did not deliver every byte."""

    request: AioRequest
    data: memoryview
    failed: tuple[int, ...]


class Queue(ABC):
    """Groups of reads, several groups in flight, delivered in the order they were asked for."""

    def __init__(self, fd: int, groups: int, slots: int, slot_bytes: int) -> None:
        self._fd = fd
        self._slots = slots
        self._slot_bytes = slot_bytes
        self._view = _memory(groups * slots * slot_bytes)
        self._left = [0] * groups
        self._failed: list[list[int]] = [[] for _ in range(groups)]

    def read(self, requests: Iterable[AioRequest]) -> Generator[Group, None, None]:
        """Each request's group. A request has at most ``slots`` reads, and more than one only
        with reads of the full slot size. A queue serves one call.

        Raises :class:`DriveError` if nothing can be sent.
        """
        # Groups are sent as memory comes free and handed out in the order of the requests.
        source = iter(requests)
        free = list(range(len(self._left)))
        flying: deque[tuple[int, AioRequest]] = deque()
        while True:
            while free and (request := next(source, None)) is not None:
                group = free.pop()
                self._failed[group].clear()
                # Set before the submission, which takes back what it could not send.
                self._left[group] = len(request.offsets)
                flying.append((group, request))
                self._submit(group, request)
            if not flying:
                return
            group, request = flying.popleft()
            self._wait(group)
            start = group * self._slots * self._slot_bytes
            size = len(request.offsets) * request.length
            yield Group(request, self._view[start : start + size], tuple(self._failed[group]))
            # Only now: the caller is done with the group's memory when it asks for the next one.
            free.append(group)

    @abstractmethod
    def close(self) -> None:
        """Nothing is in flight afterwards. The buffer goes when the last view of it does."""

    @abstractmethod
    def _submit(self, group: int, request: AioRequest) -> None: ...

    @abstractmethod
    def _wait(self, group: int) -> None: ...


class SyncQueue(Queue):
    """The same without AIO: every read is finished when it is submitted."""

    def _submit(self, group: int, request: AioRequest) -> None:
        for slot, offset in enumerate(request.offsets):
            start = (group * self._slots + slot) * self._slot_bytes
            try:
                got = os.preadv(self._fd, [self._view[start : start + request.length]], offset)
            except OSError as error:
                LOG.debug("read of %d bytes at %d: %s", request.length, offset, error)
                got = -1
            if got != request.length:
                self._failed[group].append(slot)
        self._left[group] = 0

    def _wait(self, group: int) -> None:
        return

    def close(self) -> None:
        """Nothing is ever in flight."""


_IDLE: list[int] = []
"""The kernel's contexts that no queue uses now. All of them end with this process."""
os.register_at_fork(after_in_child=_IDLE.clear)  # none of them works in a child


class AioQueue(Queue):
    """Linux native AIO. Raises ``OSError`` where the kernel has none for us."""

    def __init__(self, fd: int, groups: int, slots: int, slot_bytes: int) -> None:
        numbers = _CALLS.get(platform.machine())
        if numbers is None:
            raise OSError(errno.ENOSYS, f"no AIO call numbers for {platform.machine()}")
        self._setup, self._destroy, self._send, self._reap = numbers
        self._syscall = ctypes.CDLL(None, use_errno=True).syscall
        self._syscall.restype = ctypes.c_long
        depth = groups * slots
        self._context = self._take(depth)
        super().__init__(fd, groups, slots, slot_bytes)
        base = _address(self._view)
        block = (ctypes.c_uint64 * (depth * _IOCB_WORDS))()
        self._requests = memoryview(block).cast("B").cast("Q")
        for slot in range(depth):
            at = slot * _IOCB_WORDS
            self._requests[at + _DATA] = slot
            self._requests[at + _FD] = fd << 32  # opcode (IOCB_CMD_PREAD = 0) and priority are 0
            self._requests[at + _BUFFER] = base + slot * slot_bytes
        first = ctypes.addressof(block)
        step = _IOCB_WORDS * 8
        self._pointers = (ctypes.c_uint64 * depth)(*(first + step * n for n in range(depth)))
        self._pointer = ctypes.addressof(self._pointers)
        self._event_block = (ctypes.c_int64 * (depth * _EVENT_WORDS))()
        self._events = memoryview(self._event_block).cast("B").cast("q")
        self._expected = [0] * groups
        self._depth = depth

    def _take(self, depth: int) -> ctypes.c_ulong:
        """A context that was kept, or a new one."""
        if depth <= _DEPTH:
            with contextlib.suppress(IndexError):
                return ctypes.c_ulong(_IDLE.pop())
        made = ctypes.c_ulong(0)
        self._call(self._setup, ctypes.c_uint(max(depth, _DEPTH)), ctypes.byref(made))
        return made

    def close(self) -> None:
        """Keep the kernel's context; where reads are in flight, end it, which waits for them."""
        # Reads in flight would bring their events to the context's next queue.
        if any(self._left) or self._depth > _DEPTH:
            self._call(self._destroy, self._context)
        else:
            _IDLE.append(self._context.value)

    def _call(self, number: int, *arguments: object) -> int:
        while True:
            result = int(self._syscall(ctypes.c_long(number), *arguments))
            if result >= 0:
                return result
            code = ctypes.get_errno()
            # A signal interrupts the wait; the reads go on.
            if code != errno.EINTR:
                raise OSError(code, os.strerror(code))

    def _submit(self, group: int, request: AioRequest) -> None:
        length = request.length
        self._expected[group] = length
        slot = group * self._slots
        at = slot * _IOCB_WORDS
        for offset in request.offsets:
            self._requests[at + _LENGTH] = length
            self._requests[at + _OFFSET] = offset
            at += _IOCB_WORDS
        end = slot + len(request.offsets)
        # The kernel may take fewer than it is given: the rest is sent again.
        while slot < end:
            pointers = ctypes.c_void_p(self._pointer + 8 * slot)
            try:
                slot += self._call(self._send, self._context, ctypes.c_long(end - slot), pointers)
            except OSError as error:
                # What was not sent is not in flight: nobody may wait for it.
                self._left[group] -= end - slot
                raise DriveError(
                    f"expected the kernel to take direct reads, found {error.strerror};"
                    " look at the kernel log of this drive"
                ) from error

    def _wait(self, group: int) -> None:
        while self._left[group] > 0:
            count = self._call(
                self._reap,
                self._context,
                # Waits for one event at least, and takes as many as are there.
                ctypes.c_long(1),
                ctypes.c_long(self._depth),
                self._event_block,
                None,
            )
            events = self._events
            for at in range(0, count * _EVENT_WORDS, _EVENT_WORDS):
                # The kernel gives back the slot's number that was put into its request. Events come
                # in any order.
                owner, slot = divmod(events[at], self._slots)
                self._left[owner] -= 1
                # A negative result is an errno, a short one is a failure as well: no block is
                # judged by a part.
                if events[at + _RESULT] != self._expected[owner]:
                    self._failed[owner].append(slot)


def open_queue(fd: int, groups: int, slots: int, slot_bytes: int) -> Queue:
    """An AIO queue, or where the kernel has none for us, one that reads one after the other."""
    try:
        return AioQueue(fd, groups, slots, slot_bytes)
    except OSError as error:
        LOG.warning("no asynchronous reads (%s): verification reads one by one", error)
        return SyncQueue(fd, groups, slots, slot_bytes)
