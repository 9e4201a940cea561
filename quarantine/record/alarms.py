"""What people were called for, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from eraser.protocol.identity import Slot
from quarantine.record.database import models
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import counted, readable
from quarantine.record.database.paging import asked_of_each, in_one_of
from quarantine.record.words.reasons import CODE_LENGTH, LASTING, AlarmCode
from quarantine.record.words.states import State
from quarantine.record.words.texts import SUBJECT_LENGTH, storable

_COUNTS, _ALARMS, _SLOTS = models.alarm_counts, models.alarms, models.slots
_OVER: Final = sa.update(_ALARMS).where(
    _ALARMS.c.subject == sa.bindparam("of"),
    _ALARMS.c.code.in_(sa.bindparam("called_for", expanding=True)),
    _ALARMS.c.over_at.is_(None),
)

CALLED_FOR: Final = {State.HELD: AlarmCode.HELD, State.RETIRED: AlarmCode.RETIRED}
"""States that people are called for: the alarm is over when the slot leaves the state."""

_BY_RECORD: Final[Mapping[str, sa.ColumnElement[bool]]] = {
    # Of a row that cannot be read nothing is believed.
    **{code: _SLOTS.c.alarm == "" for code in LASTING - {AlarmCode.RECORD_UNREADABLE}},
    **{code: _SLOTS.c.state != state.value for state, code in CALLED_FOR.items()},
}
"""When the slot's row says that what people were called for is over."""

MOST: Final = 100_000
"""Rows; of the code that has the most, those that were called longest ago make way: what comes by
the thousand hides nothing else."""

TEXT_LENGTH: Final = 4000

HOST_LENGTH: Final = 253
_IS_HOST: Final = "host "
"""How a subject begins that is a host."""


@dataclass(frozen=True)
class AlarmCall:
    """People were called, and may have been told that it is over."""

    code: str
    subject: str
    text: str
    first_at: datetime
    last_at: datetime
    times: int
    """0: only the end of former calls."""
    over_at: datetime | None = None


@dataclass(frozen=True)
class AlarmLine:
    """All calls for one subject and code."""

    id: int
    code: str
    subject: str
    """A slot, ``host NAME``, or a part of the service."""
    text: str
    """Of the last one."""
    count: int
    first_at: datetime
    last_at: datetime
    over_at: datetime | None
    """None: nobody said that it is over. Of what happened in a moment nobody does."""

    @property
    def mark(self) -> AlarmMark:
        """Its place in a list."""
        return AlarmMark(self.id, self.last_at)


@dataclass(frozen=True)
class AlarmMark:
    """A place in a list, which stays where it is when people are called again."""

    id: int
    last_at: datetime


_LINE: Final = tuple(_ALARMS.c[field.name] for field in fields(AlarmLine))


class AlarmRepository(Repository):
    """What the store knows about alarms."""

    def note_alarms(self, counts: Mapping[str, int], calls: Iterable[AlarmCall] = ()) -> None:
        """People were called so many times more, by code; and for what.

        Raises :class:`ConflictError` where another process notes the same for the first time just
        now: again.
        """
        code, count = _COUNTS.c.code, _COUNTS.c.count
        with self._writing() as db:
            for each, times in sorted(counts.items()):
                grown = sa.update(_COUNTS).where(code == each).values(count=count + times)
                if not db.execute(grown).rowcount:
                    db.execute(sa.insert(_COUNTS).values(code=each, count=times))
            # In one order for all processes: two that write the same rows wait, and do not meet.
            added = sum(_note(db, call) for call in sorted(calls, key=_key))
            # To count all rows takes time: asked only where there are more than before.
            if added:
                _make_way(db)

    def alarm_totals(self) -> dict[str, int]:
        """How often people were called, by code."""
        with self._reading() as db:
            query = sa.select(_COUNTS.c.code, _COUNTS.c.count)
            return dict(counted(db, query, _COUNTS.c.code))

    def alarm_page(
        self,
        *,
        limit: int,
        newest: bool = False,
        after: AlarmMark | None = None,
        codes: Collection[str] | None = None,
        host: str | None = None,
        slot: Slot | None = None,
        since: datetime | None = None,
        is_over: bool | None = None,
    ) -> list[AlarmLine]:
        """Those behind ``after``, by their first calls; ``newest``: the last call first.

        Of these codes; of a host and its slots; of a slot; called since then.
        """
        columns, key = list(_LINE), _ALARMS.c.id
        order = (_ALARMS.c.last_at.desc(), key.desc()) if newest else (key,)
        query, of_code = sa.select(key).order_by(*order), _ALARMS.c.code
        is_of_few = host is not None or slot is not None
        if host is not None:
            query = query.where(_of(storable(host, HOST_LENGTH)))
        if slot is not None:
            query = query.where(_ALARMS.c.subject == storable(str(slot), SUBJECT_LENGTH))
        if since is not None:
            query = query.where(_ALARMS.c.last_at >= since)
        if is_over is not None:
            at = _ALARMS.c.over_at
            ended = at.is_not(None) if is_over else at.is_(None)
            # Of few rows this is asked one by one, else by its index.
            query = query.where(asked_of_each(ended) if is_of_few else ended)
        if after is not None:
            query = query.where(_behind(after.id, _moment(after.last_at), newest=newest))
        wanted = None if codes is None else sorted({storable(one, CODE_LENGTH) for one in codes})
        if wanted is not None and is_of_few:
            query, wanted = query.where(asked_of_each(of_code.in_(wanted))), None
        found: list[AlarmLine] = []
        with self._reading() as db:
            while len(found) < limit:
                ids = query.limit(limit - len(found))
                if wanted is not None:
                    of_each = (ids.where(of_code == code) for code in wanted)
                    ids = sa.select(key).where(in_one_of(key, of_each)).order_by(*order)
                page = db.execute(ids.limit(limit - len(found))).scalars().all()
                if not page:
                    break
                whole = sa.select(*columns).where(key.in_(page)).order_by(*order)
                found += [AlarmLine(*row) for row in readable(db, whole, columns, key)]
                # Its time is not read here: it may be what is damaged.
                its = sa.select(_ALARMS.c.last_at).where(key == page[-1]).scalar_subquery()
                query = query.where(_behind(page[-1], its, newest=newest))
        return found


