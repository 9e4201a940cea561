"""How many blocks must be read, which ones, and what clean reads exclude. Pure.

The places can be drawn again by anybody who knows the seed; docs/decisions/sampling.md has the
algorithm in words and says why the bound holds for it.
"""

from __future__ import annotations

import hashlib
import math
import struct
from array import array
from collections.abc import Iterator
from itertools import chain, count

_DOMAIN = b"nvme-quarantine places 1\0"
_WORDS = 4096
"""Words of 64 bits per piece of the key stream: 32 KiB, whatever n is."""

SEQUENTIAL_PER_RANDOM = 16
"""One scattered read of 4 KiB costs about as much as reading 16 blocks (64 KiB) in a row: at a
usual 3 GB/s and queue depth that would be 50,000 scattered reads a second, which the slowest
drives of data centres do. Policy of this module, not of a standard."""


def needed(confidence: float, residual: float) -> int:
    """n = ceil(ln(1-C) / ln(1-f)): so many clean random blocks exclude the fraction f.

    Raises ``ValueError`` unless both lie between 0 and 1.
    """
    if not (0 < confidence < 1 and 0 < residual < 1):
        raise ValueError(
            f"expected 0 < confidence, residual < 1, found {confidence} and {residual}"
        )
    return math.ceil(math.log1p(-confidence) / math.log1p(-residual))


def bound(n: int, confidence: float) -> float:
    """The fraction f that ``n`` clean random blocks exclude with ``confidence``; 1 for none."""
    if n <= 0:
        return 1.0
    return -math.expm1(math.log1p(-confidence) / n)


def stratum(blocks: int, n: int) -> int:
    """Blocks per stratum. Rounded down, so that no block is read with less chance than n/blocks."""
    return max(1, blocks // max(1, n))


def drawn(blocks: int, n: int) -> int:
    """The random places that :func:`places` draws: one per stratum, never fewer than ``n``
    (or ``blocks``). First and last address, where they were not drawn, come on top."""
    return -(-blocks // stratum(blocks, n))


def share(n: int, blocks: int, total: int) -> int:
    """The part of ``n`` places that falls on a namespace with ``blocks`` of ``total`` blocks.

    Rounded up and at least 1, so that no block anywhere has less chance than n/total.
    """
    return max(1, -(-n * blocks // total))


def places(seed: bytes, blocks: int, n: int) -> array[int]:
    """At least ``n`` distinct block numbers below ``blocks``, ascending, spread evenly.

    The range is cut into strata of ``blocks // n`` blocks (the last may be shorter); one block is
    drawn from each, uniformly; the first and the last block are added where they were not drawn.
    With ``n >= blocks`` this is the whole range. The same arguments give the same places, always.
    """
    return array("Q", iter_places(seed, blocks, n))


def iter_places(seed: bytes, blocks: int, n: int) -> Iterator[int]:
    """:func:`places` one after the other, in a few kilobytes of memory."""
    if blocks <= 0 or n <= 0:
        return
    size = stratum(blocks, n)
    if size == 1:
        yield from range(blocks)
        return
    stream = words(seed)
    limit = _limit(size)
    whole = blocks - blocks % size
    place = -1
    # The loop of every scattered read: below() is written out here, for all strata but the last.
    for start in range(0, whole, size):
        word = next(stream)
        while word >= limit:
            word = next(stream)
        place = start + word % size
        # The first block is read as well, and must come first in an ascending order.
        if start == 0 < place:
            yield 0
        yield place
    if whole < blocks:
        width = blocks - whole
        # A stratum of one block takes no word: docs/decisions/sampling.md fixes which words are
        # used.
        place = whole + (below(stream, width) if width > 1 else 0)
        yield place
    if place != blocks - 1:
        yield blocks - 1


def words(seed: bytes) -> Iterator[int]:
    """Endless 64-bit words: SHAKE-256 of domain, seed and piece number, read big-endian."""
    return chain.from_iterable(
        struct.unpack(
            f">{_WORDS}Q",
            hashlib.shake_256(_DOMAIN + seed + piece.to_bytes(8, "big")).digest(8 * _WORDS),
        )
        for piece in count()
    )


def below(stream: Iterator[int], size: int) -> int:
    """A number below ``size``, each equally likely: words of the incomplete last round are
    passed over (a plain remainder would prefer small numbers)."""
    limit = _limit(size)
    word = next(stream)
    while word >= limit:
        word = next(stream)
    return word % size


def _limit(size: int) -> int:
    return (1 << 64) - (1 << 64) % size
