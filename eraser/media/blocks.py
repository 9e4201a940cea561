"""The one unit of every proof: blocks of 4096 bytes, on drives with sectors of 512 bytes too."""

from __future__ import annotations

BLOCK = 4096
"""Bytes. What file systems, databases and flash translation layers place; and one memory page."""


def block_count(size: int) -> int:
    """The blocks of ``size`` bytes; the last one is short where ``size`` is no multiple."""
    return -(-size // BLOCK)


def block_length(index: int, size: int) -> int:
    """Bytes of block ``index`` on a device of ``size`` bytes."""
    return min(BLOCK, size - index * BLOCK)
