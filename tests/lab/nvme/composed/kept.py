"""What of the former tenant's data outlives an erase."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from tests.lab.nvme.fill import CHUNK
from tests.lab.nvme.nature import Store
from tests.lab.nvme.state import DriveState

SECTOR = 512
"""Granularity of what is kept, bytes."""
WHOLE = 0xFF
"""All sectors of a chunk of 4 KiB, a bit each."""


class What(StrEnum):
    """Which part of it; ``SOURCES`` says where each comes from."""

    ALL = "all"
    STRIPE = "stripe"
    SCATTERED = "scattered"
    HEAD = "head"
    TAIL = "tail"
    SECTORS = "sectors"
    NAMESPACE = "namespace"
    DETACHED = "detached"
    UNALLOCATED = "unallocated"
    DEALLOCATED = "deallocated"
    FUA = "fua"
    SMALL = "small"
    RECENT = "recent"
    OLD = "old"
    METADATA = "metadata"
    BUFFER = "buffer"


SOURCES = {
    What.ALL: "a drive that reported its erase as done and kept everything: drive B in Wei et al., "
    "FAST 2011",
    What.STRIPE: "one die or plane of several that an erase does not reach; NOIOB and stripes: "
    "NVME_QUIRK_STRIPE_SIZE in drivers/nvme/host/pci.c, nvme_id_table",
    What.SCATTERED: "blocks in the spare area that a mapping table no longer names: Wei et al., "
    "FAST 2011, and github.com/martijnvanbrummelen/nwipe/pull/687",
    What.HEAD: "an erase that erases the wrong part: Wei et al., FAST 2011, where only the first "
    "block went",
    What.TAIL: "capacity that is rounded: github.com/linux-nvme/nvme-cli/issues/454, 64 MiB short",
    What.SECTORS: "mapping units of 4 KiB below blocks of 512 bytes: NVM, NPWG and NPDG",
    What.NAMESPACE: "scope of Format: FNA, Base 5.17.2.1, and Base 5.14",
    What.DETACHED: "Format reaches attached namespaces alone: Base 5.14; namespaces allocated and "
    "not seen: github.com/linux-nvme/nvme-cli/issues/2195",
    What.UNALLOCATED: "UNVMCAP is in no Format's scope: Base 5.14, 5.17.2.1",
    What.DEALLOCATED: "deallocated blocks whose data is still in flash: NVM 3.2.3; Sanitize has "
    "to reach them: Base 8.21",
    What.FUA: "a write with FUA goes past the cache: NVM 3.2.6",
    What.SMALL: "writes below the mapping unit go by a cache of their own: NVM, NPWG; shorn "
    "writes in Zheng et al., FAST 2013",
    What.RECENT: "a volatile write cache that is no part of the erase: VWC, Base 5.17.2.1; "
    "Base 8.21 wants caches sanitized",
    What.OLD: "none reported: a drive that erases what its journal remembers; the lab's "
    "canary-eater",
    What.METADATA: "metadata beside the blocks: NVM, metadata handling; Base 8.21",
    What.BUFFER: "CMB and PMR are in a sanitize's scope: Base 8.21, and Persistent Memory Region",
}

STRIPES = (4096, 65536, 1 << 20)
"""Widths of a stripe that a seed draws, bytes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A part. ``number`` and ``unit`` (bytes) mean by part:

    STRIPE: one of ``number`` stripes of ``unit``. SCATTERED: one page of ``number``. HEAD, TAIL:
    so many bytes of ``unit`` of what a host can address. SECTORS: one of ``number`` in each page.
    RECENT, OLD: the last ``number`` writes, or all but them.
    """

    what: What = What.ALL
    number: int = 1
    unit: int = CHUNK

    @property
    def store(self) -> Store:
        """Where it lies."""
        return {What.METADATA: Store.METADATA, What.BUFFER: Store.BUFFER}.get(self.what, Store.DATA)

    @property
    def sentence(self) -> str:
        """What, in plain words."""
        size = f"{self.unit >> 10} KiB"
        return {
            What.ALL: "all data",
            What.STRIPE: f"one of {self.number} stripes of {size}",
            What.SCATTERED: f"one of {self.number} pages, scattered",
            What.HEAD: f"the first {size} of what can be addressed",
            What.TAIL: f"the last {size} of what can be addressed",
            What.SECTORS: f"one of {self.number} sectors of each page",
            What.NAMESPACE: "the last namespace",
            What.DETACHED: "what is in detached namespaces",
            What.UNALLOCATED: "what is in no namespace",
            What.DEALLOCATED: "what had been deallocated",
            What.FUA: "what was written with FUA",
            What.SMALL: "what was written in less than 4 KiB",
            What.RECENT: f"the last {self.number} writes",
            What.OLD: f"all but the last {self.number} writes",
            What.METADATA: "metadata",
            What.BUFFER: "its CMB or PMR",
        }[self.what]


@dataclass
class Past:
    """What the drive remembers of the writes before an erase; a killed server forgets it."""

    fua: set[int] = field(default_factory=set)
    small: set[int] = field(default_factory=set)
    writes: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=65536))

    def wrote(self, start: int, end: int, *, fua: bool) -> None:
        """A write to [start, end) of the media."""
        pages = range(start // CHUNK, -(-end // CHUNK))
        for page in pages:
            (self.fua.add if fua else self.fua.discard)(page)
            (self.small.add if end - start < CHUNK else self.small.discard)(page)
        self.writes.append((start, end))

    def last(self, number: int) -> set[int]:
        """Pages of the last writes."""
        return {
            page
            for start, end in list(self.writes)[-number:]
            for page in range(start // CHUNK, -(-end // CHUNK))
        }


class Choice:
    """Which sectors of which pages are kept, at the moment of an erase."""

    def __init__(self, kept: Kept, state: DriveState, past: Past) -> None:
        self._kept = kept
        self._past = past
        self._last = past.last(kept.number) if kept.what in (What.RECENT, What.OLD) else set()
        self._ranges = _ranges(kept, state)

    def sectors(self, offset: int) -> int:
        """A bit for each kept sector of the page at ``offset`` of the media."""
        kept, page = self._kept, offset // CHUNK
        match kept.what:
            case What.ALL | What.METADATA | What.BUFFER:
                return WHOLE
            case What.STRIPE:
                return WHOLE * (offset // kept.unit % kept.number == kept.number - 1)
            case What.SCATTERED:
                digest = hashlib.blake2b(offset.to_bytes(8, "little"), digest_size=8).digest()
                return WHOLE * (int.from_bytes(digest, "little") % kept.number == 0)
            case What.SECTORS:
                return sum(1 << bit for bit in range(8) if bit % kept.number == kept.number - 1)
            case What.FUA:
                return WHOLE * (page in self._past.fua)
            case What.SMALL:
                return WHOLE * (page in self._past.small)
            case What.RECENT:
                return WHOLE * (page in self._last)
            case What.OLD:
                return WHOLE * (page not in self._last)
            case What.DEALLOCATED:
                return 0  # those were put aside when they were deallocated
            case _:
                return WHOLE * any(start <= offset < end for start, end in self._ranges)


def _ranges(kept: Kept, state: DriveState) -> list[tuple[int, int]]:
    attached = sorted(state.attached, key=lambda namespace: namespace.base)
    if kept.what is What.UNALLOCATED:
        return state.gaps()
    if kept.what is What.DETACHED:
        return [(n.base, n.base + n.size) for n in state.namespaces if not n.attached]
    if not attached:
        return []
    first, last = attached[0], attached[-1]
    if kept.what is What.HEAD:
        return [(first.base, first.base + kept.unit)]
    end = last.base + last.size
    if kept.what is What.TAIL:
        return [(end // CHUNK * CHUNK - kept.unit, end)]
    return [(last.base, end)]
