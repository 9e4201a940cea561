"""What can be sold now, what is missing for more, and what comes back when."""

from __future__ import annotations

from typing import Any, Final

from quarantine.api import policies, schemas
from quarantine.api.operation import Ask, Operation, Reply, moment
from quarantine.operations import capacity
from quarantine.operations.capacity import Capacity

_COUNTS: Final = (
    *("drives", "sellable", "free", "missing", "doubtful", "in_use", "coming", "held", "retired"),
)


def find(ask: Ask) -> Reply:
    """All flavors, or one on each host, the nearest to be sold first."""
    found = capacity.show(ask.plane, flavor=ask.query.get("flavor"), host=ask.query.get("host"))
    # The first is of all hosts; those that follow it are as many as a page has.
    return Reply({"capacity": [_document(one) for one in found[: ask.limit + 1]]})


def _document(one: Capacity) -> dict[str, Any]:
    return {
        "flavor": one.flavor,
        "host": one.host or None,
        **{name: getattr(one, name) for name in _COUNTS},
        "next_at": moment(one.next_at),
        "says": one.says,
    }


OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/capacity",
        "Show what can be sold now, what is missing, and what comes back when",
        find,
        "capacity:get",
        policies.READER,
        query={
            "flavor": {**schemas.NAME, "description": "This one: on all hosts, then on each."},
            "host": {**schemas.NAME, "description": "On this host alone."},
            "limit": schemas.LIMIT,
        },
        response=schemas.page("capacity", schemas.CAPACITY),
    ),
)
