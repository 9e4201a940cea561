"""Identify data structures (Base 5.17; NVM 4.1.5)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.reservations import RESCAP
from tests.lab.nvme.spec import PAGE, CommandSet
from tests.lab.nvme.state import DriveState, NamespaceState

_CRYPTO, _BLOCK, _OVERWRITE, _NO_DEALLOCATE_INHIBITED = 1 << 0, 1 << 1, 1 << 2, 1 << 29
_ONCS = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6  # compare, DSM, zeroes, save/select, timestamp
_WRITE_ZEROES = 1 << 3
_LPA = 1 << 1 | 1 << 2  # effects log, log page offset and extended length
_NSFEAT_DEALLOCATED_ERROR = 1 << 2
_DESCRIPTOR_EUI64, _DESCRIPTOR_NGUID, _DESCRIPTOR_CSI = 1, 2, 4

ABORT_LIMIT = 3  # ACL, 0's based
EVENT_LIMIT = 3  # AERL, 0's based
ERROR_ENTRIES = 63  # ELPE, 0's based


def sanicap(profile: DriveProfile) -> int:
    """SANICAP (Base 5.17.2.1)."""
    sanitize = profile.sanitize
    value = _CRYPTO * sanitize.crypto | _BLOCK * sanitize.block | _OVERWRITE * sanitize.overwrite
    if not value:
        return 0
    if sanitize.no_deallocate_inhibited:
        value |= _NO_DEALLOCATE_INHIBITED
    return value | sanitize.reports_purge << 5 | sanitize.media_modified << 30


def fna(profile: DriveProfile) -> int:
    """FNA (Base 5.17.2.1); bit 3 set means that the broadcast NSID is *not* supported."""
    form = profile.format
    return (
        form.all_namespaces
        | form.secure_all_namespaces << 1
        | form.crypto << 2
        | (not form.broadcast) << 3
    )


def oacs(profile: DriveProfile) -> int:
    """OACS (Base 5.17.2.1)."""
    return (
        (profile.security is not None) << 0
        | profile.format.supported << 1
        | (not profile.boot_log) << 2  # firmware commands: what writes a boot partition
        | profile.namespace_management << 3
        | (profile.flexible is not None) << 7
        | profile.lockdown << 10
    )


def _oncs(profile: DriveProfile) -> int:
    """ONCS (Base 5.17.2.1)."""
    value = _ONCS if profile.write_zeroes else _ONCS & ~_WRITE_ZEROES
    return value | profile.reservations << 5 | profile.verify << 7


def controller(profile: DriveProfile, state: DriveState) -> bytes:
    """Identify Controller, 4096 bytes."""
    data = bytearray(PAGE)
    put = struct.pack_into
    put("<HH", data, 0, profile.pci.vendor, profile.pci.subsystem_vendor)
    data[4:24] = _ascii(state.serial or profile.serial, 20)
    data[24:64] = _ascii(profile.model, 40)
    data[64:72] = _ascii(state.firmware.revisions[state.firmware.active - 1], 8)
    data[73:76] = profile.pci.oui.to_bytes(3, "little")
    data[76] = 2 * bool(profile.other_controllers)  # CMIC: more than one controller
    data[77] = profile.mdts
    put("<HI", data, 78, profile.cntlid, profile.version)
    put("<II", data, 84, 1_000_000, 1_000_000)  # RTD3R, RTD3E: microseconds
    # CTRATT: 128-bit host identifier; read recovery levels, endurance groups, data placement;
    # whether a host without an identifier can have reservations (RHII).
    many = (1 << 3 | 1 << 4 | 1 << 19) * profile.many_features
    put("<I", data, 96, 1 | many | profile.wants_host_identifier << 18)
    data[111] = 1  # CNTRLTYPE: I/O controller
    put("<H", data, 256, oacs(profile))
    data[258], data[259] = ABORT_LIMIT, EVENT_LIMIT
    data[260] = profile.firmware_slots << 1  # FRMW
    data[261], data[262] = _LPA, ERROR_ENTRIES
    put("<HH", data, 266, 343, 353)  # WCTEMP, CCTEMP: kelvin
    if profile.reports_capacity:
        put("<Q8xQ", data, 280, profile.size, state.unallocated)  # TNVMCAP, UNVMCAP
    put("<I", data, 328, sanicap(profile))
    data[512], data[513] = 0x66, 0x44  # SQES, CQES: 64 and 16 bytes
    put("<I", data, 516, profile.highest_nsid)
    put("<H", data, 520, _oncs(profile))
    data[524], data[525] = fna(profile), profile.volatile_write_cache
    data[531] = 7 * profile.write_protect  # NWPC
    nqn = profile.subsystem_nqn.encode() * profile.reports_nqn
    data[768 : 768 + len(nqn)] = nqn
    put("<H", data, 2048, 2500)  # PSD0 maximum power: centiwatts
    for stated in profile.stated:
        data[stated.offset : stated.offset + len(stated.content)] = stated.content
    return bytes(data)


def namespace(
    profile: DriveProfile, state: NamespaceState, *, format_left: int, protected: bool
) -> bytes:
    """Identify Namespace, 4096 bytes; ``format_left`` is FPI's percentage that remains."""
    data = bytearray(PAGE)
    put = struct.pack_into
    data[:] = namespace_capabilities(profile)
    blocks = state.size >> profile.shifts[state.lba_format]
    put("<QQQ", data, 0, blocks, blocks, blocks)
    data[26] = state.lba_format
    data[32] = 0x80 | format_left
    put("<Q", data, 48, state.size * profile.reports_capacity)  # NVMCAP
    data[99] = protected  # NSATTR
    if profile.reports_ids:
        data[104:120] = profile.nguid(state.nsid, state.made)
        data[120:128] = profile.eui64(state.nsid, state.made)
    return bytes(data)


