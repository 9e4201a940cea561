"""How often people were called by this process, by the code of the alarm."""

from __future__ import annotations

import logging
from collections import Counter

from quarantine.record.reasons import AlarmCode
from quarantine.rules import alarmbook


class AlarmCounter(logging.Handler):
    """Listens at the one door of alarms."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._counts = Counter(dict.fromkeys(AlarmCode, 0))

    @property
    def counts(self) -> dict[AlarmCode, int]:
        """Each code, those that never came too."""
        return dict(self._counts)

    def emit(self, record: logging.LogRecord) -> None:
        """Counts it, where it is an alarm."""
        code = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if isinstance(code, AlarmCode):
            self._counts[code] += 1

    def listen(self) -> None:
        """From now on."""
        alarmbook.LOG.addHandler(self)

    def leave(self) -> None:
        """No more."""
        alarmbook.LOG.removeHandler(self)
