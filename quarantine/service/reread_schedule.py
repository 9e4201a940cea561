"""Whose turn it is: the rolling budget for slots in use.

A release does not move the provider's generation (Nova sends ``DELETE /allocations/{server}``), so
slots in use must be read again and again. The reads are spread: each slot is read at least once per
period, oldest first, instead of all at once.
"""

from __future__ import annotations

import math
import time
import zlib
from collections.abc import Callable, Iterable, Iterator

from eraser.protocol.identity import Slot
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State


class RereadSchedule:
    """The slots in use, each with the moment of its last read, on the monotonic clock."""

    def __init__(self, period: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``period`` in seconds."""
        self._period = period
        self._now = monotonic
        self._records: dict[Slot, SlotRecord] = {}
        self._read: dict[Slot, float] = {}
        self._unseen: dict[Slot, float] = {}
        """Since when each was not read well, or is on the list."""
        self._last_turn = monotonic()
        self._blind_since: float | None = monotonic()
        """Since when it is unknown what is in use; None once that is known."""

    def seen(self, record: SlotRecord) -> None:
        """The slot was read just now; it stays on the list while it is in use."""
        if record.state is State.IN_USE:
            new = record.slot not in self._read
            self._records[record.slot] = record
            self._read[record.slot] = self._now() - (self._stagger(record.slot) if new else 0.0)
            self._unseen[record.slot] = self._now()
        else:
            self._unseen.pop(record.slot, None)
            self._records.pop(record.slot, None)
            self._read.pop(record.slot, None)

    def missed(self, record: SlotRecord) -> None:
        """The slot could not be read: it is due again in its share, behind those that wait."""
        self._read[record.slot] = self._now() - self._period / 2

    def _stagger(self, slot: Slot) -> float:
        """After a start all are read at once; the second time they come one by one, earlier."""
        return self._period / 2 * (zlib.crc32(str(slot).encode()) / 2**32)

    def refill(self, in_use: Iterable[SlotRecord]) -> None:
        """The list as the store has it now; slots that we never read are due first."""
        self._records = {record.slot: record for record in in_use}
        self._read = {slot: at for slot, at in self._read.items() if slot in self._records}
        now = self._now()
        # At the first filling nobody has watched since the start; what is new later is so from now.
        since = now if self._blind_since is None else self._blind_since
        self._unseen = {slot: self._unseen.get(slot, since) for slot in self._records}
        self._blind_since = None

    def __len__(self) -> int:
        return len(self._records)

    @property
    def oldest(self) -> float:
        """Since when the slot that waits longest was not read well; now, where there is none."""
        nothing = self._now() if self._blind_since is None else self._blind_since
        return min(self._unseen.values(), default=nothing)

    def due(self) -> Iterator[SlotRecord]:
        """The slots to read in this turn, oldest first.

        All that are overdue, and otherwise a share of the list in proportion to the time since the
        last turn, so that one period goes once around; none that was read less than half a period
        ago.
        """
        now = self._now()
        share = math.ceil(len(self._records) * (now - self._last_turn) / self._period)
        self._last_turn = now
        order = sorted(self._records, key=lambda slot: self._read.get(slot, -math.inf))
        for number, slot in enumerate(order):
            # The order is by age: behind the first that need not be read nobody else has to be.
            age = now - self._read.get(slot, -math.inf)
            if age < self._period / 2 or (number >= share and age < self._period):
                return
            # A look that the caller made since the last step may have taken the slot off the list.
            record = self._records.get(slot)
            if record is not None:
                yield record
