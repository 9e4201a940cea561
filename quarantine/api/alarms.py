"""What people were called for."""

from __future__ import annotations

from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.operation import Ask, Operation, Reply, moment, read_moment
from quarantine.operations import alarms
from quarantine.operations.alarms import KINDS, AlarmLine


def find(ask: Ask) -> Reply:
    """A page."""
    since, over = ask.query.get("since"), ask.query.get("over")
    found = alarms.page(
        ask.plane,
        limit=ask.limit,
        after=ask.query.get("marker", 0),
        code=ask.query.get("code"),
        host=ask.query.get("host"),
        since=None if since is None else read_moment(since, "query.since"),
        is_over=None if over is None else over == "true",
    )
    said: dict[str, Any] = {"alarms": [document(one) for one in found]}
    if len(found) == ask.limit:
        said["alarms_links"] = [{"rel": "next", "href": ask.link({"marker": found[-1].id})}]
    return Reply(said)


def document(one: AlarmLine) -> dict[str, Any]:
    """All calls for one subject and code. Of a code of another release only the call is known."""
    kind = KINDS.get(one.code)
    return {
        **vars(one),
        "severity": kind.severity.value if kind else None,
        "summary": kind.summary if kind else None,
        "remedy": kind.remedy if kind else None,
        "first_at": moment(one.first_at),
        "last_at": moment(one.last_at),
        "over_at": moment(one.over_at),
    }


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/alarms",
        "List what people were called for, in the order of the first calls",
        find,
        "alarms:list",
        policies.READER,
        query={
            "code": {"enum": sorted(KINDS)},
            "host": {**schemas.NAME, "description": "Of it and of its slots."},
            "since": {**schemas.TIME, "description": "Called then or later."},
            "over": {
                "enum": ["true", "false"],
                "description": "Whether it was said to be over. Of what happens in a moment "
                "nobody says so.",
            },
            "limit": schemas.LIMIT,
            "marker": {"type": "integer", "minimum": 0, "maximum": 2**62},
        },
        response=schemas.page("alarms", schemas.ALARM),
    ),
)
