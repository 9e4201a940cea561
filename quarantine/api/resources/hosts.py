"""Hosts: whose word is believed, and what they said last."""

from __future__ import annotations

from typing import Any, Final

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from quarantine.api import policies, schemas
from quarantine.api.operation import Ask, Operation, Reply, damaged, moment
from quarantine.operations import hosts


def find(ask: Ask) -> Reply:
    """A page."""
    silent = ask.query.get("silent")
    found = hosts.page(
        ask.plane,
        limit=ask.limit,
        after=ask.query.get("marker", ""),
        silent=None if silent is None else silent == "true",
    )
    # One question each for the whole page.
    known = hosts.defences(ask.plane, [one.name for one in found])
    quiet = hosts.maintained(ask.plane, [one.name for one in found])
    said: dict[str, Any] = {
        "hosts": [
            {
                "name": one.name,
                "key": one.thumbprint,
                "incarnation": one.incarnation,
                "registered_at": moment(one.registered_at),
                "heard_at": moment(one.heard_at),
                "lacks": known[one.name].lacking if one.name in known else "",
                "maintenance": quiet.get(one.name, ""),
                "damaged": damaged(one.damaged),
            }
            for one in found
        ]
    }
    if len(found) == ask.limit:
        said["hosts_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].name})}]
    return Reply(said)


def show(ask: Ask) -> Reply:
    """One, with the drives that it sees, and how its defences stand."""
    one = hosts.show(ask.plane, ask.names["host"])
    return Reply(
        {
            "name": one.host,
            "key": one.key,
            "incarnation": one.incarnation,
            "registered_at": moment(one.registered_at),
            "heard_at": moment(one.heard_at),
            "version": one.version,
            "drives": [
                {"address": seen.address, "driver": seen.driver, "drive": drive(seen.identity)}
                for seen in one.drives
            ],
            "orders": list(one.cases),
            "maintenance": one.maintenance,
            "defences": codec.plain(one.defences),
            "lacks": one.lacks,
            "exemptions": codec.plain(one.exemptions),
        }
    )


def drive(identity: ControllerIdentity | None) -> dict[str, Any] | None:
    """A drive by what its controller calls itself."""
    return None if identity is None else {**codec.plain(identity), "digest": identity.digest}


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/hosts",
        "List registered hosts",
        find,
        "hosts:list",
        policies.READER,
        query={
            "silent": {
                "enum": ["true", "false"],
                "description": "Whether it was not heard for [detection]silent_after seconds.",
            },
            "limit": schemas.LIMIT,
            "marker": schemas.MARKER,
        },
        response=schemas.page("hosts", schemas.HOST_LINE),
    ),
    Operation(
        "GET",
        "/v1/hosts/{host}",
        "Show a host, its defences and the drives that it sees",
        show,
        "hosts:get",
        policies.READER,
        response=schemas.HOST,
    ),
)
