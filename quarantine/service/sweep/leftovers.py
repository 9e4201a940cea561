"""Alarms that nobody said the end of: what they were about ended while the service was stopped.

Each part of the service remembers what it called people for, and tells when that is over. A process
that begins remembers nothing, and calls people again for what still is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from quarantine.doors import Clock, utc_now
from quarantine.record.alarms import CALLED_FOR, AlarmLine
from quarantine.record.store import Store
from quarantine.record.words.clock import CLOCKS_APART, is_to_come
from quarantine.record.words.reasons import LASTING, AlarmCode
from quarantine.rules.alarmbook import over

REMEMBERED: Final = frozenset(
    {
        AlarmCode.HOST_SILENT,
        AlarmCode.HOSTS_SILENT,
        AlarmCode.SLOTS_ABSENT,
        AlarmCode.LISTING_DOUBTED,
        AlarmCode.ALLOCATION_LEFT,
        AlarmCode.RECORD_UNREADABLE,
        AlarmCode.MESSAGE_TOO_LONG,
        AlarmCode.HEAD_MISSING,
        AlarmCode.LATE,
    }
)
"""What lasts, and stands in a process alone. What is wrong with a slot stands on its record."""

OF_WORKER: Final = frozenset({AlarmCode.MESSAGE_TOO_LONG})
"""Those of them that the worker remembers. It may be a service of its own, which goes on while the
loop begins anew, and then tells nobody again of what still is."""

_RECORDED: Final = LASTING | frozenset(CALLED_FOR.values())
"""What is over by a slot's record. A call is written a moment later than the record: where it was
over by then, nobody said so."""

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
        *,
        codes: Collection[AlarmCode] = (REMEMBERED - OF_WORKER) | _RECORDED,
    ) -> None:
        """``after``: seconds in which people are called again for whatever still is. ``codes``:
        what is this process's to say."""
        self._store = store
        self._codes = frozenset(codes)
        self._after = after
        self._monotonic = monotonic
        self._clock = clock
        self._began: datetime | None = clock()
        self._started = monotonic()
        self._due = self._started + after
        self._settled = False

    def end(self) -> None:
        """Once, when it is time. Raises :class:`quarantine.errors.UnavailableError`."""
        if self._began is None or self._monotonic() < self._due:
            return
        if not self._settled:
            # Where the record was away until now, people are called by this very round.
            self._settled, self._due = True, self._monotonic() + SETTLE_SECONDS
            return
        now, lived = self._clock(), timedelta(seconds=self._monotonic() - self._started)
        # Where our clock was set meanwhile, what this process called people for may look as if it
        # had been before it. Then the next one says what is over.
        if abs(now - self._began - lived) <= CLOCKS_APART:
            self._end_those(self._began, now)
        self._began = None

    def _end_those(self, began: datetime, now: datetime) -> None:
        standing = self._standing()
        for line in self._before(began, now):
            if line.subject not in standing.get(line.code, ()):
                text = f"not told again in {self._after / 3600:g} h since the service was started"
                over(line.subject, AlarmCode(line.code), text)

    def _standing(self) -> Mapping[str, Collection[str]]:
        """The slots of which the record says that it still is, by code."""
        records, unreadable = self._store.every_slot()
        unknown = {str(row) for row in unreadable}
        wrong = {str(record.slot) for record in records if record.alarm}
        found = {str(code): wrong for code in REMEMBERED}
        found |= {str(code): wrong | unknown for code in LASTING - REMEMBERED}
        for state, code in CALLED_FOR.items():
            found[code] = unknown | {str(each.slot) for each in records if each.state is state}
        return found

    def _before(self, began: datetime, now: datetime) -> Iterator[AlarmLine]:
        """Those of a time to come too: they are of a clock that was ahead, before it was set."""
        mark = None
        while True:
            page = self._store.alarm_page(limit=_PAGE, after=mark, codes=self._codes, is_over=False)
            yield from (
                line for line in page if line.last_at < began or is_to_come(line.last_at, now)
            )
            if len(page) < _PAGE:
                return
            mark = page[-1].mark
