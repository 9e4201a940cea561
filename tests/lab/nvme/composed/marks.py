"""What the first tenant leaves behind: content that nobody else writes, a number in each sector."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

MAGIC = b"FORMER\x00\x01"
_META_MAGIC = b"\xf1\x5e"
SECTOR = 512


def mark(number: int) -> bytes:
    """512 bytes that nobody else writes; ``number`` names the sector."""
    head = MAGIC + struct.pack("<Q", number)
    return head + hashlib.shake_128(head).digest(SECTOR - len(head))


def meta_mark(number: int) -> bytes:
    """8 bytes of metadata, likewise."""
    head = _META_MAGIC + struct.pack("<I", number)
    return head + hashlib.blake2b(head, digest_size=2).digest()


def marks_in(content: bytes) -> Iterator[int]:
    """Numbers of the sectors in it that are the first tenant's, wherever they lie."""
    if MAGIC not in content:
        return
    for at in range(0, len(content), SECTOR):
        sector = content[at : at + SECTOR]
        if sector.startswith(MAGIC):
            (number,) = struct.unpack_from("<Q", sector, len(MAGIC))
            if sector == mark(number):
                yield number


def meta_marks_in(content: bytes) -> Iterator[int]:
    """The same of metadata."""
    for at in range(0, len(content), 8):
        part = content[at : at + 8]
        if part.startswith(_META_MAGIC):
            (number,) = struct.unpack_from("<I", part, 2)
            if part == meta_mark(number):
                yield number
