"""Counters that every command touches, in a memory-mapped file.

They must be true after the server was killed, and cheap enough to be raised by each 4 KiB read:
a shared mapping is both, the page cache keeps it when the process dies.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from pathlib import Path


class Counter(IntEnum):
    """Index of each counter; new ones go to the end."""

    SECTORS_READ = 0  # 512-byte units
    SECTORS_WRITTEN = 1
    HOST_READS = 2
    HOST_WRITES = 3
    POWER_CYCLES = 4
    POWER_ON_MILLISECONDS = 5
    UNSAFE_SHUTDOWNS = 6
    MEDIA_ERRORS = 7
    ERROR_LOG_ENTRIES = 8
    COMMANDS = 9
    POWERED_UNCLEANLY = 10  # 1 from the first use after power-on until a shutdown notification
    DEALLOCATES = 11
    FLUSHES = 12


_FILE_BYTES = 4096


class Counters:
    """64-bit counters by name."""

    def __init__(self, path: Path) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, _FILE_BYTES)
            self._map = mmap.mmap(fd, _FILE_BYTES)
        finally:
            os.close(fd)
        self._values = memoryview(self._map).cast("Q")

    def __getitem__(self, counter: Counter) -> int:
        return self._values[counter]

    def __setitem__(self, counter: Counter, value: int) -> None:
        self._values[counter] = value

    def add(self, counter: Counter, amount: int = 1) -> int:
        """Raise a counter; the new value."""
        value = self._values[counter] + amount
        self._values[counter] = value
        return value

    def as_dict(self) -> dict[str, int]:
        """All counters by lower-case name, for the control socket."""
        return {counter.name.lower(): self._values[counter] for counter in Counter}

    def close(self) -> None:
        """Release the mapping; the file stays."""
        self._values.release()
        self._map.close()
