"""Servers, for those whose they are: the state of their drives, and digests of certificates.

All that a project's reader can ask for. What is another project's is not there for him.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, damaged, moment
from quarantine.errors import UnknownError
from quarantine.operations.papers import servers

LIST_ALL: Final = "servers:list_all"

_NONE: Final = "(none)"
"""No project has this id: a rule that compares projects never holds by it."""


def find(ask: Ask) -> Reply:
    """A page: of the caller's project, or for operators of any.

    Raises :class:`Fault`: 403 where somebody else asks for another project than his own.
    """
    project = ask.query.get("project")
    # Everybody else gets the project of the token, whatever the query names.
    if not ask.may(LIST_ALL, {}):
        # A rule of the operator's may let in whoever has no project: he owns none of those either
        # whose project nobody knows.
        own = _project(ask) or _NONE
        if project not in (None, own):
            raise Fault(403, "forbidden", "expected the caller's own project, or none")
        project = own
    found = servers.page(
        ask.plane, limit=ask.limit, after=ask.query.get("marker", ""), project=project
    )
    said: dict[str, Any] = {
        "servers": [
            {
                "id": one.uuid,
                "project": one.project,
                "seen_at": moment(one.seen_at),
                "damaged": damaged(one.damaged),
            }
            for one in found
        ]
    }
    if len(found) == ask.limit:
        said["servers_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].uuid})}]
    return Reply(said)


def show(ask: Ask) -> Reply:
    """One. Raises ``UnknownError`` where its name is no uuid."""
    server = ask.names["server"]
    if not re.fullmatch(schemas.UUID["pattern"], server):
        raise UnknownError("server: expected a uuid of Nova's")
    found = servers.show(ask.plane, server)
    return Reply(
        {
            "id": found.server,
            "drives": [
                {"state": one.state, "certificate": one.certificate} for one in found.drives
            ],
            "certificates": list(found.certificates),
        }
    )


def _project(ask: Ask) -> str:
    """The caller's. One who has none must not be taken for the owner of what nobody owns."""
    project = ask.context.project_id if ask.context is not None else None
    return project or ""


def _own(ask: Ask) -> Mapping[str, Any]:
    """The target of a list: the caller's project."""
    return {"project_id": _project(ask) or _NONE}


def _owner(ask: Ask) -> Mapping[str, Any]:
    """The target of one server: whose it is."""
    try:
        return {"project_id": servers.owner(ask.plane, ask.names["server"]).project or _NONE}
    except UnknownError:
        # As another project's: who may not see it does not learn whether it is there.
        return {"project_id": _NONE}


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/servers",
        "List servers that were seen with a drive",
        find,
        "servers:list",
        policies.SERVER_READER,
        query={
            "project": {**schemas.NAME, "description": "Operators may name any."},
            "limit": schemas.LIMIT,
            "marker": schemas.MARKER,
        },
        response=schemas.page("servers", schemas.SERVER_LINE),
        target=_own,
    ),
    Operation(
        "GET",
        "/v1/servers/{server}",
        "Show the state of a server's drives, and digests of certificates",
        show,
        "servers:get",
        policies.SERVER_READER,
        response=schemas.SERVER,
        target=_owner,
    ),
)
