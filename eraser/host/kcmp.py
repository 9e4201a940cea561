"""Whether two tasks share one table of descriptors: kcmp(2), KCMP_FILES."""

from __future__ import annotations

import ctypes
import platform

_NUMBERS = {"x86_64": 312, "aarch64": 272}
"""The C library has no function for it (asm/unistd_64.h, asm-generic/unistd.h)."""
_FILES = 2
"""linux/kcmp.h."""

_LIBC = ctypes.CDLL(None)


def same_files(one: int, other: int) -> bool:
    """False also where nobody can tell: the two are then looked at one by one."""
    number = _NUMBERS.get(platform.machine())
    return number is not None and _LIBC.syscall(number, one, other, _FILES, 0, 0) == 0
