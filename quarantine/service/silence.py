"""Hosts that fell silent while others were heard: what they said last says nothing any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from quarantine.doors import Monotonic
from quarantine.rules.absence import too_many

DAY: Final = 86400.0
"""Seconds after which a host is silent, whoever else is heard: no outage goes on for longer unseen,
and a cloud of one host has nobody else."""


class Silence:
    """Counts the time in which anybody was heard; a host's silence is its share of that.

    While the broker is away, or our own worker, or while we were stopped, nobody is heard and
    nobody falls silent: not as that begins, not as it ends and the hosts speak again one by one.
    Nor do many at once, of whom a network was cut off. Both are believed for a day. On the
    monotonic clock: what is compared of the record's times is only whether they changed.
    """

    def __init__(self, after: float, monotonic: Monotonic) -> None:
        """``after`` seconds a host is silent; nobody was until now."""
        self._after = after
        self._now = monotonic
        self._heard: dict[str, datetime] = {}
        self._lived = 0.0
        self._since: dict[str, tuple[float, float]] = {}
        """Of each host, the time lived when it was heard last, and the clock's."""
        self._word = monotonic()
        """When anybody was heard last."""

    def of(self, heard: Mapping[str, datetime]) -> frozenset[str]:
        """The silent ones; ``heard`` is when each host was heard last, as the record has it now."""
        now = self._now()
        spoke = {name for name, at in heard.items() if self._heard.get(name) != at}
        if spoke:
            # Of a longer gap nobody knows in how much of it somebody could be heard. Passes may be
            # as far apart, and so may the words of the only other host.
            self._lived += min(now - self._word, self._after / 2)
            self._word = now
        self._heard = dict(heard)
        here = self._lived, now
        self._since = {name: here if name in spoke else self._since[name] for name in heard}
        gone = {name for name, (_, at) in self._since.items() if now - at > DAY}
        late = {name for name, (at, _) in self._since.items() if self._lived - at > self._after}
        return frozenset(gone if too_many(len(late - gone), len(heard)) else gone | late)
