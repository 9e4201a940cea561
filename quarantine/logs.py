"""The log of a process: one line for each event, on standard error."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import sys
from collections.abc import Iterator
from typing import Final

MAX_LINE: Final = 4000
"""Characters of one logged event: a report's reasons may be megabytes."""

_IDS: contextvars.ContextVar[str] = contextvars.ContextVar("ids", default="")


@contextlib.contextmanager
def named(*ids: str) -> Iterator[None]:
    """Lines that this thread logs meanwhile begin with these ids; empty ones are left out."""
    before = _IDS.set(" ".join(filter(None, ids)))
    try:
        yield
    finally:
        _IDS.reset(before)


def clean(words: str) -> str:
    """One line without controls."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words)


class OneLine(logging.Formatter):
    """Messages quote drives and hosts: none may begin a line of its own or move a cursor.

    A line of a request has its ids before the message (:func:`named`), as oslo.log writes them.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of the event; a traceback of ours follows as it is."""
        ids = _IDS.get()
        if not ids:
            return clean(super().formatMessage(record))[:MAX_LINE]
        said = record.message
        record.message = f"[{ids}] {said}"
        try:
            return clean(super().formatMessage(record))[:MAX_LINE]
        finally:
            record.message = said  # other handlers have it too


def set_up_logging(level: str) -> None:
    """All on stderr, one line per event; the service manager keeps it."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("kombu", "openstack", "keystoneauth", "urllib3", "celery"):
        logging.getLogger(noisy).setLevel(max(logging.getLevelName(level), logging.WARNING))
