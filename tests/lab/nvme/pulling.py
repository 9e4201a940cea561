"""A drive that is pulled from its slot in the middle of an erase, and perhaps put back."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive


class Puller:
    """Pulls once in the life of a server; called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._done = False

    def due(self, fraction: float) -> bool:
        """Whether it is time."""
        at = self._drive.faults.pulled_at
        return at is not None and fraction >= at and not self._done

    def pull(self) -> None:
        """Power and bus go at once; both are back when the faults say so."""
        self._done = True
        seconds = self._drive.faults.pulled_seconds
        self._drive.note("pulled", "for ever" if seconds is None else f"for {seconds:g} s")
        self._drive.power_off()
        if seconds is not None:
            timer = threading.Timer(seconds, self._drive.power_on)
            timer.daemon = True
            timer.start()
