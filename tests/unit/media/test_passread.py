"""Read commands of our own: what goes to the kernel, and what its answer means."""

from __future__ import annotations

import ctypes
import fcntl
import struct
from dataclasses import dataclass, field

import pytest

from eraser.clock import MACHINE, Clock
from eraser.controller.spec import IdentifyNamespace
from eraser.host.sysfs import Host
from eraser.media import passread
from eraser.media.iocommand import Namespace
from eraser.media.passread import PassthroughReader, Patience, status_text

COMMAND = "<BBHIIIQQIIIIIIIIII"
"""struct nvme_passthru_cmd of linux/nvme_ioctl.h: 72 bytes, as its number says (0x48)."""


@dataclass
class Kernel:
    """Takes the command as the kernel does, and fills its buffers."""

    status: int = 0
    sent: tuple[int, ...] = ()

    def ioctl(self, _fd: int, number: int, command: bytearray, _mutate: bool) -> int:
        assert number >> 16 & 0x3FFF == len(command) == 72
        assert (number & 0xFF, chr(number >> 8 & 0xFF)) == (0x43, "N")
        self.sent = struct.unpack(COMMAND, command)
        address, length = self.sent[7], self.sent[9]
        ctypes.memmove(address, bytes(n // 520 & 0xFF for n in range(length)), length)
        return self.status


def read(
    monkeypatch: pytest.MonkeyPatch, reader: PassthroughReader, kernel: Kernel, offset: int
) -> tuple[int | None, bytes]:
    monkeypatch.setattr(fcntl, "ioctl", kernel.ioctl)
    into = memoryview(bytearray(4096))
    return reader.read(3, offset, into), bytes(into)


def test_a_plain_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    reader = PassthroughReader(
        Namespace(7, 512, 0, extended=False, protected=False, timeout=2.5, host=Host()),
        Patience(0, MACHINE),
    )
    status, _data = read(monkeypatch, reader, kernel, (1 << 33) * 512)
    assert status == 0
    opcode, flags, _r, nsid, _2, _3, metadata, _a, metadata_len, length, *rest = kernel.sent
    assert (opcode, flags, nsid, metadata, metadata_len, length) == (2, 0, 7, 0, 0, 4096)
    assert rest[:3] == [0, 2, 7], "SLBA in dwords 10 and 11, blocks from 0 in 12"
    assert rest[-2] == 2500


@pytest.mark.parametrize("extended", [False, True])
def test_eight_bytes_of_protection_are_taken_away_by_the_controller(
    monkeypatch: pytest.MonkeyPatch, extended: bool
) -> None:
    kernel = Kernel()
    reader = PassthroughReader(
        Namespace(1, 512, 8, extended=extended, protected=True, timeout=1, host=Host()),
        Patience(0, MACHINE),
    )
    read(monkeypatch, reader, kernel, 0)
    assert (kernel.sent[8], kernel.sent[9]) == (0, 4096)
    assert kernel.sent[12] == 7 | 1 << 29, "PRACT is set, PRCHK checks nothing"


def test_metadata_within_the_data_is_cut_out(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    reader = PassthroughReader(
        Namespace(1, 512, 8, extended=True, protected=False, timeout=1, host=Host()),
        Patience(0, MACHINE),
    )
    _status, data = read(monkeypatch, reader, kernel, 0)
    assert kernel.sent[9] == 8 * 520
    assert data == b"".join(bytes([n]) * 512 for n in range(8))
    assert kernel.sent[12] == 7


@pytest.mark.parametrize("extended", [False, True])
def test_the_memory_begins_with_a_page(monkeypatch: pytest.MonkeyPatch, extended: bool) -> None:
    """Some drives refuse every other start (13h)."""
    kernel = Kernel()
    reader = PassthroughReader(
        Namespace(1, 512, 8, extended=extended, protected=False, timeout=1, host=Host()),
        Patience(0, MACHINE),
    )
    for _ in range(16):
        read(monkeypatch, reader, kernel, 0)
        assert kernel.sent[7] % 4096 == 0


def test_metadata_beside_the_data_has_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel()
    reader = PassthroughReader(
        Namespace(1, 4096, 64, extended=False, protected=True, timeout=1, host=Host()),
        Patience(0, MACHINE),
    )
    read(monkeypatch, reader, kernel, 0)
    assert kernel.sent[6] != 0
    assert (kernel.sent[8], kernel.sent[9], kernel.sent[12]) == (64, 4096, 0)


@pytest.mark.parametrize(("raw", "status"), [(0x4281, 0x281), (0x6287, 0x287), (0x282, 0x282)])
def test_a_status_comes_without_its_flags_and_the_buffer_stays(
    monkeypatch: pytest.MonkeyPatch, raw: int, status: int
) -> None:
    reader = PassthroughReader(
        Namespace(1, 512, 0, extended=False, protected=False, timeout=1, host=Host()),
        Patience(0, MACHINE),
    )
    found, data = read(monkeypatch, reader, Kernel(raw), 0)
    assert (found, data) == (status, bytes(4096))


@dataclass
class Waking(Kernel):
    """Says "later" a few times; ``waits`` are the pauses that were made."""

    later: int = 3
    flags: int = 0
    waits: list[float] = field(default_factory=list)

    def ioctl(self, fd: int, number: int, command: bytearray, mutate: bool) -> int:
        self.status = 0x082 | self.flags if len(self.waits) < self.later else 0
        return super().ioctl(fd, number, command, mutate)


class Waits(Clock):
    """Notes them."""

    def __init__(self, made: list[float]) -> None:
        self.sleep = made.append  # type: ignore[method-assign]


@pytest.mark.parametrize(("later", "flags", "seconds", "wanted", "waited"), [
    (3, 0x0000, 60.0, 0x000, 3),  # it wakes
    (3, 0x2800, 60.0, 0x000, 3),  # CRD and More say nothing against it
    (3, 0x4000, 60.0, 0x082, 0),  # Do Not Retry
    (3, 0x0000, 0.5, 0x082, 2),  # it does not, in the time that it has
])  # fmt: skip
def test_a_drive_that_says_later_is_asked_again_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
    later: int,
    flags: int,
    seconds: float,
    wanted: int,
    waited: int,
) -> None:
    kernel = Waking(later=later, flags=flags)
    clock = Waits(kernel.waits)
    reader = PassthroughReader(
        Namespace(1, 512, 0, extended=False, protected=False, timeout=1, host=Host()),
        Patience(seconds, clock),
    )
    found, data = read(monkeypatch, reader, kernel, 0)
    assert (found, len(kernel.waits)) == (wanted, waited)
    assert any(data) or kernel.sent[9] == 4096


def test_all_blocks_together_have_one_time_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drive that never wakes costs it once, and not for each of its blocks."""
    kernel = Waking(later=1000)
    clock = Waits(kernel.waits)
    reader = PassthroughReader(
        Namespace(1, 512, 0, extended=False, protected=False, timeout=1, host=Host()),
        Patience(1.0, clock),
    )
    assert [read(monkeypatch, reader, kernel, 4096 * n)[0] for n in range(20)] == [0x082] * 20
    assert sum(kernel.waits) == 1.0


def test_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_given: object) -> int:
        raise OSError(5, "EIO")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    reader = PassthroughReader(
        Namespace(1, 512, 0, extended=False, protected=False, timeout=1, host=Host()),
        Patience(0, MACHINE),
    )
    assert reader.read(3, 0, memoryview(bytearray(512))) is None


def test_from_identify() -> None:
    raw = bytearray(4096)
    struct.pack_into("<QQ", raw, 0, 1000, 1000)
    raw[25], raw[26], raw[29] = 1, 0x11, 2
    struct.pack_into("<II", raw, 128, 9 << 16, 12 << 16 | 8)
    found = Namespace.of(5, IdentifyNamespace.parse(bytes(raw)), 3.0, Host())
    assert found == Namespace(5, 4096, 8, extended=True, protected=True, timeout=3.0, host=Host())


def test_names_for_people() -> None:
    assert status_text(None) == "no completion"
    assert status_text(0x281) == "status 0x281, unrecovered read error"
    assert status_text(0x123) == "status 0x123"
    assert passread.UNWRITTEN == 0x287
