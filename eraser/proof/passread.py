"""Reading a block by a Read command of our own, where the kernel's read failed: the drive says why.

The kernel turns every failure into an errno. The status behind it tells a bad medium from a block
that holds nothing, or from a checksum that an erase cannot keep: only the first is a fault of the
drive. By ioctl and not by nvme-cli: a namespace with protection information that was erased by
changing its key fails every single read of the kernel's, and a process for each would take hours.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import struct
import time
from dataclasses import dataclass, field
from typing import Protocol

from eraser.drive.passthru import STATUS_MASK, means_later
from eraser.drive.spec import IdentifyNamespace

LOG = logging.getLogger(__name__)

READ = 0x02
"""NVM command set opcode (NVM 1.0, figure 17)."""

_IO_CMD = 0xC0484E43
"""NVME_IOCTL_IO_CMD: _IOWR('N', 0x43, struct nvme_passthru_cmd) (linux/nvme_ioctl.h)."""

_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
"""struct nvme_passthru_cmd: opcode, flags, rsvd1, nsid, cdw2, cdw3, metadata, addr, metadata_len,
data_len, cdw10 to cdw15, timeout_ms, result."""

_PRACT = 1 << 29
"""Command dword 12 (NVM 1.0, figure 46): the controller takes the protection information away, and
with PRCHK (28:26) at 0 checks none of it. 8 bytes of metadata are then not transferred at all."""
_PI_BYTES = 8
_PAUSE = 0.25
"""Seconds before a drive that says "later" is asked again."""

MEDIA_STATUS = range(0x280, 0x300)
"""SCT 2: media and data integrity errors."""
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

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def wait(self) -> bool:
        """Waits a little; at once and with False where the time is over."""
        if self._left <= 0:
            return False
        self._left -= _PAUSE
        time.sleep(_PAUSE)
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

    nsid: int
    block_bytes: int
    metadata_bytes: int
    extended: bool
    """Metadata comes with the data of each block, not in a buffer of its own (FLBAS bit 4)."""
    protected: bool
    timeout: float
    """Seconds, as the kernel's own for each command."""
    patience: Patience = field(default_factory=lambda: Patience(0.0), compare=False)
    """Of the whole reading: all namespaces have it together."""

    @classmethod
    def of(
        cls, nsid: int, namespace: IdentifyNamespace, timeout: float, patience: Patience
    ) -> PassthroughReader:
        """From Identify Namespace."""
        return cls(
            nsid,
            namespace.block_bytes,
            namespace.metadata_bytes,
            namespace.extended_metadata,
            bool(namespace.protection & 7),
            timeout,
            patience,
        )

    @property
    def _stripped(self) -> bool:
        return self.protected and self.metadata_bytes == _PI_BYTES

    def read(self, fd: int, offset: int, into: memoryview) -> int | None:
        """As :class:`Rescue` has it. A drive that says "later" is asked again while there is
        patience: the kernel asks five times and gives up within milliseconds."""
        while (status := self._read(fd, offset, into)) is not None and means_later(status):
            if not self.patience.wait():
                break
        return None if status is None else status & STATUS_MASK

    def _read(self, fd: int, offset: int, into: memoryview) -> int | None:
        """One Read; all 15 bits of its status."""
        count = len(into) // self.block_bytes
        metadata = 0 if self._stripped else self.metadata_bytes
        step = self.block_bytes + (metadata if self.extended else 0)
        data = bytearray(count * step)
        beside = bytearray(0 if self.extended else count * metadata)
        first = offset // self.block_bytes
        command = bytearray(
            _COMMAND.pack(
                READ, 0, 0, self.nsid, 0, 0, _address(beside), _address(data),
                len(beside), len(data), first & 0xFFFFFFFF, first >> 32,
                (count - 1) | (_PRACT if self._stripped else 0), 0, 0, 0,
                max(1, int(self.timeout * 1000)), 0,
            )
        )  # fmt: skip
        try:
            status = int(fcntl.ioctl(fd, _IO_CMD, command, True))
        except OSError as error:
            LOG.debug("namespace %d: Read of %d blocks at %d: %s", self.nsid, count, first, error)
            return None
        if status == 0:
            for at in range(count):
                block = data[at * step : at * step + self.block_bytes]
                into[at * self.block_bytes : (at + 1) * self.block_bytes] = block
        return status


def _address(buffer: bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if buffer else 0
