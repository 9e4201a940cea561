"""Standard error as a log: whoever should read it and does not keeps nobody from his work."""

from __future__ import annotations

import logging
import os
import select
from typing import Final

PATIENCE: Final = 2.0
"""Seconds for a reader that is slow. One that stopped is waited for once."""


class StandardError(logging.Handler):
    """Lines to a descriptor. Where nobody takes them they are lost, and counted once somebody does.

    All threads of the service log: one that waited without an end for the service manager, or for
    a container's log driver, would keep the others waiting behind the handler's lock, and the
    safety pass with them.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.missing = 0
        """Lines that are lost, until one is written again."""
        self._descriptor = descriptor
        self._is_cut = False
        """A part of the line before was taken, and the rest was not."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line. Raises nothing."""
        try:
            line = self.format(record)
            if self.missing:
                line = f"{self.format(self._told())}\n{line}"
            if self._is_cut:
                line = f"\n{line}"
            self._write(line.encode(errors="backslashreplace") + b"\n")
        except OSError:
            self.missing += 1
        except Exception:
            self.handleError(record)
        else:
            self.missing = 0

    def _told(self) -> logging.LogRecord:
        return logging.makeLogRecord(
            {
                "name": __name__,
                "levelno": logging.WARNING,
                "levelname": "WARNING",
                "msg": "%d lines are missing here: nobody took them",
                "args": (self.missing,),
            }
        )

    def _write(self, data: bytes) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        # What is ready takes so much without waiting (pipe(7)), and a line may be longer.
        for at in range(0, len(data), select.PIPE_BUF):
            piece = data[at : at + select.PIPE_BUF]
            if not poll.poll(0 if self.missing else PATIENCE * 1000):
                raise TimeoutError("expected standard error to take a line")
            written = os.write(self._descriptor, piece)
            self._is_cut = at + written < len(data)
            if written < len(piece):
                raise TimeoutError("expected standard error to take a whole line")
