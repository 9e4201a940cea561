"""Which programs have a device open and keep nobody else out: QEMU, a database, dd.

An exclusive open does not see them. A descriptor is judged by the device behind it, as containers
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

_KIND = stat.S_IFBLK
_PASSING_S = 5.0
"""udev, blkid and their like look at a drive for a moment; who has it longer uses it."""
_PAUSE_S = 0.25

_AT_FDCWD = -100
_AT_STATX_DONT_SYNC = 0x4000
"""linux/fcntl.h; struct statx (linux/stat.h) has its mode at 28, stx_rdev_major at 128."""
_STATX_LENGTH = 256
_LIBC = ctypes.CDLL(None)


def lasting(numbers: Mapping[int, str]) -> dict[str, tuple[str, ...]]:
    """By name of a device, who has it open and does not go away. ``numbers`` are st_rdev."""
    end = time.monotonic() + _PASSING_S
    while True:
        found = openers(numbers)
        if not found or time.monotonic() > end:
            return found
        numbers = {number: name for number, name in numbers.items() if name in found}
        time.sleep(_PAUSE_S)


def openers(numbers: Mapping[int, str], proc: Path = Path("/proc")) -> dict[str, tuple[str, ...]]:
    """By name of a device, who has it open now. (This process has none open meanwhile.)"""
    found: dict[str, list[str]] = {}
    for process in sorted(int(name) for name in os.listdir(proc) if name.isdecimal()):
        for name in sorted(_opened(proc / str(process) / "fd", numbers)):
            found.setdefault(name, []).append(f"{_command(proc, process)} (process {process})")
    return {name: tuple(who) for name, who in found.items()}


def _opened(table: Path, numbers: Mapping[int, str]) -> set[str]:
    try:
        entries = os.listdir(table)
    except OSError:
        # It ended.
        return set()
    found = {numbers.get(_number(table / entry)) for entry in entries}
    return {name for name in found if name is not None}


def _command(proc: Path, process: int) -> str:
    try:
        return plain((proc / str(process) / "comm").read_text(errors="replace").strip())
    except OSError:
        return "a program"


def _number(path: Path) -> int:
    """st_rdev of the block device that a path leads to; 0 for anything else, and for nothing."""
    if not hasattr(_LIBC, "statx"):
        try:
            status = path.stat()
        except OSError:
            return 0
        return status.st_rdev if stat.S_IFMT(status.st_mode) == _KIND else 0
    room = ctypes.create_string_buffer(_STATX_LENGTH)
    if _LIBC.statx(_AT_FDCWD, os.fsencode(path), _AT_STATX_DONT_SYNC, 0, room):
        return 0
    (mode,) = struct.unpack_from("=H", room, 28)
    return os.makedev(*struct.unpack_from("=II", room, 128)) if stat.S_IFMT(mode) == _KIND else 0
