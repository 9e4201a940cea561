"""Look at a drive's backing file from outside every guest: whose data is still on it?

Only the stored parts of the sparse file are read, so a drive of terabytes takes no time.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

BLOCK: Final = 4096
"""Bytes per audited block."""
_READ: Final = 1 << 22


def stored_blocks(backing: Path) -> Iterator[tuple[int, bytes]]:
    """Yield offset and content of every 4 KiB block that the file really stores."""
    with backing.open("rb", buffering=0) as handle:
        end = os.fstat(handle.fileno()).st_size
        position = 0
        while position < end:
            try:
                start = os.lseek(handle.fileno(), position, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return
                raise
            position = os.lseek(handle.fileno(), start, os.SEEK_HOLE)
            first = start // BLOCK * BLOCK
            for offset in range(first, position, _READ):
                piece = os.pread(handle.fileno(), min(_READ, position - offset), offset)
                for at in range(0, len(piece), BLOCK):
                    yield offset + at, piece[at : at + BLOCK]


def matching_blocks(backing: Path, wanted: Callable[[bytes], bool]) -> list[int]:
    """Return the offsets of the stored blocks whose content the predicate accepts."""
    return [offset for offset, block in stored_blocks(backing) if wanted(block)]


def fingerprint(block: bytes) -> bytes:
    """Return the digest that stands for a block's content."""
    return hashlib.blake2b(block, digest_size=16).digest()


def fingerprints(backing: Path) -> frozenset[bytes]:
    """Return the digests of all stored blocks that say something.

    A block of one repeated byte is nobody's data, and an erased drive may well be full of them.
    """
    return frozenset(
        fingerprint(block) for _, block in stored_blocks(backing) if not _uniform(block)
    )


def count_leaked(backing: Path, known: frozenset[bytes]) -> int:
    """Return how many stored blocks have a content that was fingerprinted before."""
    return len(matching_blocks(backing, lambda block: fingerprint(block) in known))


def _uniform(block: bytes) -> bool:
    return block == block[:1] * len(block)
