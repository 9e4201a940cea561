"""One long-lived service process on loopback: started, waited for, killed, started again."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tests.lab.errors import LabError
from tests.lab.guest import processes

READY_SECONDS: Final = 120.0
_TAIL_LINES: Final = 30


def free_port() -> int:
    """A loopback TCP port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(
    holds: Callable[[], bool], what: str, seconds: float = READY_SECONDS, every: float = 0.02
) -> None:
    """Poll until ``holds`` says so. Raises ``LabError`` naming ``what`` after ``seconds``."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise LabError(f"expected {what} within {seconds:g} s, it did not come")
        time.sleep(every)


class ServiceProcess:
    """A server process that can be killed, paused and started again with the same arguments.

    ``ready`` answers whether the service serves; it is polled while the process lives.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        ready: Callable[[], bool],
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._argv = list(argv)
        self._ready = ready
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id. Raises ``LabError`` when it does not run."""
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"expected {self.name} to run, it does not; its log: {self.log}")
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it serves. Raises ``LabError`` with the end of its log."""
        process = processes.start(self._argv, self.log, env=self._env)
        self._process = process

        def up() -> bool:
            if process.poll() is not None:
                raise LabError(f"{self.name} ended with {process.returncode}: {self._tail()}")
            return self._ready()

        try:
            wait_until(up, f"{self.name} to serve")
        except BaseException:  # also what asking whether it serves may raise
            self.stop(kill=True)
            raise

    def stop(self, *, kill: bool = False) -> None:
        """End it (SIGTERM, or SIGKILL at once) and reap it; safe when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            # A paused process would not hear SIGTERM.
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
            processes.stop(process, kill=kill)

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        self.stop(kill=True)

    def restart(self) -> None:
        """End it when it runs, then start it with the very same arguments."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections are still accepted by the kernel, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            raise LabError(f"expected {self.name} to run, it does not; its log: {self.log}")
        process.send_signal(number)

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return " | ".join(lines[-_TAIL_LINES:]) or "its log is empty"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
