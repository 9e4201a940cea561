"""How often people were called, by the code of the alarm, whichever process called them.

Counted in the record: the worker calls people too, and serves no metrics.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from oslo_config.cfg import ConfigOpts

from quarantine.errors import QuarantineError
from quarantine.record.reasons import AlarmCode
from quarantine.record.store import Store
from quarantine.rules import alarmbook

LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 10.0
"""Before the record is asked again that did not take a count."""

END_SECONDS: Final = 5.0
"""For a count that is being written when the process ends."""


@contextmanager
def counting(conf: ConfigOpts) -> Iterator[None]:
    """This process's alarms are counted, with a connection that is made at the first one."""
    counter = AlarmCounter(lambda: Store.open(conf.database.url))
    counter.start()
    try:
        yield
    finally:
        counter.end()


class AlarmCounter(logging.Handler):
    """Listens at the one door of alarms and writes what it hears into the record, in a thread of
    its own: whoever calls people waits for no database."""

    def __init__(self, opened: Callable[[], Store]) -> None:
        super().__init__(logging.ERROR)
        self._opened = opened
        self._store: Store | None = None
        self._news = threading.Event()
        self._heard: Counter[AlarmCode] = Counter()
        self._ended = False
        self._told = False
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Counts it, where it is an alarm."""
        code = record.args[0] if isinstance(record.args, tuple) and record.args else None
        if isinstance(code, AlarmCode):
            self._heard[code] += 1  # the handler's own lock is held
            self._news.set()

    def start(self) -> None:
        """Listens from now on."""
        alarmbook.LOG.addHandler(self)
        self._thread.start()

    def leave(self) -> None:
        """Listens no more, and writes nothing: for a process that was forked off meanwhile."""
        alarmbook.LOG.removeHandler(self)

    def end(self) -> None:
        """Listens no more; what was heard and is not written yet is tried once."""
        self.leave()
        self._ended = True
        self._news.set()
        # It may be writing now, and would be cut off by the end of the process.
        self._thread.join(END_SECONDS)
        self.write()

    def write(self) -> bool:
        """Writes what was heard. Whether the record took it; if not, it is kept."""
        self.acquire()
        try:
            heard, self._heard = self._heard, Counter()
        finally:
            self.release()
        if not heard:
            return True
        try:
            self._store = self._store or self._opened()
            self._store.count_alarms({code.value: count for code, count in heard.items()})
        except QuarantineError as error:
            self.acquire()
            self._heard.update(heard)
            self.release()
            if not self._told:
                LOG.warning("alarms are not counted for now, and counted later: %s", error)
            self._told = True
            return False
        self._told = False
        return True

    def _run(self) -> None:
        while not self._ended:
            self._news.wait()
            self._news.clear()
            while not self._ended and not self.write():
                self._news.wait(RETRY_SECONDS)
                self._news.clear()
