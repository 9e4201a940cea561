"""A sanitize that goes on with the looks at log 81h and with no clock: what is seen of it, and how
often, is the same on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.nvme.sanitize import Sanitizer
from tests.lab.nvme.spec import Command, Reply

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive


class PacedSanitizer(Sanitizer):
    """Put it in the place of a drive's own. Every method is called with the drive's lock held."""

    def __init__(self, drive: Drive, looks: int) -> None:
        super().__init__(drive)
        self.looks = looks
        """That see an operation running until one sees its end."""
        self.accepted: list[int] = []
        """Dword 10 of every command that the drive said yes to."""

    def command(self, command: Command) -> Reply:
        """As the drive answers it."""
        reply = super().command(command)
        if not reply.status:
            self.accepted.append(command.cdw10)
        return reply

    def look(self) -> None:
        """Somebody is about to read log 81h."""
        now = self._drive.state.sanitize
        if not now.running or now.verifying:
            return
        if self._advance(1 / (self.looks + 1) + 1e-9):
            for listener in self._drive.listeners:
                listener.sanitize_ended()

    def end(self) -> None:
        """To its end, without a look."""
        while self._drive.state.sanitize.running:
            self._advance(1.0)

    def _run(self) -> None:
        """Nothing goes on by itself."""
