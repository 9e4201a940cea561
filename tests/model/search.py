"""Breadth first over every interleaving; the shortest way to what must never be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

Step = tuple[str, S]
"""What happens, in words, and the state after it."""


def short(name: str) -> str:
    """What happens, without the reason that the code gives for it."""
    return name.partition(" (")[0]


@dataclass(frozen=True)
class Found(Generic[S]):
    """A counter-example: the shortest trace to a state or step that breaks a promise."""

    broken: str
    trace: tuple[str, ...]
    last: S

    def __str__(self) -> str:
        lines = [f"  {number:2} {what}" for number, what in enumerate(self.trace, 1)]
        return "\n".join([f"{self.broken}, by:", *lines, f"  in {self.last}"])


@dataclass(frozen=True)
class Graph(Generic[S]):
    """All reachable states, when nothing was found."""

    parents: dict[S, tuple[S, str] | None]
    successors: dict[S, tuple[S, ...]]

    def __len__(self) -> int:
        return len(self.parents)

    def trace(self, state: S) -> tuple[str, ...]:
        """The steps from the start to ``state``."""
        names: list[str] = []
        parent = self.parents[state]
        while parent is not None:
            state, name = parent
            names.append(name)
            parent = self.parents[state]
        return tuple(reversed(names))

    def stuck(self, good: Callable[[S], bool]) -> Iterator[S]:
        """States, in the order found, from which no good state can be reached."""
        backward: dict[S, list[S]] = {}
        for state, following in self.successors.items():
            for after in following:
                backward.setdefault(after, []).append(state)
        todo = deque(filter(good, self.parents))
        reached = set(todo)
        while todo:
            for before in backward.get(todo.popleft(), ()):
                if before not in reached:
                    reached.add(before)
                    todo.append(before)
        return (state for state in self.parents if state not in reached)


class Slip(Exception):
    """A promise was broken in the middle of a step; the message says which."""


def _guarded(
    steps: Callable[[S], Iterable[tuple[str, S]]], state: S
) -> Iterator[tuple[str, S | Slip]]:
    try:
        yield from steps(state)
    except Slip as slip:
        yield "", slip


def search(
    starts: Iterable[S],
    steps: Callable[[S], Iterable[tuple[str, S]]],
    broken: Callable[[S, str, S], str],
    limit: int,
) -> Found[S] | Graph[S]:
    """Every state reachable from ``starts``, or the first step that ``broken`` has a word for.

    Raises ``RuntimeError`` beyond ``limit`` states: a model that does not end proves nothing.
    """
    parents: dict[S, tuple[S, str] | None] = dict.fromkeys(starts)
    successors: dict[S, tuple[S, ...]] = {}
    todo = deque(parents)
    while todo:
        state = todo.popleft()
        following: list[S] = []
        for name, after in _guarded(steps, state):
            if isinstance(after, Slip):
                trace = Graph(parents, successors).trace(state)
                return Found(str(after), (*trace, "and then"), state)
            why = broken(state, name, after)
            if why:
                trace = Graph(parents, successors).trace(state)
                return Found(why, (*trace, name), after)
            following.append(after)
            if after not in parents:
                parents[after] = (state, name)
                todo.append(after)
                if len(parents) > limit:
                    raise RuntimeError(f"expected at most {limit} states, found more")
        successors[state] = tuple(following)
    return Graph(parents, successors)
