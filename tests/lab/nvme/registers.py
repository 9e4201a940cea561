"""BAR 0 as a host reads it (Base 3.1.3). Pure."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tests.lab.nvme.pci import BUFFER_BAR
from tests.lab.nvme.profile import DriveProfile

MAX_QUEUE_ENTRIES = 1024

CC, NSSR, AQA, ASQ, ACQ = 0x14, 0x20, 0x24, 0x28, 0x30
CMBMSC, PMRCAP, PMRCTL = 0x50, 0xE00, 0xE04

NVME = 0x4E564D65
"""What has to be written to NSSR (Base 3.1.3.7)."""

_CAP = (MAX_QUEUE_ENTRIES - 1) | 1 << 16 | 30 << 24 | 1 << 37  # CQR, TO = 15 s, NVM commands
_CAP_SUBSYSTEM_RESET, _CAP_BOOT_PARTITIONS, _CAP_PMR, _CAP_CMB = 1 << 36, 1 << 45, 1 << 56, 1 << 57
_FIRST = struct.Struct("<QIIIIIIIIQQIII")  # CAP ... ACQ, CMBLOC, CMBSZ, BPINFO: 0x00 to 0x43
_PMR = struct.Struct("<III")  # PMRCAP, PMRCTL, PMRSTS
_READS_AND_WRITES = 3 << 3
"""RDS and WDS, at the same bits of CMBSZ and of PMRCAP: no queues are in it, data may be."""


@dataclass(frozen=True, slots=True)
class Registers:
    """What a function has in them; ``cmb_shown`` is CMBMSC.CRE, ``pmr_enabled`` PMRCTL.EN."""

    mask: int
    cc: int
    csts: int
    aqa: int
    asq: int
    acq: int
    cmb_shown: bool
    pmr_enabled: bool


def read(profile: DriveProfile, now: Registers, offset: int, length: int) -> bytes:
    """``length`` bytes from ``offset``; zeros where there is no register."""
    boot, buffer = profile.boot_partition_units, profile.buffer
    cmb = buffer is not None and not buffer.persistent
    pmr = buffer is not None and buffer.persistent
    shown = buffer if cmb and now.cmb_shown else None
    found = _FIRST.pack(
        _CAP
        | _CAP_BOOT_PARTITIONS * (boot > 0)
        | _CAP_SUBSYSTEM_RESET * profile.subsystem_reset
        | _CAP_CMB * cmb
        | _CAP_PMR * pmr,
        profile.version,
        now.mask,
        now.mask,
        now.cc,
        0,
        now.csts,
        0,
        now.aqa,
        now.asq,
        now.acq,
        BUFFER_BAR if shown else 0,
        shown.size | _READS_AND_WRITES if shown else 0,  # in units of 4 KiB
        boot,
    )
    if pmr:
        found = found.ljust(PMRCAP, b"\0")
        found += _PMR.pack(BUFFER_BAR << 5 | _READS_AND_WRITES, now.pmr_enabled, 0)
    return found[offset : offset + length].ljust(length, b"\0")
