"""How many erases may start on this host, and who waits for what. Without processes or drives.

Nothing here stops an erase that runs: a sanitize cannot be paused, and one that is late is only
late.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_SHOWN = 200
"""Characters of a pause file that are shown."""


@dataclass
class StartRound:
    """One round's places. Whoever asks first starts first: cases are asked in their order."""

    free: int
    pause: str
    """Why nothing starts; empty where something may."""
    limit: int
    _waiting: int = 0

    def take(self) -> str:
        """Takes a place: empty, or what the case waits for and how many wait before it."""
        if self.free > 0 and not self.pause:
            self.free -= 1
            return ""
        before = self._waiting
        self._waiting += 1
        why = self.pause or f"{self.limit} drives are being erased, the most at once on this host"
        line = f", {before} before this one" if before else ""
        return f"waiting: {why}{line}"


@dataclass
class StartQueue:
    """Where cases wait for their start."""

    max_running: int
    pause_file: Path | None = None
    """While it exists nothing starts; its first line says why."""

    def round(self, running: int) -> StartRound:
        """The places of one round."""
        # The pause file is read once for the whole round, so that all cases are told the same.
        return StartRound(max(0, self.max_running - running), self._asked(), self.max_running)

    def _asked(self) -> str:
        """The pause file's own words. One that cannot be read still is one."""
        if self.pause_file is None:
            return ""
        try:
            with self.pause_file.open("rb") as handle:
                line = handle.read(4 * _SHOWN).decode("utf-8", "replace").partition("\n")[0]
        except FileNotFoundError:
            return ""
        except OSError as error:
            line = error.strerror or ""
        # The words are shown to people: no control characters, and not too many.
        words = "".join(c if c.isprintable() else "?" for c in line.strip())[:_SHOWN]
        return f"{self.pause_file} is there{f' ({words})' if words else ''}"
