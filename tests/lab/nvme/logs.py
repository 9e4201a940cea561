"""Log pages (Base 5.16.1)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.lab.nvme.counters import Counter
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.spec import (
    GLOBAL_DATA_ERASED,
    SPROG_IDLE,
    AdminOp,
    Lid,
    NvmOp,
    SanitizeStatus,
)
from tests.lab.nvme.state import DriveState, FirmwareState

_SUPPORTED, _CONTENT_CHANGES, _CAPABILITY_CHANGES = 1 << 0, 1 << 1, 1 << 2
_INVENTORY_CHANGES = 1 << 3
_ALONE = 2 << 16  # CSE 010b: no other command to any namespace at the same time

_ADMIN_EFFECTS: dict[int, int] = {
    AdminOp.FORMAT_NVM: _SUPPORTED | _CONTENT_CHANGES | _CAPABILITY_CHANGES | _ALONE,
    AdminOp.SANITIZE: _SUPPORTED | _CONTENT_CHANGES | _ALONE,
    AdminOp.NAMESPACE_MANAGEMENT: _SUPPORTED | _CAPABILITY_CHANGES | _INVENTORY_CHANGES,
    AdminOp.NAMESPACE_ATTACHMENT: _SUPPORTED | _INVENTORY_CHANGES,
}
_PURGED = 1 << 11
"""SSTAT bit 11, PRGD: after Base 2.0; as nvme-cli of 2026 shows it."""
_MEDIA_VERIFICATION = 5
"""SSI, byte 36 of log 81h (Base 2.1, 5.1.12.1.33)."""

BOOT_UNIT = 128 << 10
"""Bytes of one unit of BPINFO's size of a boot partition."""

_EFFECTS_CHANGING_IO = (NvmOp.WRITE, NvmOp.WRITE_ZEROES, NvmOp.DATASET_MANAGEMENT)


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One error (Base 5.16.1.2); ``status`` is the 15-bit status field."""

    count: int
    queue: int
    cid: int
    status: int
    lba: int
    nsid: int


def sanitize_status(
    profile: DriveProfile,
    state: DriveState,
    reported_cdw10: int | None = None,
    progress: Callable[[int], int] = int,
    *,
    purges: bool = True,
) -> bytes:
    """Log 81h, 512 bytes; ``reported_cdw10`` in place of the true SCDW10.

    ``progress`` is what the drive makes of the true SPROG of a running operation. One that does not
    ``purges`` says so where it is asked to.
    """
    now, abilities = state.sanitize, profile.sanitize
    busy = now.running and not now.verifying
    sprog = progress(min(int(now.progress * 65536), 0xFFFE)) if busy else SPROG_IDLE
    sstat = now.status | now.passes_done << 3 | GLOBAL_DATA_ERASED * now.data_erased
    asked = now.cdw10 >> 11 & 1  # PREQ
    sstat |= _PURGED * (asked and purges and now.status == SanitizeStatus.SUCCESS)
    estimates = (
        abilities.estimate_overwrite,
        abilities.estimate_block,
        abilities.estimate_crypto,
    )
    cdw10 = now.cdw10 if reported_cdw10 is None else reported_cdw10
    times = (*estimates, *estimates, 0)
    machine = _MEDIA_VERIFICATION if now.verifying else 0
    return struct.pack("<HHI7IB", sprog, sstat, cdw10, *times, machine).ljust(512, b"\0")


def smart(profile: DriveProfile, state: DriveState, counters: Mapping[Counter, int]) -> bytes:
    """Log 02h, 512 bytes. Data units are thousands of 512-byte sectors, rounded up."""
    health = state.smart
    data = bytearray(512)
    struct.pack_into(
        "<BHBBB",
        data,
        0,
        health.critical_warning,
        health.temperature_kelvin,
        health.spare_percent,
        health.spare_threshold_percent,
        health.percentage_used,
    )
    hours = profile.smart.power_on_hours
    values = {
        32: -(-counters[Counter.SECTORS_READ] // 1000),
        48: -(-counters[Counter.SECTORS_WRITTEN] // 1000),
        64: counters[Counter.HOST_READS],
        80: counters[Counter.HOST_WRITES],
        112: counters[Counter.POWER_CYCLES],
        128: hours + counters[Counter.POWER_ON_MILLISECONDS] // 3_600_000,
        144: counters[Counter.UNSAFE_SHUTDOWNS],
        160: counters[Counter.MEDIA_ERRORS],
        176: counters[Counter.ERROR_LOG_ENTRIES],
    }
    for offset, value in values.items():
        struct.pack_into("<Q", data, offset, value)
    struct.pack_into("<H", data, 200, health.temperature_kelvin)
    return bytes(data)


def errors(entries: Iterable[ErrorEntry]) -> bytes:
    """Log 01h, newest first, 64 entries of 64 bytes."""
    data = b"".join(
        struct.pack(
            "<QHHHHQI", e.count, e.queue, e.cid, e.status << 1, 0xFFFF, e.lba, e.nsid
        ).ljust(64, b"\0")
        for e in entries
    )
    return data.ljust(64 * 64, b"\0")[: 64 * 64]


def firmware(state: FirmwareState) -> bytes:
    """Log 03h: AFI and the revision in each of at most seven slots; zeros in an empty one."""
    data = bytearray(512)
    data[0] = state.active | state.next << 4
    for slot, revision in enumerate(state.revisions[:7]):
        if revision:
            data[8 + 8 * slot : 16 + 8 * slot] = revision.encode("latin-1")[:8].ljust(8)
    return bytes(data)


def boot_partition(profile: DriveProfile, contents: Sequence[str], number: int) -> bytes:
    """Log 15h of one boot partition: a header of 16 bytes, then its content."""
    size = profile.boot_partition_units * BOOT_UNIT
    content = hashlib.shake_128(contents[number].encode()).digest(size)
    return struct.pack("<B3xI8x", 0x15, profile.boot_partition_units) + content


def changed_namespaces(ids: list[int]) -> bytes:
    """Log 04h, 4096 bytes."""
    return struct.pack(f"<{len(ids)}I", *sorted(ids)).ljust(4096, b"\0")


def effects(admin: Iterable[int], io: Iterable[int]) -> bytes:
    """Log 05h: what each supported opcode does."""
    data = bytearray(4096)
    for opcode in admin:
        struct.pack_into("<I", data, 4 * opcode, _ADMIN_EFFECTS.get(opcode, _SUPPORTED))
    for opcode in io:
        value = _SUPPORTED | (_CONTENT_CHANGES if opcode in _EFFECTS_CHANGING_IO else 0)
        struct.pack_into("<I", data, 1024 + 4 * opcode, value)
    return bytes(data)


def features(fids: Iterable[int]) -> bytes:
    """Log 12h: which features there are, and what setting one does (not told)."""
    data = bytearray(1024)
    for fid in fids:
        data[4 * fid] = 1
    return bytes(data)


def supported(lids: Iterable[Lid]) -> bytes:
    """Log 00h: which log pages there are."""
    data = bytearray(1024)
    for lid in lids:
        data[4 * lid] = 1
    return bytes(data)
