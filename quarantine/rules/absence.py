"""Slots that Placement does not show: what is not shown is not on offer, so nothing is held for it.

A drive that is away for one boot, or a compute service that was deleted, comes back and is judged
then. That very many vanish at once is not believed at all: the wrong region, a restored database
and an empty answer look so, and none of them says anything about drives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import View
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import WAITING_FOR_PEOPLE
from quarantine.rules.alarmbook import StandingAlarms
from quarantine.rules.maintenance import Maintenances

_FEW: Final = 3

_SHARE: Final = 10
"""A tenth of the slots. A host has up to 24: in a cloud of a few hosts one of them is too many."""

_NAMED: Final = 5
"""Hosts that an alarm names."""

_ABSENT: Final = "Placement shows "


def words(view: View | None) -> str:
    """What stands as a slot's detail while there is nothing to schedule."""
    what = "no resource provider" if view is None else "a provider without inventory"
    return (
        f"{_ABSENT}{what} for the slot: drive absent, not in device_spec, or the compute service "
        "was deleted; it goes on when it is back"
    )


def is_told(record: SlotRecord) -> bool:
    """The slot's detail says that it is absent."""
    return record.detail.startswith(_ABSENT)


def absent_since(record: SlotRecord) -> datetime | None:
    """When the last look first found nothing; ``None`` where Placement shows the slot."""
    return record.read_at if record.provider_generation is None else None


@dataclass(frozen=True)
class Absence:
    """What one listing lacks. ``doubted`` are those that it lacks too many of to be believed."""

    known: int
    doubted: frozenset[Slot] = frozenset()

    @property
    def sample(self) -> tuple[Slot, ...]:
        """Some of the doubted ones, to ask for by name: a listing goes by the trait.

        Of many hosts: one that is down among them says nothing of the others' drives.
        """
        # Sorted backwards, so the lowest slot of each host is the one that stays in the table.
        firsts = {slot.host: slot for slot in sorted(self.doubted, reverse=True)}
        others = self.doubted - set(firsts.values())
        return (*sorted(firsts.values()), *sorted(others))[:_FEW]


def _is_put_away(record: SlotRecord) -> bool:
    """Placement does not show it, and people have decided about it, or are called to."""
    return record.state in WAITING_FOR_PEOPLE and absent_since(record) is not None


def too_many(gone: int, known: int) -> bool:
    """More than three and more than a tenth at once: it is not each of them that went away."""
    return gone > _FEW and gone * _SHARE > known


def weigh(
    records: Iterable[SlotRecord],
    listed: Collection[str],
    named: Collection[Slot] = frozenset(),
) -> Absence:
    """Holds a listing (uuids of providers) against what was there at the last look.

    Not believed: more than three and more than a tenth of all, or a listing with nothing in it.
    What waits for people, and what has been absent before, does not count. ``named`` are the slots
    that the listed providers stand for: one that was made anew is there, whoever else is away.
    """
    there = [
        r
        for r in records
        if r.state not in WAITING_FOR_PEOPLE and r.provider_generation is not None
    ]
    gone = frozenset(r.slot for r in there if r.provider not in listed and r.slot not in named)
    doubted = too_many(len(gone), len(there)) or not listed
    return Absence(len(there), gone if doubted else frozenset())


@dataclass
class Absences:
    """Alarms once about a listing that is not believed, and once about each host with absences."""

    after: float
    """Seconds that a slot is absent before people hear of it."""
    within: float
    """Seconds in which the next listing is expected, and slots are looked at meanwhile. In a longer
    break whatever was absent may have come back, which only a look tells: nobody is called for as
    long then, or for ``after`` seconds where that is less."""
    _since: datetime | None = None
    """The first listing after the last break, or of this process."""
    _last: datetime | None = None
    _told: StandingAlarms = field(default_factory=StandingAlarms)

    def tell(
        self,
        absence: Absence,
        records: Iterable[SlotRecord],
        now: datetime,
        quiet: Maintenances = Maintenances(),  # noqa: B008
    ) -> None:
        """Tells what began and what is over since the last time; of what is in maintenance nothing,
        and what lasts longer is told then."""
        self._tell_doubt(absence)
        # Nothing is told of hosts by a listing that is not believed, neither that slots are away
        # nor that they are back.
        if absence.doubted:
            return
        new = self._settled(now)
        records = list(records)
        gone = [r.slot for r in records if self._long(r, now)]
        hosts = Counter(slot.host for slot in gone if not quiet.of_slot(slot))
        code = AlarmCode.SLOTS_ABSENT
        # All that these hosts lack is in maintenance: told anew where it lasts longer.
        silenced = {f"host {slot.host}" for slot in gone if slot.host not in hosts}
        self._told.hush(silenced, code)
        for host in sorted(hosts) if new else ():
            self._told.tell(
                f"host {host}",
                code,
                f"Placement has shown {hosts[host]} of its slots no more for {self.after / 60:g} "
                "min: drives absent, not in device_spec, or its compute service was deleted. They "
                "are not on offer; bring them back, or retire them (which gives their drives up)",
            )
        present = {f"host {host}" for host in hosts} | silenced
        for name in sorted({f"host {r.slot.host}" for r in records if _is_put_away(r)} - present):
            text = "those that Placement does not show are retired or held"
            self._told.end(name, code, text)
        self._told.end_others(present, code, "Placement shows its slots again")

    def _settled(self, now: datetime) -> bool:
        """Whether slots were looked at since the last break. No longer than that takes: a service
        that is often started anew would never call."""
        # Our clock may be set to and fro meanwhile, which is like a break.
        calm = self._last is not None and abs((now - self._last).total_seconds()) <= self.within
        if self._since is None or not calm:
            self._since = now
        self._last = now
        return (now - self._since).total_seconds() >= min(self.after, self.within)

    def _tell_doubt(self, absence: Absence) -> None:
        if not absence.doubted:
            text = "what it shows is believed again"
            self._told.end("Placement", AlarmCode.LISTING_DOUBTED, text)
        else:
            counts = Counter(slot.host for slot in absence.doubted)
            hosts = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
            named = ", ".join(f"{host} {count}" for host, count in hosts[:_NAMED])
            more = ", ..." if len(hosts) > _NAMED else ""
            self._told.tell(
                "Placement",
                AlarmCode.LISTING_DOUBTED,
                f"it shows {len(absence.doubted)} of {absence.known} slots no more "
                f"({named}{more}), which is not believed: is it the right region, was its database "
                "restored? Nothing is changed for them",
            )

    def _long(self, record: SlotRecord, now: datetime) -> bool:
        since = absent_since(record)
        if since is None or record.state in WAITING_FOR_PEOPLE:
            return False
        return (now - since).total_seconds() >= self.after
