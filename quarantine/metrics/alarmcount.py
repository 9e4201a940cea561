"""What people were called for and how often, whichever process called them.

Noted in the record: the worker and commands call people too, and serve no metrics.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, TextIO

from oslo_config.cfg import ConfigOpts

from quarantine.errors import BadInputError, ConflictError, QuarantineError
from quarantine.logs import OneLine
from quarantine.record.alarms import AlarmCall
from quarantine.record.store import Store
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules import alarmbook
from quarantine.rules.alarmbook import SlotInState
from quarantine.service.sweep.leftovers import REMEMBERED

LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 10.0
"""Before the record is asked again that did not take a count."""

AT_ONCE: Final = 5
"""Tries without a pause where another process writes the same: an ending one has no other time."""

MOST: Final = 10_000
"""Subjects that are remembered while the record is away; of more only the counts are."""

END_SECONDS: Final = 5.0
"""For a count that is being written when the process ends."""

_OF_A_PROCESS: Final = REMEMBERED | {AlarmCode.KEY_UNREADABLE}
"""What stands in a process alone, or is about its own files."""


@contextmanager
def counting(conf: ConfigOpts, *, remembers: bool = True) -> Iterator[None]:
    """This process's alarms are counted, with a connection that is made at the first one.

    Where it ``remembers`` nothing, being a command, not those that stand in a process alone: nobody
    would say that they are over, and the service calls people for them by itself.
    """
    counter = AlarmCounter(lambda: Store.open(conf.database.url), remembers=remembers)
    counter.start()
    try:
        yield
    finally:
        counter.end()


@contextmanager
def shown(stderr: TextIO) -> Iterator[None]:
    """This process's alarms are seen in the terminal too, where it has set up no logging: Python's
    last resort (:data:`logging.lastResort`) writes nothing of a logger that has any handler, as a
    counter."""
    if alarmbook.LOG.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(stderr)
    handler.setFormatter(OneLine())
    alarmbook.LOG.addHandler(handler)
    try:
        yield
    finally:
        alarmbook.LOG.removeHandler(handler)


class AlarmCounter(logging.Handler):
    """Listens at the one door of alarms and writes what it hears into the record, in a thread of
    its own: whoever calls people waits for no database."""

    def __init__(self, opened: Callable[[], Store], *, remembers: bool = True) -> None:
        super().__init__(logging.WARNING)
        self._opened = opened
        self._remembers = remembers
        self._store: Store | None = None
        self._news = threading.Event()
        self._heard: Counter[str] = Counter()
        self._calls: dict[tuple[str, str], AlarmCall] = {}
        """By code and subject."""
        self._ended = False
        self._told = False
        self._thread = threading.Thread(target=self._run, name="alarms", daemon=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Takes it down, where it is an alarm or the end of one. The handler's own lock is held."""
        words = record.args if isinstance(record.args, tuple) else ()
        # Other lines of that logger are nobody's call.
        if len(words) != 3 or not isinstance(words[0], AlarmCode):
            return
        # What a look told of a slot stands on its record, whoever took it.
        is_recorded = isinstance(words[1], SlotInState) or words[0] not in _OF_A_PROCESS
        if not self._remembers and not is_recorded:
            return
        code, about, text = words[0].value, words[1], str(words[2])
        subject = str(about.slot if isinstance(about, SlotInState) else about)
        at = datetime.fromtimestamp(record.created, UTC)
        if record.msg == alarmbook.CALLED:
            self._heard[code] += 1
            self._note(AlarmCall(code, subject, text, at, at, 1))
        else:
            self._note(AlarmCall(code, subject, text, at, at, 0, at))
        self._news.set()

    def start(self) -> None:
        """Listens from now on."""
        alarmbook.LOG.addHandler(self)
        self._thread.start()

    def leave(self) -> None:
        """Listens no more, and writes nothing: for a process that was forked off meanwhile."""
        alarmbook.LOG.removeHandler(self)

    def end(self) -> None:
        """Listens no more; what was heard and is not written yet is tried now, or lost."""
        self.leave()
        self._ended = True
        self._news.set()
        # It may be writing now, and would be cut off by the end of the process.
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            LOG.warning("alarms may be lost: a record that does not answer is not waited for")
        self.write(last=True)

    def write(self, *, last: bool = False) -> bool:
        """Writes what was heard. Whether the record took it; if not, it is kept, and people are
        told so once, or with ``last`` that nobody tries again."""
        self.acquire()
        try:
            # Taken away under the lock, and written without it: whoever calls people must not wait
            # for the record.
            heard, self._heard = self._heard, Counter()
            calls, self._calls = self._calls, {}
        finally:
            self.release()
        if not calls and not heard:
            return True
        try:
            try:
                self._put(heard, calls.values())
            except BadInputError:
                self._put_each(heard, calls)
        except Exception as error:
            # Ours to mend, or a driver's: this thread is the only one, and nobody starts another.
            self._keep(heard, calls)
            if last or not self._told:
                what = "and lost" if last else "for now, which is tried again"
                foreseen = isinstance(error, QuarantineError)
                level = logging.WARNING if foreseen else logging.ERROR
                LOG.log(level, "alarms are not counted, %s: %s", what, error, exc_info=not foreseen)
            self._told = True
            return False
        self._told = False
        return True

    def _put_each(self, heard: Counter[str], calls: dict[tuple[str, str], AlarmCall]) -> None:
        """One text that the database refuses, of a host's own words say, keeps no other alarm from
        the record, and is itself written as every database takes it. Takes out of both what is
        written. Raises :class:`QuarantineError`."""
        self._put(heard, ())
        heard.clear()
        for key, call in list(calls.items()):
            try:
                self._put({}, [call])
            except BadInputError as error:
                LOG.warning("an alarm for %s is kept in ASCII, or only counted: %s", key, error)
                text = call.text.encode("ascii", "backslashreplace").decode()
                with suppress(BadInputError):
                    self._put({}, [replace(call, text=text)])
            del calls[key]

    def _put(self, heard: Mapping[str, int], calls: Iterable[AlarmCall]) -> None:
        """Raises :class:`QuarantineError`."""
        self._store = self._store or self._opened()
        for tries_left in reversed(range(AT_ONCE)):
            try:
                return self._store.note_alarms(heard, calls)
            except ConflictError:
                # Another process called people for the same, just now.
                if not tries_left:
                    raise

    def _keep(self, heard: Mapping[str, int], calls: dict[tuple[str, str], AlarmCall]) -> None:
        """What was not written stands before what was heard meanwhile."""
        self.acquire()
        try:
            self._heard.update(heard)
            newer, self._calls = self._calls, calls
            for call in newer.values():
                self._note(call)
        finally:
            self.release()

    def _note(self, call: AlarmCall) -> None:
        """Adds it to what was heard of the same before."""
        key = call.code, call.subject
        before = self._calls.get(key)
        # The counts by code are kept in any case: they have no more keys than there are codes.
        if before is None and len(self._calls) >= MOST:
            return
        # After an end alone a call begins anew. A call after calls keeps their first time and adds
        # to their number; an end after calls says only that they are over.
        if before is not None and before.times:
            newest = call if call.times else replace(before, over_at=call.over_at)
            times = before.times + call.times
            call = replace(newest, first_at=before.first_at, times=times)
        self._calls[key] = call

    def _run(self) -> None:
        while not self._ended:
            self._news.wait()
            self._news.clear()
            # What was not taken is tried again after a pause, or at once when more is heard.
            while not self._ended and not self.write():
                self._news.wait(RETRY_SECONDS)
                self._news.clear()
