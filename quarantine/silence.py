"""Hosts that say nothing any more: their last hello is believed, so people must hear of it.

A slot on offer is not taken back because its host is silent: a broker that is away for an hour must
not empty the pool. But a gate that was taken down since would be noticed by nobody, and an erase
waits for a host that is dead.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from quarantine.absence import too_many
from quarantine.record.base import CLOCKS_APART, Clock, utc_now
from quarantine.record.facts import SlotRecord
from quarantine.record.states import CASE_OPEN, FREE_TO_SCHEDULE, WORKING
from quarantine.record.store import Store

LOG = logging.getLogger(__name__)

_CONCERNED = CASE_OPEN | FREE_TO_SCHEDULE
"""States in which something depends on what the host says next."""


def words(record: SlotRecord, heard: datetime | None, now: datetime, after: float) -> str:
    """For people who look at a slot: its host is silent. Empty where it is not, or nothing waits.

    ``heard`` is when the host was heard last, ``after`` how many seconds of silence are normal.
    """
    if heard is None or record.state not in _CONCERNED:
        return ""
    seconds = (now - heard).total_seconds()
    if seconds <= after:
        return ""
    silent = f"host silent {seconds / 60:.0f} min"
    if record.state not in WORKING:
        return silent
    return f"{silent}, order unheard since {_moment(record.heard_at or record.entered_at)}"


@dataclass
class Silence:
    """Alarms once about each host that is silent, and once where very many are."""

    store: Store
    silent_after: float
    """Seconds, for a host with open cases or with slots on offer."""
    overdue_after: float
    """Seconds, for any host."""
    clock: Clock = utc_now
    _told: set[str] = field(default_factory=set)
    _many: bool = False
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        # While we were stopped nobody could be heard.
        self._began = self.clock()

    def check(self) -> frozenset[str]:
        """The hosts that people were told of. Raises ``UnavailableError``."""
        now = self.clock()
        heard = self.store.last_heard()
        # A time to come was noted before our clock was set back: nobody was heard since.
        self._began = min(self._began, now)
        last = {
            name: self._began if at - now > CLOCKS_APART else max(at, self._began)
            for name, at in heard.items()
        }
        ages = {name: (now - at).total_seconds() for name, at in last.items()}
        late = {name: age for name, age in ages.items() if age > self.silent_after}
        if self._tell_many(len(late), len(heard)):
            return frozenset(self._told)
        for name in sorted(self._told - late.keys()):
            LOG.warning("over: host %s is heard again, or removed", name)
        self._told &= late.keys()
        for name in sorted(late.keys() - self._told):
            waiting = self._waiting(name)
            if waiting or late[name] > self.overdue_after:
                self._told.add(name)
                LOG.error(
                    "ALARM host %s is silent for %.0f min: %s. How its drives and defences stand "
                    "now is not known; see the nvme-eraser worker there and its way to the broker, "
                    "or remove the host",
                    name,
                    late[name] / 60,
                    waiting or "nothing waits for it",
                )
        return frozenset(self._told)

    def _tell_many(self, silent: int, known: int) -> bool:
        many = too_many(silent, known)
        if many and not self._many:
            LOG.error(
                "ALARM %d of %d hosts are silent for more than %g min: see the broker, and the "
                "control plane's own worker; what is on offer stays on offer",
                silent,
                known,
                self.silent_after / 60,
            )
        if self._many and not many:
            LOG.warning("over: most hosts are heard again")
        self._many = many
        return many

    def _waiting(self, host: str) -> str:
        """What depends on the host's next word."""
        slots = [r for r in self.store.slots(host=host) if r.state in _CONCERNED]
        return "; ".join(filter(None, (_orders(slots), _offers(slots))))


def _orders(slots: Sequence[SlotRecord]) -> str:
    orders = [r for r in slots if r.state in WORKING]
    if not orders:
        others = [r for r in slots if r.state in CASE_OPEN]
        return f"{len(others)} of its drives wait for it" if others else ""
    since = min(r.heard_at or r.entered_at for r in orders)
    named = ", ".join(r.slot.address for r in orders)
    return f"its orders ({named}) are unheard since {_moment(since)}"


def _offers(slots: Sequence[SlotRecord]) -> str:
    offered = sum(r.state in FREE_TO_SCHEDULE for r in slots)
    return f"{offered} of its drives stay on offer" if offered else ""


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
