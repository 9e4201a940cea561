"""Counts over all slots, hosts and certificates, as the database makes them.

No row is read whole and no identity decoded: each question is answered from an index that has all
of its columns. States and codes come as they are stored, those of another release too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from quarantine.record.database import models
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import counted, fits, readable
from quarantine.record.database.maintained import in_effect, present
from quarantine.record.database.paging import asked_of_each
from quarantine.record.words.clock import CLOCKS_APART
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import CASE_OPEN, FREE_TO_SCHEDULE, Event, State
from quarantine.record.words.texts import NAME_LENGTH, storable

MAX_SECONDS: Final = 30 * 86400.0
"""Of one case; a clock that was set must not spoil a sum for ever."""

_SLOTS, _HOSTS, _HISTORY = models.slots, models.hosts, models.history
_TIMES, _LINKS, _REFUSALS = models.durations, models.certificates, models.refusals

_COMING: Final = tuple(sorted(CASE_OPEN | {State.RELEASED}))
"""States from which a drive comes back by itself."""
_WAITING: Final = tuple(sorted(CASE_OPEN | FREE_TO_SCHEDULE))
"""States in which something depends on what the host says next."""


@dataclass(frozen=True)
class SlotTotal:
    """Slots that have all of this in common."""

    state: str
    hold_code: str | None
    model: str | None
    slots: int
    oldest: datetime
    """When the first of them came into its state."""


@dataclass(frozen=True)
class FreeTotal:
    """Hosts that have the same number of free drives of one class."""

    resource_class: str
    free: int
    silent: bool
    hosts: int


@dataclass(frozen=True)
class StockTotal:
    """Slots of one host that have all of this in common."""

    host: str
    resource_class: str
    state: str
    hold_code: str | None
    slots: int


@dataclass(frozen=True)
class MaintenanceTotal:
    """What is in maintenance by a word about itself."""

    hosts: int
    slots: int


@dataclass(frozen=True)
class ComingSlot:
    """A slot whose case is open, or about to be."""

    host: str
    address: str
    resource_class: str
    state: str
    model: str | None
    entered_at: datetime
    detail: str = ""
    """What it waits for."""


@dataclass(frozen=True)
class CaseDuration:
    """What one case took, on our own clock but for the border between the two; seconds."""

    number: int
    """Of its certificate."""
    model: str
    erase: float
    """From the order until the host began to read back: what it waited there is in it."""
    verify: float


@dataclass(frozen=True)
class DurationTotal:
    """All cases of a model."""

    model: str
    cases: int
    erase: float
    verify: float
    """Sums, in seconds."""
    erase_within: tuple[int, ...]
    verify_within: tuple[int, ...]
    """How many took at most so long, for each edge."""
    last: int
    """The highest certificate's number among them."""


@dataclass(frozen=True)
class ChainTotal:
    """The chain of certificates."""

    certificates: int
    position: int
    """The last one's number; 0 without any."""
    last_at: datetime | None


