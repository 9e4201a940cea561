"""Maintenance of hosts and slots: who expects trouble there, until when. It only silences alarms.

Nothing that guards a drive asks for it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from eraser.protocol.identity import Slot
from quarantine.errors import StaleError
from quarantine.record import slots
from quarantine.record.database import models, rows
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import UNREADABLE, fits, of_the_row, told
from quarantine.record.database.maintained import present
from quarantine.record.database.rows import Row
from quarantine.record.words.facts import Initiator, Maintenance, Subject
from quarantine.record.words.texts import storable

LOG = logging.getLogger(__name__)

_TABLE = models.maintenances


class MaintenanceRepository(Repository):
    """What the store knows about maintenances."""

    def put_maintenance(
        self,
        subject: Subject,
        *,
        until: datetime | None,
        reason: str,
        by: Initiator,
        behind: Collection[int] | None = None,
    ) -> Maintenance:
        """The next word about a subject; ``until`` None ends it. One about a slot is a line of the
        slot's history too.

        ``behind``: the version in effect now has to be one of these, 0 for none. Raises
        :class:`StaleError` where it is not, :class:`ConflictError` where somebody else has the
        word in this moment, and :class:`UnreadableError` where no place is left for the next one.
        """
        now = self._clock()
        with self._writing() as db:
            last = _last(db, subject)
            present = last.version if last is not None and last.lasts(now) else 0
            if behind is not None and present not in behind:
                raise StaleError(
                    f"{subject}: expected another maintenance than "
                    f"{f'version {present}' if present else 'none'}; look at it again"
                )
            db.execute(
                sa.insert(_TABLE).values(
                    host=subject.host,
                    address=subject.address,
                    version=_newest_version(db, subject) + 1,
                    at=now,
                    until=until,
                    reason=storable(reason),
                    **{"by_project": "", "by_request": "", **rows.initiator_columns(by)},
                )
            )
            if subject.address:
                text = "maintenance ended"
                if until is not None:
                    text = f"in maintenance until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
                text = f"{text}: {reason}"
                slots.note(db, Slot(subject.host, subject.address), text, by, now)
            found = _last(db, subject)
            assert found is not None
            return found

    def maintenance(self, subject: Subject) -> Maintenance | None:
        """That of this very subject which is in effect."""
        with self._reading() as db:
            found = _last(db, subject)
        return found if found is not None and found.lasts(self._clock()) else None

    def maintenances(self, host: str | None = None) -> list[Maintenance]:
        """All that are in effect, or a host's and those of its slots, by host and address. What
        cannot be read is left out: every sweep asks for them, and silences nothing then."""
        with self._reading() as db:
            return _readable(db, self._in_effect(host))

    def maintenance_page(
        self, *, limit: int, host: str | None = None, after: Subject | None = None
    ) -> list[Maintenance]:
        """Of the same those behind ``after``.

        Fewer than ``limit`` are the last ones, also where one of them cannot be read.
        """
        query = self._in_effect(host)
        behind = query
        if after is not None:
            behind = _behind(query, storable(after.host), storable(after.address))
        found: list[Maintenance] = []
        with self._reading() as db:
            while more := limit - len(found):
                page = behind.with_only_columns(_TABLE.c.id).limit(more)
                ids = db.execute(page).scalars().all()
                if not ids:
                    break
                found += _readable(db, query.where(_TABLE.c.id.in_(ids)))
                # By its id: its place may be what cannot be read.
                behind = _behind(query, *(_of(ids[-1], name) for name in ("host", "address")))
        return found

    def maintenances_on(self, hosts: Collection[str]) -> list[Maintenance]:
        """Those in effect of these hosts and of their slots."""
        query = self._in_effect().where(_TABLE.c.host.in_({storable(one) for one in hosts}))
        with self._reading() as db:
            return _readable(db, query)

    def _in_effect(self, host: str | None = None) -> sa.Select[Any]:
        query = sa.select(_TABLE).where(*present(_TABLE, self._clock()))
        if host is not None:
            query = query.where(_TABLE.c.host == storable(host))
        return query.order_by(_TABLE.c.host, _TABLE.c.address)

    def maintenance_history(
        self, subject: Subject, *, limit: int, after: int = 0
    ) -> list[Maintenance]:
        """All that was ever said of a subject, oldest first, behind the version ``after``.

        Fewer than ``limit`` are the last ones, also where one of them cannot be read.
        """
        query = sa.select(_TABLE).where(_same(subject)).order_by(_TABLE.c.version)
        versions = query.with_only_columns(_TABLE.c.version)
        found: list[Maintenance] = []
        with self._reading() as db:
            while more := limit - len(found):
                behind = versions.where(_TABLE.c.version > after).limit(more)
                page = db.execute(behind).scalars().all()
                if not page:
                    break
                after = page[-1]
                found += _readable(db, query.where(_TABLE.c.version.in_(page)))
        return found

    def newest_maintenances(self, subject: Subject, limit: int) -> list[Maintenance]:
        """What was said of a subject last, the newest first."""
        query = sa.select(_TABLE).where(_same(subject)).order_by(_TABLE.c.version.desc())
        with self._reading() as db:
            return _readable(db, query.limit(limit))


def _behind(
    query: sa.Select[Any], host: str | sa.ScalarSelect[Any], address: str | sa.ScalarSelect[Any]
) -> sa.Select[Any]:
    return query.where(
        _TABLE.c.host >= host, sa.or_(_TABLE.c.host > host, _TABLE.c.address > address)
    )


def _of(row: int, column: str) -> sa.ScalarSelect[Any]:
    table = _TABLE.alias()
    return sa.select(table.c[column]).where(table.c.id == row).scalar_subquery()


def _same(subject: Subject) -> sa.ColumnElement[bool]:
    return sa.and_(
        _TABLE.c.host == storable(subject.host), _TABLE.c.address == storable(subject.address)
    )


def _last(db: sa.Connection, subject: Subject) -> Maintenance | None:
    """None where nothing was said, and where the last word cannot be read: it silences nothing."""
    query = sa.select(_TABLE).where(_same(subject)).order_by(_TABLE.c.version.desc()).limit(1)
    return next(iter(_readable(db, query)), None)


def _newest_version(db: sa.Connection, subject: Subject) -> int:
    """Of the last word, which may be one that cannot be read; 0 where nothing was said."""
    with told(f"maintenance of {subject}"):
        newest = db.scalar(sa.select(sa.func.max(_TABLE.c.version)).where(_same(subject)))
        # SQLite has text above all numbers: whatever follows would count as an older word.
        if newest is not None and not isinstance(newest, int):
            raise ValueError("the number of a word is none")
    return newest or 0


def _readable(db: sa.Connection, query: sa.Select[Any]) -> list[Maintenance]:
    try:
        return [_record(row) for row in db.execute(query).mappings()]
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
    # Some row cannot be read: each alone, so that the others still silence.
    found = []
    for each in db.execute(query.with_only_columns(_TABLE.c.id)).scalars().all():
        try:
            row = db.execute(sa.select(_TABLE).where(_TABLE.c.id == each)).mappings().one()
            found.append(_record(row))
        except UNREADABLE as error:
            if not of_the_row(error):
                raise
            LOG.warning("maintenances: row %s cannot be read, it silences nothing: %s", each, error)
    return found


def _record(row: Row) -> Maintenance:
    """Raises ``ValueError`` for a row with a value that is not of its column's kind."""
    if damaged := [c.name for c in _TABLE.c if not fits(c, row[c.name])]:
        raise ValueError(f"damaged: {', '.join(damaged)}")
    return Maintenance(
        subject=Subject(row["host"], row["address"]),
        version=row["version"],
        at=row["at"],
        until=row["until"],
        reason=row["reason"],
        by=Initiator(row["by_user"], row["by_project"], row["by_request"]),
    )
