"""Messages that were refused."""

from __future__ import annotations

from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.operation import Ask, Operation, Reply, damaged, moment
from quarantine.operations.overview import refusals


def find(ask: Ask) -> Reply:
    """A page."""
    found = refusals.page(
        ask.plane,
        limit=ask.limit,
        after=ask.query.get("marker", 0),
        host=ask.query.get("host"),
    )
    said: dict[str, Any] = {
        "refusals": [
            {
                **vars(one),
                "first_at": moment(one.first_at),
                "last_at": moment(one.last_at),
                "damaged": damaged(one.damaged),
            }
            for one in found
        ]
    }
    if len(found) == ask.limit:
        said["refusals_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].id})}]
    return Reply(said)


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/refusals",
        "List messages that were refused, oldest first",
        find,
        "refusals:list",
        policies.READER,
        query={
            "host": schemas.NAME,
            "limit": schemas.LIMIT,
            "marker": {"type": "integer", "minimum": 0, "maximum": 2**62},
        },
        response=schemas.page("refusals", schemas.REFUSAL),
    ),
)
