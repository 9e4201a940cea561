"""Alarms: what people were called for, the last call first, and what to do about it."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from eraser.protocol.identity import Slot
from quarantine.api import schemas
from quarantine.api.resources.alarms import marker_of, read_marker
from quarantine.operations import slots
from quarantine.operations.overview import alarms
from quarantine.operations.overview.alarms import KINDS, SEVERITIES, AlarmLine
from quarantine.page.view import PageView, Shown, Visit

PAGE: Final = 100
_HOST: Final = "host "


def find(visit: Visit) -> Shown:
    """A page of a list."""
    asked, size = visit.query, visit.most(PAGE)
    marker, over = asked.get("marker"), asked.get("over")
    found = alarms.page(
        visit.plane,
        limit=size,
        newest=True,
        after=None if marker is None else read_marker(marker),
        code=asked.get("code"),
        severity=asked.get("severity"),
        host=asked.get("host"),
        is_over=None if over is None else over == "true",
    )
    chosen = {name: asked[name] for name in _FILTERS if name in asked}
    following = ""
    if len(found) == size:
        following = visit.url("/alarms", {**chosen, "marker": marker_of(found[-1])})
    words = {
        "rows": [(one, KINDS.get(one.code), _place(visit, one)) for one in found],
        "chosen": chosen,
        "codes": sorted(KINDS),
        "severities": SEVERITIES,
        "first": visit.url("/alarms", chosen) if marker is not None else "",
        "following": following,
    }
    return Shown("alarms.html", words)


def _place(visit: Visit, one: AlarmLine) -> str:
    """Where the subject is shown; nothing for a part of the service."""
    if one.subject.startswith(_HOST):
        return visit.url(f"/hosts/{quote(one.subject.removeprefix(_HOST), safe='')}")
    try:
        slot = Slot.parse(one.subject)
    except ValueError:
        return ""
    return visit.url(f"/slots/{quote(slots.name(slot), safe=':')}")


_FILTERS: Final = {
    "code": {"enum": sorted(KINDS)},
    "severity": {"enum": list(SEVERITIES)},
    "host": schemas.NAME,
    "over": {"enum": ["true", "false"]},
}

VIEWS: Final = (
    PageView("/alarms", "alarms:list", find, query={**_FILTERS, "marker": schemas.MARKER}),
)
