"""The only door to other programs: a list of words in, what came back out, never a shell."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from .errors import RaidError

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
}
"""All that a child sees: the caller's language must not change what a tool prints."""
SECONDS = 120.0
_KILL_SECONDS = 5.0
_SETTLE = ("udevadm", "settle", "--timeout=60")


@dataclass(frozen=True)
class Completed:
    """A program that ended by itself."""

    code: int
    output: str
    errors: str


def run(argv: Sequence[str], *, seconds: float = SECONDS) -> Completed:
    """Run a program. A failing exit code is a result; raises :class:`RaidError` for no program, or
    one that does not end in time: what it has started goes with it."""
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            # What update-initramfs starts would else go on, and keep the pipes open.
            start_new_session=True,
        )
    except OSError as error:
        raise RaidError(f"expected to run {argv[0]}, found {error.strerror}; install it") from error
    try:
        output, errors = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        end = "killed it" if _killed(child) else "and no signal ends it; see the kernel's log"
        raise RaidError(f"expected {shlex.join(argv)} to end in {seconds:g} s, {end}") from error
    except BaseException:
        # Ctrl-C reaches this program alone.
        _killed(child)
        raise
    return Completed(
        child.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
    )


def _killed(child: subprocess.Popen[bytes]) -> bool:
    """Whether it ended. A program that waits for a drive that does not answer may not, and whoever
    waited for it would say nothing."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        child.communicate(timeout=_KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def settle() -> None:
    """Wait until udev has done what it was told. Where there is no udev, tools make their own
    links, and there is nothing to wait for."""
    if udev():
        run(_SETTLE)


def udev() -> bool:
    """Whether this machine has udev's program."""
    return shutil.which("udevadm", path=ENVIRONMENT["PATH"]) is not None


def must(argv: Sequence[str], *, seconds: float = SECONDS) -> Completed:
    """Run a program that has to succeed. Raises :class:`RaidError` with its last words."""
    done = run(argv, seconds=seconds)
    if done.code != 0:
        words = " ".join((done.errors or done.output).split())[-400:]
        raise RaidError(
            f"expected {shlex.join(argv)} to succeed, it ended with {done.code}: {words}"
        )
    return done
