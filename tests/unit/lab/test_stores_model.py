"""What a drive keeps beside its blocks: metadata, CMB, PMR; and the reset of a whole subsystem."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme.composed.host import Clock, Host
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.nature import Nature, Truth
from tests.lab.nvme.profile import BufferProfile, DriveProfile, SanitizeProfile
from tests.lab.nvme.server import DriveServer
from tests.unit.lab.guest import TinyGuest
from tests.unit.lab.model import Bench, Memory

SIZE = 4 << 20
QUICK = SanitizeProfile(crypto_seconds=0, block_seconds=0, overwrite_seconds=0)
PROFILE = DriveProfile(size=SIZE, sanitize=QUICK, metadata_formats=True, verify=True)
WITH_512, WITH_4096 = 2, 3  # LBA formats
CMB, PMR = BufferProfile(), BufferProfile(persistent=True)


@pytest.fixture
def made(tmp_path: Path) -> Bench:
    return Bench(tmp_path, PROFILE)


def read(made: Bench, lba: int, blocks: int) -> tuple[bytes, bytes]:
    """Data and metadata."""
    memory = Memory()
    assert made.io(2, memory, nsid=1, cdw10=lba, cdw12=blocks - 1).status == 0
    return bytes(memory.content), bytes(memory.beside)


def write(made: Bench, lba: int, data: bytes, beside: bytes, blocks: int) -> None:
    """Both."""
    memory = Memory(data, beside)
    assert made.io(1, memory, nsid=1, cdw10=lba, cdw12=blocks - 1).status == 0


# Metadata


def test_identify_tells_of_formats_with_metadata(made: Bench) -> None:
    raw = made.identify(0, 1)
    assert raw[25] == 3
    assert raw[27] == 2
    formats = [struct.unpack_from("<HB", raw, 128 + 4 * index) for index in range(4)]
    assert formats == [(0, 9), (0, 12), (8, 9), (64, 12)]


def test_a_drive_without_them_is_as_before(tmp_path: Path) -> None:
    plain = Bench(tmp_path, replace(PROFILE, metadata_formats=False, verify=False))
    raw = plain.identify(0, 1)
    assert (raw[25], raw[27], raw[136:144]) == (1, 0, bytes(8))
    assert plain.format(WITH_512) == 0x10A
    assert plain.io(0x0C, nsid=1).status == 0x4001
    assert not (tmp_path / "drive.raw.metadata").exists()


@pytest.mark.parametrize(("form", "block", "size"), [(WITH_512, 512, 8), (WITH_4096, 4096, 64)])
def test_metadata_goes_with_its_block(made: Bench, form: int, block: int, size: int) -> None:
    assert made.format(form) == 0
    data, beside = os.urandom(3 * block), os.urandom(3 * size)
    write(made, 5, data, beside, 3)
    assert read(made, 5, 3) == (data, beside)
    assert read(made, 6, 1) == (data[block : 2 * block], beside[size : 2 * size])
    assert read(made, 4, 1) == (bytes(block), bytes(size))
    assert made.reborn().drive.metadata is not None


def test_a_format_without_an_erase_keeps_metadata_and_one_with_it_does_not(made: Bench) -> None:
    made.format(WITH_512)
    secret = os.urandom(8)
    write(made, 7, bytes(512), secret, 1)
    assert made.format(0) == 0
    assert made.format(WITH_512) == 0
    assert read(made, 7, 1)[1] == secret
    assert made.format(WITH_512 | 1 << 9) == 0
    assert read(made, 7, 1)[1] == bytes(8)


@pytest.mark.parametrize("action", [2, 3 | 1 << 4, 4])
def test_a_sanitize_erases_metadata(made: Bench, action: int) -> None:
    made.format(WITH_512)
    write(made, 7, bytes(512), os.urandom(8), 1)
    assert made.sanitize(action) == 0
    assert made.wait_sanitize().outcome == 1
    assert read(made, 7, 1)[1] == bytes(8)


def test_a_write_in_another_format_leaves_no_old_metadata(made: Bench) -> None:
    made.format(WITH_512)
    write(made, 7, bytes(512), b"8 bytes.", 1)
    made.format(0)
    made.write(7 * 512, b"x" * 512)
    made.format(WITH_512)
    assert read(made, 7, 1) == (b"x" * 512, bytes(8))
    write(made, 7, bytes(512), b"8 bytes.", 1)
    assert made.io(8, nsid=1, cdw10=7).status == 0
    assert read(made, 7, 1)[1] == bytes(8)


def test_verify_reads_nothing_out(made: Bench) -> None:
    made.write(0, b"x" * 512)
    assert made.io(0x0C, nsid=1).status == 0
    assert made.io(0x0C, nsid=1, cdw10=SIZE).status & 0x7FF == 0x80


# CMB and PMR


@pytest.fixture
def host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    clock = Clock()
    profile = replace(PROFILE, buffer=request.param, subsystem_reset=True)
    drive = Drive(profile, tmp_path / "drive.raw", clock=clock)
    with Host(drive, clock.wait) as found:
        found.bring_up()
        yield found
    drive.close()


def sanitize(host: Host) -> int:
    """A block erase, to its end; the status of the command."""
    code = host.admin(0x84, cdw10=2).code
    while struct.unpack_from("<H", host.log(0x81), 2)[0] & 7 == 2:
        pass
    return code


@pytest.mark.parametrize("host", [CMB], indirect=True)
def test_a_cmb_is_shown_once_it_is_asked_for(host: Host) -> None:
    assert host.register(0, 8) >> 57 & 1
    assert (host.register(0x38), host.register(0x3C)) == (0, 0)
    assert host.read_buffer(0, 4) == b"\xff" * 4
    host.open_buffer()
    assert host.register(0x38) & 7 == 2
    size = host.register(0x3C)
    assert (size >> 12) * (4096 << (size >> 8 & 0xF) * 4) == CMB.size
    host.write_buffer(100, b"secret")
    assert host.read_buffer(98, 10) == b"\0\0secret\0\0"
    with host.drive.lock:
        host.drive.power_cycle()
    host.bring_up()
    host.open_buffer()
    assert host.read_buffer(100, 6) == bytes(6)


@pytest.mark.parametrize("host", [PMR], indirect=True)
def test_a_pmr_outlives_power_and_must_be_off_for_a_sanitize(host: Host) -> None:
    assert host.register(0, 8) >> 56 & 1
    assert host.register(0xE00) >> 5 & 7 == 2
    host.open_buffer()
    assert host.register(0xE04) == 1
    host.write_buffer(100, b"secret")
    assert host.admin(0x84, cdw10=2).code == 0x123
    with host.drive.lock:
        host.drive.power_cycle()
    host.bring_up()
    assert host.register(0xE04) == 0
    host.open_buffer()
    assert host.read_buffer(100, 6) == b"secret"
    host.close_buffer()
    assert sanitize(host) == 0
    host.open_buffer()
    assert host.read_buffer(100, 6) == bytes(6)


@pytest.mark.parametrize("host", [CMB, PMR], indirect=True)
def test_a_format_does_not_reach_it(host: Host) -> None:
    host.open_buffer()
    host.write_buffer(0, b"secret")
    host.close_buffer()
    assert host.admin(0x80, nsid=1, cdw10=1 << 9).code == 0
    host.open_buffer()
    assert host.read_buffer(0, 6) == b"secret"


@pytest.mark.parametrize("host", [None], indirect=True)
def test_a_drive_without_either_has_none(host: Host) -> None:
    assert host.register(0, 8) >> 56 & 3 == 0
    assert host.open_buffer() == 0
    assert host.read_buffer(0, 4) == b"\xff" * 4


def test_a_guest_maps_it(tmp_path: Path) -> None:
    socket = tmp_path / "a.sock"
    profile = DriveProfile(size=1 << 20, buffer=CMB)
    with DriveServer(profile, tmp_path / "d.raw", [socket]), TinyGuest(socket) as guest:
        guest.enable()
        info = guest.request(5, struct.pack("<IIIIQQ", 32, 0, 2, 0, 0, 0))
        assert struct.unpack("<IIIIQQ", info)[4] == CMB.size
        guest.write_region(7, 0x18, b"\xff" * 4)
        (mask,) = struct.unpack("<I", guest.read_region(7, 0x18, 4))
        assert ~(mask & ~0xF) & 0xFFFFFFFF == CMB.size - 1
        guest.write_region(0, 0x50, struct.pack("<I", 1))
        guest.write_region(2, 8, b"hello")
        assert guest.read_region(2, 8, 5) == b"hello"


# Subsystem reset


@pytest.mark.parametrize("host", [None], indirect=True)
def test_a_subsystem_reset_takes_the_registers_and_says_so(host: Host) -> None:
    assert host.register(0, 8) >> 36 & 1
    host.set_register(0x20, 0x12345678)
    assert host.register(0x1C) == 1
    host.set_register(0x20, 0x4E564D65)
    assert host.register(0x1C) == 1 << 4
    assert (host.register(0x14), host.register(0x24)) == (0, 0)
    host.bring_up()
    assert host.register(0x1C) & 1


def test_a_drive_without_it_ignores_the_register(tmp_path: Path) -> None:
    clock = Clock()
    drive = Drive(PROFILE, tmp_path / "drive.raw", clock=clock)
    with Host(drive, clock.wait) as host:
        host.bring_up()
        assert not host.register(0, 8) >> 36 & 1
        host.set_register(0x20, 0x4E564D65)
        assert host.register(0x1C) == 1
    drive.close()


def test_the_nature_of_a_drive_is_honest_unless_it_is_told() -> None:
    nature = Nature()
    assert nature.plain
    assert nature.shows is not None
    assert nature.truth() == Truth({}, {})
