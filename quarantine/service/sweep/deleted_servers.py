"""Servers that Nova deleted since the last look: whose slots to look at first. Only a hint."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from quarantine.cloud.novafacts import Server
from quarantine.doors import utc_now

_FIRST_SECONDS: Final = 600.0
"""How far the first question goes back, on our own clock; later ones go by Nova's."""

_AWAY: Final = 4


class DeletedServersNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def deleted_since(self, since: str) -> list[Server]:
        """Deleted servers, oldest first."""


class DeletedServers:
    """Asks at most once per interval; what was seen last, on Nova's clock, begins the next."""

    def __init__(
        self,
        nova: DeletedServersNova,
        interval: float,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """``interval`` in seconds."""
        self._clock = clock
        self._nova = nova
        self._interval = interval
        self._now = monotonic
        self._asked = -float("inf")
        self._since = ""
        self._told: frozenset[str] = frozenset()

    def poll(self) -> frozenset[str]:
        """The uuids that are new; empty before the interval is over.

        Raises ``UnavailableError``: then the next question covers the same time again.
        """
        if self._now() - self._asked < self._interval:
            return frozenset()
        # A Nova that is away may cost a timeout each time: it is asked less until it answers.
        self._asked = self._now() + _AWAY * self._interval
        start = self._clock() - timedelta(seconds=_FIRST_SECONDS)
        found = self._nova.deleted_since(self._since or start.isoformat(timespec="seconds"))
        self._asked = self._now()
        # Nova's times have whole seconds: the last one is asked for again, and told once.
        newest = max((server.updated for server in found), default="")
        fresh = frozenset(server.uuid for server in found) - self._told
        if newest == self._since and not fresh:
            # That second is over; with very many deletes in it one page would show no others.
            newest = _next_second(newest)
        if newest:
            self._since = newest
            self._told = frozenset(s.uuid for s in found if s.updated == newest)
        return fresh


def _next_second(moment: str) -> str:
    try:
        later = datetime.fromisoformat(moment) + timedelta(seconds=1)
    except ValueError:
        return ""
    return later.isoformat(timespec="seconds").replace("+00:00", "Z")
