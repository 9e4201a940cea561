"""What can go wrong, each with one line for a person."""

from __future__ import annotations


class RaidError(Exception):
    """Something could not be looked at or done; the text says what to do."""


class Refusal(RaidError):
    """The machine is not in a state that may be changed. One reason per line.

    ``done``: the steps before it, in words. Nearly always none; what is on an array shows only when
    it is assembled.
    """

    def __init__(self, reasons: tuple[str, ...], done: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons
        self.done = done

    @property
    def heading(self) -> str:
        """What it means, in words."""
        if self.done:
            return f"refused, after this was done: {'; '.join(self.done)}"
        return "refused, nothing was changed"
