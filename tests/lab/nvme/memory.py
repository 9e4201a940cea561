"""The host's memory as a command sees it: the buffers that its PRPs name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.lab.nvme.errors import DriveError


class DmaFault(DriveError):
    """A command points at memory that the host has not given to the drive."""


class Host(Protocol):
    """Where a command's data comes from or goes to."""

    def buffers(self, length: int) -> Sequence[memoryview]:
        """Writable views of the command's first ``length`` bytes. Raises DmaFault."""

    def metadata(self, length: int) -> memoryview | None:
        """A writable view of its metadata buffer, None where it names none. Raises DmaFault."""


def pull(host: Host, length: int) -> bytes:
    """Data that the host sends with a command."""
    return b"".join(host.buffers(length))


def push(host: Host, data: bytes) -> None:
    """Data for the host."""
    at = 0
    for buffer in host.buffers(len(data)):
        buffer[:] = data[at : at + len(buffer)]
        at += len(buffer)
