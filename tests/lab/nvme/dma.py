"""Guest memory: what QEMU mapped, and how PRPs (Base 4.1.1) lead into it."""

from __future__ import annotations

import mmap
import os
import struct
from bisect import bisect_right
from dataclasses import dataclass

from tests.lab.nvme.memory import DmaFault
from tests.lab.nvme.spec import PAGE, Command

_ENTRY_BYTES = 8
_MAX_LIST_PAGES = 64
"""Pages of one PRP list that are followed; MDTS needs one, a loop in the list would need all."""


@dataclass(frozen=True, slots=True)
class _Region:
    address: int
    size: int
    view: memoryview


class DmaSpace:
    """I/O virtual addresses of one function, mapped onto the shared memory of its guest."""

    def __init__(self) -> None:
        self._regions: list[_Region] = []
        self._starts: list[int] = []
        self._files: dict[tuple[int, int], memoryview] = {}
        self._last: _Region | None = None

    def map(self, address: int, size: int, fd: int, offset: int, *, writable: bool) -> None:
        """Map ``size`` bytes of a shared file; the caller keeps and closes ``fd``.

        Raises OSError or ValueError where the file cannot be mapped like that.
        """
        whole = self._whole_file(fd)
        if offset + size > len(whole):
            raise ValueError(
                f"mapping should lie in a file of {len(whole)}, ends at {offset + size}"
            )
        self.unmap(address, size)
        part = whole[offset : offset + size]
        region = _Region(address, size, part if writable else part.toreadonly())
        index = bisect_right(self._starts, address)
        self._regions.insert(index, region)
        self._starts.insert(index, address)

    def unmap(self, address: int, size: int) -> None:
        """Drop every mapping that begins in the range."""
        self._last = None
        kept = [r for r in self._regions if not address <= r.address < address + size]
        if len(kept) != len(self._regions):
            self._regions = kept
            self._starts = [region.address for region in kept]

    def clear(self) -> None:
        """Drop all."""
        self._regions, self._starts, self._last = [], [], None
        self._files.clear()

    def view(self, address: int, length: int) -> memoryview:
        """A writable view of guest memory inside one mapping. Raises DmaFault."""
        region = self._last
        if region is None or not region.address <= address < region.address + region.size:
            index = bisect_right(self._starts, address) - 1
            if index < 0:
                raise DmaFault(f"no guest memory is mapped at {address:#x}")
            region = self._last = self._regions[index]
        start = address - region.address
        if start + length > region.size or region.view.readonly:
            raise DmaFault(f"{length} bytes at {address:#x} are not in one writable mapping")
        return region.view[start : start + length]

    def _whole_file(self, fd: int) -> memoryview:
        # Under a virtual IOMMU QEMU maps page by page: one mmap per file, not per page.
        status = os.fstat(fd)
        key = (status.st_dev, status.st_ino)
        if key not in self._files:
            try:
                whole = mmap.mmap(fd, status.st_size)
            except PermissionError:
                whole = mmap.mmap(fd, status.st_size, access=mmap.ACCESS_READ)
            self._files[key] = memoryview(whole)
        return self._files[key]


class CommandMemory:
    """The buffers of one command."""

    def __init__(self, space: DmaSpace, command: Command) -> None:
        self._space = space
        self._command = command

    def buffers(self, length: int) -> list[memoryview]:
        """Views of the first ``length`` bytes that PRP1 and PRP2 name. Raises DmaFault."""
        space, command = self._space, self._command
        if command.flags & 0xC0:
            raise DmaFault("data should be described by PRPs, the command has SGLs")
        first = min(length, PAGE - command.prp1 % PAGE)
        if length <= first:
            return [space.view(command.prp1, length)]
        if length - first <= PAGE:
            return [space.view(command.prp1, first), space.view(command.prp2, length - first)]
        runs = [[command.prp1, first]]
        left = length - first
        for address in self._list_entries(-(-left // PAGE)):
            size = min(left, PAGE)
            last = runs[-1]
            if last[0] + last[1] == address:
                last[1] += size
            else:
                runs.append([address, size])
            left -= size
        return [view for address, size in runs for view in self._split(address, size)]

    def metadata(self, length: int) -> memoryview | None:
        """View of the contiguous buffer that MPTR names (Base 3.3.3.1). Raises DmaFault."""
        at = self._command.mptr
        return self._space.view(at, length) if at else None

    def _split(self, address: int, size: int) -> list[memoryview]:
        try:
            return [self._space.view(address, size)]
        except DmaFault:
            # Neighbouring pages of two mappings.
            ends = range(address - address % PAGE, address + size, PAGE)
            pieces = [(max(a, address), min(a + PAGE, address + size)) for a in ends]
            return [self._space.view(start, end - start) for start, end in pieces]

    def _list_entries(self, count: int) -> list[int]:
        entries: list[int] = []
        at = self._command.prp2
        for _ in range(_MAX_LIST_PAGES):
            room = (PAGE - at % PAGE) // _ENTRY_BYTES
            take = min(room, count - len(entries))
            found = struct.unpack(f"<{take}Q", self._space.view(at, take * _ENTRY_BYTES))
            if len(entries) + take == count:
                entries.extend(found)
                break
            # The last entry of a full page leads to the next page of the list.
            entries.extend(found[:-1])
            at = found[-1]
        if len(entries) != count or any(entry % PAGE for entry in entries):
            raise DmaFault(f"PRP list should hold {count} page addresses, found {len(entries)}")
        return entries
