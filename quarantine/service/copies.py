"""Orders and tickets that are sent again to a host that speaks, and does not answer.

It refuses them, by a wrong key file say, and would be sent thousands a day. A host that is away and
comes back is no such one: it may have lost its queue, and is to have what waits for it soon.
"""

from __future__ import annotations

from datetime import datetime

from eraser.protocol.identity import Slot
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State

_Wait = tuple[State, datetime, datetime | None]


class Copies:
    """Of one process, which begins anew with each slot where it is started anew."""

    def __init__(self) -> None:
        self._sent: dict[Slot, tuple[_Wait, int]] = {}

    def of(self, record: SlotRecord) -> int:
        """How often the slot's order or ticket was sent again since anything was heard of it."""
        wait, times = self._sent.get(record.slot, (None, 0))
        return times if wait == _wait(record) else 0

    def sent(self, record: SlotRecord) -> None:
        """Once more."""
        self._sent[record.slot] = _wait(record), self.of(record) + 1

    def forget(self, slot: Slot) -> None:
        """Its host is away."""
        self._sent.pop(slot, None)


def _wait(record: SlotRecord) -> _Wait:
    return record.state, record.entered_at, record.heard_at
