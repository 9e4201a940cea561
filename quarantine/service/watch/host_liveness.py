"""Hosts that say nothing any more: their last hello is believed, so people must hear of it.

A slot on offer is not taken back because its host is silent: a broker that is away for an hour must
not empty the pool. But a gate that was taken down since would be noticed by nobody, and an erase
waits for a host that is dead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from quarantine.doors import Clock, utc_now
from quarantine.record.store import Store
from quarantine.record.words.clock import last_word
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import CASE_OPEN, FREE_TO_SCHEDULE, WORKING
from quarantine.rules.absence import too_many
from quarantine.rules.alarmbook import alarm, over
from quarantine.rules.maintenance import Maintenances

_NAMED: Final = 5
"""Hosts that an alarm about many of them names."""

_CONCERNED = CASE_OPEN | FREE_TO_SCHEDULE
"""States in which something depends on what the host says next."""


class Concerned(Protocol):
    """A slot, as a record or as a line of a list."""

    @property
    def state(self) -> str:
        """Of another release too."""

    @property
    def entered_at(self) -> datetime | None:
        """When that began; None where it is damaged."""

    @property
    def heard_at(self) -> datetime | None:
        """The host's last word about its order."""


def words(record: Concerned, heard: datetime | None, now: datetime, after: float) -> str:
    """For people who look at a slot: its host is silent. Empty where it is not, or nothing waits.

    ``heard`` is when the host was heard last, ``after`` how many seconds of silence are normal.
    """
    if heard is None or record.state not in _CONCERNED:
        return ""
    seconds = (now - heard).total_seconds()
    if seconds <= after:
        return ""
    silent = f"host silent {seconds / 60:.0f} min"
    since = record.heard_at or record.entered_at
    if record.state not in WORKING or since is None:
        return silent
    return f"{silent}, order unheard since {_moment(since)}"


@dataclass
class HostLiveness:
    """Alarms once about each host that is silent; where very many are, once about them together.

    A host that was heard after that alarm and is silent since has a reason of its own.
    """

    store: Store
    silent_after: float
    """Seconds, for a host with open cases or with slots on offer."""
    overdue_after: float
    """Seconds, for any host."""
    clock: Clock = utc_now
    _told: set[str] = field(default_factory=set)
    _many: datetime | None = None
    """When people were told that very many are silent."""
    _together: set[str] = field(default_factory=set)
    """Whom that alarm counted."""
    _left: set[str] = field(default_factory=set)
    """Who was silent still when most were heard again."""
    _hushed: set[str] = field(default_factory=set)
    """Whom people were told of by himself, and a maintenance silences since."""
    _began: datetime = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def check(self) -> frozenset[str]:
        """The hosts that people were told of by themselves, or that are left of very many.

        Raises ``UnavailableError``.
        """
        now = self.clock()
        heard = self.store.last_heard()
        # Where our clock was set back, the service began no later than now.
        self._began = min(self._began, now)
        last = {name: last_word(at, self._began, now) for name, at in heard.items()}
        late = {
            name: at for name, at in last.items() if (now - at).total_seconds() > self.silent_after
        }
        named = self._told - self._left
        if self._left and not (self._left & late.keys()):
            over(
                "hosts", AlarmCode.HOSTS_SILENT, "those that were left are heard again, or removed"
            )
        self._left &= late.keys()
        quiet = Maintenances.of(self.store.maintenances()).hosts if late else frozenset()
        # Nothing is over for them: who is silent when it ends is told of then.
        hushed = quiet & late.keys()
        self._hushed |= named & hushed
        for name in sorted((named | self._hushed) - late.keys()):
            over(f"host {name}", AlarmCode.HOST_SILENT, "it is heard again, or removed")
        self._hushed &= late.keys()
        self._told &= late.keys() - hushed
        late = {name: at for name, at in late.items() if name not in quiet}
        alone = self._tell_many(late, len(heard), now, hushed)
        for name in sorted(alone.keys() - self._told):
            self._tell(name, (now - alone[name]).total_seconds())
        self._hushed -= self._told
        return frozenset(self._told)

    def _tell(self, name: str, age: float) -> None:
        waiting = self._waiting(name)
        if not waiting and age <= self.overdue_after:
            return
        self._told.add(name)
        alarm(
            f"host {name}",
            AlarmCode.HOST_SILENT,
            f"silent for {age / 60:.0f} min: {waiting or 'nothing waits for it'}. How its drives "
            "and defences stand now is not known; see the nvme-eraser worker there and its way to "
            "the broker, or remove the host",
        )

    def _tell_many(
        self,
        late: Mapping[str, datetime],
        known: int,
        now: datetime,
        hushed: Collection[str],
    ) -> Mapping[str, datetime]:
        """Those of ``late``, with when they were heard last, that are to be told of one by one.
        ``hushed`` are silent too, and in maintenance."""
        if self._many is not None and not too_many(len(late), known):
            self._many = None
            how = "most are in maintenance, or heard again" if hushed else "most are heard again"
            over("hosts", AlarmCode.HOSTS_SILENT, how)
            if left := late.keys() - self._told:
                text = f"{len(left)} are still silent, of those that were together"
                first = self._first(left, late)
                alarm("hosts", AlarmCode.HOSTS_SILENT, f"{text}: {first}")
                self._told |= left
                self._left = left
        alone = late if self._many is None else self._apart(late, min(self._many, now), now)
        # Who was named long ago is silent for a reason of his own.
        old = {name for name in alone.keys() & self._told if self._is_old(alone[name], now)}
        if not too_many(len(alone.keys() - old), known):
            return alone
        self._many = now
        self._together = set(late)
        self._left.clear()
        alarm(
            "hosts",
            AlarmCode.HOSTS_SILENT,
            f"{len(late)} of {known} are silent for more than {self.silent_after / 60:g} min: see "
            "the broker, and the control plane's own worker; what is on offer stays on offer. "
            f"First: {self._first(late, late)}",
        )
        return {}

    def _apart(
        self, late: Mapping[str, datetime], since: datetime, now: datetime
    ) -> Mapping[str, datetime]:
        """Those of ``late`` that the alarm of ``since`` was not about.

        Who fell silent with the others, and was not late yet, is late when it is silent for so long
        that nobody is left who will be.
        """
        all_late = (now - since).total_seconds() > self.silent_after
        return {
            name: at
            for name, at in late.items()
            if at > since or (all_late and name not in self._together)
        }

    def _is_old(self, heard: datetime, now: datetime) -> bool:
        return (now - heard).total_seconds() > 2 * self.silent_after

    def _first(self, names: Collection[str], last: Mapping[str, datetime]) -> str:
        """Some of them: those whose cases wait first, then who is silent for longest."""
        cases: dict[str, list[SlotRecord]] = {}
        for record in self.store.slots(states=CASE_OPEN):
            if record.slot.host in names:
                cases.setdefault(record.slot.host, []).append(record)
        order = sorted(names, key=lambda name: (name not in cases, last[name], name))
        named = [
            f"{name} ({_orders(cases[name])})" if name in cases else name for name in order[:_NAMED]
        ]
        more = len(order) - len(named)
        return ", ".join(named) + (f" and {more} more: see 'host list'" if more else "")

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
