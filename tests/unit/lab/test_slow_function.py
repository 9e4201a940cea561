"""A function that takes its time, has boot partitions, or sits on a narrow link."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.lab.nvme.profile import DriveProfile, PciIds
from tests.lab.nvme.server import DriveServer
from tests.unit.lab.guest import TIMEOUT_SECONDS, TinyGuest

PROFILE = DriveProfile(size=1 << 20)
EXPRESS = 0x50
CSTS, CC, BPINFO = 0x1C, 0x14, 0x40


@contextlib.contextmanager
def plugged(directory: Path, profile: DriveProfile) -> Iterator[TinyGuest]:
    """A guest with the drive in it, not enabled."""
    socket = directory / "a.sock"
    with DriveServer(profile, directory / "d.raw", [socket]), TinyGuest(socket) as guest:
        yield guest


def until(guest: TinyGuest, wanted: int) -> float:
    """Seconds until CSTS has a value."""
    begun = time.monotonic()
    while guest.register(CSTS) != wanted:
        assert time.monotonic() < begun + TIMEOUT_SECONDS
        time.sleep(0.01)
    return time.monotonic() - begun


def test_it_is_ready_some_time_after_it_was_enabled(tmp_path: Path) -> None:
    with plugged(tmp_path, replace(PROFILE, ready_seconds=0.3)) as guest:
        guest.write_region(0, 0x24, struct.pack("<I", 31 << 16 | 31))
        for _ in range(2):
            guest.write_region(0, CC, struct.pack("<I", 4 << 20 | 6 << 16 | 1))
            assert guest.register(CSTS) == 0
            assert until(guest, 1) > 0.1
            guest.write_region(0, CC, struct.pack("<I", 0))
            assert guest.register(CSTS) == 0


def test_it_answers_some_time_after_a_function_level_reset(tmp_path: Path) -> None:
    with plugged(tmp_path, replace(PROFILE, flr_seconds=0.3)) as guest:
        guest.enable()
        guest.write_region(7, EXPRESS + 8, struct.pack("<H", 1 << 15))
        assert guest.register(CSTS) == 0xFFFFFFFF
        assert until(guest, 0) > 0.1
        guest.enable()


def test_a_function_that_was_never_enabled_answers_at_once_after_a_reset(tmp_path: Path) -> None:
    with plugged(tmp_path, replace(PROFILE, flr_seconds=30)) as guest:
        guest.write_region(7, EXPRESS + 8, struct.pack("<H", 1 << 15))
        assert guest.register(CSTS) == 0


def test_boot_partitions_are_in_the_registers(tmp_path: Path) -> None:
    with plugged(tmp_path, replace(PROFILE, boot_partition_units=3)) as guest:
        assert guest.register(0, 8) >> 45 & 1
        assert guest.register(BPINFO) & 0x7FFF == 3
    (tmp_path / "none").mkdir()
    with plugged(tmp_path / "none", PROFILE) as guest:
        assert guest.register(0, 8) >> 45 & 1 == 0
        assert guest.register(BPINFO) == 0


def test_a_link_may_be_narrower_than_it_could(tmp_path: Path) -> None:
    with plugged(tmp_path, replace(PROFILE, pci=PciIds(link_width_now=1))) as guest:
        config = guest.read_region(7, 0, 256)
    (able,) = struct.unpack_from("<I", config, EXPRESS + 0x0C)
    (now,) = struct.unpack_from("<H", config, EXPRESS + 0x12)
    assert (able & 0xF, able >> 4 & 0x3F) == (4, 4)
    assert (now & 0xF, now >> 4 & 0x3F) == (4, 1)
