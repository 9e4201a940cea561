"""Reading by ioctl: the very command that nvme-cli is given, and the very bytes back."""

from __future__ import annotations

import ctypes
import errno
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.clock import MACHINE, Clock
from eraser.controller import passthru
from eraser.controller.adminioctl import AdminReader
from eraser.controller.spec import IdentifyController, SmartLog
from eraser.errors import DriveError
from eraser.host.sysfs import Devices, Host

SAMPLES = Path(__file__).parent / "samples"


@dataclass
class Kernel(Devices):
    """Stands in for the ioctl: copies an answer to where the command says."""

    answer: bytes = b""
    status: int = 0
    error: int = 0
    whole_pages: bool = False
    """Fills them, whatever it was asked for, and takes no other start than a page's."""
    request: int = 0
    fields: tuple[int, ...] = ()

    def ioctl(self, _fd: int, request: int, command: bytearray) -> int:
        assert len(command) == 72, "sizeof(struct nvme_passthru_cmd)"
        self.request = request
        self.fields = struct.unpack("<BBHIIIQQIIIIIIIIII", command)
        if self.error:
            raise OSError(self.error, "no")
        assert len(self.answer) == self.fields[9]
        if self.whole_pages:
            if self.fields[7] % 4096:
                return 0x13
            ctypes.memset(self.fields[7], 0xA5, -(-len(self.answer) // 4096) * 4096)
        ctypes.memmove(self.fields[7], self.answer, len(self.answer))
        return self.status


class Later(Clock):
    """Goes on where somebody sleeps; ``wakes`` is called then."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.wakes()

    def wakes(self) -> None:
        pass


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


def reader(kernel: Kernel, clock: Clock = MACHINE) -> AdminReader:
    return AdminReader(Host(clock=clock, devices=kernel), 7, "0000:01:00.0", 2.5)


def test_identify(kernel: Kernel) -> None:
    kernel.answer = (SAMPLES / "id-ctrl.bin").read_bytes()
    assert reader(kernel).identify() == IdentifyController.parse(kernel.answer)
    assert kernel.request == 0xC0484E41
    opcode, _, _, nsid, _, _, _, _, _, length, cdw10, *_, timeout, _ = kernel.fields
    assert (opcode, nsid, cdw10) == (passthru.IDENTIFY, 0, passthru.CNS_CONTROLLER)
    assert (length, timeout) == (4096, 2500)


@pytest.mark.parametrize(("lid", "name"), [(0x02, "smart_log"), (0x81, "sanitize_log")])
def test_logs(kernel: Kernel, lid: int, name: str) -> None:
    kernel.answer = (SAMPLES / "smart.bin").read_bytes()
    raw = getattr(reader(kernel), name)()
    assert raw == kernel.answer
    SmartLog.parse(raw)
    opcode, _, _, nsid, _, _, _, _, _, length, cdw10, *_ = kernel.fields
    assert (opcode, nsid, length) == (passthru.GET_LOG_PAGE, 0xFFFF_FFFF, 512)
    assert cdw10 == lid | 127 << 16, "as Controller.log() sends it"


def test_a_drive_that_writes_whole_pages_reaches_nothing_else(kernel: Kernel) -> None:
    """Some write 4 KiB of a log of which 512 bytes were asked for, and newer kernels have them do
    so straight into the caller's memory (libnvme #684); some refuse any other start (13h)."""
    kernel.whole_pages = True
    for length, name in ((512, "smart_log"), (4096, "identify_raw")):
        kernel.answer = bytes(range(256)) * (length // 256)
        for _ in range(64):
            assert getattr(reader(kernel), name)() == kernel.answer


def test_a_drive_that_refuses_is_an_error(kernel: Kernel) -> None:
    kernel.answer, kernel.status = bytes(512), 0x4109
    with pytest.raises(DriveError, match="status 0x109"):
        reader(kernel).smart_log()


@pytest.mark.parametrize("status", [0x0024, 0x0370], ids=hex)
def test_a_drive_that_says_later_is_asked_again_within_its_time(
    kernel: Kernel, status: int
) -> None:
    """Not longer, and not against Do Not Retry; each time it has what is left. So it is where the
    kernel did not send the command, as it was about to reset the controller."""
    kernel.answer = (SAMPLES / "smart.bin").read_bytes()
    kernel.status = status

    class Waking(Later):
        def wakes(self) -> None:
            kernel.status = 0 if self.now >= 101.0 else kernel.status

    assert reader(kernel, Waking()).smart_log() == kernel.answer
    assert 1 <= kernel.fields[-2] <= 1600

    clock = Later()
    for status, seconds in ((0x0024, 2.5), (0x4024, 0.0)):
        began, kernel.status = clock.now, status
        with pytest.raises(DriveError, match="status 0x024"):
            reader(kernel, clock).smart_log()
        assert clock.now - began == pytest.approx(seconds, abs=0.25)


def test_a_kernel_that_refuses_is_an_error(kernel: Kernel) -> None:
    kernel.error = errno.ENODEV
    with pytest.raises(DriveError, match="SMART"):
        reader(kernel).smart_log()


@pytest.mark.parametrize("opcode", [passthru.SANITIZE, passthru.FORMAT_NVM, passthru.SET_FEATURES])
def test_nothing_that_changes_a_drive_passes(kernel: Kernel, opcode: int) -> None:
    with pytest.raises(DriveError, match="reading command"):
        reader(kernel).read(opcode, 512, "x", cdw10=0)
    assert kernel.fields == ()
