"""What only a controller's registers tell: boot partitions, on drives older than NVMe 2.0.

Read from BAR 0 through sysfs. Many kernels let nobody look while a driver has the drive
(CONFIG_IO_STRICT_DEVMEM without ``iomem=relaxed``).
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass

from eraser.drive.sysfs import PciFunction

_BPS = 1 << 45 - 32
"""CAP bit 45, in its upper half (Base 2.0, 3.1.3.1)."""
_CAP, _BPINFO = 0x00 // 4, 0x40 // 4
"""Offsets in words of 32 bits (Base 2.0, figure 35)."""
_ABSENT = 0xFFFF_FFFF
"""What a read gives where no controller answers."""


@dataclass(frozen=True)
class Registers:
    """``boot_info`` is BPINFO (Base 2.0, 3.1.3.13); 0 on a controller without boot partitions."""

    boot_info: int


def read(function: PciFunction) -> Registers | None:
    """None where the kernel, or the controller, tells nobody."""
    try:
        descriptor = os.open(
            function.host.path(f"{function.directory}/resource0"), os.O_RDONLY | os.O_CLOEXEC
        )
    except OSError:
        return None
    try:
        with (
            mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ) as window,
            memoryview(window) as raw,
            raw.cast("I") as words,
        ):
            capabilities, info = words[_CAP + 1], words[_BPINFO]
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    if capabilities == _ABSENT:
        return None
    return Registers(info if capabilities & _BPS else 0)
