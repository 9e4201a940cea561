"""Values of labels: never many, whatever drives and hosts call themselves."""

from __future__ import annotations

from typing import Final

from quarantine.record.reasons import HoldCode
from quarantine.record.states import State
from quarantine.rules import holds

PREFIX: Final = "nvme_quarantine_"

MODELS: Final = 50
"""Models with a label of their own; all further ones share :data:`OTHER`."""
OTHER: Final = "other"
"""No model, kind, state or code that this release knows."""

_STATES = frozenset(State)
_CODES = frozenset(HoldCode) | {holds.OLDER}
KINDS: Final = frozenset({"report", "receipt", "hello", "progress", "bell"})
"""Of messages that are refused."""


class ModelNames:
    """Which models have labels: the first ones that were seen, and as long as the process runs."""

    def __init__(self, most: int = MODELS) -> None:
        self._most = most
        self._known: set[str] = set()

    @property
    def known(self) -> tuple[str, ...]:
        """As they are stored."""
        return tuple(sorted(self._known))

    def label(self, model: str | None) -> str:
        """Empty where no drive is known."""
        if model is None:
            return ""
        if model not in self._known:
            if len(self._known) >= self._most:
                return OTHER
            self._known.add(model)
        return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in model)


def state(stored: str) -> str:
    """A state of this release, or :data:`OTHER`."""
    return stored if stored in _STATES else OTHER


def reason(stored_state: str, code: str | None) -> str:
    """The code of a hold; empty where nothing is held."""
    if stored_state != State.HELD:
        return ""
    shown = code or holds.OLDER
    return shown if shown in _CODES else OTHER


def kind(stored: str) -> str:
    """A kind of message, or :data:`OTHER`."""
    return stored if stored in KINDS else OTHER
