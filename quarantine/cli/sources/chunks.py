"""Long lists, read a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

CHUNK: Final = 500
"""Entries that are read at a time."""

T = TypeVar("T")


def in_chunks(limit: int | None, ask: Callable[[int, T | None], Sequence[T]]) -> Iterator[T]:
    """At most so many; all with None. ``ask`` gets how many it may give, and the last one known.
    A chunk is kept until the next one is wanted, and no more."""
    left, last = limit, None
    while left is None or left > 0:
        more = ask(CHUNK if left is None else min(CHUNK, left), last)
        if not more:
            break
        yield from more
        last = more[-1]
        left = None if left is None else left - len(more)


def chunked(limit: int | None, ask: Callable[[int, T | None], Sequence[T]]) -> list[T]:
    """The same as a list."""
    return list(in_chunks(limit, ask))
