"""What must be done again and again, and an alarm where it was not: once, and once when it is over.

An outage makes everything late. People hear of the first thing, and later of another one only where
that has less time: then the alarms of one outage are one. What is late still when that first thing
is over has its own time from then on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import alarm, over


@dataclass
class _Duty:
    what: str
    within: Callable[[], float]
    last: float
    calls: bool
    """Whether people are called by the service itself; its age is shown in any case."""


class Lateness:
    """Duties, and when each was last done. Threads may share one."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._lock = threading.Lock()
        self._duties: dict[str, _Duty] = {}
        self._told: _Duty | None = None
        self._over: float | None = None
        """Since when what people were told of is late no more, while another thing is."""

    def expect(self, what: str, within: Callable[[], float], *, calls: bool = True) -> None:
        """``what`` has to be done well once in ``within()`` seconds from now on.

        Without ``calls`` its age is only shown: what else is late then has people called already.
        """
        self._duties[what] = _Duty(what, within, self._now(), calls)

    def done(self, what: str, at: float | None = None) -> None:
        """It was done well; what it saw is of ``at``, or of now."""
        self._duties[what].last = self._now() if at is None else at

    def ages(self) -> dict[str, tuple[float, float]]:
        """For how many seconds each duty was not done well, and in how many it has to be."""
        now, duties = self._now(), self._here()
        return {duty.what: (now - duty.last, duty.within()) for duty in duties}

    def _here(self) -> list[_Duty]:
        """Those of now: the loop, which is still being made when the safety pass runs for the first
        time, adds its own meanwhile."""
        return list(self._duties.values())

    def check(self) -> str:
        """What is late now, of several the one with the least time; alarms where that is news."""
        with self._lock:
            now, told = self._now(), self._told
            calling = (duty for duty in self._here() if duty.calls)
            late = [duty for duty in calling if now - duty.last > duty.within()]
            worst = min(late, key=lambda duty: duty.within(), default=None)
            if worst is None:
                if told is not None:
                    over(told.what, AlarmCode.LATE, "there was a good one again")
                self._told = self._over = None
                return ""
            # As long as the first thing is late, of the same outage only what has less time calls
            # anybody. Once it is over, the rest has as much time as ever before it does.
            if told is None or any(duty is told for duty in late):
                self._over = None
            elif self._over is None:
                self._over = now
            left = self._over is not None and now - self._over > worst.within()
            if told is None or left or worst.within() < told.within():
                if told is not None and left:
                    over(told.what, AlarmCode.LATE, "there was a good one again")
                self._told, self._over = worst, None
                alarm(
                    worst.what,
                    AlarmCode.LATE,
                    f"no good {worst.what} for {now - worst.last:.0f} s, expected one in "
                    f"{worst.within():.0f} s; the warnings before this line say why: see Placement "
                    "and the database",
                )
            return worst.what
