"""What every transition system of the model has in common, so that it can be searched, hunted
through and replayed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

from tests.model.graph import Graph
from tests.model.mutate import Memo, Switch
from tests.model.names import Names
from tests.model.search import Found, Step, search

W = TypeVar("W", bound=Hashable)

REFUSED = "the gate refuses"
"""Begins the name of a start that was not let in."""


class System(ABC, Generic[W]):
    """States go by numbers: each is spelt out, compared and hashed once."""

    name: str
    limit = 3_000_000
    """States at most: a search that does not end proves nothing."""

    def __init__(self, switch: Switch) -> None:
        self._worlds: Names[W] = Names()
        self._steps_of: Memo[int, tuple[Step[int], ...]] = Memo(switch)

    @abstractmethod
    def start(self) -> int:
        """Where every history begins."""

    @abstractmethod
    def broken(self, before: int, name: str, after: int) -> str:
        """What is wrong with a step, besides what was noticed within it."""

    @abstractmethod
    def good(self, number: int) -> bool:
        """Every drive is on offer again: from everywhere a way has to lead there."""

    @abstractmethod
    def budget(self, number: int) -> int:
        """How many misfortunes may still happen."""

    @abstractmethod
    def _all_steps(self, number: int) -> tuple[Step[int], ...]:
        """Everything that may happen next."""

    def world(self, number: int) -> W:
        """The state spelt out."""
        return self._worlds[number]

    def steps(self, number: int) -> tuple[Step[int], ...]:
        """Everything that may happen next. Raises :class:`Slip` where that breaks a promise."""
        return self._steps_of(number, lambda: self._all_steps(number))

    def asked(self, number: int) -> int:
        """The guards that say what may happen next, as bits."""
        return self._steps_of.asked(number)

    def run(self) -> Found[int] | Graph:
        """Searches it all."""
        return search([self.start()], self.steps, self.broken, self.limit)
