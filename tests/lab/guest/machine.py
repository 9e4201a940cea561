"""One QEMU process: start it, reach its monitor and its agent, end it by its pid."""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.lab.errors import GuestError
from tests.lab.guest import processes
from tests.lab.guest.agent import Agent
from tests.lab.guest.argv import Sockets
from tests.lab.guest.qmp import Monitor

_CONNECT_S = 60.0
_POLL_S = 0.01
_SHORT = 60
_Channel = TypeVar("_Channel")


def short_directory() -> Path:
    """Make a directory for unix sockets: their paths end at 108 bytes, a test's own may not."""
    made = tempfile.mkdtemp(prefix="nvq-")
    if len(made) > _SHORT:
        os.rmdir(made)
        made = tempfile.mkdtemp(prefix="nvq-", dir="/tmp")
    return Path(made)


class Machine:
    """A running QEMU. Its console and QEMU's own messages are files in ``directory``."""

    def __init__(self, argv: Sequence[str], sockets: Sockets, directory: Path) -> None:
        self.console = directory / "console.log"
        self.log = directory / "qemu.log"
        for path in (sockets.monitor, sockets.agent):
            path.unlink(missing_ok=True)
        self.process = processes.start(argv, self.log)
        try:
            self.monitor = self._connect(sockets.monitor, Monitor)
            self.agent = self._connect(sockets.agent, lambda path: Agent(path, self.alive))
        except BaseException:
            self.kill()
            raise

    def alive(self) -> bool:
        """Whether QEMU still runs."""
        return self.process.poll() is None

    def wait_running(self, timeout: float = _CONNECT_S) -> None:
        """Wait until an incoming state is loaded and the guest runs. Raises ``GuestError``."""
        deadline = time.monotonic() + timeout
        while (status := self.monitor.execute("query-status")["status"]) != "running":
            if time.monotonic() > deadline:
                raise GuestError(f"expected a restored guest, QEMU says {status}; see {self.log}")
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """Pull the plug: QEMU is killed, nothing is flushed, nobody is told."""
        processes.stop(self.process, kill=True)
        if hasattr(self, "agent"):
            self.agent.close()
        if hasattr(self, "monitor"):
            self.monitor.close()

    def _connect(self, path: Path, kind: Callable[[Path], _Channel]) -> _Channel:
        deadline = time.monotonic() + _CONNECT_S
        while True:
            # The socket appears a little after the process, and QEMU may end before it does.
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return kind(path)
            if not self.alive() or time.monotonic() > deadline:
                raise GuestError(
                    f"QEMU did not come up (exit code {self.process.poll()}): "
                    f"{processes.tail(self.log, 5)}"
                )
            time.sleep(_POLL_S)
