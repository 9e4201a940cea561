"""Resource classes that no enrolled slot has, in which a one-time-use device may be on offer.

Placement lists what is on offer by class alone, so a device of a class that the record does not
know is found only by asking for that class: a few in each pass, and each time those that had one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

A_PASS: Final = 2
"""Requests that one pass may take for it: its bound must not grow with a cloud's classes."""


class ListsClasses(Protocol):
    """What is needed here of :class:`quarantine.cloud.placement.Placement`."""

    def burning_traits(self) -> list[str]:
        """The traits of one-time-use devices that Placement knows."""

    def resource_classes(self) -> Collection[str]:
        """All that Placement knows."""


class NewClasses:
    """Whose turn it is."""

    def __init__(self, placement: ListsClasses) -> None:
        self._placement = placement
        self._had: set[str] = set()
        self._row: list[str] = []
        self.traits: Collection[str] = ()
        """Of one-time-use devices; Placement takes no name that it does not know."""

    def turn(self, known: Collection[str]) -> list[str]:
        """The classes that this pass asks for; ``known`` are those of the record.

        Where all had their turn, Placement is asked which there are, and the next pass goes on.
        """
        tried, self._row = self._row[:A_PASS], self._row[A_PASS:]
        if not tried:
            self.traits = self._placement.burning_traits()
            made = set(self._placement.resource_classes()) if self.traits else set()
            # Placement answers 400 to a class that somebody has deleted.
            self._had &= made
            # One that is not custom has such a device only by an odd device_spec.
            self._row = sorted(made.difference(known), key=lambda name: (not _custom(name), name))
        had = self._had.difference(known)
        return [*sorted(had), *(name for name in tried if name not in had)]

    def had(self, name: str) -> None:
        """Placement would hand out one of that class: every pass asks for it from now on."""
        self._had.add(name)


def _custom(name: str) -> bool:
    return name.startswith("CUSTOM_")
