"""Triggers: words, and what joins them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.lab.nvme.composed.words import BY_NAME
from tests.lab.nvme.errors import DriveError

ALWAYS = "always"
AND, OR, AFTER = "and", "or", "after"
JOINTS = (AND, OR, AFTER)
DEEPEST = 3
"""Levels of a trigger, a word being one."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A condition under which the drive answers with what it kept.

    ``word`` is a word with its choice and number, or ``always``, or a joint over two parts:
    ``and``, ``or``, and ``after``: the second part counts from when the first has come true.
    """

    word: str = ALWAYS
    choice: str = ""
    number: int = 1
    parts: tuple[Trigger, ...] = ()

    def check(self) -> None:
        """Raises DriveError that names what is wrong."""
        if self.depth > DEEPEST:
            raise DriveError(f"a trigger should have {DEEPEST} levels at most, has {self.depth}")
        for one in self.walk():
            if one.word in JOINTS:
                if len(one.parts) != 2 or one.choice or one.number != 1:
                    raise DriveError(f"{one.word!r} should join two triggers and no more")
                if one.word != AFTER and one.parts[0] == one.parts[1]:
                    raise DriveError(f"{one.word!r} should join two triggers that differ")
            elif one.parts:
                raise DriveError(f"a word joins nothing, {one.word!r} has parts")
            elif one.word == ALWAYS:
                if one.choice or one.number != 1:
                    raise DriveError(f"{ALWAYS!r} has nothing to choose")
            elif one.word not in BY_NAME:
                raise DriveError(f"no word {one.word!r}; there are: {', '.join(BY_NAME)}")
            elif one.choice not in BY_NAME[one.word].choices or one.number < 1:
                choices = ", ".join(BY_NAME[one.word].choices)
                raise DriveError(
                    f"{one.word!r} should have one of {choices} and a number from 1, "
                    f"found {one.choice!r} and {one.number}"
                )
            elif one.number != 1 and "{n}" not in BY_NAME[one.word].says[one.choice]:
                raise DriveError(f"{one.word} {one.choice} has no number, found {one.number}")

    @property
    def depth(self) -> int:
        """Levels."""
        return 1 + max((part.depth for part in self.parts), default=0)

    def walk(self) -> Iterator[Trigger]:
        """It and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def words(self) -> list[str]:
        """The words in it, with their choices, in order."""
        return [
            f"{one.word} {one.choice}".rstrip() for one in self.walk() if one.word not in JOINTS
        ]

    @property
    def needs_read(self) -> bool:
        """Whether a word in it is about the read at hand."""
        return any(one.word in BY_NAME and BY_NAME[one.word].of_read for one in self.walk())

    @property
    def undetectable(self) -> str:
        """Why no eraser can be asked to find it, "" where it can: a part that is needed is so."""
        if self.word == OR:
            whys = [part.undetectable for part in self.parts]
            return whys[0] if all(whys) else ""
        if self.parts:
            return next((part.undetectable for part in self.parts if part.undetectable), "")
        return BY_NAME[self.word].undetectable if self.word in BY_NAME else ""

    @property
    def sentence(self) -> str:
        """When, in plain words."""
        if self.word == ALWAYS:
            return "at once"
        if self.parts:
            joint = {AND: "and", OR: "or", AFTER: "and then"}[self.word]
            said = [
                f"({part.sentence})"
                if part.word in JOINTS and part.word != self.word
                else part.sentence
                for part in self.parts
            ]
            return f" {joint} ".join(said)
        said_once = BY_NAME[self.word].says[self.choice].format(n=self.number)
        if self.number == 1:
            return _singular(said_once)
        return said_once


PLAINLY = Trigger()
"""The trigger of a drive that hides nothing."""


def _singular(said: str) -> str:
    said = said.removesuffix(", 1 in a row")
    for many, one in (
        ("after 1 resets", "after a reset"),
        ("after 1 function level resets", "after a function level reset"),
        ("after 1 power cycles", "after a power cycle"),
        ("after 1 announced shutdowns", "after an announced shutdown"),
        ("after 1 writes", "after a write"),
        ("after 1 looks", "after a look"),
        ("after 1 Formats", "after a Format"),
        ("after 1 Identify commands", "after an Identify command"),
        ("after 1 Abort commands", "after an Abort command"),
        ("after 1 reads", "after a read"),
        ("after 1 I/O queues were made at a time", "after an I/O queue was made"),
        ("it 1 times", "it"),
        ("as 1 times its", "as its"),
    ):
        said = said.replace(many, one)
    if said.startswith("after 1 ") and said.endswith("commands"):
        said = "after a " + said.removeprefix("after 1 ").removesuffix("s")
    return said.replace("after 1 commands", "after a command")
