"""A very small guest: it speaks vfio-user as QEMU does and drives the queues as a kernel does.

Written from the two specifications and not from the server's code, with its own numbers.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import select
import socket
import struct
from pathlib import Path
from types import TracebackType
from typing import Self

MEMORY = 8 << 20
RAM_AT = 0x4000_0000  # where the guest's memory lies in its own address space
ADMIN_SQ, ADMIN_CQ, IO_SQ, IO_CQ, PRP_LIST, DATA = 0x0, 0x2000, 0x4000, 0x6000, 0x8000, 0x10000
ENTRIES = 32
TIMEOUT_SECONDS = 30


class Completion:
    """A completion entry taken from guest memory."""

    def __init__(self, raw: bytes) -> None:
        fields: tuple[int, ...] = struct.unpack("<IIHHHH", raw)
        self.dw0, _, self.sq_head, self.sq_id, self.cid, field = fields
        self.status = field >> 1

    @property
    def code(self) -> int:
        """Status code type and status code, without More and DNR."""
        return self.status & 0x7FF


class TinyGuest:
    """Connects, maps its memory, and can bring the controller up."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(TIMEOUT_SECONDS)
        self._socket.connect(str(path))
        self._number = 0
        self._fd = os.memfd_create("ram")
        os.ftruncate(self._fd, MEMORY)
        self.ram = mmap.mmap(self._fd, MEMORY)
        self._tails = {0: 0, 1: 0}
        self._heads = {0: 0, 1: 0}
        self._phases = {0: 1, 1: 1}
        self._cq_sizes = {0: ENTRIES, 1: ENTRIES}
        self.events = [os.eventfd(0), os.eventfd(0)]
        reply = self.request(1, struct.pack("<HH", 0, 0) + b'{"capabilities":{}}\0')
        assert reply[:4] == b"\0\0\0\0"
        self.capabilities = json.loads(reply[4:].rstrip(b"\0"))["capabilities"]
        self.map_memory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        for fd in (*self.events, self._fd):
            os.close(fd)

    # Wire

    def request(self, command: int, body: bytes, fds: tuple[int, ...] = ()) -> bytes:
        """Send a message and return the body of its reply; an error raises OSError."""
        self._number += 1
        message = struct.pack("<HHIII", self._number, command, 16 + len(body), 0, 0) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self._socket.sendmsg([message], rights)
        number, kind, size, flags, error = struct.unpack("<HHIII", self._receive(16))
        assert (number, kind, flags & 0xF) == (self._number, command, 1)
        answer = self._receive(size - 16)
        if flags & 0x20:
            raise OSError(error, os.strerror(error))
        return answer

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the server hung up")
            data += part
        return data

    def map_memory(self) -> None:
        """DMA map of all RAM, readable and writable."""
        self.request(2, struct.pack("<IIQQQ", 32, 3, 0, RAM_AT, MEMORY), (self._fd,))

    def unmap_memory(self) -> None:
        """Take it back."""
        self.request(3, struct.pack("<IIQQ", 24, 0, RAM_AT, MEMORY))

    def read_region(self, region: int, offset: int, size: int) -> bytes:
        """Read a BAR or configuration space (region 7)."""
        return self.request(9, struct.pack("<QII", offset, region, size))[16:]

    def write_region(self, region: int, offset: int, data: bytes) -> None:
        """Write a BAR or configuration space."""
        self.request(10, struct.pack("<QII", offset, region, len(data)) + data)

    def set_interrupts(self) -> None:
        """Give the drive one event descriptor per queue."""
        body = struct.pack("<IIIII", 20, 0x4 | 0x20, 2, 0, len(self.events))
        self.request(8, body, tuple(self.events))

    # Controller

    def register(self, offset: int, size: int = 4) -> int:
        """A controller register."""
        return int.from_bytes(self.read_region(0, offset, size), "little")

    def enable(self) -> None:
        """Bring the controller up with an admin queue pair."""
        self.set_interrupts()
        self.ram[: PRP_LIST + 0x1000] = bytes(PRP_LIST + 0x1000)
        self._tails, self._heads, self._phases = {0: 0, 1: 0}, {0: 0, 1: 0}, {0: 1, 1: 1}
        self.write_region(0, 0x24, struct.pack("<I", (ENTRIES - 1) << 16 | (ENTRIES - 1)))
        self.write_region(0, 0x28, struct.pack("<Q", RAM_AT + ADMIN_SQ))
        self.write_region(0, 0x30, struct.pack("<Q", RAM_AT + ADMIN_CQ))
        self.write_region(0, 0x14, struct.pack("<I", 4 << 20 | 6 << 16 | 1))
        assert self.register(0x1C) & 1

    def disable(self) -> None:
        """Controller reset by CC.EN."""
        self.write_region(0, 0x14, struct.pack("<I", 0))

    def create_io_queues(self, completions: int = ENTRIES) -> None:
        """Queue pair 1, with room for ``completions`` entries less one."""
        self._cq_sizes[1] = completions
        size = (completions - 1) << 16 | 1
        done = self.admin(5, prp1=RAM_AT + IO_CQ, cdw10=size, cdw11=1 << 16 | 3)
        assert done.code == 0
        size = (ENTRIES - 1) << 16 | 1
        done = self.admin(1, prp1=RAM_AT + IO_SQ, cdw10=size, cdw11=1 << 16 | 1)
        assert done.code == 0

    def admin(self, opcode: int, **fields: int) -> Completion:
        """Run an admin command to its completion."""
        self.submit(0, opcode, True, **fields)
        return self.wait(0)

    def io(self, opcode: int, **fields: int) -> Completion:
        """Run an I/O command to its completion."""
        self.submit(1, opcode, True, **fields)
        return self.wait(1)

    def submit(self, queue: int, opcode: int, ring: bool = True, **fields: int) -> None:
        """Put a command into a queue; ``ring`` writes the doorbell."""
        base = (ADMIN_SQ, IO_SQ)[queue]
        slot = self._tails[queue]
        entry = struct.pack(
            "<BBHI16xQQ6I",
            opcode,
            fields.get("flags", 0),
            fields.get("cid", slot),
            fields.get("nsid", 0),
            fields.get("prp1", RAM_AT + DATA),
            fields.get("prp2", 0),
            *(fields.get(f"cdw{n}", 0) for n in range(10, 16)),
        )
        self.ram[base + slot * 64 : base + slot * 64 + 64] = entry
        self._tails[queue] = (slot + 1) % ENTRIES
        if ring:
            self.ring(queue)

    def ring(self, queue: int) -> None:
        """Write the tail doorbell."""
        self.write_region(0, 0x1000 + 8 * queue, struct.pack("<I", self._tails[queue]))

    def poll(self, queue: int) -> Completion | None:
        """A completion, if there is one."""
        at = (ADMIN_CQ, IO_CQ)[queue] + 16 * self._heads[queue]
        raw = self.ram[at : at + 16]
        if raw[14] & 1 != self._phases[queue]:
            return None
        self._heads[queue] = (self._heads[queue] + 1) % self._cq_sizes[queue]
        if self._heads[queue] == 0:
            self._phases[queue] ^= 1
        self.write_region(0, 0x1004 + 8 * queue, struct.pack("<I", self._heads[queue]))
        return Completion(raw)

    def wait(self, queue: int) -> Completion:
        """The next completion; waits for the interrupt as a kernel would."""
        while (done := self.poll(queue)) is None:
            interrupt = select.poll()  # select(2) knows no descriptor above 1023
            interrupt.register(self.events[queue], select.POLLIN)
            assert interrupt.poll(1000 * TIMEOUT_SECONDS), "no completion and no interrupt"
            os.eventfd_read(self.events[queue])
        return done

    def data(self, size: int, at: int = DATA) -> bytes:
        """Bytes of RAM."""
        return self.ram[at : at + size]

    def put(self, content: bytes, at: int = DATA) -> None:
        """Store bytes in RAM."""
        self.ram[at : at + len(content)] = content

    def prp_list(self, pages: list[int]) -> int:
        """A PRP list with these addresses; its own address."""
        self.put(struct.pack(f"<{len(pages)}Q", *pages), PRP_LIST)
        return RAM_AT + PRP_LIST
