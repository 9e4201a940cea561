"""Values of labels: never many, whatever drives and hosts call themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import State
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
    """Which models have labels: who came first keeps it for as long as a slot has such a drive;
    of those that none has any more, the one that was seen last keeps it longest."""

    def __init__(self, most: int = MODELS) -> None:
        self._most = most
        self._known: dict[str, int] = {}
        """By model, the reading with which it was seen last."""
        self._readings = 0

    def seen(self, models: Iterable[str | None]) -> tuple[str, ...]:
        """These are the models of slots now, the most important ones first. Which have labels."""
        self._readings += 1
        wanted = [model for model in dict.fromkeys(models) if model is not None]
        # All that are there now are marked before the first one gives way.
        for model in wanted:
            if model in self._known:
                self._known[model] = self._readings
        for model in wanted:
            if model not in self._known and self._make_room():
                self._known[model] = self._readings
        return self.known

    def _make_room(self) -> bool:
        """Nobody who was seen just now gives way: else more models than labels would take them
        from each other with each reading."""
        if len(self._known) < self._most:
            return True
        oldest = min(self._known, key=lambda model: self._known[model])
        if self._known[oldest] == self._readings:
            return False
        del self._known[oldest]
        return True

    @property
    def known(self) -> tuple[str, ...]:
        """As they are stored."""
        return tuple(sorted(self._known))

    def label(self, model: str | None) -> str:
        """Empty where no drive is known."""
        if model is None:
            return ""
        if model not in self._known:
            # A model that no slot has now, from a certificate: it takes a free label and drives
            # nobody out.
            if len(self._known) >= self._most:
                return OTHER
            self._known[model] = 0
        # A drive chose it, and it goes into a line of the exposition.
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
