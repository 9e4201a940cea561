"""Hosts that say nothing any more: their last hello is believed, so people must hear of it.

A slot on offer is not taken back because its host is silent: a broker that is away for an hour must
not empty the pool. But a gate that was taken down since would be noticed by nobody.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from quarantine.record.base import Clock, utc_now
from quarantine.record.store import Store

LOG = logging.getLogger(__name__)


@dataclass
class Silence:
    """Alarms once about each host that was not heard for ``after`` seconds."""

    store: Store
    after: float
    clock: Clock = utc_now
    _told: set[str] = field(default_factory=set)

    def check(self) -> frozenset[str]:
        """The hosts that are silent now. Raises ``UnavailableError``."""
        now = self.clock()
        heard = self.store.last_heard()
        # A time to come was noted before our clock was set back.
        silent = frozenset(
            name for name, at in heard.items() if (now - at).total_seconds() > self.after
        )
        for name in sorted(silent - self._told):
            LOG.error(
                "ALARM host %s has said nothing for more than %g h: how its drives and defences "
                "stand now is not known; see the nvme-eraser worker there, or remove the host",
                name,
                self.after / 3600,
            )
        for name in sorted(self._told - silent):
            LOG.info("host %s is heard again, or removed", name)
        self._told = set(silent)
        return silent
