"""What can go wrong, each with one line for a person."""

from __future__ import annotations


class RaidError(Exception):
    """Something could not be looked at or done; the text says what to do."""


class Refusal(RaidError):
    """The machine is not in a state that may be changed; nothing was. One reason per line."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons
