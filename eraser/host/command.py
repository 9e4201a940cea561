"""Programs, for :class:`eraser.host.children.Processes`: an argv list in, what came back out,
never a shell."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eraser.clock import utc_text
from eraser.errors import DriveError

LOG = logging.getLogger(__name__)

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}
"""All that a child sees: what the caller's shell exports must not change what a tool prints."""

KILL_GRACE = 2.0
"""Seconds that a killed child gets to vanish. One that waits in the kernel for a dead drive cannot
be reaped; it is left behind rather than waited for."""


LONGEST_WAIT = 2_000_000.0
"""Seconds, 23 days: poll(2) takes milliseconds in an int, 24.8 days, and a policy allows 30."""

PATIENCE = 60.0
"""Seconds in which a machine that lacks processes, memory or descriptors may get some again."""

_PAUSE = 1.0
_LACKS = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.ENOBUFS}
)
"""What a program is not started for though nothing is wrong with it (fork(2), pipe(2),
execve(2)); it is busy (ETXTBSY) while a package is being upgraded."""


@dataclass(frozen=True)
class Completed:
    """One finished process. ``exit_code`` is None where it ran out of time and was killed."""

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: bytes
    stderr: str
    started_at: str
    seconds: float


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    stdin: bytes | None = None,
    pass_fds: Sequence[int] = (),
    patience: float | None = None,
) -> Completed:
    """Runs ``argv`` for at most ``timeout`` seconds.

    A failing exit code or a timeout is a result and not an error: the caller knows what it means.
    Raises :class:`DriveError` where the program cannot be started at all, and ``OSError`` where the
    machine lacks something for it, longer than ``patience`` seconds (:data:`PATIENCE`): that says
    nothing of a drive.
    """
    line = shlex.join(argv)
    child = _started(argv, stdin, pass_fds, PATIENCE if patience is None else patience)
    started_at, began = utc_text(), time.monotonic()
    exit_code: int | None
    try:
        stdout, stderr = child.communicate(stdin, timeout=min(timeout, LONGEST_WAIT))
        exit_code = child.returncode
    except subprocess.TimeoutExpired:
        # What it printed before may say why it is stuck.
        stdout, stderr = _abandon(child)
        exit_code = None
    # An interrupt must not leave the program running with nobody who knows of it.
    except BaseException:
        child.kill()
        raise
    finished = Completed(
        tuple(argv),
        exit_code,
        stdout,
        stderr.decode("utf-8", "replace"),
        started_at,
        time.monotonic() - began,
    )
    if exit_code == 0:
        LOG.debug("%s: done in %.3f s", line, finished.seconds)
    elif exit_code is None:
        LOG.warning("%s: killed after %.1f s without an answer", line, finished.seconds)
    else:
        LOG.warning("%s: exit code %d: %s", line, exit_code, finished.stderr.strip()[-400:])
    return finished


def _started(
    argv: Sequence[str], stdin: bytes | None, pass_fds: Sequence[int], patience: float
) -> subprocess.Popen[bytes]:
    deadline = time.monotonic() + patience
    while True:
        try:
            return subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=ENVIRONMENT,
                pass_fds=tuple(pass_fds),
            )
        except OSError as error:
            if error.errno not in _LACKS:
                raise DriveError(
                    f"expected to start {argv[0]!r}, found {error.strerror}; install it or mend "
                    "its mode"
                ) from error
            if time.monotonic() >= deadline:
                raise
            LOG.warning("%s: cannot be started yet: %s", argv[0], error.strerror)
        time.sleep(_PAUSE)


class Started:
    """A program that runs beside us."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self.pid = child.pid

    @property
    def running(self) -> bool:
        """It has not ended; one that is stuck in the kernel never does."""
        return self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._child.returncode


def start(argv: Sequence[str], log: Path | None = None) -> Started:
    """Starts ``argv`` and does not wait for it. Raises ``OSError``.

    With a ``log`` that all it prints is appended to, it has a session of its own and outlives us;
    without, only what it says on standard error goes where ours does.
    """
    if log is None:
        null = subprocess.DEVNULL
        return Started(subprocess.Popen(list(argv), stdin=null, stdout=null))
    with open(log, "ab", opener=_private) as output:
        return Started(
            subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _abandon(child: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Kills a child that ran out of time and takes what it had printed."""
    child.kill()
    try:
        return child.communicate(timeout=KILL_GRACE)
    except subprocess.TimeoutExpired as stuck:
        # It cannot be reaped now; our ends are closed, so that nothing of it is kept but its pid.
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
        return stuck.stdout or b"", stuck.stderr or b""
