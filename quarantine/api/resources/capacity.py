"""What can be sold now, what is missing for more, and what comes back when."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, moment
from quarantine.operations.overview import capacity
from quarantine.operations.overview.capacity import Capacity
from quarantine.operations.plane import Plane
from quarantine.operations.shared_turn import SharedTurn

_COUNTS: Final = (
    *("drives", "sellable", "free", "missing", "doubtful", "in_use", "coming", "held", "retired"),
)


WRONG: Final = Fault(400, "schema", "query.marker: expected it as a link to the next page has it")

Found = tuple[Capacity, ...]

KEPT_SECONDS: Final = 30.0
"""A list is counted whole, over the whole fleet. Whoever asks for its next page so soon gets it
from the same count: the pages are of one moment, and of one price."""


class _SharedCounts:
    """Of one control plane: one counts at a time; who waited meanwhile gets what was begun after
    they asked."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._turn = SharedTurn(monotonic)
        self._last: dict[str | None, tuple[float, Found]] = {}
        """When each count began, and what it found, by flavor: there are as many as are
        configured."""

    def of_before(self, flavor: str | None) -> Found | None:
        """One that is young enough for a further page."""
        began, found = self._known(flavor)
        return found if self._now() - began < KEPT_SECONDS else None

    def of_now(self, plane: Plane, flavor: str | None) -> Found:
        """One that was begun after it was asked for."""
        asked = self._now()
        with self._turn.turn():
            began, found = self._known(flavor)
            # Whoever counted while this caller waited may have begun before it asked: that count
            # may miss what the caller has just done.
            if began < asked:
                began, found = self._now(), capacity.show(plane, flavor=flavor)
                self._last[flavor] = began, found
            return found

    def _known(self, flavor: str | None) -> tuple[float, Found]:
        return self._last.get(flavor, (-math.inf, ()))


_SHARED: Final[WeakKeyDictionary[Plane, _SharedCounts]] = WeakKeyDictionary()


def find(ask: Ask) -> Reply:
    """A page: all flavors, or one on each host, the nearest to be sold first."""
    words = ask.query
    found = _counted(ask)
    first, rest, behind = found[:0], found, _flavor
    if words.get("flavor") is not None and words.get("host") is None:
        # The first is of all hosts; those that follow it are as many as a page has.
        first, rest, behind = found[:1], found[1:], _host
    if (marker := words.get("marker")) is not None:
        first, rest = found[:0], behind(rest, marker)
    shown = rest[: ask.limit]
    said: dict[str, Any] = {"capacity": [_document(one) for one in (*first, *shown)]}
    if len(rest) > len(shown):
        last = shown[-1].flavor if behind is _flavor else _marker(shown[-1])
        said["capacity_links"] = [{"rel": "next", "href": ask.link({"marker": last})}]
    return Reply(said)


def _counted(ask: Ask) -> Found:
    """All of the list: counted for its first page, and after that was asked for."""
    flavor, host = ask.query.get("flavor"), ask.query.get("host")
    if host is not None:
        return capacity.show(ask.plane, flavor=flavor, host=host)
    counts = _SHARED.setdefault(ask.plane, _SharedCounts(ask.plane.doors.monotonic))
    known = counts.of_before(flavor) if "marker" in ask.query else None
    return counts.of_now(ask.plane, flavor) if known is None else known


def _flavor(found: Found, marker: str) -> Found:
    """Those behind a flavor, as they are configured."""
    at = next((place for place, one in enumerate(found) if one.flavor == marker), None)
    if at is None:
        raise WRONG
    return found[at + 1 :]


def _host(found: Found, marker: str) -> Found:
    """Those behind a host's place, as the places are now."""
    # Filled up where parts are missing: an empty one is no number, and so the marker is refused.
    sold, at, missing, host = (marker.split("~", 3) + [""] * 4)[:4]
    try:
        place = (sold == "1", float(at), int(missing), host)
    except ValueError:
        raise WRONG from None
    return tuple(one for one in found if capacity.nearest(one) > place)


def _marker(one: Capacity) -> str:
    later, at, missing, host = capacity.nearest(one)
    # repr has every digit: the place compares equal when it is read back.
    return f"{later:d}~{at!r}~{missing}~{host}"


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
            "marker": schemas.MARKER,
        },
        response=schemas.page("capacity", schemas.CAPACITY),
    ),
)
