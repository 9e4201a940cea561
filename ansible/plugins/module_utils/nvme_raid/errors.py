"""What can go wrong, each with one line for a person."""

from __future__ import annotations


class RaidError(Exception):
    """Something could not be looked at or done; the text says what to do.

    ``done``: the steps before it, in words; whoever runs them adds these.
    """

    done: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """What it means, in words."""
        return "failed" + self._after()

    def _after(self) -> str:
        return f", after this was done: {'; '.join(self.done)}" if self.done else ""


class Refusal(RaidError):
    """The machine is not in a state that may be changed. One reason per line.

    Nearly always before any step; what is on an array shows only when it is assembled.
    """

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons

    @property
    def heading(self) -> str:
        """What it means, in words."""
        return "refused" + (self._after() or ", nothing was changed")
