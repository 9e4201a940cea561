"""Hosts: registered by a person, never by themselves."""

from __future__ import annotations

import json
from datetime import datetime

import sqlalchemy as sa

from eraser.wire import codec
from eraser.wire.identity import host_name
from eraser.wire.report import Hello
from eraser.wire.signing import PublicKey
from quarantine.errors import BadInputError, ConflictError
from quarantine.record import models
from quarantine.record.base import Room
from quarantine.record.facts import HostRecord
from quarantine.record.rows import Row

_HOSTS = models.hosts


class HostRoom(Room):
    """What the store knows about hosts."""

    def register_host(
        self, name: str, key: PublicKey, incarnation: str, *, replace: bool = False
    ) -> HostRecord:
        """Notes whose signature counts for ``name``, and which life of the host we speak to.

        The same registration again changes nothing. Raises :class:`ConflictError` where the host
        has another key or incarnation and ``replace`` is not given, or another host has this key.
        """
        try:
            host_name(name)
        except ValueError as error:
            raise BadInputError(f"host: {error}") from error
        values = {
            "thumbprint": key.thumbprint,
            "jwk": json.dumps(key.jwk(), sort_keys=True),
            "incarnation": incarnation,
            "sequence": 0,
            "hello": None,
            "registered_at": self._clock(),
            "heard_at": None,
        }
        with self._writing() as db:
            shared = db.execute(
                sa.select(_HOSTS.c.name).where(
                    _HOSTS.c.thumbprint == key.thumbprint, _HOSTS.c.name != name
                )
            ).scalar()
            if shared is not None:
                raise ConflictError(
                    f"host {name}: expected a key of its own, found host {shared}'s; "
                    "run 'nvme-eraser keygen' on it"
                )
            old = _find(db, name)
            if old is not None and (old.key, old.incarnation) == (key, incarnation):
                return old
            if old is not None and not replace:
                raise ConflictError(
                    f"host {name}: expected a host that is not registered, found it with key "
                    f"{old.key.thumbprint}, incarnation {old.incarnation}; replace it on purpose"
                )
            if old is None:
                db.execute(sa.insert(_HOSTS).values(name=name, **values))
            else:
                db.execute(sa.update(_HOSTS).where(_HOSTS.c.name == name).values(**values))
            found = _find(db, name)
            assert found is not None
            return found

    def remove_host(self, name: str) -> bool:
        """Nothing from this host counts any more. False when it was not registered."""
        with self._writing() as db:
            return bool(db.execute(sa.delete(_HOSTS).where(_HOSTS.c.name == name)).rowcount)

    def host(self, name: str) -> HostRecord | None:
        """A registered host."""
        with self._reading() as db:
            return _find(db, name)

    def hosts(self) -> list[HostRecord]:
        """All registered hosts by name."""
        with self._reading() as db:
            query = sa.select(_HOSTS).order_by(_HOSTS.c.name)
            return [_record(row) for row in db.execute(query).mappings()]

    def last_heard(self) -> dict[str, datetime]:
        """When each host was heard last, or registered where it never was."""
        query = sa.select(_HOSTS.c.name, _HOSTS.c.heard_at, _HOSTS.c.registered_at)
        with self._reading() as db:
            return {row.name: row.heard_at or row.registered_at for row in db.execute(query)}

    def host_seen(self, name: str, sequence: int, hello: Hello) -> HostRecord:
        """Keeps a verified hello, if it is newer than the last one of this incarnation.

        Raises :class:`ConflictError` for an older or repeated one, another incarnation's, or an
        unknown host's: nothing in it may be believed.
        """
        with self._writing() as db:
            done = db.execute(
                sa.update(_HOSTS)
                .where(
                    _HOSTS.c.name == name,
                    _HOSTS.c.incarnation == hello.incarnation,
                    _HOSTS.c.sequence < sequence,
                )
                .values(
                    sequence=sequence,
                    hello=codec.canonical(hello).decode(),
                    heard_at=self._clock(),
                )
            )
            found = _find(db, name)
            if done.rowcount != 1 or found is None:
                state = (
                    "no such host"
                    if found is None
                    else f"incarnation {found.incarnation} at {found.sequence}"
                )
                raise ConflictError(
                    f"host {name}: expected a hello newer than the last, found number {sequence} "
                    f"of incarnation {hello.incarnation} while we are at {state}; ignored"
                )
            return found


def _find(db: sa.Connection, name: str) -> HostRecord | None:
    row = db.execute(sa.select(_HOSTS).where(_HOSTS.c.name == name)).mappings().first()
    return None if row is None else _record(row)


def _record(row: Row) -> HostRecord:
    name, hello = row["name"], row["hello"]
    return HostRecord(
        name=name,
        key=PublicKey.from_jwk(json.loads(row["jwk"]), f"stored key of host {name}"),
        incarnation=row["incarnation"],
        sequence=row["sequence"],
        hello=None if hello is None else codec.load(Hello, hello, f"stored hello of host {name}"),
        registered_at=row["registered_at"],
        heard_at=row["heard_at"],
    )
