"""Which device node a path is, without asking a file server: statx(2) by the C library.

``os.stat`` of a file on a network or FUSE mount waits for its server, and one that is gone never
answers. AT_STATX_DONT_SYNC with an empty mask takes what the kernel has in memory. (Python has no
``os.statx`` before 3.15.)
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct

_AT_FDCWD = -100
_AT_STATX_DONT_SYNC = 0x4000
"""linux/fcntl.h."""
_SIZE = 256
"""struct statx (linux/stat.h)."""
_MODE = struct.Struct("=H")
_MODE_AT = 28
_NUMBERS = struct.Struct("=4I")
"""stx_rdev_major, stx_rdev_minor, stx_dev_major, stx_dev_minor."""
_NUMBERS_AT = 128

_LIBC = ctypes.CDLL(None, use_errno=True)


def device(path: os.PathLike[str]) -> tuple[bool, int] | None:
    """Block or not, and st_rdev, of the device node at ``path``; None for any other file.

    A file whose type its file system keeps from us (FUSE, mounted by another user) is on no device
    of its own, and such a mount never has device nodes. Raises ``OSError``.
    """
    found = ctypes.create_string_buffer(_SIZE)
    name = os.fsencode(path)
    if _LIBC.statx(_AT_FDCWD, name, _AT_STATX_DONT_SYNC, 0, found):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(path))
    [mode] = _MODE.unpack_from(found, _MODE_AT)
    major, minor, on, _minor = _NUMBERS.unpack_from(found, _NUMBERS_AT)
    # No type although the file is on a device: it could be anything, so nobody may take it for
    # none.
    if not stat.S_IFMT(mode) and on:
        raise OSError(0, "no type, on a device", os.fspath(path))
    if not (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
        return None
    return stat.S_ISBLK(mode), os.makedev(major, minor)
