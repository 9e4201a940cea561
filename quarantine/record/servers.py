"""Whose servers are, and when passes of the service went well."""

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
    """What the store knows about servers: whose they are. Nothing that guards a drive asks."""

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
