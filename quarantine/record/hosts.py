"""Hosts: registered by a person, never by themselves."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import host_name
from eraser.protocol.report import Hello
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError, ConflictError, UnreadableError
from quarantine.record import slots as table
from quarantine.record.database import models, stored
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import UNREADABLE, of_the_row, readable, separately, whole
from quarantine.record.database.rows import Row
from quarantine.record.words.facts import HostRecord

LOG = logging.getLogger(__name__)

_HOSTS = models.hosts
_SLOTS = models.slots

# Asked at each hello and each report; built once, as those of slots.py.
_OF_NAME: Final = sa.select(_HOSTS).where(_HOSTS.c.name == sa.bindparam("of"))
_HEARD: Final = sa.update(_HOSTS).where(
    _HOSTS.c.name == sa.bindparam("of"),
    _HOSTS.c.incarnation == sa.bindparam("life"),
    _HOSTS.c.sequence < sa.bindparam("behind"),
)


class HostRepository(Repository):
    """What the store knows about hosts."""

    def register_host(
        self, name: str, key: PublicKey, incarnation: str, *, replace: bool = False
    ) -> HostRecord:
        """Notes whose signature counts for ``name``, and which life of the host we speak to.

        The same registration again changes nothing. Raises :class:`ConflictError` where the host
        has another key or incarnation and ``replace`` is not given, or another host has this key,
        and without ``replace`` :class:`UnreadableError` where its row cannot be read.
        """
        try:
            host_name(name)
        except ValueError as error:
            raise BadInputError(f"host: {error}") from error
        values = {
            "thumbprint": key.thumbprint,
            "jwk": json.dumps(key.jwk(), sort_keys=True),
            "incarnation": incarnation,
            # Another life counts its hellos from the beginning, and what the former one said of
            # drives, tickets and defences is no word of this one.
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
            old, is_there = None, True
            try:
                old = _find(db, name)
                is_there = old is not None
            except UnreadableError as error:
                if not replace:
                    raise UnreadableError(
                        f"{error}; restore the record, or register it anew with --replace"
                    ) from error
            if old is not None and (old.key, old.incarnation) == (key, incarnation):
                return old
            if old is not None and not replace:
                raise ConflictError(
                    f"host {name}: expected a host that is not registered, found it with key "
                    f"{old.key.thumbprint}, incarnation {old.incarnation}; replace it on purpose"
                )
            if not is_there:
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
        """A registered host. Raises :class:`UnreadableError`."""
        with self._reading() as db:
            return _find(db, name)

    def hosts(self, names: Collection[str] | None = None) -> list[HostRecord]:
        """All registered hosts, or some, by name; rows that cannot be read are left out."""
        return self.every_host(names)[0]

    def every_host(
        self, names: Collection[str] | None = None
    ) -> tuple[list[HostRecord], list[str]]:
        """All registered hosts, or some, by name; and a line for each of which the row or the kept
        hello cannot be read."""
        query, fits = sa.select(_HOSTS).order_by(_HOSTS.c.name), whole(list(_HOSTS.c))
        if names is not None:
            query = query.where(_HOSTS.c.name.in_(names))
        found: list[HostRecord] = []
        unread: list[str] = []
        with self._reading() as db:
            for name, row, _why in separately(db, query, _HOSTS.c.name):
                if row is None or not fits(tuple(row.values())):
                    unread.append(f"host {row['name'] if row else name}: its row cannot be read")
                elif (host := _readable(row)) is None:
                    unread.append(f"host {row['name']}: its row cannot be read")
                else:
                    found.append(host)
                    if host.hello is None and row["hello"] is not None:
                        unread.append(f"host {host.name}: its last hello cannot be read")
        return found, unread

    def host_names(self) -> list[str]:
        """The names of all registered hosts, and nothing else of them; one that cannot be read is
        left out."""
        name = _HOSTS.c.name
        with self._reading() as db:
            return [found for (found,) in readable(db, sa.select(name), [name], name)]

    def last_heard(self, names: Collection[str] | None = None) -> dict[str, datetime]:
        """When each host, or each of some, was heard last, or registered where it never was; but
        for those whose row says no such time."""
        columns = (_HOSTS.c.name, _HOSTS.c.heard_at, _HOSTS.c.registered_at)
        query = sa.select(*columns)
        if names is not None:
            query = query.where(_HOSTS.c.name.in_(names))
        with self._reading() as db:
            found = readable(db, query, columns, _HOSTS.c.name)
            return {name: heard or registered for name, heard, registered in found}

    def host_seen(self, name: str, sequence: int, hello: Hello) -> HostRecord:
        """Keeps a verified hello, if it is newer than the last one of this incarnation.

        Raises :class:`ConflictError` for an older or repeated one, another incarnation's, or an
        unknown host's: nothing in it may be believed.

        A slot of the host that took its last step in a time to come took it before our clock was
        set back: from now on it is as if it had taken it now. Else the newest word would be one of
        before the step, or of after steps that are still to be taken.
        """
        with self._writing() as db:
            now = self._clock()
            which = {"of": name, "life": hello.incarnation, "behind": sequence}
            said = {"sequence": sequence, "hello": codec.canonical(hello).decode()}
            # One UPDATE that fits a newer number alone: of two workers with a hello each, the later
            # commit cannot put the older word on top.
            done = db.execute(_HEARD, {**said, "heard_at": now, **which})
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
            table.enter_again(db, name, now)
            return found

    def heard_again(
        self, hello: Hello, key: PublicKey, before: int, slots: Sequence[tuple[int, int]]
    ) -> bool:
        """Notes that a host said again what it said in its hello number ``before``, verified with
        ``key``; ``slots`` are its slots with their revisions, as they were then.

        False, and nothing is noted, where anything else is on record by now: then the hello may
        mean something else. The kept hello stays as it is, with its own number.
        """
        name = hello.host
        with self._writing() as db:
            now = self._clock()
            # Compared there and not here: a time that is damaged since is no error, but one more
            # reason to read the hello as any other.
            ahead = (_SLOTS.c.entered_at > now).label("ahead")
            query = sa.select(_SLOTS.c.id, _SLOTS.c.revision, ahead)
            found = db.execute(query.where(_SLOTS.c.host == name)).all()
            if {(row.id, row.revision) for row in found} != set(slots):
                return False
            # Our clock was set back: read as any other, it lets these states begin now (host_seen).
            if any(row.ahead for row in found):
                return False
            done = db.execute(
                sa.update(_HOSTS)
                .where(
                    _HOSTS.c.name == name,
                    _HOSTS.c.thumbprint == key.thumbprint,
                    _HOSTS.c.incarnation == hello.incarnation,
                    _HOSTS.c.sequence == before,
                    _HOSTS.c.sequence < hello.sequence,
                )
                .values(sequence=hello.sequence, heard_at=now)
            )
            return done.rowcount == 1


def _find(db: sa.Connection, name: str) -> HostRecord | None:
    try:
        row = db.execute(_OF_NAME, {"of": name}).mappings().first()
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
        # The driver's words go on in a second line, about itself.
        why = str(error).partition("\n")[0]
        raise UnreadableError(f"host {name}: its row cannot be read: {why}") from error
    return None if row is None else _record(row)


def _readable(row: Row) -> HostRecord | None:
    try:
        return _record(row)
    except UnreadableError as error:
        LOG.warning("%s", error)
        return None


def _record(row: Row) -> HostRecord:
    """Raises :class:`UnreadableError`; a hello that cannot be read counts as none: the next one,
    in a minute, takes its place."""
    name = row["name"]
    try:
        key = PublicKey.from_jwk(json.loads(row["jwk"]), f"stored key of host {name}")
    except (BadWireError, ValueError) as error:
        raise UnreadableError(f"host {name}: its key cannot be read: {error}") from error
    return HostRecord(
        name=name,
        key=key,
        incarnation=row["incarnation"],
        sequence=row["sequence"],
        hello=_hello(name, row["hello"]),
        registered_at=row["registered_at"],
        heard_at=row["heard_at"],
    )


def _hello(name: str, text: str | None) -> Hello | None:
    try:
        return None if text is None else stored.load(Hello, text, f"stored hello of host {name}")
    except UnreadableError as error:
        LOG.warning("%s", error)
        return None
