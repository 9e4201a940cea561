"""Breadth first over every interleaving; the shortest way to what must never be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.model.graph import Graph

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


class Slip(Exception):
    """A promise was broken in the middle of a step; the message says which."""


def _guarded(
    steps: Callable[[int], Iterable[Step[int]]], state: int
) -> Iterator[tuple[str, int | Slip]]:
    try:
        yield from steps(state)
    except Slip as slip:
        yield "", slip


def search(
    starts: Iterable[int],
    steps: Callable[[int], Iterable[Step[int]]],
    broken: Callable[[int, str, int], str],
    limit: int,
) -> Found[int] | Graph:
    """Every state reachable from ``starts``, or the first step that ``broken`` has a word for.

    Raises ``RuntimeError`` beyond ``limit`` states: a model that does not end proves nothing.
    """
    graph = Graph()
    todo = deque(filter(graph.found, starts))
    while todo:
        state = todo.popleft()
        following: list[int] = []
        for name, after in _guarded(steps, state):
            if isinstance(after, Slip):
                return Found(str(after), (*graph.trace(state), "and then"), state)
            why = broken(state, name, after)
            if why:
                return Found(why, (*graph.trace(state), name), after)
            following.append(after)
            if graph.found(after, state, name):
                todo.append(after)
                if len(graph) > limit:
                    raise RuntimeError(f"expected at most {limit} states, found more")
        graph.lead(state, following)
    return graph
