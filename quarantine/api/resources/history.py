"""History: what happened in the whole fleet. A slot's own is with the slot."""

from __future__ import annotations

from typing import Any, Final

from eraser.protocol import codec
from quarantine.api import policies, schemas
from quarantine.api.operation import Ask, Operation, Reply, Schema, moment
from quarantine.operations import slots
from quarantine.operations.overview import history
from quarantine.operations.overview.history import Event, HistoryRow

FILTERS: Final[dict[str, Schema]] = {
    "host": {**schemas.NAME, "description": "Of the slots of this host."},
    "event": {"enum": [str(event) for event in Event]},
}


def find(ask: Ask) -> Reply:
    """A page."""
    event = ask.query.get("event")
    lines, more = history.page(
        ask.plane,
        limit=ask.limit,
        before=ask.query.get("marker"),
        host=ask.query.get("host"),
        event=None if event is None else Event(event),
    )
    said: dict[str, Any] = {
        "history": [{"slot": slots.name(one.slot), **entry(one)} for one in lines]
    }
    if more is not None:
        said["history_links"] = [{"rel": "next", "href": ask.link({"marker": more})}]
    return Reply(said)


def entry(row: HistoryRow) -> dict[str, Any]:
    """One, of a slot that is known."""
    by = row.by and {
        "user": row.by.user,
        "project": row.by.project,
        "request_id": row.by.request,
    }
    return {
        "revision": row.revision,
        "at": moment(row.at),
        "event": row.event.value if row.event else None,
        "source": row.source.value if row.source else None,
        "target": row.target.value,
        "generation": row.generation,
        "reason": row.reason,
        "hold_code": row.hold_code,
        "by": by,
        "detail": codec.plain(dict(row.detail)),
    }


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/history",
        "List what happened to slots, the last first",
        find,
        "history:list",
        policies.AS_SLOTS_HISTORY,
        query={
            **FILTERS,
            "limit": schemas.LIMIT,
            # Databases have 64 bits for the number of a line.
            "marker": {"type": "integer", "minimum": 0, "maximum": 2**62},
        },
        response=schemas.page("history", schemas.LINE_OF_A_SLOT),
    ),
)
