"""How long a host has not been able to say how its defences stand.

For a minute after a start of nova-compute its patch is unknown, and a look may take too long on a
busy host: nothing is given back meanwhile, but nobody is called before it lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class UnknownDefences:
    """The hosts in doubt, each with the moments of its first and its last look, in this process,
    and with the number of the hello that the last one was about."""

    def __init__(self, grace: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """``grace`` in seconds."""
        self._grace = grace
        self._now = monotonic
        self._seen: dict[str, tuple[float, float, int]] = {}

    def is_young(self, host: str, doubtful: bool, said: int) -> bool:
        """Whether the host is in doubt, and not for long yet. One call for each look; ``said``: the
        number of the hello that it was about."""
        if not doubtful:
            self._seen.pop(host, None)
            return False
        now = self._now()
        first, last, heard = self._seen.get(host, (now, now, said))
        if now - last > self._grace and said not in (heard, heard + 1):
            # Another process took the hellos in between, and may have seen the host without doubt:
            # the doubt begins now. Between two hellos in a row there was none, be they an hour
            # apart.
            first = now
        self._seen[host] = first, now, said
        return now - first < self._grace
