"""The only door to fio: options in, one :class:`Sample` out."""

from __future__ import annotations

import ctypes
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from qualify.errors import FioError
from qualify.fio import fiojson

TICK: Final = 0.5
"""Seconds between two calls of the progress line."""

GRACE: Final = 60.0
"""Seconds beyond the asked run time that fio may take to start, lay out a file, and report."""

_STOP: Final = 5.0
"""Seconds that fio gets to end its jobs when it is asked to."""

_MAX_WORDS: Final = 64 * 1024

_STOPPING: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG: Final = 1
"""linux/prctl.h."""
_LIBC: Final = ctypes.CDLL(None)

Tick = Callable[[float], None]
"""Called now and then with the seconds since fio was started."""

_HINTS: Final = (
    # (what fio says, what it means and what to do)
    (
        r"engine (\S+) not loadable|failed to load engine",
        "fio has no such I/O engine; install it (fio-engine-libaio on Enterprise Linux) or choose "
        "another with --engine",
    ),
    (
        r"does not support direct=1",
        "the file system has no direct I/O; choose a directory on another one",
    ),
    (
        r"Invalid argument",
        "the target refuses direct I/O with blocks of this size; its logical blocks may be larger",
    ),
    (r"No space left", "the file system is full; give a smaller --size"),
    (
        r"allow_file_create|No such (file|device)",
        "the target is not there any more; look at the kernel's log",
    ),
    (r"Read-only file system", "the file system is mounted read-only"),
    (r"Permission denied|Operation not permitted", "not allowed; run as root"),
    (r"Input/output error", "the drive answered with an error; look at the kernel's log"),
    (r"[Cc]annot allocate memory|Resource temporarily", "give fewer --jobs or less --depth"),
)


def find() -> str:
    """fio's path. Raises :class:`FioError` where there is none."""
    path = shutil.which("fio")
    if path is None:
        raise FioError("expected fio on the PATH, found none; install the package fio")
    return path


def run(options: Sequence[str], *, seconds: float, tick: Tick | None = None) -> fiojson.Sample:
    """Runs fio once; ``seconds`` is how long it should work.

    It has a session of its own, so that a Ctrl-C reaches it through us, once, and its answer stays
    whole. Raises :class:`FioError`. Whatever else ends this call ends fio as well.
    """
    path = find()
    with tempfile.TemporaryDirectory(prefix="nvme-bench-") as room:
        answer = Path(room) / "fio.json"
        argv = [path, *options, "--output-format=json+", f"--output={answer}"]
        # Not in the middle of starting it: a fio that nobody knows of would go on writing.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
        try:
            try:
                child = _start(argv, room, unblocked)
            except OSError as error:
                raise FioError(f"expected to start {path}, found {error.strerror}") from error
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
                words = _listen(child, seconds + GRACE, tick)
            except BaseException:
                # Whatever it was, a signal of ours too: no fio goes on writing after this call.
                _end(child)
                raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        # A failing fio may print why into its answer rather than beside it.
        text = answer.read_text(errors="replace") if answer.exists() else ""
    if child.returncode != 0:
        raise FioError(explain(words + text[:_MAX_WORDS], argv, child.returncode))
    try:
        return fiojson.parse(text)
    except FioError as error:
        raise FioError(f"{error}; {_last_line(words)}" if words.strip() else str(error)) from error


def _start(
    argv: Sequence[str], room: str, unblocked: set[int | signal.Signals]
) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        # Where we are killed nobody keeps the target from others any more: fio ends then, too.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)

    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # _HINTS know the system's words in English.
        env={**os.environ, "LC_ALL": "C"},
        # fio leaves files of its own (verify state) where it runs.
        cwd=room,
        start_new_session=True,
        preexec_fn=prepare,  # this program has one thread
    )


def explain(words: str, argv: Sequence[str], code: int) -> str:
    """One line out of what a failing fio printed."""
    said = _last_line(words) or "nothing"
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, words)), "")
    ended = f"exit code {code}" if code >= 0 else f"{signal.Signals(-code).name}"
    # The last two options are ours: without them fio prints for people.
    return f"fio ended with {ended}: {said}; {hint or 'try ' + shlex.join(argv[:-2])}"


def _last_line(words: str) -> str:
    """The line that says most: fio's own complaints begin with its name."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("fio: ") and "pid=" not in line]
    chosen = (ours or lines or [""])[0]
    return "".join(c if c.isprintable() else "?" for c in chosen)[:300]


def _listen(child: subprocess.Popen[bytes], seconds: float, tick: Tick | None) -> str:
    """Takes what fio prints until the last of its processes has ended."""
    if child.stdout is None:
        raise FioError("expected a pipe from fio, found none")
    began = time.monotonic()
    descriptor, words = child.stdout.fileno(), b""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    with child.stdout:
        while True:
            passed = time.monotonic() - began
            if passed > seconds:
                raise FioError(
                    f"expected fio to end within {seconds:.0f} s, found it still running; "
                    "the target may have stopped answering"
                )
            if tick is not None:
                tick(passed)
            if not waiting.poll(TICK * 1000):
                continue
            chunk = os.read(descriptor, 65536)
            if not chunk:
                break
            # Only the end is kept: a fio that never stops complaining must not fill the memory.
            words = (words + chunk)[-_MAX_WORDS:]
    child.wait()
    return words.decode("utf-8", "replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Asks fio and its jobs to end, then kills them. One that hangs in the kernel is left."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(_STOP)
            return
        except ProcessLookupError:
            # The whole group has ended: only the exit code is left to be taken.
            child.poll()
            return
        except subprocess.TimeoutExpired:
            continue
