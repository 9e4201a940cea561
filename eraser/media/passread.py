"""Reading a block by a Read command of our own, where the kernel's read failed: the drive says why.

The kernel turns every failure into an errno. The status behind it tells a bad medium from a block
that holds nothing, or from a checksum that an erase cannot keep: only the first is a fault of the
drive. By ioctl and not by nvme-cli: a namespace with protection information that was erased by
changing its key fails every single read of the kernel's, and a process for each would take hours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from eraser.clock import Clock
from eraser.controller.passthru import STATUS_MASK, may_read_again
from eraser.media.iocommand import READ, Namespace, pages

_PAUSE = 0.25
"""Seconds before a drive that says "later" is asked again."""

UNWRITTEN = 0x287
"""Deallocated or Unwritten Logical Block (NVM 1.0, figure 20): DULBE is on."""

_NAMES = {
    0x01D: "sanitize in progress",
    0x01C: "sanitize failed",
    0x281: "unrecovered read error",
    0x282: "guard check error",
    0x283: "application tag check error",
    0x284: "reference tag check error",
    0x286: "access denied: locked",
    UNWRITTEN: "deallocated or unwritten block",
}


def status_text(status: int | None) -> str:
    """A status for people: its number and, where we know it, its name in the standard."""
    if status is None:
        return "no completion"
    name = _NAMES.get(status)
    return f"status {status:#05x}" + (f", {name}" if name else "")


class Patience:
    """Seconds that a case's reading may wait in all for a drive that says "later"."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._left = seconds
        self._clock = clock

    def wait(self) -> bool:
        """Waits a little; at once and with False where the time is over."""
        if self._left <= 0:
            return False
        self._left -= _PAUSE
        self._clock.sleep(_PAUSE)
        return True


class Rescue(Protocol):
    """A second way to read, for blocks that the kernel could not."""

    def read(self, fd: int, offset: int, into: memoryview) -> int | None:
        """Fills ``into`` (writable memory) from byte ``offset`` of the namespace open as ``fd``.

        Returns the status (SCT and SC; 0: it is filled), None where no completion was seen.
        """
        ...


@dataclass(frozen=True)
class PassthroughReader:
    """Read commands to one namespace, none of its protection information checked."""

    namespace: Namespace
    patience: Patience = field(compare=False)
    """Of the whole reading: all namespaces have it together."""

    def read(self, fd: int, offset: int, into: memoryview) -> int | None:
        """As :class:`Rescue` has it. A drive that says "later" is asked again while there is
        patience: the kernel asks five times and gives up within milliseconds."""
        first, found = offset // self.namespace.block_bytes, pages(len(into))
        while True:
            status = self.namespace.transfer(fd, READ, first, found)
            if status is None:
                return None
            # Copied only after a success: what a failed read left in memory is nobody's content.
            if status == 0:
                into[:] = found
            if not may_read_again(status) or not self.patience.wait():
                return status & STATUS_MASK
