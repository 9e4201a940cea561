"""Hosts: when each was heard, what its defences miss, and what it sees."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from quarantine.operations import hosts
from quarantine.operations.overview import capacity
from quarantine.page.view import PageView, Shown, Visit

PAGE: Final = 50
"""Hosts of one page: the hello of each is read."""


def find(visit: Visit) -> Shown:
    """A page of a list."""
    after, size = visit.query.get("marker", ""), visit.most(PAGE)
    found = hosts.page(visit.plane, limit=size, after=after)
    following = ""
    if len(found) == size:
        following = visit.url("/hosts", {"marker": found[-1].name})
    words = {
        "rows": found,
        "defences": hosts.defences(visit.plane, [one.name for one in found]),
        "maintained": hosts.maintained(visit.plane, [one.name for one in found]),
        "silent": _silent(visit),
        "following": following,
        "first": visit.url("/hosts") if after else "",
    }
    return Shown("hosts.html", words)


def show(visit: Visit) -> Shown:
    """One."""
    host = hosts.show(visit.plane, visit.names["host"])
    words = {
        "host": host,
        "defences": hosts.defences(visit.plane, [host.host]).get(host.host),
        "silent": _silent(visit),
        "maintains": visit.allows("maintenances:get"),
        "remembers": visit.allows("history:list"),
    }
    return Shown("host.html", words)


def _silent(visit: Visit) -> Callable[[datetime], bool]:
    """As the fleet and the capacity have it."""
    after = visit.conf.detection.silent_after
    return lambda heard: bool(capacity.silence(heard, visit.now, after))


VIEWS: Final = (
    PageView(
        "/hosts",
        "hosts:list",
        find,
        query={"marker": {"type": "string", "maxLength": 255}},
    ),
    PageView("/hosts/{host}", "hosts:get", show),
)