class TotalsRepository(Repository):
    """What the store can count."""

    def slot_totals(self) -> list[SlotTotal]:
        """All slots by state, code of the hold, and model."""
        by = (_SLOTS.c.state, _SLOTS.c.hold_code, _SLOTS.c.model)
        count, oldest = sa.func.count(), sa.func.min(_SLOTS.c.entered_at)
        with self._reading() as db:
            found = counted(db, sa.select(*by, count, oldest).group_by(*by), *by)
        return [SlotTotal(*row) for row in found]

    def late(
        self,
        since: Mapping[tuple[State, str], datetime],
        otherwise: Mapping[State, datetime],
        *,
        maintained: bool = False,
    ) -> dict[tuple[str, str | None], int]:
        """Slots by state and model that came into their state before a time.

        ``since`` has the time for a state and a model, ``otherwise`` that of a state's others.
        ``maintained``: of those in maintenance alone.
        """
        state, model, at = _SLOTS.c.state, _SLOTS.c.model, _SLOTS.c.entered_at
        # Of a model most are in use, and are old: the index of its times would read them all.
        which = [
            sa.and_(state == each.value, asked_of_each(model == name), at < time)
            for (each, name), time in since.items()
        ]
        for each, time in otherwise.items():
            named = [name for other, name in since if other is each]
            others = sa.or_(model.is_(None), model.not_in(named)) if named else sa.true()
            which.append(sa.and_(state == each.value, others, at < time))
        if not which:
            return {}
        query = (
            sa.select(state, model, sa.func.count()).where(sa.or_(*which)).group_by(state, model)
        )
        if maintained:
            query = query.where(in_effect(self._clock(), _SLOTS.c.host, _SLOTS.c.address))
        with self._reading() as db:
            return {(row[0], row[1]): row[2] for row in counted(db, query, state, model)}

    def free_totals(self, heard_after: datetime) -> list[FreeTotal]:
        """How many hosts have how many free drives of a class; a host is silent that was not heard
        since ``heard_after``."""
        free = (
            sa.select(_SLOTS.c.host, _SLOTS.c.resource_class, sa.func.count().label("free"))
            .where(_SLOTS.c.state == State.AVAILABLE.value)
            .group_by(_SLOTS.c.resource_class, _SLOTS.c.host)
            .subquery()
        )
        # A host that is not registered joins as NULL, and counts as silent.
        silent = sa.case((_heard(self._clock()) >= heard_after, 0), else_=1).label("silent")
        by = (free.c.resource_class, free.c.free, silent)
        query = (
            sa.select(*by, sa.func.count())
            .select_from(free.join(_HOSTS, _HOSTS.c.name == free.c.host, isouter=True))
            .group_by(*by)
        )
        with self._reading() as db:
            found = counted(db, query, free.c.resource_class)
        return [FreeTotal(row[0], row[1], bool(row[2]), row[3]) for row in found]

    def free_of_each_class(self) -> dict[str, int]:
        """Free drives by class: the pool, as a campaign leaves a share of it."""
        of = _SLOTS.c.resource_class
        query = sa.select(of, sa.func.count()).where(_SLOTS.c.state == State.AVAILABLE.value)
        with self._reading() as db:
            found = counted(db, query.group_by(of), of)
        return {row[0]: row[1] for row in found if fits(of, row[0])}

    def stock(self, host: str | None = None) -> list[StockTotal]:
        """Slots by host, class, state and code of the hold."""
        by = (_SLOTS.c.host, _SLOTS.c.resource_class, _SLOTS.c.state, _SLOTS.c.hold_code)
        # The code is in no index with the host: only held slots, which are few, are asked for it.
        held = _SLOTS.c.state == State.HELD.value
        plain = sa.select(*by[:3], sa.null().label("hold_code"), sa.func.count()).where(~held)
        coded = sa.select(*by, sa.func.count()).where(held)
        if host is not None:
            plain, coded = (q.where(_SLOTS.c.host == host) for q in (plain, coded))
        with self._reading() as db:
            rows = counted(db, plain.group_by(*by[:3]), *by[:3])
            rows += counted(db, coded.group_by(*by), *by)
        return [StockTotal(*row) for row in rows if all(map(fits, by, row))]

    def coming(self, host: str | None = None) -> list[ComingSlot]:
        """Slots whose drives come back by themselves, by host and address."""
        c = _SLOTS.c
        columns = (c.host, c.address, c.resource_class, c.state, c.model, c.entered_at, c.detail)
        query = sa.select(*columns)
        query = query.where(c.state.in_(_COMING)).order_by(c.host, c.address)
        if host is not None:
            query = query.where(c.host == host)
        with self._reading() as db:
            return [ComingSlot(*row) for row in readable(db, query, columns, c.id)]

    def ordered_hosts(self) -> list[str]:
        """Hosts with an order out that they have not been heard to end."""
        query = sa.select(_SLOTS.c.host).where(_SLOTS.c.state == State.ERASING.value).distinct()
        with self._reading() as db:
            return [row[0] for row in counted(db, query, _SLOTS.c.host)]

    def hosts_within(self, times: Sequence[datetime]) -> tuple[list[int], int]:
        """How many registered hosts were heard since each of ``times``; and how many there are."""
        heard = _heard(self._clock())
        counts = [sa.func.sum(sa.case((heard >= time, 1), else_=0)) for time in times]
        with self._reading() as db:
            *within, all_ = db.execute(sa.select(*counts, sa.func.count(_HOSTS.c.name))).one()
        return [int(count or 0) for count in within], all_

    def silent_and_needed(self, heard_after: datetime) -> int:
        """Hosts not heard since ``heard_after``, on which a case or a slot on offer depends; but
        for those in maintenance."""
        needed = sa.select(_SLOTS.c.host).where(_SLOTS.c.state.in_(_WAITING)).distinct()
        query = sa.select(sa.func.count(_HOSTS.c.name)).where(
            _heard(self._clock()) < heard_after,
            _HOSTS.c.name.in_(needed),
            ~in_effect(self._clock(), _HOSTS.c.name),
        )
        with self._reading() as db:
            return db.execute(query).scalar_one()

    def silent_in_maintenance(self, heard_after: datetime) -> int:
        """Hosts in maintenance that were not heard since ``heard_after``."""
        query = sa.select(sa.func.count(_HOSTS.c.name)).where(
            _heard(self._clock()) < heard_after, in_effect(self._clock(), _HOSTS.c.name)
        )
        with self._reading() as db:
            return db.execute(query).scalar_one()

    def maintenance_totals(self) -> MaintenanceTotal:
        """How much is in maintenance; rows that cannot be read are counted too."""
        table = models.maintenances
        whole = sa.case((table.c.address == "", 1), else_=0)
        query = sa.select(sa.func.count(), sa.func.sum(whole))
        with self._reading() as db:
            row = db.execute(query.where(*present(table, self._clock()))).one()
        hosts = int(row[1] or 0)
        return MaintenanceTotal(hosts, row[0] - hosts)

    def duration_totals(self, edges: Sequence[float], after: int = 0) -> list[DurationTotal]:
        """Cases by model, of the certificates that follow number ``after``."""
        kinds = (_TIMES.c.erase_seconds, _TIMES.c.verify_seconds)
        within = [_within(column, edge) for column in kinds for edge in edges]
        query = (
            sa.select(
                _TIMES.c.model,
                sa.func.count(),
                *(sa.func.sum(column) for column in kinds),
                sa.func.max(_TIMES.c.number),
                *within,
            )
            .where(_TIMES.c.number > after)
            .group_by(_TIMES.c.model)
        )
        # Five columns stand before the counts; those of erases come before those of reading.
        half = 5 + len(edges)
        with self._reading() as db:
            rows = [tuple(row) for row in db.execute(query)]
        return [
            DurationTotal(
                model=row[0],
                cases=row[1],
                erase=row[2],
                verify=row[3],
                erase_within=row[5:half],
                verify_within=row[half:],
                last=row[4],
            )
            for row in rows
        ]

    def last_durations(self, model: str, limit: int) -> list[CaseDuration]:
        """The newest cases of a model, the newest first, but for those that cannot be read."""
        query = sa.select(*_TIMES.c).where(_TIMES.c.model == model)
        query = query.order_by(_TIMES.c.number.desc()).limit(limit)
        with self._reading() as db:
            found = readable(db, query, tuple(_TIMES.c), _TIMES.c.number)
        return [CaseDuration(*row) for row in found]

    def last_erases(self, model: str, limit: int) -> list[tuple[str, float]]:
        """Host and seconds until it began to read back, of the newest cases of a model; those that
        cannot be read are left out."""
        columns = (_LINKS.c.host, _TIMES.c.erase_seconds)
        query = (
            sa.select(*columns)
            .join_from(_TIMES, _LINKS, _LINKS.c.number == _TIMES.c.number)
            .where(_TIMES.c.model == storable(model, NAME_LENGTH))
            .order_by(_TIMES.c.number.desc())
        )
        with self._reading() as db:
            found = readable(db, query.limit(limit), columns, _TIMES.c.number)
        return [(row[0], row[1]) for row in found]

    def refusal_totals(self) -> dict[str, int]:
        """Refused messages by kind, each as often as it was refused, but for rows that cannot be
        read. They are few: the record keeps ten thousand."""
        columns = (_REFUSALS.c.kind, _REFUSALS.c.count)
        found = Counter[str]()
        with self._reading() as db:
            for kind, count in readable(db, sa.select(*columns), columns, _REFUSALS.c.id):
                found[kind] += count
        return dict(found)

    def chain_total(self) -> ChainTotal:
        """How long the chain is."""
        last = sa.select(_LINKS.c.number, _LINKS.c.created_at).order_by(_LINKS.c.number.desc())
        with self._reading() as db:
            count = db.execute(sa.select(sa.func.count(_LINKS.c.digest))).scalar_one()
            end = db.execute(last.limit(1)).first()
        return ChainTotal(count, end.number if end else 0, end.created_at if end else None)


