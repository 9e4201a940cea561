"""What people were called for."""

from __future__ import annotations

from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, moment, read_moment
from quarantine.operations import slots
from quarantine.operations.overview import alarms
from quarantine.operations.overview.alarms import KINDS, SEVERITIES, AlarmLine, AlarmMark


def find(ask: Ask) -> Reply:
    """A page."""
    words, newest = ask.query, ask.query.get("sort") == "-last_at"
    since, over, marker = words.get("since"), words.get("over"), words.get("marker")
    # Also one that is not enrolled, or whose row is damaged: people are called for these too.
    slot = None if "slot" not in words else slots.placed(ask.plane, words["slot"])
    found = alarms.page(
        ask.plane,
        limit=ask.limit,
        newest=newest,
        after=None if marker is None else read_marker(marker),
        code=words.get("code"),
        severity=words.get("severity"),
        host=words.get("host"),
        slot=slot,
        since=None if since is None else read_moment(since, "query.since"),
        is_over=None if over is None else over == "true",
    )
    if slot is not None and not found and "marker" not in words:
        slots.require_enrolled(ask.plane, slot)
    said: dict[str, Any] = {"alarms": [document(one) for one in found]}
    if len(found) == ask.limit:
        following = ask.link({"marker": marker_of(found[-1])})
        said["alarms_links"] = [{"rel": "next", "href": following}]
    return Reply(said)


def marker_of(last: AlarmLine) -> str:
    """Where the page behind this one goes on."""
    return f"{moment(last.last_at)}~{last.id}"


def read_marker(text: str) -> AlarmMark:
    """Raises :class:`Fault`."""
    at, _, number = text.partition("~")
    # Eighteen digits fit the 64 bits of a column.
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise Fault(400, "schema", "query.marker: expected it as a link to the next page has it")
    return AlarmMark(int(number), read_moment(at, "query.marker"))


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
        "List what people were called for",
        find,
        "alarms:list",
        policies.READER,
        query={
            "code": {"enum": sorted(KINDS)},
            "severity": {"enum": list(SEVERITIES)},
            "host": {**schemas.NAME, "description": "Of it and of its slots."},
            "slot": schemas.NAME,
            "since": {**schemas.TIME, "description": "Called then or later."},
            "over": {
                "enum": ["true", "false"],
                "description": "Whether it was said to be over. Of what happens in a moment "
                "nobody says so.",
            },
            "limit": schemas.LIMIT,
            "sort": {
                "enum": ["first_at", "-last_at"],
                "description": "By the first calls, or the last call first.",
            },
            "marker": schemas.MARKER,
        },
        response=schemas.page("alarms", schemas.ALARM),
    ),
)
