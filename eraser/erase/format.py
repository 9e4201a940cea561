"""Format NVM, and what rearranges namespaces, in a child that outlives us.

These are blocking commands without any promise of resumption: killing the sender must not leave
nobody who knows how they ended. The child has its own session, holds the slot's lock
through the descriptor that it inherited, and writes the result file before it ends.

The command goes through ``nvme admin-passthru --timeout``: ``nvme format -t`` is ignored before
nvme-cli 2.5, and the kernel's own admin timeout resets the controller in mid-erase.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eraser.controller.passthru import LATER_PAUSE, said_later
from eraser.errors import BadInputError, DriveError
from eraser.host.command import Completed
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.state.journal import sync_directory

GRACE = 5.0
"""Seconds for nvme-cli beyond the command's own timeout, which the kernel watches."""

_FIRST_POLL, _POLL = 0.005, 0.1
"""Seconds: a namespace is deleted in milliseconds, and a tenant may have left a thousand."""


_ROOM = 16 << 10
"""Bytes: a result with 2000 characters of nvme-cli's, each written as six, and its arguments."""

_NO_FALLOCATE = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV)
"""A file system that has none says so, where the C library (musl) does not write instead."""


@dataclass(frozen=True)
class FormatResult:
    """What nvme-cli came back with. ``exit_code`` None: it had to be killed."""

    argv: tuple[str, ...]
    exit_code: int | None
    stderr: str
    started_at: str
    seconds: float
    lost: bool = field(default=False, metadata=codec.LATE)
    """Its sender died: nobody saw whether the command went out, and how it ended."""
    unstarted: int = field(default=0, metadata=codec.LATE)
    """The command did not go out: why nvme-cli could not be started (errno); 0 where it was."""


def read_result(path: Path) -> FormatResult | None:
    """What a child wrote; None where it never came to that: its fate is unknown.

    Raises :class:`BadInputError` for a damaged file.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    return codec.load(FormatResult, raw, path.name)


def reserve(result: Path) -> None:
    """Takes the room that the child needs for its result: on a disk that is full by then, a command
    that ended well would have ended without a word. Raises ``OSError``."""
    # For reading too: where the file system has no fallocate (NFS before 4.2, some of FUSE), glibc
    # reads of each block that the file has before it writes one.
    descriptor = os.open(_room(result), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(descriptor, 0, _ROOM)
    except OSError as error:
        if error.errno not in _NO_FALLOCATE:
            raise
        _fill(descriptor)
    finally:
        os.close(descriptor)


def _fill(descriptor: int) -> None:
    """Takes the room by writing it. Raises ``OSError``."""
    done = 0
    while done < _ROOM:
        done += os.pwrite(descriptor, bytes(_ROOM - done), done)
    # Before that, room may be promised that is not there.
    os.fsync(descriptor)


def _reserved(result: Path) -> bool:
    """Whether :func:`reserve` has just been here."""
    try:
        return _room(result).stat().st_size >= _ROOM
    except FileNotFoundError:
        return False


def _room(result: Path) -> Path:
    """Its place until it is whole."""
    return result.with_suffix(".room")


def send(
    host: Host,
    argv: tuple[str, ...],
    result: Path,
    *,
    lock: int,
    timeout: float,
    tick: Callable[[float], None],
    ready: float = 0.0,
    stdin: bytes = b"",
) -> FormatResult | None:
    """Sends one command and waits for its end; None where none was seen in time.

    A drive that says "later" has done nothing: it is asked again for ``ready`` seconds. Raises
    ``OSError`` where the machine lacks what it takes to send it: nothing was sent then.
    """
    deadline = host.clock.monotonic() + ready
    while True:
        found = _send(host, argv, result, lock, timeout, tick, stdin)
        if found is None or not said_later(found.stderr) or host.clock.monotonic() >= deadline:
            return found
        host.clock.sleep(LATER_PAUSE)


def _send(
    host: Host,
    argv: tuple[str, ...],
    result: Path,
    lock: int,
    timeout: float,
    tick: Callable[[float], None],
    stdin: bytes,
) -> FormatResult | None:
    """Once.

    ``lock`` is the slot lock's descriptor. ``tick`` is called with the seconds so far. When this
    process dies the child goes on, and the next one reads ``result``. When the child outlives
    ``timeout`` it is left alone and keeps the lock: the command may still be running.
    """
    # An older command's result must not be taken for this one's; its room is.
    with contextlib.suppress(FileNotFoundError):
        result.replace(_room(result))
    # The command is in the journal by now: what needs no call cannot fail.
    if not _reserved(result):
        reserve(result)

    def command() -> None:
        limit, sent, began = timeout + GRACE, stdin or None, host.clock.utc()
        try:
            # nvme-cli inherits the lock as well: a child that dies must not free the slot under its
            # command. At once or not at all: whoever waits for us would give up, and the command
            # would go out after the report.
            done = host.processes.run(
                argv, timeout=limit, stdin=sent, pass_fds=(lock,), patience=0.0
            )
        except OSError as error:
            number = error.errno or errno.EIO
            _keep(FormatResult(argv, None, str(error), began, 0.0, unstarted=number), result)
            return
        _write(done, result)

    ended, clock = host.processes.outlive(command, lock), host.clock
    began, pause = clock.monotonic(), _FIRST_POLL
    while not ended():
        seconds = clock.monotonic() - began
        # One GRACE is nvme-cli's, in the child; the other is for the child to write its result.
        if seconds > timeout + 2 * GRACE:
            return None
        tick(seconds)
        clock.sleep(pause)
        pause = min(2 * pause, _POLL)
    try:
        found = read_result(result) or FormatResult(
            argv,
            None,
            "its sender died without a word",
            clock.utc(),
            clock.monotonic() - began,
            lost=True,
        )
    except BadInputError as error:
        # A damaged file is no result: the command may have succeeded, so it counts neither way.
        raise DriveError(f"format: {error}; its end is unknown") from error
    if found.unstarted:
        # The next run must not take it for the end of a command.
        result.replace(_room(result))
        raise OSError(found.unstarted, f"{os.strerror(found.unstarted)}: nvme-cli was not started")
    return found


def _write(finished: Completed, result: Path) -> None:
    found = FormatResult(
        finished.argv,
        finished.exit_code,
        finished.stderr[-2000:],
        finished.started_at,
        finished.seconds,
    )
    _keep(found, result)


def _keep(found: FormatResult, result: Path) -> None:
    data = codec.canonical(found)
    room = _room(result)
    # Written in place: a new file could find no room.
    with room.open("r+b") as handle:
        handle.write(data)
        handle.truncate()
        handle.flush()
        # Before the rename, or after a power loss the name could lead to an empty file.
        os.fsync(handle.fileno())
    room.replace(result)
    sync_directory(result.parent)
