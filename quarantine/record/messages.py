"""Messages from hosts: nonces that are spent, and refusals that someone should look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from eraser.protocol import codec
from quarantine.errors import ConflictError
from quarantine.record.database import models
from quarantine.record.database.base import Repository
from quarantine.record.database.lines import lines_of
from quarantine.record.database.rows import Row
from quarantine.record.words.facts import NonceUse, Refusal
from quarantine.record.words.texts import storable

_NONCES = models.nonces
_SPENT: Final = sa.select(_NONCES.c.order_id).where(_NONCES.c.nonce == sa.bindparam("of"))
_REFUSALS = models.refusals
_HOSTS = models.hosts

MAX_REFUSALS = 10_000
"""Rows that are kept one by one; a few megabytes."""

MAX_OF_HOST = 500
"""Of one host, and of all that are not registered: a host that has something new to say each time
does not hide what the others said."""

KEPT_DAYS: Final = 30
"""Where there is no room, a refusal that was not met again for so long makes way: what was wrong in
the past must not hide what is wrong now."""

DRIVE: Final = "drive"
"""What a host said of a drive, in a hello that was not refused."""

KINDS: Final = ("report", "receipt", "hello", "progress", DRIVE)

FURTHER = "more refusals than are kept one by one; the log has each"


@dataclass(frozen=True)
class RefusalLine:
    """A refusal in a list."""

    id: int
    kind: str
    host: str
    reason: str
    digest: str
    excerpt: str
    count: int
    first_at: datetime | None
    """None where that is damaged."""
    last_at: datetime | None
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


_LINE: Final = tuple(_REFUSALS.c[field.name] for field in fields(RefusalLine)[:-1])


class MessageRepository(Repository):
    """What the store knows about messages."""

    def nonce(self, nonce: str) -> NonceUse | None:
        """What a nonce was spent on; None for an unspent one."""
        with self._reading() as db:
            row = db.execute(sa.select(_NONCES).where(_NONCES.c.nonce == nonce)).mappings().first()
            return None if row is None else NonceUse(**row)

    def record_refusal(
        self, kind: str, host: str, reason: str, digest: str, excerpt: str
    ) -> RefusalLine:
        """Keeps what was refused and why. All five are strangers' words: cut, and made storable.

        The same refusal again is counted on its one row, so that a host that repeats itself
        cannot fill the disk.
        """
        said = {
            "kind": storable(kind, 64),
            "host": storable(host, 253),
            "reason": storable(reason, 1000),
            "digest": storable(digest, 64),
            "excerpt": storable(excerpt, 500),
        }
        with self._writing() as db:
            row = _count(db, said, self._clock())
            # One that is known is counted however full it is: only new rows take room.
            if row is None and _is_full(db, said) and not _made_room(db, said, self._clock()):
                # Strangers with something new to say each time cannot fill the disk either.
                name = said["host"] if _is_registered(db, said["host"]) else ""
                said = {**said, "host": name, "reason": FURTHER, "digest": "", "excerpt": ""}
                row = _count(db, said, self._clock())
            return row or _add(db, said, self._clock())

    def refusals(self, *, host: str | None = None) -> list[Refusal]:
        """Oldest first."""
        query = sa.select(_REFUSALS).order_by(_REFUSALS.c.id)
        if host is not None:
            query = query.where(_REFUSALS.c.host == host)
        with self._reading() as db:
            return [_refusal(row) for row in db.execute(query).mappings()]

    def refusal_page(
        self, *, limit: int, after: int = 0, host: str | None = None
    ) -> list[RefusalLine]:
        """Those behind the id ``after``, oldest first."""
        query = sa.select(*_LINE).where(_REFUSALS.c.id > after).order_by(_REFUSALS.c.id)
        if host is not None:
            query = query.where(_REFUSALS.c.host == storable(host, 253))
        with self._reading() as db:
            return lines_of(db, RefusalLine, query.limit(limit), _LINE, _REFUSALS.c.id)


def spend(db: sa.Connection, use: NonceUse, now: datetime) -> None:
    """Within a transaction: spends a nonce. Raises :class:`ConflictError` when it is spent."""
    spent = db.execute(_SPENT, {"of": use.nonce}).first()
    if spent is not None:
        raise ConflictError(
            f"order {use.order_id}: expected an unspent nonce, found it spent on order {spent[0]}; "
            "compare the message with the one accepted"
        )
    said = {"nonce": use.nonce, "order_id": use.order_id, "digest": use.digest, "at": now}
    db.execute(sa.insert(_NONCES), said)


def _count(
    db: sa.Connection, said: Mapping[str, str], now: datetime, times: int = 1
) -> RefusalLine | None:
    """The row of the same refusal, with this one counted; None for a new one."""
    same = _REFUSALS.c.fingerprint == _fingerprint(said)
    counted = db.execute(
        sa.update(_REFUSALS).where(same).values(count=_REFUSALS.c.count + times, last_at=now)
    ).rowcount
    return _line(db, same) if counted else None


def _add(db: sa.Connection, said: Mapping[str, str], now: datetime, times: int = 1) -> RefusalLine:
    fingerprint = _fingerprint(said)
    db.execute(
        sa.insert(_REFUSALS).values(
            **said, fingerprint=fingerprint, count=times, first_at=now, last_at=now
        )
    )
    return _line(db, _REFUSALS.c.fingerprint == fingerprint)


def _line(db: sa.Connection, which: sa.ColumnElement[bool]) -> RefusalLine:
    # A damaged row is counted all the same: what its host says next must not fail with it.
    (only,) = lines_of(db, RefusalLine, sa.select(*_LINE).where(which), _LINE, _REFUSALS.c.id)
    return only


def _fingerprint(said: Mapping[str, str]) -> str:
    return codec.digest([said[name] for name in ("kind", "host", "reason", "digest")])


def _is_full(db: sa.Connection, said: Mapping[str, str]) -> bool:
    host, kind = said["host"], _REFUSALS.c.kind
    registered = _REFUSALS.c.host.in_(sa.select(_HOSTS.c.name))
    # Strangers share one limit: another name for each message costs them nothing.
    its = _REFUSALS.c.host == host if _is_registered(db, host) else sa.not_(registered)
    # Apart: people are called for a drive by how often this very row was met, and a host that was
    # installed anew has hundreds of hellos refused before anybody sees to it.
    like = kind == DRIVE if said["kind"] == DRIVE else kind != DRIVE
    return _rows(db, sa.and_(its, like)) >= MAX_OF_HOST or _rows(db, sa.true()) >= MAX_REFUSALS


def _made_room(db: sa.Connection, said: Mapping[str, str], now: datetime) -> bool:
    """Whether there is room when the old ones are gone; how many they were stays on record."""
    old = sa.and_(
        _REFUSALS.c.last_at < now - timedelta(days=KEPT_DAYS),
        _REFUSALS.c.reason != FURTHER,
        # By names of ours, none of which is read: a row with a damaged one stays.
        _REFUSALS.c.kind.in_(KINDS),
    )
    times = sa.select(sa.func.sum(_REFUSALS.c.count)).where(old)
    gone = {kind: db.scalar(times.where(_REFUSALS.c.kind == kind)) for kind in KINDS}
    if not any(gone.values()):
        return False
    for kind, count in gone.items():
        further = {"kind": kind, "host": "", "reason": FURTHER, "digest": "", "excerpt": ""}
        if count and _count(db, further, now, int(count)) is None:
            _add(db, further, now, int(count))
    db.execute(sa.delete(_REFUSALS).where(old))
    return not _is_full(db, said)


def _is_registered(db: sa.Connection, host: str) -> bool:
    return db.execute(sa.select(_HOSTS.c.name).where(_HOSTS.c.name == host)).first() is not None


def _rows(db: sa.Connection, which: sa.ColumnElement[bool]) -> int:
    return db.execute(sa.select(sa.func.count()).select_from(_REFUSALS).where(which)).scalar_one()


def _refusal(row: Row) -> Refusal:
    return Refusal(
        id=row["id"],
        kind=row["kind"],
        host=row["host"],
        reason=row["reason"],
        digest=row["digest"],
        excerpt=row["excerpt"],
        count=row["count"],
        first_at=row["first_at"],
        last_at=row["last_at"],
    )
