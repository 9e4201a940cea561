"""Whose servers are, and their migrations; and when passes of the service went well."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from quarantine.record.database import models
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import readable
from quarantine.record.database.lines import named_page
from quarantine.record.words.facts import GoodPass, ServerOwner
from quarantine.record.words.texts import storable

_SERVERS = models.servers
_MOVES = models.moves
_MOVE: Final = (_MOVES.c.migration, _MOVES.c.server)
_PASSES = models.passes


@dataclass(frozen=True)
class ServerLine:
    """A server in a list, and whose it is."""

    uuid: str
    project: str
    user: str
    seen_at: datetime | None
    """None where that is damaged."""
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


_LINE: Final = tuple(_SERVERS.c[field.name] for field in fields(ServerLine)[:-1])


class ServerRepository(Repository):
    """What the store knows about servers: whose they are, and what held drives for them. Nothing
    that guards a drive asks."""

    def note_server(self, uuid: str, project: str, user: str) -> None:
        """A server was seen with a drive. Raises :class:`ConflictError` where somebody else notes
        it in this moment."""
        said = {
            "project": storable(project, models.INITIATOR),
            "user": storable(user, models.INITIATOR),
            "seen_at": self._clock(),
        }
        with self._writing() as db:
            same = _SERVERS.c.uuid == uuid
            if not db.execute(sa.update(_SERVERS).where(same).values(**said)).rowcount:
                db.execute(sa.insert(_SERVERS).values(uuid=uuid, **said))

    def server(self, uuid: str) -> ServerOwner | None:
        """Whose a server is; None where it was never seen, or before this was kept."""
        with self._reading() as db:
            query = sa.select(_SERVERS).where(_SERVERS.c.uuid == uuid)
            row = db.execute(query).mappings().first()
            return None if row is None else ServerOwner(**row)

    def note_move(self, migration: str, server: str) -> None:
        """Nova says that a consumer is a migration of that server; which it is for ever. Whose the
        migration was taken to be the server is. Raises :class:`ConflictError` where somebody else
        notes it in this moment."""
        said = {"migration": storable(migration), "server": storable(server)}
        # Not by what can be read: whoever decides by it would wait for a damaged row for ever.
        known = sa.select(sa.func.count()).where(_MOVES.c.migration == said["migration"])
        with self._reading() as db:
            if db.scalar(known):
                return
        with self._writing() as db:
            db.execute(sa.insert(_MOVES).values(**said, noted_at=self._clock()))
            its, servers = _SERVERS.c.uuid == said["migration"], _SERVERS.c.uuid == said["server"]
            if db.scalar(sa.select(sa.func.count()).where(servers)):
                db.execute(sa.delete(_SERVERS).where(its))
            else:
                db.execute(sa.update(_SERVERS).where(its).values(uuid=said["server"]))

    def server_behind(self, consumer: str) -> str:
        """The server that a consumer is a migration of, as far as Nova said; else itself."""
        with self._reading() as db:
            found = _moves(db, _MOVES.c.migration == storable(consumer))
        return found[0][1] if found else consumer

    def server_page(
        self, *, project: str | None = None, limit: int, after: str = ""
    ) -> list[ServerLine]:
        """Servers by their uuids, those behind ``after``; of a project, or of all."""
        query = sa.select(*_LINE).where(_SERVERS.c.uuid > storable(after))
        query = query.order_by(_SERVERS.c.uuid)
        if project is not None:
            query = query.where(_SERVERS.c.project == storable(project))
        with self._reading() as db:
            return named_page(db, ServerLine, query, _LINE, (_SERVERS.c.uuid,), limit, "uuid")

    def note_pass(self, name: str, within: float) -> None:
        """A pass went well just now; the next one is expected in ``within`` seconds."""
        said = {"at": self._clock(), "within": within}
        with self._writing() as db:
            same = _PASSES.c.name == name
            if not db.execute(sa.update(_PASSES).where(same).values(**said)).rowcount:
                db.execute(sa.insert(_PASSES).values(name=name, **said))

    def passes(self) -> list[GoodPass]:
        """The last good one of each; one that cannot be read counts as none."""
        columns = (_PASSES.c.name, _PASSES.c.at, _PASSES.c.within)
        query = sa.select(*columns).order_by(_PASSES.c.name)
        with self._reading() as db:
            return [GoodPass(*row) for row in readable(db, query, columns, _PASSES.c.name)]


def consumers_of(db: sa.Connection, server: str) -> list[str]:
    """Within a transaction: what holds drives for a server, itself and its migrations.

    A question of its own: with it inside of another one databases look at every slot.
    """
    moves = _moves(db, _MOVES.c.server == storable(server))
    return [storable(server), *(migration for migration, _server in moves)]


def _moves(db: sa.Connection, which: sa.ColumnElement[bool]) -> list[tuple[str, str]]:
    """Migrations and their servers, but for damaged rows: what held a drive is named then."""
    query = sa.select(*_MOVE).where(which)
    return [(each[0], each[1]) for each in readable(db, query, _MOVE, _MOVES.c.migration)]
