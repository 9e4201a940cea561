"""Processes that never outlive us: the one way the lab starts anything long-lived."""

import contextlib
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

_TERMINATE_S: Final = 5.0


class _Spawner:
    """A thread that starts every process.

    The kernel sends the parent-death signal when the *thread* that forked ends, so a process
    started from a pool's worker would be killed with that worker. This thread lives as long as we.
    """

    def __init__(self) -> None:
        self._wanted: queue.SimpleQueue[
            tuple[Sequence[str], Path, Mapping[str, str] | None, Path | None, _Started]
        ] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(
        self, argv: Sequence[str], log: Path, env: Mapping[str, str] | None, cwd: Path | None
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="spawner", daemon=True)
                self._thread.start()
        started: _Started = Future()
        self._wanted.put((argv, log, env, cwd, started))
        return started.result()

    def _loop(self) -> None:
        while True:
            argv, log, env, cwd, started = self._wanted.get()
            try:
                with log.open("ab") as out:
                    process = subprocess.Popen(
                        ["setpriv", "--pdeathsig", "KILL", "--", *argv],
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=subprocess.STDOUT,
                        env=env,
                        cwd=cwd,
                        # Ctrl-C goes to us alone; we end our children in order.
                        start_new_session=True,
                    )
            except OSError as error:
                started.set_exception(error)
            else:
                started.set_result(process)


_Started = Future[subprocess.Popen[bytes]]
_SPAWNER: Final = _Spawner()


def start(
    argv: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that the kernel kills when we end, however we end; output goes to a log."""
    return _SPAWNER.start(argv, log, env, cwd)


def stop(process: subprocess.Popen[bytes], *, kill: bool = False) -> None:
    """End a process and reap it: politely at first, unless ``kill`` is set."""
    if process.poll() is None and not kill:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERMINATE_S)
    if process.poll() is None:
        process.kill()
    process.wait()


def tail(path: Path, lines: int = 60) -> str:
    """Return the last lines of a log, or a word that there is none."""
    if not path.exists():
        return f"(no {path.name})"
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
