"""The door to clocks. A simulator hands in one of its own: see :class:`eraser.host.sysfs.Host`."""

from __future__ import annotations

import datetime
import time
from typing import Final


class Clock:
    """This machine's own. No other machine's time is ever compared with it."""

    def monotonic(self) -> float:
        """Seconds that never go back; only their differences mean something."""
        return time.monotonic()

    def boottime(self) -> float:
        """Seconds since this boot, those of a suspended machine among them: nobody can set them."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def time(self) -> float:
        """Seconds since 1970, as somebody has set them."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Lets them pass."""
        time.sleep(seconds)

    def utc(self) -> str:
        """The time for people to read, ISO 8601 with milliseconds. Nothing is ever decided on it
        (promise 4: no two clocks agree)."""
        now = datetime.datetime.fromtimestamp(self.time(), datetime.UTC)
        return now.isoformat(timespec="milliseconds")


MACHINE: Final = Clock()


def utc_text() -> str:
    """:meth:`Clock.utc` of this machine."""
    return MACHINE.utc()