def _of(host: str) -> sa.ColumnElement[bool]:
    """Of a host and what is on it."""
    # No LIKE: SQLite's takes a for A.
    on_it = sa.func.substr(_ALARMS.c.subject, 1, len(host) + 1) == f"{host}/"
    named = sa.or_(_ALARMS.c.subject == f"{_IS_HOST}{host}", on_it)
    return sa.or_(_ALARMS.c.host == host, sa.and_(_ALARMS.c.host.is_(None), named))


def _host(subject: str) -> str | None:
    """The host that a subject is, or is on; None for a part of the service."""
    if subject.startswith(_IS_HOST):
        return storable(subject.removeprefix(_IS_HOST), HOST_LENGTH)
    try:
        return Slot.parse(subject).host
    except ValueError:
        return None


def _moment(at: datetime) -> sa.ColumnElement[datetime]:
    """As the column has it: left to itself, a database reads it in its session's own zone."""
    return sa.literal(at, _ALARMS.c.last_at.type)


def _behind(
    last: int, last_at: sa.ColumnElement[datetime], *, newest: bool
) -> sa.ColumnElement[bool]:
    """What comes after that row."""
    if not newest:
        return _ALARMS.c.id > last
    older, as_old = _ALARMS.c.last_at < last_at, _ALARMS.c.last_at == last_at
    return sa.or_(older, sa.and_(as_old, _ALARMS.c.id < last))


def end(db: sa.Connection, slot: Slot, codes: Collection[str], now: datetime) -> None:
    """What people were called for at that slot is over; nothing where it was already, or they were
    not called."""
    which = {"of": storable(str(slot), SUBJECT_LENGTH), "called_for": list(codes)}
    db.execute(_OVER, {"over_at": now, **which})


def _key(call: AlarmCall) -> tuple[str, str]:
    return call.subject, call.code


def _note(db: sa.Connection, call: AlarmCall) -> int:
    """Writes one; 1 where it is a new row."""
    code, subject = storable(call.code, CODE_LENGTH), storable(call.subject, SUBJECT_LENGTH)
    one = sa.update(_ALARMS).where(_ALARMS.c.subject == subject, _ALARMS.c.code == code)
    # Only the end of former calls: without a row there is nothing to end.
    if not call.times:
        db.execute(one.where(_ALARMS.c.over_at.is_(None)).values(over_at=call.over_at))
        return 0
    text = storable(call.text, TEXT_LENGTH)
    over_at = call.over_at or _over_since(db, call)
    said = {"text": text, "last_at": call.last_at, "over_at": over_at}
    if db.execute(one.values(**said, count=_ALARMS.c.count + call.times)).rowcount:
        return 0
    new = {"code": code, "subject": subject, "count": call.times, "first_at": call.first_at}
    new["host"] = _host(subject)
    db.execute(sa.insert(_ALARMS).values(**said, **new))
    return 1


def _over_since(db: sa.Connection, call: AlarmCall) -> datetime | None:
    """A call is written a moment later than the record: where the slot was past it by then, what
    ended it found no line to end. None where it is not over, or no slot says so."""
    which = _BY_RECORD.get(call.code)
    try:
        slot = None if which is None else Slot.parse(call.subject)
    except ValueError:
        return None
    if which is None or slot is None:
        return None
    there = _SLOTS.c.host == slot.host, _SLOTS.c.address == slot.address
    is_over = db.execute(sa.select(sa.literal(1)).where(*there, which)).first() is not None
    return call.last_at if is_over else None


def _make_way(db: sa.Connection) -> None:
    there = db.execute(sa.select(sa.func.count()).select_from(_ALARMS)).scalar_one()
    if there <= MOST:
        return
    count = sa.func.count()
    found = db.execute(sa.select(_ALARMS.c.code, count).group_by(_ALARMS.c.code)).all()
    sizes = {row[0]: row[1] for row in found}
    for code, many in _shares(sizes, there - MOST).items():
        oldest = sa.select(_ALARMS.c.id).where(_ALARMS.c.code == code)
        oldest = oldest.order_by(_ALARMS.c.last_at, _ALARMS.c.id).limit(many)
        # Apart: MariaDB takes no limit in a subquery.
        for each in db.execute(oldest).scalars().all():
            db.execute(sa.delete(_ALARMS).where(_ALARMS.c.id == each))


def _shares(sizes: Mapping[str, int], more: int) -> dict[str, int]:
    """How many of each code make way, so that none is cut below another that is as long."""
    left, cut = dict(sizes), Counter[str]()
    for _ in range(more):
        longest = max(sorted(left), key=left.__getitem__)
        left[longest] -= 1
        cut[longest] += 1
    return cut
