"""What the visit has for each kind of act that a trace shows, and where it has none, why."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

_DRIVER: Final = "the host's driver sends it, each time that it takes the drive"
_REBINDS: Final = ("the host lets go of it", "the instance is deleted")
"""Activities of which the admin commands are the host's own driver's."""
_ADMIN: Final = ("Create", "Delete", "Get Log", "Identify", "Set Features", "Security")
PRINTED: Final = "not done, and the certificate says so: "
_REASONS: Final[dict[str, str]] = {
    r"Compare, .*": "done sector by sector, which asks for more",
    r"Format nvm": "a method of its own, where a drive has no Sanitize that the policy takes",
    r"Identify CNS (05|10)h": "describes controller and namespace, with nothing of the media",
    r"Get Log Page (07|0D)h": PRINTED + "logs that keep what a host wrote",
    r"Reservation report": PRINTED + "Reservation Report",
    r"Verify": PRINTED + "Verify",
    r"Write, (up to|more than) 128 KiB.*": PRINTED + "writes of more than 4 KiB",
}


@dataclass(frozen=True)
class Answer:
    """``words`` for the page; empty where there is none at all."""

    words: str
    reason: str = ""
    """The pattern that it goes by."""


def drivers(trace: dict[str, Any]) -> frozenset[str]:
    """What the host's own driver was seen to send."""
    return frozenset(
        act
        for each in trace["activities"]
        if each["what"] in _REBINDS
        for act in each["acts"]
        if act.startswith(_ADMIN)
    )


def answer(act: str, ours: Collection[str], driver: Collection[str]) -> Answer:
    """Whether the visit does it, ``ours`` and ``driver`` being what was seen of it, or why not."""
    if act in ours:
        return Answer("done")
    if act in driver:
        return Answer(_DRIVER)
    for pattern, reason in _REASONS.items():
        if re.fullmatch(pattern, act):
            return Answer(reason, pattern)
    return Answer("")


def patterns() -> frozenset[str]:
    """Of all reasons."""
    return frozenset(_REASONS)
