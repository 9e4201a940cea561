"""A plain host in this process: it drives one function by registers, queues and shared memory.

It is what a next tenant's kernel and tools can do to a drive, and knows nothing of any product.
Written from the standard with its own numbers.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.function import Function

MEMORY = 4 << 20
RAM_AT = 0x1000_0000
"""Where the host's memory lies, as the drive addresses it."""
_ADMIN, _PRP, _META, _DATA = 0x0, 0x80000, 0x90000, 0x100000
LARGEST = 1 << 20
"""Bytes of one transfer at most."""
ENTRIES = 32
QUEUES = 8
_CC_ON, _CC_SHUTDOWN = 6 << 16 | 4 << 20 | 1, 1 << 14
_PATIENCE_SECONDS = 90.0
_REAL_SECONDS = 30.0
_DNR = 0x4000
_SQE = struct.Struct("<BBHI8x3Q6I")


class Clock:
    """Simulated seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        """Let them pass."""
        self.now += seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """Of a command: status without More and DNR, DW0, whether a retry is of use, data."""

    code: int
    dw0: int
    again: bool
    data: bytes
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Namespace:
    """As Identify tells of it; ``size`` in blocks of ``block`` bytes."""

    nsid: int
    size: int
    block: int
    metadata: int
    lba_format: int


class Host:
    """Brings the controller up, sends commands, resets it in every way that there is."""

    def __init__(self, drive: Drive, wait: Callable[[float], None]) -> None:
        """``wait`` lets seconds of the drive's clock pass."""
        self.drive = drive
        self.wait = wait
        self.function = Function(drive, "host", lambda _vector: None)
        self._fd = os.memfd_create("host")
        os.ftruncate(self._fd, MEMORY)
        self.ram = mmap.mmap(self._fd, MEMORY)
        self.queues = 1
        self.transfer = LARGEST
        """Bytes of one transfer at most, as the drive and this host allow."""
        self._map()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.drive.listeners.remove(self.function)
        self.function.memory.clear()
        self.ram.close()
        os.close(self._fd)

    # Registers

    def _map(self) -> None:
        self.function.memory.map(RAM_AT, MEMORY, self._fd, 0, writable=True)

    def register(self, offset: int, length: int = 4) -> int:
        """Read one."""
        with self.drive.lock:
            return int.from_bytes(self.function.read(offset, length), "little")

    def set_register(self, offset: int, value: int, length: int = 4) -> None:
        """Write one."""
        with self.drive.lock:
            self.function.write(offset, value.to_bytes(length, "little"))

    def bring_up(self, queues: int = 1) -> None:
        """Enable the controller and make so many I/O queues."""
        self._until(lambda: self.register(0x1C) != 0xFFFFFFFF)
        self.set_register(0x14, 0)
        self.queues = queues
        self._tails = dict.fromkeys(range(queues + 1), 0)
        self._heads = dict.fromkeys(range(queues + 1), 0)
        self._phases = dict.fromkeys(range(queues + 1), 1)
        self.ram[:_PRP] = bytes(_PRP)
        self.set_register(0x24, (ENTRIES - 1) << 16 | ENTRIES - 1)
        self.set_register(0x28, RAM_AT + self._sq(0), 8)
        self.set_register(0x30, RAM_AT + self._cq(0), 8)
        self.set_register(0x14, _CC_ON)
        self._until(lambda: self.register(0x1C) & 1 == 1)
        mdts = self.identify(0x01)[77]
        self.transfer = min(LARGEST, 4096 << mdts) if mdts else LARGEST
        self.admin(0x09, cdw10=0x07, cdw11=(queues - 1) << 16 | queues - 1)
        for queue in range(1, queues + 1):
            size = (ENTRIES - 1) << 16 | queue
            self._sure(self.command(0, 0x05, cdw10=size, cdw11=1, prp1=self._cq(queue)))
            self._sure(
                self.command(0, 0x01, cdw10=size, cdw11=queue << 16 | 1, prp1=self._sq(queue))
            )

    def _until(self, done: Callable[[], bool]) -> None:
        for _ in range(int(_PATIENCE_SECONDS / 0.25)):
            if done():
                return
            self.wait(0.25)
        raise DriveError(f"the drive should be ready within {_PATIENCE_SECONDS} s")

    # Resets

    def reset(self, how: Reset, queues: int = 1) -> None:
        """Reset it and bring it up again."""
        with self.drive.lock:
            if how is Reset.CONTROLLER:
                self.function.write(0x14, bytes(4))
            elif how is Reset.SUBSYSTEM:
                self.function.write(0x20, (0x4E564D65).to_bytes(4, "little"))
            elif how is Reset.POWER:
                self.drive.power_cycle()
            else:
                self.function.hard_reset(how.value, how)
        self.bring_up(queues)

    def shut_down(self) -> None:
        """Announce that the host goes."""
        self.set_register(0x14, _CC_ON | _CC_SHUTDOWN)

    # Commands

    def command(
        self,
        queue: int,
        opcode: int,
        *,
        nsid: int = 0,
        send: bytes = b"",
        receive: int = 0,
        metadata: int | bytes = 0,
        shift: int = 0,
        prp1: int | None = None,
        **dwords: int,
    ) -> Answer:
        """One command, whatever it is answered with.

        ``receive`` bytes of data come back; ``shift`` is where in a page the buffer begins.
        ``metadata`` is to send, or how much to receive.
        """
        length = max(len(send), receive)
        self.ram[_DATA + shift : _DATA + shift + len(send)] = send
        if queue == 0:
            # A feature without data is answered with none: what an earlier command had left in the
            # buffer would pass for it.
            self.ram[_DATA + shift : _DATA + shift + receive] = bytes(receive)
        first = RAM_AT + (_DATA + shift if prp1 is None else prp1)
        second = self._second(shift, length)
        beside = len(metadata) if isinstance(metadata, bytes) else metadata
        if isinstance(metadata, bytes):
            self.ram[_META : _META + beside] = metadata
        words = [dwords.pop(f"cdw{number}", 0) for number in range(10, 16)]
        assert not dwords, dwords
        tail = self._tails[queue]
        at = self._sq(queue) + tail * 64
        mptr = RAM_AT + _META if beside else 0
        self.ram[at : at + 64] = _SQE.pack(opcode, 0, tail, nsid, mptr, first, second, *words)
        self._tails[queue] = (tail + 1) % ENTRIES
        self.set_register(0x1000 + 8 * queue, self._tails[queue])
        dw0, status = self._complete(queue)
        data = self.ram[_DATA + shift : _DATA + shift + receive]
        found = self.ram[_META : _META + beside]
        again = bool(status) and not status & _DNR
        return Answer(status & 0x7FF, dw0, again, data, found)

    def patient(self, queue: int, opcode: int, **fields: int | bytes) -> Answer:
        """A command, repeated while the drive says that it may be, until patience ends."""
        waited = 0.0
        while True:
            answer = self.command(queue, opcode, **fields)  # type: ignore[arg-type]
            if not answer.again or waited > _PATIENCE_SECONDS:
                return answer
            if waited:
                self.wait(1.0)
            waited += 1.0

    def admin(self, opcode: int, **fields: int | bytes) -> Answer:
        """An admin command."""
        return self.patient(0, opcode, **fields)

    def _sure(self, answer: Answer) -> None:
        if answer.code:
            raise DriveError(f"the drive should make a queue, answered {answer.code:#x}")

    def _second(self, shift: int, length: int) -> int:
        pages = -(-(shift + length) // 4096)
        if pages <= 1:
            return 0
        following = [RAM_AT + _DATA + 4096 * index for index in range(1, pages)]
        if len(following) == 1:
            return following[0]
        packed = struct.pack(f"<{len(following)}Q", *following)
        self.ram[_PRP : _PRP + len(packed)] = packed
        return RAM_AT + _PRP

    def _complete(self, queue: int) -> tuple[int, int]:
        head = self._heads[queue]
        at = self._cq(queue) + head * 16
        deadline = time.monotonic() + _REAL_SECONDS
        while True:
            dw0, _, _, _, _, status = struct.unpack_from("<IIHHHH", self.ram, at)
            if status & 1 == self._phases[queue]:
                break
            if time.monotonic() > deadline:
                raise DriveError(f"a command should be answered within {_REAL_SECONDS} s")
            time.sleep(0.0005)
        self._heads[queue] = (head + 1) % ENTRIES
        if not self._heads[queue]:
            self._phases[queue] ^= 1
        self.set_register(0x1004 + 8 * queue, self._heads[queue])
        return dw0, status >> 1

    def _sq(self, queue: int) -> int:
        return _ADMIN + queue * 0x2000

    def _cq(self, queue: int) -> int:
        return _ADMIN + queue * 0x2000 + 0x1000

    # What every host does

    def identify(self, cns: int, nsid: int = 0) -> bytes:
        """4096 bytes; zeros where the drive refuses."""
        answer = self.admin(0x06, nsid=nsid, receive=4096, cdw10=cns)
        return bytes(4096) if answer.code else answer.data

    def log(self, lid: int, length: int = 512) -> bytes:
        """A log page; zeros where the drive refuses."""
        words = lid | (length // 4 - 1) << 16
        answer = self.admin(0x02, nsid=0xFFFFFFFF, receive=length, cdw10=words)
        return bytes(length) if answer.code else answer.data

    def namespaces(self, cns: int = 0x02) -> list[int]:
        """Active namespaces, or with CNS 10h the allocated ones."""
        return [nsid for nsid in struct.unpack("<1024I", self.identify(cns)) if nsid]

    def namespace(self, nsid: int) -> Namespace:
        """One of the active ones."""
        raw = self.identify(0x00, nsid)
        (size,) = struct.unpack_from("<Q", raw)
        form = raw[26] & 0xF
        metadata, shift = struct.unpack_from("<HB", raw, 128 + 4 * form)
        return Namespace(nsid, size, 1 << shift, metadata, form)

    def read(
        self,
        where: Namespace,
        first: int,
        blocks: int,
        *,
        queue: int = 1,
        shift: int = 0,
        metadata: bool = False,
        flags: int = 0,
        hints: int = 0,
    ) -> Answer:
        """Read blocks; ``flags`` goes into dword 12 (FUA is bit 30), ``hints`` into dword 13."""
        return self.patient(
            queue,
            0x02,
            nsid=where.nsid,
            receive=blocks * where.block,
            metadata=blocks * where.metadata if metadata else 0,
            shift=shift,
            cdw10=first & 0xFFFFFFFF,
            cdw11=first >> 32,
            cdw12=blocks - 1 | flags,
            cdw13=hints,
        )

    def write(
        self,
        where: Namespace,
        first: int,
        data: bytes,
        *,
        queue: int = 1,
        metadata: bytes = b"",
        flags: int = 0,
    ) -> Answer:
        """Write blocks."""
        return self.patient(
            queue,
            0x01,
            nsid=where.nsid,
            send=data,
            metadata=metadata,
            cdw10=first & 0xFFFFFFFF,
            cdw11=first >> 32,
            cdw12=len(data) // where.block - 1 | flags,
        )

    def deallocate(self, where: Namespace, first: int, blocks: int) -> Answer:
        """Dataset Management over one range."""
        ranges = struct.pack("<IIQ", 0, blocks, first)
        return self.patient(1, 0x09, nsid=where.nsid, send=ranges, cdw10=0, cdw11=4)

    # CMB and PMR

    def open_buffer(self) -> int:
        """Switch it on; its bytes, 0 where there is none."""
        buffer = self.drive.profile.buffer
        if buffer is None:
            return 0
        self.set_register(0xE04 if buffer.persistent else 0x50, 1)
        return buffer.size

    def close_buffer(self) -> None:
        """Switch a PMR off: a sanitize is prohibited while it is on."""
        self.set_register(0xE04, 0)

    def read_buffer(self, offset: int, length: int) -> bytes:
        """Read the memory that the drive lends."""
        with self.drive.lock:
            return self.function.read_buffer(offset, length)

    def write_buffer(self, offset: int, data: bytes) -> None:
        """Write it."""
        with self.drive.lock:
            self.function.write_buffer(offset, data)
