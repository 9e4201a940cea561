"""What a drive under work says of its temperature: a reason to start no other one beside it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from eraser.casefiles import CaseFiles
from eraser.drive.nvme import Controller
from eraser.drive.spec import SmartLog
from eraser.errors import DriveError

FEEL_SECONDS = 10.0
"""Between two looks, and before the first."""

_ZERO_CELSIUS = 273
"""Kelvin, as drives count: whole degrees."""


class Heat:
    """One run's thermometer. It decides nothing about its own case, and no error of it ends one."""

    def __init__(self, files: CaseFiles, controller: Callable[[], Controller]) -> None:
        self._files = files
        self._controller = controller
        self._due = time.monotonic() + FEEL_SECONDS
        self._warm_from: int | None = None
        self.over()

    def feel(self) -> None:
        """Now and then: whether the drive is at its own warning temperature (WCTEMP).

        Only while a sanitize runs, when Get Log Page is allowed (Base 2.0, figure 312), and nothing
        is on the admin queue for long: beside a Format this would end in a reset.
        """
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + FEEL_SECONDS
        try:
            self._files.write_heat(self._read())
        except (DriveError, OSError):
            # Neither the drive nor the disk is asked again.
            self._due = float("inf")
            self.over()

    def over(self) -> None:
        """What was said is over: an earlier run's, a step's, or ours that failed."""
        with contextlib.suppress(OSError):
            self._files.write_heat("")

    def _read(self) -> str:
        controller = self._controller()
        if self._warm_from is None:
            self._warm_from = controller.identify().warning_kelvin
        if not self._warm_from:
            raise DriveError("expected a warning temperature (WCTEMP), found none")
        kelvin = SmartLog.parse(controller.smart_log()).temperature_kelvin
        if kelvin < self._warm_from:
            return ""
        return (
            f"is at {kelvin - _ZERO_CELSIUS} degrees Celsius, and too warm from "
            f"{self._warm_from - _ZERO_CELSIUS} on by its own word"
        )
