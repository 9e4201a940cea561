"""The copies of reports that outlive their cases do not pile up for ever.

The control plane has the report of each case beside its certificate, and the newest of a slot lies
with its case; these are for people who look at a host by itself.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

from eraser.clock import Clock

LOG = logging.getLogger(__name__)

EVERY = 3600.0
"""Seconds between two looks."""

DAY = 86400


@dataclass
class OldReports:
    """Removes copies in ``directory`` that are older than ``days``, now and then."""

    directory: Path
    days: int
    clock: Clock
    _next: float | None = field(default=None, init=False)

    def turn(self) -> None:
        """Looks where it is time to. By the time of day: a wrong one costs old copies alone.

        Raises ``OSError``.
        """
        if self._next is not None and self.clock.monotonic() < self._next:
            return
        self._next = self.clock.monotonic() + EVERY
        # The first case of a host makes it.
        if not self.directory.is_dir():
            return
        oldest = self.clock.time() - self.days * DAY
        gone = 0
        for path in self.directory.glob("*.json"):
            # A worker that is being replaced removes the same ones.
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < oldest:
                    path.unlink()
                    gone += 1
        if gone:
            LOG.info("%d reports older than %d days removed", gone, self.days)
