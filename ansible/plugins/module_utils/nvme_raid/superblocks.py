"""Superblocks that the role itself looks into: md version 1.2 and XFS. Bytes in, facts out."""

from __future__ import annotations

import struct
import uuid

from .model import Filesystem, Member

MD_OFFSET = 4096
"""Bytes from the start of a member to its superblock: what makes version 1.2 of 1.0 and 1.1."""
MD_LENGTH = 4096
_MD_MAGIC = 0xA92B4EFC
_MD_FIXED = 256
"""Bytes before the table of roles; struct mdp_superblock_1 of linux/raid/md_p.h."""
_MD_ROLES = (MD_LENGTH - _MD_FIXED) // 2
_SECTOR = 512

XFS_LENGTH = 512
_XFS_MAGIC = b"XFSB"
_XFS_IN_PROGRESS = 126
"""sb_inprogress: mkfs.xfs writes a 1 first and the 0 last of all."""


def md_member(block: bytes) -> Member | None:
    """The member that a superblock describes; None where it is none or its sum is wrong."""
    if len(block) < MD_LENGTH:
        return None
    magic, major = struct.unpack_from("<II", block, 0)
    if magic != _MD_MAGIC or major != 1:
        return None
    (roles,) = struct.unpack_from("<I", block, 220)
    (number,) = struct.unpack_from("<I", block, 160)
    if roles > _MD_ROLES or number >= max(roles, 1) or not _sum_is_right(block, roles):
        return None
    level, _layout = struct.unpack_from("<iI", block, 72)
    chunk, devices = struct.unpack_from("<II", block, 88)
    digits = block[16:32].hex()
    return Member(
        uuid=":".join(digits[at : at + 8] for at in range(0, 32, 8)),
        name=_text(block[32:64]),
        level=level,
        devices=devices,
        chunk=chunk * _SECTOR,
        role=struct.unpack_from("<H", block, _MD_FIXED + 2 * number)[0] if roles else 0xFFFF,
    )


def _sum_is_right(block: bytes, roles: int) -> bool:
    """Whether sb_csum (at 216) is what calc_sb_1_csum of the kernel's md.c would make."""
    used = bytearray(block[: _MD_FIXED + 2 * roles])
    (said,) = struct.unpack_from("<I", used, 216)
    used[216:220] = bytes(4)
    words, rest = divmod(len(used), 4)
    total = sum(struct.unpack_from(f"<{words}I", used))
    if rest:
        total += int(struct.unpack_from("<H", used, words * 4)[0])
    return bool(said == ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF)


def xfs(block: bytes) -> Filesystem | None:
    """The XFS that a device's first sector describes (struct xfs_dsb), or None."""
    if len(block) < XFS_LENGTH or block[:4] != _XFS_MAGIC:
        return None
    (size,) = struct.unpack_from(">I", block, 4)
    unit, width = struct.unpack_from(">II", block, 184)
    (log_unit,) = struct.unpack_from(">I", block, 196)
    return Filesystem(
        uuid=str(uuid.UUID(bytes=block[32:48])),
        label=_text(block[108:120]),
        stripe_unit=unit * size,
        stripe_width=width * size,
        # 1 is mkfs.xfs's way to say that none was asked for.
        log_stripe_unit=log_unit if log_unit > 1 else 0,
        unfinished=block[_XFS_IN_PROGRESS] == 1,
    )


def _text(field: bytes) -> str:
    """A field of a superblock: written by anybody, so only plain signs are kept as they are."""
    plain = field.split(b"\0")[0].decode("ascii", "backslashreplace")
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in plain)
