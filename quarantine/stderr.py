"""Standard error as a log: whoever should read it and does not keeps nobody from his work."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from typing import Final

LINES: Final = 10_000
"""So many wait to be taken; of warnings and worse (alarms are) so many more."""

PATIENCE: Final = 2.0
"""Seconds for what waits as the process ends."""


class StandardError(logging.Handler):
    """Lines to a descriptor, by a thread that does nothing else: it may wait without an end.

    All threads of the service log. One that waited itself, for a service manager that hangs or a
    container's log driver, would keep the others behind the handler's lock, and the safety pass
    with them. Lines for which there is no room are lost and counted.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._begin()
        # A child has no thread of ours, and may have got our lock while that had it.
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lines = deque[bytes]()
        self._lost = 0
        self._changed = threading.Condition()
        self._writer: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Gives a line to the thread. Raises nothing."""
        line = self._line(record)
        with self._changed:
            if len(self._lines) >= LINES * (1 if record.levelno < logging.WARNING else 2):
                self._lost += 1
                return
            if self._lost:
                self._lines.append(self._line(_missing(self._lost)))
                self._lost = 0
            self._lines.append(line)
            self._changed.notify_all()
            # At the first line: most processes that could log have nothing to say.
            if self._writer is None:
                self._start()

    def flush(self) -> None:
        """Waits until all is taken, for :data:`PATIENCE` at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, PATIENCE)

    def close(self) -> None:
        """As any handler."""
        self.flush()
        super().close()

    def _line(self, record: logging.LogRecord) -> bytes:
        try:
            line = self.format(record)
        except Exception as error:
            # A mistake of ours. The module would print it itself, and wait for the same reader.
            line = f"{record.name}: {record.msg!r} cannot be said: {error!r}"
        return line.encode(errors="backslashreplace") + b"\n"

    def _start(self) -> None:
        self._writer = threading.Thread(target=self._write_all, name="log", daemon=True)
        # Where no thread can be started the next line tries again; what waits is not lost.
        try:
            self._writer.start()
        except RuntimeError:
            self._writer = None

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines[0]
            # Where nobody can read any more there is nothing to wait for.
            with contextlib.suppress(OSError):
                while line:
                    line = line[os.write(self._descriptor, line) :]
            with self._changed:
                self._lines.popleft()
                self._changed.notify_all()


def _missing(lost: int) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": __name__,
            "levelno": logging.WARNING,
            "levelname": "WARNING",
            "msg": "%d lines are missing here: nobody took them",
            "args": (lost,),
        }
    )
