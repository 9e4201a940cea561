"""Which sectors hold what a drive should have erased: a byte for each page, a bit for each sector.

It is a memory-mapped file beside the backing file, so that a killed server loses none of it.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.lab.nvme.composed.kept import SECTOR, WHOLE
from tests.lab.nvme.fill import CHUNK


class Mask:
    """Of one lie over one store; offsets are bytes."""

    def __init__(self, path: Path, size: int) -> None:
        self._pages = -(-size // CHUNK)
        length = -(-self._pages // mmap.PAGESIZE) * mmap.PAGESIZE
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size != length:
                os.ftruncate(fd, length)
            self._map = mmap.mmap(fd, length)
        finally:
            os.close(fd)

    def __getitem__(self, page: int) -> int:
        return self._map[page]

    def add(self, page: int, bits: int) -> None:
        """Sectors of a page are kept."""
        self._map[page] |= bits

    def clear(self, start: int, end: int) -> None:
        """Nothing of [start, end) is kept; a sector of which a part is named counts as named."""
        first, last = start // SECTOR, -(-end // SECTOR)
        if first >= last:
            return
        if not self.any(start, end):
            return
        for page in range(first // 8, -(-last // 8)):
            low, high = max(first - page * 8, 0), min(last - page * 8, 8)
            self._map[page] &= ~((1 << high) - (1 << low)) & 0xFF

    def any(self, start: int, end: int) -> bool:
        """Whether a page that [start, end) touches has a kept sector."""
        held = self._map[start // CHUNK : -(-end // CHUNK)]
        return held.count(0) != len(held)

    def pages(self) -> Iterator[tuple[int, int]]:
        """Page and bits of each page that has any."""
        held = self._map[: self._pages]
        for page, bits in enumerate(held):
            if bits:
                yield page, bits

    def close(self) -> None:
        """Release the mapping; the file stays."""
        self._map.close()


def ranges(sectors: Iterator[int] | list[int]) -> list[tuple[int, int]]:
    """Bytes from and to of sectors in ascending order, neighbours joined."""
    found: list[tuple[int, int]] = []
    for sector in sectors:
        at = sector * SECTOR
        if found and found[-1][1] == at:
            found[-1] = (found[-1][0], at + SECTOR)
        else:
            found.append((at, at + SECTOR))
    return found


def sectors(page: int, bits: int) -> Sequence[int]:
    """Numbers of the sectors of a page."""
    first = page * 8
    if bits == WHOLE:
        return range(first, first + 8)
    return [first + bit for bit in range(8) if bits >> bit & 1]
