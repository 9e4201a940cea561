"""The logs of a process: what it does, on standard error; and who decided what, in a file apart."""

from __future__ import annotations

import contextlib
import contextvars
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator, Mapping
from io import FileIO, TextIOWrapper
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final, cast

from quarantine.errors import BadInputError
from quarantine.users import hand_over

LOG = logging.getLogger(__name__)

MAX_LINE: Final = 4000
"""Characters of one logged event: a report's reasons may be megabytes."""

AUDIT: Final = logging.getLogger("quarantine.audit")
"""Who decided what: one line for each act, also for one that was refused."""

_AUDIT_MODE: Final = 0o640
"""Of the file of it: its owner writes, and a collector of its group may read."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_IDS: contextvars.ContextVar[Mapping[str, str]] = contextvars.ContextVar("ids", default=_NOTHING)


@contextlib.contextmanager
def named(**ids: str) -> Iterator[None]:
    """Lines that this thread logs meanwhile have these ids; empty ones are left out."""
    before = _IDS.set({**_IDS.get(), **{name: said for name, said in ids.items() if said}})
    try:
        yield
    finally:
        _IDS.reset(before)


def clean(words: str) -> str:
    """One line without controls."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words)


class OneLine(logging.Formatter):
    """Messages quote drives and hosts: none may begin a line of its own or move a cursor.

    A line has its ids before the message (:func:`named`), as oslo.log writes them.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The line of the event; a traceback of ours follows as it is."""
        ids = " ".join(_IDS.get().values())
        if not ids:
            return clean(super().formatMessage(record))[:MAX_LINE]
        said = record.message
        record.message = f"[{ids}] {said}"
        try:
            return clean(super().formatMessage(record))[:MAX_LINE]
        finally:
            record.message = said  # other handlers have it too


def set_up_logging(level: str, form: str = "line", audit_file: str = "") -> None:
    """All on stderr, one line per event; the service manager keeps it.

    ``form``: ``line``, or ``json`` as oslo.log has it. Who decided what goes to ``audit_file`` as
    well; empty: nowhere else. Raises :class:`BadInputError` where that cannot be written.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(form))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("kombu", "openstack", "keystoneauth", "urllib3", "celery"):
        logging.getLogger(noisy).setLevel(max(logging.getLevelName(level), logging.WARNING))
    keep_audit(audit_file, form)


def keep_audit(file: str, form: str = "line") -> None:
    """Who decides what from now on is written down there, and nowhere else before.

    A log that is rotated away is begun anew. Raises :class:`BadInputError`.
    """
    for former in AUDIT.handlers[:]:
        AUDIT.removeHandler(former)
        with contextlib.suppress(OSError, ValueError):
            former.close()
    AUDIT.setLevel(logging.INFO if file else logging.NOTSET)
    if not file:
        return
    try:
        handler = AuditFile(file)
    except OSError as error:
        raise BadInputError(
            f"[run]audit_file: expected a file that can be written, found {file}: {error.strerror}"
        ) from error
    handler.setFormatter(_formatter(form))
    AUDIT.addHandler(handler)


class AuditFile(logging.handlers.WatchedFileHandler):
    """The file of who decided what. What is done is done, also where it cannot be written down:
    then the process's own log says so, once until it is written again."""

    def __init__(self, file: str) -> None:
        """Raises ``OSError``."""
        self._missing = 0
        super().__init__(file, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        # Without a buffer: what could not be written is missing, and is not written later.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        raw = FileIO(_opened(self.baseFilename, flags), "ab")
        return TextIOWrapper(cast(BinaryIO, raw), encoding="utf-8", write_through=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line. Raises nothing: a rotated file is begun anew outside the library's try."""
        before = self._missing
        try:
            super().emit(record)
        except (OSError, ValueError):
            self.handleError(record)
        if before and self._missing == before:
            self._missing = 0
            LOG.warning(
                "[run]audit_file: %s is written again; %d lines are missing in it",
                self.baseFilename,
                before,
            )

    def handleError(self, record: logging.LogRecord) -> None:
        """Tells the first of the lines that are not in the file, and why."""
        self._missing += 1
        error = sys.exc_info()[1]
        # A stream that could not be closed is closed all the same, and takes nothing any more.
        stream, self.stream = self.stream, None
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
        if self._missing == 1:
            LOG.error(
                "[run]audit_file: %s cannot be written: %s; this is not in it, nor what comes: %s",
                self.baseFilename,
                error,
                clean(record.getMessage()),
            )


def _opened(path: str, flags: int) -> int:
    """A new file is the service's, whoever makes it: a command of root would shut it out."""
    # The directory is the service's: root follows nothing that is planted there, and waits for
    # nobody.
    there = (flags & ~os.O_CREAT) | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, there)
    try:
        descriptor = os.open(path, flags | os.O_EXCL, _AUDIT_MODE)
    except FileExistsError:  # somebody else began it just now
        return os.open(path, there)
    try:
        os.fchmod(descriptor, _AUDIT_MODE)  # whatever the umask is
        hand_over(descriptor, Path(path))
    except OSError:
        os.close(descriptor)
        os.unlink(path)
        raise
    return descriptor


def _formatter(form: str) -> logging.Formatter:
    if form == "json":
        return OneObject()
    return OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s")


class OneObject(logging.Formatter):
    """A line of JSON as oslo.log writes it, with the ids of :func:`named` as its ``extra``.

    Arguments are in the message: they may be megabytes, and tell nothing more.
    """

    def __init__(self) -> None:
        super().__init__()
        # It takes a while to load.
        from oslo_log.formatters import JSONFormatter

        self._inner = JSONFormatter()

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        said = logging.makeLogRecord(record.__dict__)
        said.msg, said.args = record.getMessage()[:MAX_LINE], None
        said.extra = dict(_IDS.get())
        return str(self._inner.format(said))
