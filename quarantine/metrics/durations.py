"""What cases took, summed up once and then only with what is new."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from quarantine.metrics.names import OTHER, ModelNames
from quarantine.record.store import Store
from quarantine.record.totals import DurationTotal
from quarantine.rules.sale import pace
from quarantine.rules.sale.pace import Pace

EDGES: Final = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
"""Of the histograms, in seconds: from a cryptographic erase to an overwrite of many terabytes."""


@dataclass
class Sums:
    """Of the cases of one label."""

    cases: int = 0
    erase: float = 0.0
    verify: float = 0.0
    erase_within: list[int] = field(default_factory=lambda: [0] * len(EDGES))
    verify_within: list[int] = field(default_factory=lambda: [0] * len(EDGES))

    def add(self, more: DurationTotal) -> None:
        """Cases that came since."""
        self.cases += more.cases
        self.erase += more.erase
        self.verify += more.verify
        for mine, theirs in (
            (self.erase_within, more.erase_within),
            (self.verify_within, more.verify_within),
        ):
            for edge, count in enumerate(theirs):
                mine[edge] += count


class Durations:
    """Kept from one reading to the next; for one thread at a time."""

    def __init__(self, models: ModelNames) -> None:
        self._models = models
        self._position = 0
        self.sums: dict[str, Sums] = {}
        self.paces: dict[str, Pace] = {}
        """By the models as they are stored."""

    def read(self, store: Store, position: int) -> None:
        """All certificates after those that are known; ``position`` is the chain's end now."""
        # A model that gave its label to another begins anew, should it come back: for a counter
        # that is a restart.
        labels = {self._models.label(model) for model in self._models.known} | {OTHER}
        self.sums = {label: sums for label, sums in self.sums.items() if label in labels}
        self.paces = {m: known for m, known in self.paces.items() if m in self._models.known}
        if position < self._position:
            # The record was set back: what comes next has numbers that were counted already.
            self.__init__(self._models)  # type: ignore[misc]
        if position == self._position:
            return
        for total in store.duration_totals(EDGES, self._position):
            label = self._models.label(total.model)
            self.sums.setdefault(label, Sums()).add(total)
            self._learn(store, total.model)
        self._position = position

    def _learn(self, store: Store, model: str) -> None:
        if model not in self._models.known:
            return
        newest = store.last_durations(model, pace.SAMPLES)
        found = pace.pace([(case.erase, case.verify) for case in newest])
        if found is not None:
            self.paces[model] = found
