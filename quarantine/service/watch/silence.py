"""Hosts that fell silent while others were heard: what they said last says nothing any more."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from quarantine.doors import Monotonic
from quarantine.rules.absence import too_many

DAY: Final = 86400.0
"""Seconds after which a host is silent, whoever else is heard: no outage goes on for longer unseen,
and a cloud of one host has nobody else."""
_STOPPED: Final = 7200.0
"""Seconds between two looks after which the rest of the gap counts for nothing: passes are an hour
apart at most, and take minutes."""
_NEARLY: Final = 0.75
"""Of the seconds after which a host is late."""


class Silence:
    """Counts the time in which anybody was heard; a host's silence is its share of that.

    While the broker is away, or our own worker, or while we were stopped, nobody is heard and
    nobody falls silent: not as that begins, not as it ends and the hosts speak again one by one.
    Nor do many together, of whom a network was cut off. Both are believed for a day. On the
    monotonic clock: the record's times are compared with each other alone.
    """

    def __init__(self, after: float, monotonic: Monotonic) -> None:
        """``after`` seconds a host is silent; nobody was until now."""
        self._after = after
        self._now = monotonic
        self._heard: dict[str, datetime] = {}
        self._lived = 0.0
        self._looked = 0.0
        """Seconds that we have been looking."""
        self._since: dict[str, tuple[float, float]] = {}
        """Of each host, the time lived and looked at when it was heard last."""
        self._ago: dict[str, float] = {}
        """Of each host that has not spoken since we began, how long before most others it had been
        heard last, in seconds."""
        self._away: dict[str, tuple[float, float]] = {}
        """Of each host that came back a moment ago, the time lived when it had been heard last
        before, and when it came back."""
        self._together: dict[str, float] = {}
        """Who was late with very many, and the time lived when it was so last."""
        self._pass = self._word = monotonic()
        """When we looked last, and when anybody was heard last."""

    def of(self, heard: Mapping[str, datetime]) -> frozenset[str]:
        """The silent ones; ``heard`` is when each host was heard last, or registered, as the record
        has it now."""
        now = self._now()
        # In a longer gap we were stopped, and looked at nobody.
        self._looked, self._pass = self._looked + min(now - self._pass, _STOPPED), now
        new = heard.keys() - self._heard.keys()
        spoke = {name for name, at in heard.items() if self._heard.get(name, at) != at}
        if spoke:
            # Of a longer gap nobody knows in how much of it somebody could be heard: passes may be
            # as far apart, and the words of the only other host, or the broker was away. A host
            # may be too late for two short times in which it was back.
            self._lived += min(now - self._word, self._after / 4)
            self._word = now
        if not self._heard:
            self._ago = _ago(heard)
        self._ago = {n: s for n, s in self._ago.items() if n in heard and n not in spoke}
        self._heard = dict(heard)
        self._note_who_came_back(spoke)
        here = self._lived, self._looked
        self._since = {n: here if n in spoke | new else self._since[n] for n in heard}
        day = max(DAY, self._after)
        gone = {name for name, (_, looked) in self._since.items() if self._looked - looked > day}
        if self._lived > self._after / 2:  # of many that come back, the last do by then
            gone |= {name for name, seconds in self._ago.items() if seconds > day}
        late = {name for name, (lived, _) in self._since.items() if self._is_late(lived)}
        self._find_together(gone)
        return frozenset(gone | late - self._together.keys())

    def _note_who_came_back(self, spoke: Collection[str]) -> None:
        """Of a network that comes back for a moment some hosts get a word through. They are still
        of those that were cut off, until they have spoken for a while."""
        for name in spoke:
            last, _ = self._since[name]
            before, back = self._away.get(name, (last, self._lived))
            if self._lived - last > self._after / 4:
                self._away[name] = before, self._lived
            elif self._lived - back > self._after / 2:
                del self._away[name]
        self._away = {name: when for name, when in self._away.items() if name in self._heard}

    def _is_late(self, lived: float, share: float = 1.0) -> bool:
        return self._lived - lived > share * self._after

    def _find_together(self, gone: Collection[str]) -> None:
        """Hosts that are cut off together were heard last at about one time, also by the record
        where that was before we began. They are late one by one, so those count that nearly are:
        within a quarter of the time. And they come back one by one, so the last of them are left
        some time for it. Who is gone for a day is of no network that is cut off now."""
        nearly = sorted(
            (self._away[name][0] if name in self._away else lived - self._ago.get(name, 0.0), name)
            for name, (lived, _) in self._since.items()
            if name not in gone and self._is_late(lived, _NEARLY)
        )
        times = [lived for lived, _ in nearly]
        for lived, name in nearly:
            first = bisect.bisect_left(times, lived - self._after / 2)
            last = bisect.bisect_right(times, lived + self._after / 2)
            if too_many(last - first, len(self._since)):
                self._together[name] = self._lived
        self._together = {
            name: at
            for name, at in self._together.items()
            if name in self._since and self._lived - at <= self._after
        }


def _ago(heard: Mapping[str, datetime]) -> dict[str, float]:
    """How long before most others each was heard. Not before the last one: our clock may have been
    wrong once, and after an outage the first host speaks before the others."""
    times = sorted(heard.values())
    return {
        name: max(0.0, (times[len(times) // 2] - at).total_seconds()) for name, at in heard.items()
    }
