"""What a maintenance silences: calls about silence and delay of its subject, nothing else. Pure.

It is a person's word that trouble is expected. No step, no gate and no right to be on offer depends
on it; which alarms it silences stands beside their texts (:mod:`quarantine.rules.alarmbook`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC

from eraser.protocol.identity import Slot
from quarantine.record.words.facts import Maintenance, Subject


@dataclass(frozen=True)
class Maintenances:
    """Those that are in effect now."""

    by_subject: Mapping[Subject, Maintenance] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[Maintenance]) -> Maintenances:
        """Of those that the record has in effect."""
        return cls({one.subject: one for one in found})

    def of_host(self, host: str) -> Maintenance | None:
        """A host's own."""
        return self.by_subject.get(Subject(host))

    def of_slot(self, slot: Slot) -> tuple[Maintenance, ...]:
        """A slot's own, and its host's."""
        return self.of_place(slot.host, slot.address)

    def of_place(self, host: str, address: str) -> tuple[Maintenance, ...]:
        """The same for a row that may be no slot of ours."""
        both = self.by_subject.get(Subject(host, address)), self.of_host(host)
        return tuple(one for one in both if one is not None)

    @property
    def hosts(self) -> frozenset[str]:
        """Whole hosts."""
        return frozenset(one.host for one in self.by_subject if not one.address)


def words(*found: Maintenance | None) -> str:
    """For people: until when, and why; empty where there is none."""
    return "; ".join(
        f"{'' if one.subject.address else 'host '}in maintenance until "
        f"{one.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {one.reason}"
        for one in found
        if one is not None and one.until is not None
    )
