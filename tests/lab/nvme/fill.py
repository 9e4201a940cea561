"""What a drive answers where its backing file has a hole.

A real drive of 1.92 TB is erased in seconds because it forgets where the data was. So does the
model: an erase punches the whole backing file and notes here what the emptied range reads as.
Pure, no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

TURNS = {"dies": 64 << 10, "ranges": 4 << 20}
"""Bytes after which a fill that takes turns goes on to its next value."""

CHUNK = 4096
"""Granularity of holes, bytes: the block size of the file systems that hold backing files."""


class FillKind(StrEnum):
    """What an emptied range reads as."""

    ZEROS = "zeros"
    ONES = "ones"
    PATTERN = "pattern"
    RANDOM = "random"
    DIES = "dies"
    RANGES = "ranges"


@dataclass(frozen=True, slots=True)
class Fill:
    """Content of an emptied range.

    ``key`` is the repeated bytes of a pattern (hex, a power of two long, at most 4096 bytes), or
    the seed of random content, or the values, a byte each, that dies or ranges show in turns of
    ``TURNS``. ``deallocated`` says whether the drive regards the range as
    deallocated: that is what DULBE asks about (NVM 3.2.3.2.1).
    """

    kind: FillKind = FillKind.ZEROS
    key: str = ""
    deallocated: bool = True

    def bytes_at(self, offset: int, length: int) -> bytes:
        """``length`` bytes of the content from byte ``offset`` of the media on."""
        if self.kind is FillKind.ZEROS:
            return bytes(length)
        if self.kind is FillKind.ONES:
            return b"\xff" * length
        if self.kind is FillKind.PATTERN:
            unit = bytes.fromhex(self.key)
            skip = offset % len(unit)
            return (unit * ((skip + length) // len(unit) + 1))[skip : skip + length]
        if self.kind in (FillKind.DIES, FillKind.RANGES):
            return self._in_turns(offset, length, TURNS[self.kind])
        first, last = offset // CHUNK, (offset + length - 1) // CHUNK
        chunks = [
            hashlib.shake_128(f"{self.key}/{index}".encode()).digest(CHUNK)
            for index in range(first, last + 1)
        ]
        skip = offset - first * CHUNK
        return b"".join(chunks)[skip : skip + length]

    def _in_turns(self, offset: int, length: int, turn: int) -> bytes:
        values, parts, end = bytes.fromhex(self.key), [], offset + length
        while offset < end:
            index = offset // turn
            part = min(end, (index + 1) * turn) - offset
            parts.append(values[index % len(values) :][:1] * part)
            offset += part
        return b"".join(parts)


ZEROS = Fill()


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes ``start`` to ``end`` (exclusive) of the media, and what they read as when empty."""

    start: int
    end: int
    fill: Fill


class FillMap:
    """Which fill holds where: ordered spans without gaps that cover the whole media."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans

    @classmethod
    def uniform(cls, size: int, fill: Fill = ZEROS) -> FillMap:
        """One fill for all ``size`` bytes."""
        return cls([Span(0, size, fill)])

    @property
    def plain(self) -> bool:
        """Whether every hole reads as zeros and is deallocated: then the file is the truth."""
        return all(span.fill == ZEROS for span in self.spans)

    def set(self, start: int, end: int, fill: Fill) -> bool:
        """Give [start, end) a fill; tell whether that changed anything."""
        if all(part.fill == fill for part in self.between(start, end)):
            return False
        before = [Span(s.start, min(s.end, start), s.fill) for s in self.spans if s.start < start]
        after = [Span(max(s.start, end), s.end, s.fill) for s in self.spans if s.end > end]
        merged: list[Span] = []
        for span in [*before, Span(start, end, fill), *after]:
            if merged and merged[-1].fill == span.fill:
                merged[-1] = Span(merged[-1].start, span.end, span.fill)
            else:
                merged.append(span)
        self.spans = merged
        return True

    def between(self, start: int, end: int) -> Iterator[Span]:
        """The parts of [start, end), in order, each with its fill."""
        for span in self.spans:
            if span.end > start and span.start < end:
                yield Span(max(span.start, start), min(span.end, end), span.fill)
