"""History: what happened in the whole fleet, the last first."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from quarantine.api.resources.history import FILTERS
from quarantine.operations import slots
from quarantine.operations.overview import history
from quarantine.operations.overview.history import Event
from quarantine.page.view import PageView, Shown, Visit

PAGE: Final = 100


def find(visit: Visit) -> Shown:
    """A page of a list."""
    asked, size = visit.query, visit.most(PAGE)
    event = asked.get("event")
    found, more = history.page(
        visit.plane,
        limit=size,
        before=asked.get("marker"),
        host=asked.get("host"),
        event=None if event is None else Event(event),
    )
    chosen = {name: asked[name] for name in FILTERS if name in asked}
    words = {
        "rows": [
            (one, visit.url(f"/slots/{quote(slots.name(one.slot), safe=':')}")) for one in found
        ],
        "chosen": chosen,
        "events": sorted(Event),
        "first": visit.url("/history", chosen) if "marker" in asked else "",
        "following": "" if more is None else visit.url("/history", {**chosen, "marker": str(more)}),
    }
    return Shown("history.html", words)


VIEWS: Final = (
    PageView(
        "/history",
        "history:list",
        find,
        query={**FILTERS, "marker": {"type": "integer", "minimum": 0, "maximum": 2**62}},
    ),
)
