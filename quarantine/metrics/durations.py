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
        kept = {self._models.label(model) for model in self._models.known} | {OTHER}
        self.sums = {label: sums for label, sums in self.sums.items() if label in kept}
        self.paces = {m: known for m, known in self.paces.items() if m in self._models.known}
        if position < self._position:
            # The record was set back: what comes next has numbers that were counted already.
            self.__init__(self._models)  # type: ignore[misc]
        if position == self._position:
            return
        totals = store.duration_totals(EDGES, self._position)
        labels = [self._models.label(total.model) for total in totals]
        # All that the record is asked for comes before the first sum: else what was added when it
        # went away would be added once more.
        paces = {total.model: self._pace(store, total.model) for total in totals}
        for label, total in zip(labels, totals, strict=True):
            self.sums.setdefault(label, Sums()).add(total)
        self.paces |= {model: found for model, found in paces.items() if found is not None}
        # A certificate that came since the chain's end was read is among them.
        self._position = max([position, *(total.last for total in totals)])

    def _pace(self, store: Store, model: str) -> Pace | None:
        if model not in self._models.known:
            return None
        newest = store.last_durations(model, pace.SAMPLES)
        return pace.pace([(case.erase, case.verify) for case in newest])
