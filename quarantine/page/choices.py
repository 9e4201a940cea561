"""What a person can decide about a slot as it is, in words, and the command that does the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from quarantine.operations import decisions
from quarantine.operations.slots import SlotView, State
from quarantine.page import texts

HOLD_LATER: Final = "hold-at-next-release"
TAKE_BACK: Final = "take-back"


@dataclass(frozen=True)
class Choice:
    """One thing that can be decided."""

    name: str
    """Of its address, below the slot's."""
    verb: str
    """Of the API's operation and of the command that do the same."""
    title: str
    what: str
    final: bool = False
    """What was on the drive is gone afterwards, or the drive is: its serial number is typed."""
    flag: str = ""
    """Of the command."""

    @property
    def rule(self) -> str:
        """Of the API's operation."""
        return f"slots:{self.verb}"


CHOICES: Final = {
    one.name: one
    for one in (
        Choice(
            "hold",
            "hold",
            "Hold",
            "Keep the drive out of the pool until a person releases it.",
        ),
        Choice(
            HOLD_LATER,
            "hold",
            "Hold at its next release",
            "Nothing is taken from the server. When it lets go of the drive, the slot is held "
            "until a person releases it, and nothing is erased before.",
            flag="--at-next-release",
        ),
        Choice(
            TAKE_BACK,
            "release",
            "Take the hold at its next release back",
            "When its server lets go of the drive, it is erased as ever.",
        ),
        Choice(
            "release",
            "release",
            "Release: erase again",
            "End the hold. The drive is erased again, checked, and only then goes back to the "
            "pool.",
            final=True,
        ),
        Choice(
            "erase",
            "erase",
            "Erase again",
            "Take the drive out of the pool. It is erased again, checked, and only then goes back.",
            final=True,
        ),
        Choice(
            "retire",
            "retire",
            "Retire for good",
            "Give the drive up. It is never handed out again, in whatever slot it turns up.",
            final=True,
        ),
    )
}
"""By name, in the order in which they are shown."""


def possible(view: SlotView, allows: Callable[[str], bool]) -> list[dict[str, Any]]:
    """For a template: what this caller can decide about this slot now."""
    now = decisions.possible(view.state)
    # These two depend on more than the state; the others are the state's alone.
    fits = {
        HOLD_LATER: view.state is State.IN_USE and not view.next_hold,
        TAKE_BACK: bool(view.next_hold),
    }
    return [
        _shown(view, one)
        for name, one in CHOICES.items()
        if fits.get(name, name in now) and allows(one.rule)
    ]


def _shown(view: SlotView, one: Choice) -> dict[str, Any]:
    words = ["nvme-quarantine", "slot", one.verb, texts.quoted(str(view.slot)), one.flag]
    return {
        "name": one.name,
        "title": one.title,
        "what": one.what,
        "final": one.final,
        "command": " ".join([*filter(None, words), "--reason"]),
    }
