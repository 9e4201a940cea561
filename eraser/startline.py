"""How many erases may start on this host, and who waits for what. Without processes or drives.

Nothing here stops an erase that runs: a sanitize cannot be paused, and one that is late is only
late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_SHOWN = 200
"""Characters of a pause file that are shown."""


@dataclass
class Turn:
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
class StartLine:
    """Where cases wait for their start."""

    max_running: int
    thermal_pause: float = 1800.0
    """Seconds that hot drives may keep all others from starting, in a row; then one starts. What a
    drive says of its temperature is its own word. 0 turns it off."""
    pause_file: Path | None = None
    """While it exists nothing starts; its first line says why."""
    clock: Callable[[], float] = time.monotonic
    _hot_since: float | None = field(default=None, init=False)

    def round(self, running: int, hot: str) -> Turn:
        """The places of one round. ``hot``: what a drive that is being erased says of its heat."""
        free = max(0, self.max_running - running)
        if asked := self._asked():
            return Turn(free, asked, self.max_running)
        if not hot or not self.thermal_pause:
            self._hot_since = None
            return Turn(free, "", self.max_running)
        now = self.clock()
        if self._hot_since is None:
            self._hot_since = now
        if now - self._hot_since < self.thermal_pause:
            return Turn(free, hot, self.max_running)
        if free:
            self._hot_since = now
        return Turn(min(free, 1), "", self.max_running)

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
        words = "".join(c if c.isprintable() else "?" for c in line.strip())[:_SHOWN]
        return f"{self.pause_file} is there{f' ({words})' if words else ''}"
