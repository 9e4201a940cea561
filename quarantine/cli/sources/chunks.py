"""Long lists, read a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

CHUNK: Final = 500
"""Entries that are read at a time."""

T = TypeVar("T")


def chunked(limit: int | None, ask: Callable[[int, T | None], Sequence[T]]) -> list[T]:
    """At most so many; all with None. ``ask`` gets how many it may give, and the last one known."""
    found: list[T] = []
    while limit is None or len(found) < limit:
        most = CHUNK if limit is None else min(CHUNK, limit - len(found))
        more = ask(most, found[-1] if found else None)
        if not more:
            break
        found += more
    return found
