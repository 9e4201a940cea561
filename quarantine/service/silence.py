"""Hosts that fell silent while others were heard: what they said last says nothing any more."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from quarantine.doors import Monotonic


class Silence:
    """Counts the time in which anybody was heard; a host's silence is its share of that.

    While the broker is away, or our own worker, or while we were stopped, nobody is heard and
    nobody falls silent: not as that begins, not as it ends and the hosts speak again one by one.
    A cloud of which no host at all is heard is believed therefore. On the monotonic clock: what
    is compared of the record's times is only whether they changed.
    """

    def __init__(self, after: float, monotonic: Monotonic) -> None:
        """``after`` seconds a host is silent; nobody was until now."""
        self._after = after
        self._now = monotonic
        self._heard: dict[str, datetime] = {}
        self._lived = 0.0
        self._since: dict[str, float] = {}
        """Of each host, the time lived when it was heard last."""
        self._word = monotonic()
        """When anybody was heard last."""

    def of(self, heard: Mapping[str, datetime]) -> frozenset[str]:
        """The silent ones; ``heard`` is when each host was heard last, as the record has it now."""
        now = self._now()
        spoke = {name for name, at in heard.items() if self._heard.get(name) != at}
        if spoke:
            gap = now - self._word
            # Of a longer one nobody knows whether anybody could be heard.
            self._lived += gap if gap <= self._after / 2 else 0.0
            self._word = now
        self._heard = dict(heard)
        self._since = {name: self._lived if name in spoke else self._since[name] for name in heard}
        return frozenset(
            name for name, since in self._since.items() if self._lived - since > self._after
        )
