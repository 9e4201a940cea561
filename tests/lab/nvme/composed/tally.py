"""Counting composed drives: what they keep, through what, shown when, odd how; and what was got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.lab.nvme.composed.audit import Finding
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.kept import What
from tests.lab.nvme.composed.oddities import ODDITIES
from tests.lab.nvme.composed.triggers import ALWAYS
from tests.lab.nvme.composed.words import WORDS
from tests.lab.nvme.nature import Method


@dataclass
class Tally:
    """Counts of drives. A drive counts once for each thing that it has."""

    drives: int = 0
    honest: int = 0
    undetectable: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    survives: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    choices: Counter[str] = field(default_factory=Counter)
    depths: Counter[int] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)

    def add(self, drive: Description) -> None:
        """One more."""
        self.drives += 1
        self.honest += drive.honest
        self.undetectable += bool(drive.undetectable)
        self.expected[drive.expected.value] += 1
        self.kept.update({lie.kept.what.value for lie in drive.lies})
        self.survives.update({method.value for lie in drive.lies for method in lie.survives})
        choices = {choice for lie in drive.lies for choice in lie.trigger.words}
        self.choices.update(choices)
        self.words.update({choice.split()[0] for choice in choices})
        self.depths.update({lie.trigger.depth for lie in drive.lies})
        self.odd.update({one.name for one in drive.odd})

    def lines(self) -> list[str]:
        """As text; what was not drawn at all stands there with a zero."""
        liars = self.drives - self.honest
        head = (
            f"{self.drives} drives: {self.honest} honest, {liars} that lie, of which "
            f"{self.undetectable} in ways that no eraser can be asked to find"
        )
        words = [ALWAYS, *(word.name for word in WORDS)]
        choices = [f"{w.name} {choice}".rstrip() for w in WORDS for choice in w.choices]
        return [
            head,
            _line("expected", self.expected, ["erased", "held"]),
            _line("kept", self.kept, [what.value for what in What]),
            _line("survives", self.survives, [method.value for method in Method]),
            _line("levels", self.depths, [1, 2, 3]),
            _line("word", self.words, words),
            _line("choice", self.choices, choices),
            _line("odd", self.odd, [oddity.name for oddity in ODDITIES]),
        ]


def _line(name: str, counts: Counter[str] | Counter[int], every: Iterable[str | int]) -> str:
    known = list(every)
    said = ", ".join(f"{one} {counts[one]}" for one in known)  # type: ignore[index]
    return f"{name}: {said}"


@dataclass
class Taken:
    """Of drives that keep data after an erase: how many gave some to the second tenant."""

    kept: Counter[str] = field(default_factory=Counter)
    got: Counter[str] = field(default_factory=Counter)
    honest: int = 0
    leaked: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def add(self, found: Finding) -> None:
        """One more."""
        if found.drive.honest:
            self.honest += 1
            if not found.loot.empty:
                self.leaked.append(found.drive.name)
            return
        if not found.kept:
            return
        names = {"all"} | {lie.kept.what.value for lie in found.drive.lies}
        names |= {choice.split()[0] for lie in found.drive.lies for choice in lie.trigger.words}
        names.add("undetectable" if found.drive.undetectable else "detectable")
        self.kept.update(names)
        if found.loot.empty:
            self.closed.append(found.drive.name)
        else:
            self.got.update(names)

    def lines(self) -> list[str]:
        """As text."""
        counts = ", ".join(f"{one} {self.got[one]} of {self.kept[one]}" for one in self.kept)
        return [
            f"honest drives that gave something: {len(self.leaked)} of {self.honest} "
            + " ".join(self.leaked),
            f"liars that gave something, of those that kept something: {counts}",
            "kept something and gave nothing: " + ", ".join(self.closed),
        ]
