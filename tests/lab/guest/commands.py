"""Commands in a guest: one that has ended, and one that still runs."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tests.lab.errors import GuestError

if TYPE_CHECKING:
    from tests.lab.guest.running import RunningGuest

COMMAND_S: Final = 120.0
"""Time a command may take when the caller names none; a guest is some ten times slower than us."""
GRACE_S: Final = 30.0
"""Time on top of that, within which the agent must answer."""


@dataclass(frozen=True)
class Completed:
    """A command that ended in a guest. A negative code is the signal that killed it."""

    argv: tuple[str, ...]
    returncode: int
    raw: bytes
    """Standard output as it came."""
    raw_errors: bytes

    @property
    def stdout(self) -> str:
        """Standard output as text."""
        return self.raw.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Standard error as text."""
        return self.raw_errors.decode(errors="replace")


class GuestProcess:
    """A command that runs on in a guest while the test does something else."""

    def __init__(self, guest: RunningGuest, pid: int, files: tuple[str, str]) -> None:
        self._guest = guest
        self.pid = pid
        self._files = files

    def poll(self) -> int | None:
        """Return the exit code, or nothing while it runs."""
        code: int | None = self._guest.request("poll", timeout=GRACE_S, pid=self.pid)["rc"]
        return code

    def wait(self, timeout: float = COMMAND_S) -> int:
        """Wait for the end and return the exit code. Raises ``GuestError`` after ``timeout`` s."""
        answer = self._guest.request("wait", timeout=timeout + GRACE_S, limit=timeout, pid=self.pid)
        code: int | None = answer["rc"]
        if code is None:
            raise GuestError(
                f"expected process {self.pid} in {self._guest.name} to end in {timeout:g} s: "
                f"{self.stderr()[-300:]}"
            )
        return code

    def signal(self, number: int = signal.SIGTERM, *, group: bool = False) -> bool:
        """Send a signal, to the whole process group if wanted; false when it was gone already."""
        sent: bool = self._guest.request(
            "signal", timeout=GRACE_S, pid=self.pid, signal=int(number), group=group
        )["sent"]
        return sent

    def kill(self) -> None:
        """Kill the process and all that it started in its group."""
        self.signal(signal.SIGKILL, group=True)

    def stdout(self) -> str:
        """Return what it has printed so far."""
        return self._guest.get(self._files[0]).decode(errors="replace")

    def stderr(self) -> str:
        """Return what it has printed to standard error so far."""
        return self._guest.get(self._files[1]).decode(errors="replace")
