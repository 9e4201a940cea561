"""Whole records by small numbers: states are compared and hashed millions of times."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Names(Generic[T]):
    """Numbers things as they come; the same thing has one number."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._things: list[T] = []

    def number(self, thing: T) -> int:
        """The number of ``thing``."""
        found = self._numbers.get(thing)
        if found is None:
            found = self._numbers[thing] = len(self._things)
            self._things.append(thing)
        return found

    def __len__(self) -> int:
        return len(self._things)

    def __contains__(self, thing: T) -> bool:
        return thing in self._numbers

    def __iter__(self) -> Iterator[T]:
        return iter(self._things)

    def __getitem__(self, number: int) -> T:
        return self._things[number]
