"""A drive without any bus: commands go straight to the model, data to a bytearray."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.lab.nvme.commandlog import LoggedCommand, log_path, read_commands
from tests.lab.nvme.controller import Controller
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.spec import Command, Reply

SIZE = 8 << 20
DEADLINE_SECONDS = 30.0


class Memory:
    """Data of one command, whatever length it turns out to have."""

    def __init__(self, content: bytes = b"", beside: bytes = b"") -> None:
        self.content = bytearray(content)
        self.beside = bytearray(beside)

    def buffers(self, length: int) -> Sequence[memoryview]:
        """All of it in one piece."""
        if len(self.content) < length:
            self.content.extend(bytes(length - len(self.content)))
        return [memoryview(self.content)[:length]]

    def metadata(self, length: int) -> memoryview:
        """Its metadata, likewise."""
        if len(self.beside) < length:
            self.beside.extend(bytes(length - len(self.beside)))
        return memoryview(self.beside)[:length]


class SanitizeLog:
    """Log 81h, taken apart with its own offsets."""

    def __init__(self, raw: bytes) -> None:
        assert len(raw) == 512
        fields: tuple[int, ...] = struct.unpack_from("<HHIIII", raw)
        self.sprog, self.sstat, self.cdw10 = fields[:3]
        self.estimates = fields[3:]
        self.outcome = self.sstat & 7
        self.data_erased = bool(self.sstat & 0x100)


class Bench:
    """One drive on the bench, that can be powered off by taking the process's state away."""

    def __init__(
        self,
        directory: Path,
        profile: DriveProfile | None = None,
        faults: Faults = HEALTHY,
    ) -> None:
        self.profile = profile or DriveProfile(size=SIZE)
        self.backing = directory / "drive.raw"
        self.drive = Drive(self.profile, self.backing, faults)
        self.controller = Controller(self.drive, "bench")

    def reborn(self) -> Bench:
        """The drive of a new process on the same files, as after SIGKILL of the old one."""
        with self.drive.lock:
            self.drive.sanitizer.halt()  # the thread would die with its process
        return Bench(self.backing.parent, self.profile, self.drive.faults)

    def submit(
        self,
        opcode: int,
        answer: Callable[[Reply], None],
        memory: Memory | None = None,
        **fields: int,
    ) -> Reply | None:
        """An admin command that may be answered later."""
        with self.drive.lock:
            return self.controller.admin(_command(opcode, fields), memory or Memory(), answer)

    def admin(self, opcode: int, data: bytes = b"", **fields: int) -> Reply:
        """An admin command and its answer."""
        done = threading.Event()
        late: list[Reply] = []

        def answer(reply: Reply) -> None:
            late.append(reply)
            done.set()

        reply = self.submit(opcode, answer, Memory(data), **fields)
        if reply is None:
            assert done.wait(DEADLINE_SECONDS), "the command was never answered"
            (reply,) = late
        return reply

    def io(self, opcode: int, memory: Memory | None = None, **fields: int) -> Reply:
        """An I/O command and its answer."""
        with self.drive.lock:
            return self.controller.io(_command(opcode, fields), memory or Memory(), 1)

    def write(self, offset: int, content: bytes, *, nsid: int = 1) -> int:
        """Write bytes at a byte offset; the status."""
        shift = self.shift(nsid)
        return self.io(
            1, Memory(content), nsid=nsid, cdw10=offset >> shift, cdw12=(len(content) >> shift) - 1
        ).status

    def read(self, offset: int, length: int, *, nsid: int = 1) -> bytes:
        """Read bytes; must succeed."""
        shift, memory = self.shift(nsid), Memory()
        reply = self.io(2, memory, nsid=nsid, cdw10=offset >> shift, cdw12=(length >> shift) - 1)
        assert reply.status == 0
        return bytes(memory.content)

    def read_status(self, lba: int = 0, *, nsid: int = 1) -> int:
        """Status of reading one block, without DNR."""
        return self.io(2, nsid=nsid, cdw10=lba).status & 0x7FF

    def shift(self, nsid: int) -> int:
        """log2 of the block size, from Identify."""
        raw = self.identify(0, nsid)
        return raw[128 + 4 * (raw[26] & 0xF) + 2]

    def identify(self, cns: int, nsid: int = 0) -> bytes:
        """Identify data; must succeed."""
        reply = self.admin(6, nsid=nsid, cdw10=cns)
        assert reply.status == 0
        assert reply.data is not None
        return reply.data

    def log(self, lid: int, length: int = 512) -> bytes:
        """A log page; must succeed."""
        reply = self.admin(2, nsid=0xFFFFFFFF, cdw10=lid | (length // 4 - 1) << 16)
        assert reply.status == 0
        assert reply.data is not None
        return reply.data

    def sanitize_log(self) -> SanitizeLog:
        """Log 81h."""
        return SanitizeLog(self.log(0x81))

    def sanitize(self, cdw10: int, cdw11: int = 0) -> int:
        """A Sanitize command; its status without DNR."""
        return self.admin(0x84, cdw10=cdw10, cdw11=cdw11).status & 0x7FF

    def wait_sanitize(self) -> SanitizeLog:
        """Poll log 81h until nothing runs."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (log := self.sanitize_log()).outcome == 2:
            assert time.monotonic() < deadline, "the sanitize operation did not end"
            time.sleep(0.005)
        return log

    def format(self, cdw10: int, nsid: int = 1) -> int:
        """A Format NVM command; its status without DNR."""
        return self.admin(0x80, nsid=nsid, cdw10=cdw10).status & 0x7FF

    def stored(self) -> bytes:
        """The backing file as anybody else sees it."""
        return self.backing.read_bytes()

    def commands(self, name: str) -> list[LoggedCommand]:
        """Commands of one name in the command log."""
        return [c for c in read_commands(log_path(self.backing)) if c.name == name]


def _command(opcode: int, fields: dict[str, int]) -> Command:
    words = [fields.pop(f"cdw{n}", 0) for n in range(10, 16)]
    command = Command(opcode, 0, fields.pop("cid", 0), fields.pop("nsid", 0), 0, 0, *words)
    assert not fields
    return command
