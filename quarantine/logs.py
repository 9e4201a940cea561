"""The logs of a process: what it does, on standard error; and who decided what, in a file apart."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import logging
import os
import select
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from quarantine.errors import BadInputError
from quarantine.stderr import StandardError
from quarantine.users import hand_over

LOG = logging.getLogger(__name__)

MAX_LINE: Final = 4000
"""Characters of one logged event: a report's reasons may be megabytes."""

AUDIT: Final = logging.getLogger("quarantine.audit")
"""Who decided what: one line for each act, also for one that was refused."""

_AUDIT_MODE: Final = 0o640
"""Of the file of it: its owner writes, and a collector of its group may read."""

PATIENCE: Final = 2.0
"""Seconds for a collector that reads the file as a pipe, and is slow."""

_MAX_LINKS: Final = 40
"""The kernel's own limit (path_resolution(7))."""

_PLANTED: Final = (
    "root follows no symbolic link or pipe that another user may have put there: it and its "
    "directory are to be root's, and written by nobody else"
)

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


def set_up_logging(level: str, form: str = "line") -> None:
    """All on stderr, one line per event; the service manager keeps it.

    ``form``: ``line``, or ``json`` as oslo.log has it.
    """
    handler = _standard_error()
    handler.setFormatter(_formatter(form))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Else Python prints them itself, in whichever thread meets one.
    logging.captureWarnings(True)
    for noisy in ("kombu", "openstack", "keystoneauth", "urllib3", "celery"):
        logging.getLogger(noisy).setLevel(max(logging.getLevelName(level), logging.WARNING))


def _standard_error() -> logging.Handler:
    try:
        descriptor = sys.stderr.fileno()
    except (OSError, ValueError, AttributeError):
        descriptor = -1
    # A server of WSGI may have put something in its place that is no file.
    return StandardError(descriptor) if descriptor >= 0 else logging.StreamHandler(sys.stderr)


def keep_audit(file: str, form: str = "line") -> None:
    """Who decides what from now on is written down there, and nowhere else before; empty: nowhere.

    A log that is rotated away is begun anew. Raises :class:`BadInputError` where it cannot be
    written; it is tried again with each line, and by :func:`require_audit`.
    """
    for former in AUDIT.handlers[:]:
        AUDIT.removeHandler(former)
        former.close()
    AUDIT.setLevel(logging.INFO if file else logging.NOTSET)
    if file:
        handler = AuditFile(file)
        handler.setFormatter(_formatter(form))
        AUDIT.addHandler(handler)
        require_audit()


def audit_file() -> AuditFile | None:
    """Where it is written down, if anywhere."""
    return next((each for each in AUDIT.handlers if isinstance(each, AuditFile)), None)


def require_audit() -> None:
    """Before an act. Raises :class:`BadInputError` where it could not be written down."""
    file = audit_file()
    if file is None:
        return
    try:
        file.open()
    except OSError as error:
        raise BadInputError(
            f"[run]audit_file: expected a file that can be written, found {file.file}: "
            f"{error.strerror}"
        ) from error


class AuditFile(logging.Handler):
    """The file of who decided what. What is done is done, also where it cannot be written down:
    then the process's own log says so, once until it is written again.

    Each line is one write, of all of it or missing: nothing is kept to be written later. A file
    that was rotated away is begun anew.
    """

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = os.path.abspath(file)
        self.missing = 0
        """Lines that are not in it, until one is again."""
        self._is_cut = False
        """A part of the line before was taken, and the rest was not."""
        self._descriptor: int | None = None

    def open(self) -> None:
        """Whatever stands there now. Raises ``OSError``."""
        self.acquire()
        try:
            self._current()
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line. Raises nothing."""
        try:
            self._write(self.format(record).encode(errors="backslashreplace") + b"\n")
        except (OSError, ValueError) as error:
            self._miss(record, error)
            return
        missing, self.missing = self.missing, 0
        if missing:
            LOG.warning(
                "[run]audit_file: %s is written again; %d lines are missing in it",
                self.file,
                missing,
            )

    def close(self) -> None:
        """As any handler."""
        self._leave()
        super().close()

    def _write(self, line: bytes) -> None:
        descriptor = self._current()
        if self._is_midline(descriptor):
            line = b"\n" + line
        if not self.missing:  # whoever stopped reading is waited for once
            _wait_until_it_takes_more(descriptor)
        written = os.write(descriptor, line)
        self._is_cut = written != len(line)
        if self._is_cut:
            raise OSError(f"expected to write {len(line)} bytes, wrote {written}")

    def _current(self) -> int:
        """The file that stands there now."""
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.fstat(self._descriptor), os.stat(self.file)):
                    return self._descriptor
            self._leave()
        self._descriptor = _opened(self.file)
        return self._descriptor

    def _is_midline(self, descriptor: int) -> bool:
        """Whether the last line has no end: what comes would be a part of it, and lost with it."""
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return self._is_cut
        if not found.st_size:
            return False
        try:  # another process may have left it so
            reader = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it may be written, and not read
            return self._is_cut
        try:
            return os.pread(reader, 1, found.st_size - 1) != b"\n"
        finally:
            os.close(reader)

    def _miss(self, record: logging.LogRecord, error: Exception) -> None:
        """Tells the first of the lines that are not in the file, and why."""
        self.missing += 1
        self._leave()
        if self.missing == 1:
            LOG.error(
                "[run]audit_file: %s cannot be written: %s; this is not in it, nor what comes: %s",
                self.file,
                error,
                clean(record.getMessage()),
            )

    def _leave(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        with contextlib.suppress(OSError):
            if descriptor is not None:
                os.close(descriptor)


def _wait_until_it_takes_more(descriptor: int) -> None:
    """A pipe whose collector is slow is full for a while. A file never is."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll(PATIENCE * 1000)


def _opened(path: str) -> int:
    """A new file is the service's, whoever makes it: a command of root would shut it out.

    Raises ``OSError``.
    """
    links = 0
    if os.geteuid() == 0:
        path, links = _safe_for_root(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
    there = flags | links | os.O_NONBLOCK  # of a pipe: nobody waits for its reader
    with contextlib.suppress(FileNotFoundError):
        return os.open(path, there)
    if not links:
        path = os.path.realpath(path)  # a link may lead where nothing is yet
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, _AUDIT_MODE)
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


def _safe_for_root(path: str) -> tuple[str, int]:
    """Where root's own links lead, and how to open that: no other link is followed.

    The directory is mostly the service's, and what stands there may be planted. Raises ``OSError``.
    """
    for _ in range(_MAX_LINKS):
        directory = os.path.dirname(path)
        if os.path.realpath(directory).startswith("/proc/"):
            return path, 0  # the kernel's: an open file, /dev/stdout say
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return path, os.O_NOFOLLOW
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link or stat.S_ISFIFO(found.st_mode):
            around = os.stat(directory)
            is_own = around.st_uid == 0 and not around.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if not is_own or (is_link and found.st_uid != 0):
                raise OSError(errno.ELOOP, _PLANTED, path)
        if not is_link:
            return path, os.O_NOFOLLOW
        path = os.path.join(directory, os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


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
