"""Which programs have a device open and keep nobody else out: QEMU, a database, dd.

An exclusive open does not see them, nor who has a namespace's character device (``ng0n1``), which
goes past every claim on the disk. A descriptor is judged by the device behind it, as containers
have nodes of their own, and by what the kernel has in memory: a file server that is gone never
answers ``os.stat``. Not seen: files that an io_uring holds without a descriptor, and closed ones
that are still mapped.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from .sysfs import plain

Numbers = Mapping[tuple[bool, int], str]
"""Names of devices by block or not, and st_rdev."""

_PASSING_S = 5.0
"""udev, blkid and their like look at a drive for a moment; who has it longer uses it."""
_PAUSE_S = 0.25

_AT_FDCWD = -100
_AT_STATX_DONT_SYNC = 0x4000
"""linux/fcntl.h; struct statx (linux/stat.h) has its mode at 28, stx_rdev_major at 128."""
_STATX_LENGTH = 256
_LIBC = ctypes.CDLL(None)


def lasting(numbers: Numbers) -> tuple[dict[str, tuple[str, ...]], bool]:
    """By name of a device, who has it open and does not go away; and whether anybody did go, who
    may have written there meanwhile."""
    end = time.monotonic() + _PASSING_S
    first: set[str] = set()
    while True:
        found = openers(numbers)
        first = first or set(found)
        if not found or time.monotonic() > end:
            return found, bool(first - set(found))
        numbers = {number: name for number, name in numbers.items() if name in found}
        time.sleep(_PAUSE_S)


def openers(numbers: Numbers, proc: Path = Path("/proc")) -> dict[str, tuple[str, ...]]:
    """By name of a device, who has it open now. (This process has none open meanwhile.)"""
    found: dict[str, list[str]] = {}
    for process in sorted(int(name) for name in os.listdir(proc) if name.isdecimal()):
        for name in sorted(_opened(proc / str(process), numbers)):
            found.setdefault(name, []).append(f"{_command(proc, process)} (process {process})")
    return {name: tuple(who) for name, who in found.items()}


def _opened(process: Path, numbers: Numbers) -> set[str]:
    entries = _listed(process / "fd")
    if not entries:
        # One whose first thread has ended shows none: its other threads do.
        entries = [path for task in _listed(process / "task") for path in _listed(task / "fd")]
    found = {numbers.get(_device(path)) for path in entries}
    return {name for name in found if name is not None}


def _listed(directory: Path) -> list[Path]:
    try:
        return [directory / name for name in os.listdir(directory)]
    except OSError:
        # It ended.
        return []


def _command(proc: Path, process: int) -> str:
    try:
        return plain((proc / str(process) / "comm").read_text(errors="replace").strip())
    except OSError:
        return "a program"


def _device(path: Path) -> tuple[bool, int]:
    """Block or not, and st_rdev, of the device that a path leads to; number 0 for anything else,
    and for nothing."""
    if not hasattr(_LIBC, "statx"):
        try:
            status = path.stat()
        except OSError:
            return False, 0
        return _told(status.st_mode, status.st_rdev)
    room = ctypes.create_string_buffer(_STATX_LENGTH)
    if _LIBC.statx(_AT_FDCWD, os.fsencode(path), _AT_STATX_DONT_SYNC, 0, room):
        return False, 0
    (mode,) = struct.unpack_from("=H", room, 28)
    return _told(mode, os.makedev(*struct.unpack_from("=II", room, 128)))


def _told(mode: int, number: int) -> tuple[bool, int]:
    block = stat.S_ISBLK(mode)
    return block, number if block or stat.S_ISCHR(mode) else 0
