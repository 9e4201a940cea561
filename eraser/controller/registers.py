"""What only a controller's registers tell: memory that a host maps, and boot partitions on drives
older than NVMe 2.0.

Read from BAR 0 through sysfs. Many kernels let nobody look while a driver has the drive
(CONFIG_IO_STRICT_DEVMEM without ``iomem=relaxed``).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.host.sysfs import PciFunction
from eraser.protocol.condition import Buffer

_BPS, _PMRS, _CMBS = 1 << 45 - 32, 1 << 56 - 32, 1 << 57 - 32
"""CAP bits 45, 56 and 57, in its upper half (Base 2.0, 3.1.3.1)."""
_CAP, _CMBSZ, _BPINFO = 0x00 // 4, 0x3C // 4, 0x40 // 4
"""Offsets in words of 32 bits (Base 2.0, figure 35)."""
_ABSENT = 0xFFFF_FFFF
"""What a read gives where no controller answers."""


@dataclass(frozen=True)
class Registers:
    """``boot_info`` is BPINFO (Base 2.0, 3.1.3.13); 0 on a controller without boot partitions."""

    boot_info: int
    buffers: tuple[Buffer, ...] = ()


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
            capabilities, size, info = words[_CAP + 1], words[_CMBSZ], words[_BPINFO]
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    if capabilities == _ABSENT:
        return None
    return Registers(info if capabilities & _BPS else 0, tuple(_buffers(capabilities, size)))


def _buffers(capabilities: int, size: int) -> Iterator[Buffer]:
    # A drive older than NVMe 1.4 has no bit for its CMB, a newer one shows no size before a host
    # has asked for it (CMBMSC.CRE; Base 2.0, 3.1.3.12 and 3.1.3.16).
    if capabilities & _CMBS or size >> 12:
        yield Buffer.CMB
    if capabilities & _PMRS:
        yield Buffer.PMR


def by_driver(function: PciFunction, name: str) -> tuple[Buffer, ...]:
    """What the kernel's driver tells of controller ``name`` where nobody else may look: its
    attribute ``cmb`` (nvme_map_cmb in drivers/nvme/host/pci.c, since Linux 4.5). It knows no PMR.
    """
    attribute = function.host.path(f"{function.directory}/nvme/{name}/cmb")
    return (Buffer.CMB,) if attribute.exists() else ()
