"""Alarms that nobody said the end of: what they were about ended while the service was stopped.

Each part of the service remembers what it called people for, and tells when that is over. A process
that begins remembers nothing, and calls people again for what still is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from quarantine.doors import Clock, utc_now
from quarantine.record.alarms import AlarmLine
from quarantine.record.reasons import AlarmCode
from quarantine.record.store import Store
from quarantine.rules.alarmbook import over

REMEMBERED: Final = frozenset(
    {
        AlarmCode.HOST_SILENT,
        AlarmCode.HOSTS_SILENT,
        AlarmCode.SLOTS_ABSENT,
        AlarmCode.LISTING_DOUBTED,
        AlarmCode.RECORD_UNREADABLE,
        AlarmCode.MESSAGE_TOO_LONG,
        AlarmCode.HEAD_MISSING,
        AlarmCode.LATE,
    }
)
"""What lasts, and stands in a process alone. What is wrong with a slot stands on its record."""

SETTLE_SECONDS: Final = 60.0
"""In which a call is on record: another thread writes it."""

_PAGE: Final = 1000


class Leftovers:
    """Those of before this process, said to be over when their like would have come again."""

    def __init__(
        self,
        store: Store,
        after: float,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``after``: seconds in which people are called again for whatever still is."""
        self._store = store
        self._after = after
        self._monotonic = monotonic
        self._began: datetime | None = clock()
        self._due = monotonic() + after
        self._settled = False

    def end(self) -> None:
        """Once, when it is time. Raises :class:`quarantine.errors.UnavailableError`."""
        if self._began is None or self._monotonic() < self._due:
            return
        if not self._settled:
            # Where the record was away until now, people are called by this very round.
            self._settled, self._due = True, self._monotonic() + SETTLE_SECONDS
            return
        standing = {str(record.slot) for record in self._store.every_slot()[0] if record.alarm}
        for line in self._before(self._began):
            if line.subject not in standing:
                text = f"not told again in {self._after / 3600:g} h since the service was started"
                over(line.subject, AlarmCode(line.code), text)
        self._began = None

    def _before(self, began: datetime) -> Iterator[AlarmLine]:
        mark = None
        while True:
            page = self._store.alarm_page(limit=_PAGE, after=mark, codes=REMEMBERED, is_over=False)
            yield from (line for line in page if line.last_at < began)
            if len(page) < _PAGE:
                return
            mark = page[-1].mark