def namespace_capabilities(profile: DriveProfile) -> bytes:
    """What is the same for every namespace, those to come included."""
    data = bytearray(PAGE)
    put = struct.pack_into
    data[24] = _NSFEAT_DEALLOCATED_ERROR
    data[25] = len(profile.shifts) - 1
    data[27] = 2 * profile.metadata_formats  # MC: metadata in a buffer of its own
    data[31] = RESCAP * profile.reservations
    data[32] = 0x80
    data[33] = profile.dlfeat
    for index, shift in enumerate(profile.shifts):
        performance = profile.formats[index].performance if profile.formats else 0
        put("<HBB", data, 128 + 4 * index, profile.metadata_bytes(index), shift, performance)
    return bytes(data)


def namespace_independent(*, format_left: int, protected: bool) -> bytes:
    """The part of Identify Namespace that no command set owns, CNS 08h."""
    data = bytearray(PAGE)
    data[0] = _NSFEAT_DEALLOCATED_ERROR
    data[3] = 0x80 | format_left
    data[8] = protected
    data[14] = 1  # NSTAT: ready
    return bytes(data)


def namespace_list(namespaces: Iterable[NamespaceState], above: int) -> bytes:
    """Ids of the namespaces greater than ``above`` in ascending order."""
    ids = sorted(n.nsid for n in namespaces if n.nsid > above)[:1024]
    return struct.pack(f"<{len(ids)}I", *ids).ljust(PAGE, b"\0")


def descriptors(profile: DriveProfile, state: NamespaceState) -> bytes:
    """Namespace Identification Descriptor list: EUI64, NGUID, command set."""
    parts = [
        (_DESCRIPTOR_EUI64, profile.eui64(state.nsid, state.made)),
        (_DESCRIPTOR_NGUID, profile.nguid(state.nsid, state.made)),
        (_DESCRIPTOR_CSI, bytes([state.csi])),
    ]
    if not profile.reports_ids:
        parts = parts[2:]
    return b"".join(bytes([kind, len(value), 0, 0]) + value for kind, value in parts).ljust(
        PAGE, b"\0"
    )


def primary_capabilities(profile: DriveProfile, state: DriveState) -> bytes:
    """Primary Controller Capabilities: its own queue pair and interrupt, and the flexible ones."""
    data = bytearray(PAGE)
    struct.pack_into("<HxxB", data, 0, profile.cntlid, 3)
    if state.flexible is not None and profile.flexible is not None:
        totals = (profile.flexible.queues, profile.flexible.interrupts)
        for at, total, lent, now in zip(
            (32, 64), totals, state.flexible.lent, state.flexible.now, strict=True
        ):
            struct.pack_into("<IIHHHH", data, at, total, lent, now, 1, total, 1)
    return bytes(data)


def controller_list(profile: DriveProfile, at_least: int) -> bytes:
    """Controller list, CNS 12h and 13h: all whose id is high enough."""
    ids = sorted(one for one in (profile.cntlid, *profile.other_controllers) if one >= at_least)
    return struct.pack(f"<H{len(ids)}H", len(ids), *ids).ljust(PAGE, b"\0")


def command_sets(profile: DriveProfile) -> bytes:
    """The one combination of I/O command sets, a bit for each by its CSI."""
    together = 1 << CommandSet.NVM | profile.zoned << CommandSet.ZONED
    return struct.pack("<Q", together).ljust(PAGE, b"\0")


def _ascii(text: str, width: int) -> bytes:
    # A serial number is bytes that a vendor chose: latin-1 lets a preset use all of them.
    return text.encode("latin-1")[:width].ljust(width)
