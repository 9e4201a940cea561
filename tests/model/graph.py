"""All states that a search found, how each was found first, and where its steps lead.

Millions of them: what is known of one stands in arrays, under the number in which it was found, and
not in objects of its own.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from tests.model.names import Names

_NONE = -1


class Graph:
    """States, themselves numbers, in the order found."""

    def __init__(self) -> None:
        self._states: Names[int] = Names()
        self._names: Names[str] = Names()
        self._parents = array("l")
        """The state from which each was found first."""
        self._how = array("l")
        """By a step of which name."""
        self._from, self._to = array("l"), array("l")
        """Steps, as the searches lead them on."""

    def __len__(self) -> int:
        return len(self._parents)

    def __contains__(self, state: int) -> bool:
        return state in self._states

    def __iter__(self) -> Iterator[int]:
        return iter(self._states)

    def found(self, state: int, before: int | None = None, name: str = "") -> bool:
        """Whether ``state`` is new. ``before`` leads to it by ``name``; to a start nothing does."""
        if state in self._states:
            return False
        self._states.number(state)
        self._parents.append(_NONE if before is None else self._states.number(before))
        self._how.append(self._names.number(name))
        return True

    def lead(self, state: int, following: Iterable[int]) -> None:
        """Steps of ``state``, all to states that were found."""
        number, known = self._states.number(state), len(self._to)
        self._to.extend(map(self._states.number, following))
        self._from.extend([number] * (len(self._to) - known))
        assert len(self._states) == len(self), "expected steps from and to states that were found"

    def trace(self, state: int) -> tuple[str, ...]:
        """The steps from a start to ``state``."""
        names: list[str] = []
        number = self._states.number(state)
        while (before := self._parents[number]) != _NONE:
            names.append(self._names[self._how[number]])
            number = before
        return tuple(reversed(names))

    def stuck(self, good: Callable[[int], bool]) -> Iterator[int]:
        """States, in the order found, from which no steps lead to a good one."""
        first, backward = self._backward
        todo = [number for number, state in enumerate(self._states) if good(state)]
        reached = bytearray(len(self))
        for number in todo:
            reached[number] = True
        while todo:
            number = todo.pop()
            for before in backward[first[number] : first[number + 1]]:
                if not reached[before]:
                    reached[before] = True
                    todo.append(before)
        return (state for number, state in enumerate(self._states) if not reached[number])

    @functools.cached_property
    def _backward(self) -> tuple[array[int], array[int]]:
        """All steps, ordered by the state to which they lead: where those to each begin, and the
        states that they come from."""
        counts = array("l", [0]) * (len(self) + 1)
        for after in self._to:
            counts[after] += 1
        ends = array("l", accumulate(counts))
        backward = array("l", self._from)
        for before, after in zip(self._from, self._to, strict=True):
            ends[after] -= 1
            backward[ends[after]] = before
        return ends, backward
