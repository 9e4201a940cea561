"""Hosts that fell silent while others were heard: what they said last says nothing any more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from quarantine.doors import Monotonic
from quarantine.rules.absence import too_many

DAY: Final = 86400.0
"""Seconds after which a host is silent, whoever else is heard: no outage goes on for longer unseen,
and a cloud of one host has nobody else."""
_A_DAY: Final = timedelta(seconds=DAY)
_STOPPED: Final = 7200.0
"""Seconds between two looks after which the rest of the gap counts for nothing: passes are an hour
apart at most, and take minutes."""
_NEARLY: Final = 0.75
"""Of the seconds after which a host is late."""


class Silence:
    """Counts the time in which anybody was heard; a host's silence is its share of that.

    While the broker is away, or our own worker, or while we were stopped, nobody is heard and
    nobody falls silent: not as that begins, not as it ends and the hosts speak again one by one.
    Nor do many at once, of whom a network was cut off. Both are believed for a day. On the
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
        self._long: set[str] = set()
        """Who had been away for a day when we began: of no network that is cut off now."""
        self._many = -math.inf
        """The time lived until which very many are late at once."""
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
            # Of a longer gap nobody knows in how much of it somebody could be heard. Passes may be
            # as far apart, and so may the words of the only other host.
            self._lived += min(now - self._word, self._after / 2)
            self._word = now
        if not self._heard:
            last = max(heard.values(), default=None)
            self._long = {name for name, at in heard.items() if last and last - at > _A_DAY}
        self._long = self._long & heard.keys() - spoke
        self._heard = dict(heard)
        here = self._lived, self._looked
        self._since = {n: here if n in spoke | new else self._since[n] for n in heard}
        away = {name: self._lived - lived for name, (lived, _) in self._since.items()}
        day = max(DAY, self._after)
        gone = {name for name, (_, looked) in self._since.items() if self._looked - looked > day}
        # Hosts that are cut off together are late one by one, as they spoke, and come back so.
        nearly = {name for name, seconds in away.items() if seconds > _NEARLY * self._after}
        if too_many(len(nearly - gone - self._long), len(heard)):
            self._many = self._lived + self._after
        late = {name for name, seconds in away.items() if seconds > self._after}
        return frozenset(gone if self._lived <= self._many else gone | late)
