"""Is it erased, random, or somebody's? Judged block by block, without any signature.

blkid and its like know what they know. A database on a bare drive has no signature, but its blocks
are neither uniform nor random. An encrypted volume without a header looks exactly like a drive
after a crypto erase; who fears that sets ``require_blank``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from .model import Content, Sampled

BLOCK = 4096
_PART = 512
"""The smallest logical block: an erase may stop between two of them."""
_PERIOD = 4
"""Bytes of the pattern of Sanitize's overwrite (NVM Express, OVRPAT)."""
_LIMIT = 400.0
"""Chi-squared over 256 byte values has mean 255 and deviation 22.6: random bytes pass this about
once in 10 million blocks, text and tables reach thousands."""


def judge(samples: Iterable[tuple[int, bytes]]) -> Sampled:
    """The verdict over samples, each an offset and bytes (a multiple of 512 long)."""
    noise: int | None = None
    for start, data in samples:
        if _uniform(data):
            continue
        for at in range(0, len(data), BLOCK):
            block = data[at : at + BLOCK]
            if _uniform(block):
                continue
            if not _random(block) and not _mixed(block):
                return Sampled(Content.DATA, start + at)
            noise = start + at if noise is None else noise
    return Sampled(Content.UNIFORM) if noise is None else Sampled(Content.NOISE, noise)


def _mixed(block: bytes) -> bool:
    parts = (block[at : at + _PART] for at in range(0, len(block), _PART))
    return all(_uniform(part) or _random(part) for part in parts)


def _uniform(data: bytes) -> bool:
    return data == (data[:_PERIOD] * (len(data) // _PERIOD + 1))[: len(data)]


def _random(data: bytes) -> bool:
    expected = len(data) / 256
    counts = Counter(data)
    spread = sum((count - expected) ** 2 for count in counts.values())
    # A value that is not there at all is as far from the expected count as can be.
    spread += (256 - len(counts)) * expected**2
    return spread / expected < _LIMIT
