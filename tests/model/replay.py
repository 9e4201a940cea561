"""A history of events once more: what it breaks in one version of the decisions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.model.search import Slip, Step, short
from tests.model.system import System

NO_WAY_BACK = "no way leads back to the pool"
CLOSURE = 3000
"""States that are looked at before a way back is given up for lost, or taken for granted."""


class BrokenCode(Slip):
    """The code under test ended in an error of its own: its guard kept it from that."""


@dataclass(frozen=True)
class Replayed:
    """How a history ended."""

    broken: str
    """What it broke; empty where nothing."""
    took: int
    """Events that happened; all of them, unless one was not possible or something broke."""


def following(protocol: System[Any], state: int) -> tuple[Step[int], ...]:
    """What may happen next. Raises :class:`Slip` where it breaks something on the way."""
    try:
        return protocol.steps(state)
    except Slip:
        raise
    except Exception as error:
        # Whatever it is: the code as it is never gets there.
        raise BrokenCode(f"the code breaks: {type(error).__name__}") from error


def replay(protocol: System[Any], history: Sequence[str]) -> Replayed:
    """The history from the start, to what it breaks first. Events that one name has go together."""
    states = {protocol.start()}
    for took, name in enumerate(history):
        after: set[int] = set()
        for state in states:
            try:
                steps = following(protocol, state)
            except Slip as slip:
                return Replayed(str(slip), took)
            for what, then in steps:
                if short(what) == name:
                    if why := protocol.broken(state, what, then):
                        return Replayed(why, took + 1)
                    after.add(then)
        if not after:
            return Replayed("", took)
        states = after
    return Replayed(ending(protocol, states), len(history))


def ending(protocol: System[Any], states: Iterable[int]) -> str:
    """What is wrong with states in which nothing was broken yet: the next step, or all of them."""
    for state in sorted(states):
        try:
            following(protocol, state)
            if not way_back(protocol, state):
                return NO_WAY_BACK
        except Slip as slip:
            return str(slip)
    return ""


def way_back(protocol: System[Any], start: int, limit: int = CLOSURE) -> bool:
    """Whether some way leads back to the pool, or more states than ``limit`` were looked at.

    A way that breaks something is none.
    """
    seen, todo = {start}, [start]
    for state in todo:
        if protocol.good(state) or len(seen) > limit:
            return True
        try:
            steps = following(protocol, state)
        except Slip:
            continue
        for _name, after in steps:
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return False