def note_duration(
    db: sa.Connection, record: SlotRecord, number: int, verify: float | None, now: datetime
) -> None:
    """Within a transaction: what the case took that this certificate ends."""
    if verify is None or record.identity is None:
        return
    ordered = db.execute(
        sa.select(_HISTORY.c.at)
        .where(
            _HISTORY.c.slot_id == record.id,
            _HISTORY.c.event == Event.ORDERED.value,
            _HISTORY.c.generation == record.generation,
        )
        # The last time: an order that came back "in use" waited for its tenant, not for its drive.
        .order_by(_HISTORY.c.revision.desc())
        .limit(1)
    ).scalar()
    if ordered is None:
        return
    whole = min(max((now - ordered).total_seconds(), 0.0), MAX_SECONDS)
    # The host's own count, which cannot be longer than all of it.
    read = min(max(verify, 0.0), whole)
    db.execute(
        sa.insert(_TIMES).values(
            number=number,
            model=storable(record.identity.model, NAME_LENGTH),
            erase_seconds=whole - read,
            verify_seconds=read,
        )
    )


def _heard(now: datetime) -> sa.ColumnElement[Any]:
    """When a host was heard last, or registered where it never was. A time to come was noted before
    our clock was set back: one that speaks is heard anew within a minute, and nobody knows since
    when the others were silent."""
    heard, registered = _HOSTS.c.heard_at, _HOSTS.c.registered_at
    known = sa.case((heard > now + CLOCKS_APART, registered), else_=heard)
    return sa.func.coalesce(known, registered, type_=models.UtcDateTime())


def _within(column: sa.ColumnElement[float], edge: float) -> sa.ColumnElement[int]:
    return sa.func.sum(sa.case((column <= edge, 1), else_=0))
