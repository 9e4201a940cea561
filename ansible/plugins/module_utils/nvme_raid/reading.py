"""Reading a device past the page cache, a little here and there."""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager

EDGE = 1 << 20
"""Bytes read whole at either end: partition tables and nearly all superblocks are there."""
SCATTERED = 64
"""Further blocks, at random places."""
_BLOCK = 4096


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor for direct reading."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def read(fd: int, offset: int, length: int) -> bytes:
    """Bytes at an offset, both multiples of 4096; shorter only at the end. Raises ``OSError``."""
    with mmap.mmap(-1, length) as window:
        return bytes(window[: os.preadv(fd, [window], offset)])


def places(size: int, *, seed: int) -> list[tuple[int, int]]:
    """Offsets and lengths to look at on a device of ``size`` bytes; the head comes first."""
    end = size // _BLOCK * _BLOCK
    if end <= 2 * EDGE:
        return [(0, end)] if end else []
    blocks = range(EDGE // _BLOCK, (end - EDGE) // _BLOCK)
    chosen = random.Random(seed).sample(blocks, min(SCATTERED, len(blocks)))  # noqa: S311
    return [(0, EDGE), (end - EDGE, EDGE), *((block * _BLOCK, _BLOCK) for block in sorted(chosen))]


def is_busy(path: str) -> bool:
    """Whether somebody has the device for themselves: a mount, an array, swap, a program."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    os.close(fd)
    return False
