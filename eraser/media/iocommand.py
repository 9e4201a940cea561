"""I/O commands of our own to one namespace, past the block layer: the drive says what it did.

By ioctl and not by nvme-cli: thousands of them, and a process for each would take hours.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from eraser.controller.spec import IdentifyNamespace
from eraser.host.sysfs import Host

LOG = logging.getLogger(__name__)

FLUSH, WRITE, READ, COMPARE, WRITE_ZEROES, DATASET_MANAGEMENT = 0x00, 0x01, 0x02, 0x05, 0x08, 0x09
"""NVM command set opcodes (NVM 1.0, figure 17)."""

FUA, LIMITED_RETRY = 1 << 30, 1 << 31
"""Command dword 12 of Read, Write and Compare (NVM 1.0, figures 35, 46 and 63)."""

_DEALLOCATE = 1 << 2
"""Dword 11 of Dataset Management (NVM 1.0, figure 43: AD)."""
RANGES = 256
"""Of one Dataset Management at most (NVM 1.0, figure 42: NR)."""

_IO_CMD = 0xC0484E43
"""NVME_IOCTL_IO_CMD: _IOWR('N', 0x43, struct nvme_passthru_cmd) (linux/nvme_ioctl.h)."""

_COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
"""struct nvme_passthru_cmd: opcode, flags, rsvd1, nsid, cdw2, cdw3, metadata, addr, metadata_len,
data_len, cdw10 to cdw15, timeout_ms, result."""

_PRACT = 1 << 29
"""Command dword 12 (NVM 1.0, figure 46): the controller takes the protection information away, and
with PRCHK (28:26) at 0 checks none of it. 8 bytes of metadata are then not transferred at all."""
_PI_BYTES = 8


@dataclass(frozen=True)
class Namespace:
    """How the blocks of a namespace travel."""

    nsid: int
    block_bytes: int
    metadata_bytes: int
    extended: bool
    """Metadata comes with the data of each block, not in a buffer of its own (FLBAS bit 4)."""
    protected: bool
    timeout: float
    """Seconds, as the kernel's own for each command."""
    host: Host = field(compare=False, repr=False)
    """By whose door they go."""

    @classmethod
    def of(cls, nsid: int, found: IdentifyNamespace, timeout: float, host: Host) -> Namespace:
        """From Identify Namespace."""
        return cls(
            nsid,
            found.block_bytes,
            found.metadata_bytes,
            found.extended_metadata,
            bool(found.protection & 7),
            timeout,
            host,
        )

    @property
    def _stripped(self) -> bool:
        return self.protected and self.metadata_bytes == _PI_BYTES

    def transfer(
        self,
        fd: int,
        opcode: int,
        first: int,
        content: bytearray | memoryview,
        *,
        flags: int = 0,
        hints: int = 0,
    ) -> int | None:
        """One Read, Write or Compare of whole blocks from block ``first`` on.

        ``content`` (writable memory) is filled by a Read and sent by the others; ``flags`` goes
        into dword 12, ``hints`` into dword 13. All 15 bits of the status; None where no completion
        was seen.
        """
        size = self.block_bytes
        count = len(content) // size
        metadata = 0 if self._stripped else self.metadata_bytes
        step = size + (metadata if self.extended else 0)
        data = content if step == size else pages(count * step)
        beside = bytearray(0 if self.extended else count * metadata)
        # Extended LBAs: each block's data is followed by its metadata, which is zeros here.
        if data is not content and opcode != READ:
            for at in range(count):
                data[at * step : at * step + size] = content[at * size : (at + 1) * size]
        flags |= _PRACT if self._stripped else 0
        status = self.send(
            fd, opcode, data, beside, (first & 0xFFFFFFFF, first >> 32, (count - 1) | flags, hints)
        )
        if data is not content and opcode == READ and status == 0:
            for at in range(count):
                content[at * size : (at + 1) * size] = data[at * step : at * step + size]
        return status

    def deallocate(self, fd: int, ranges: Sequence[tuple[int, int]]) -> int | None:
        """One Dataset Management that says of so many ranges (first block, count), 256 at most,
        that nobody wants their data. The status as in :meth:`transfer`. Raises ``ValueError`` for
        another number of ranges."""
        if not 0 < len(ranges) <= RANGES:
            raise ValueError(f"expected 1 to {RANGES} ranges, found {len(ranges)}")
        data = bytearray().join(struct.pack("<IIQ", 0, count, first) for first, count in ranges)
        # NR counts from 0.
        dwords = (len(ranges) - 1, _DEALLOCATE, 0, 0)
        return self.send(fd, DATASET_MANAGEMENT, data, bytearray(), dwords)

    def send(
        self,
        fd: int,
        opcode: int,
        data: bytearray | memoryview,
        beside: bytearray | memoryview,
        dwords: tuple[int, int, int, int],
    ) -> int | None:
        """One I/O command with dwords 10 to 13; the status as in :meth:`transfer`."""
        command = bytearray(
            _COMMAND.pack(
                opcode, 0, 0, self.nsid, 0, 0, _address(beside), _address(data),
                # At least 1 ms: the kernel takes 0 for its own default.
                len(beside), len(data), *dwords, 0, 0, max(1, int(self.timeout * 1000)), 0,
            )
        )  # fmt: skip
        try:
            return self.host.devices.ioctl(fd, _IO_CMD, command)
        except OSError as error:
            LOG.debug("namespace %d: opcode %#x: %s", self.nsid, opcode, error)
            # The kernel made the command fail: the drive has said nothing of it.
            return None


def pages(length: int) -> memoryview:
    """Memory that begins with a page: some drives take no other start, and say 13h (nvme-cli #2016,
    smartmontools #193)."""
    return memoryview(mmap.mmap(-1, length))


def _address(buffer: bytearray | memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if buffer else 0
