"""Slots: lists with filters, and one with all that is known of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from urllib.parse import quote

from quarantine.api.resources.slots import FILTERS, SORTS, marker_of, marks, read_marker
from quarantine.operations import slots
from quarantine.operations.overview import fleet
from quarantine.operations.overview.fleet import SlotOutlook
from quarantine.operations.papers import certificates
from quarantine.operations.slots import HistoryRow, SlotLine, SlotQuery, SlotView, State
from quarantine.page import choices, forms, texts
from quarantine.page.render import Live, Piece, piece
from quarantine.page.view import PageView, Shown, Visit

SIZES: Final = (100, 500, 2000)
"""Slots of one page, where ``[api]max_limit`` allows as many."""

HISTORY: Final = 200
"""Lines of a slot's life, the newest."""
_CERTIFICATES: Final = 100

CASE_STATES: Final = ("quarantined", "erasing", "verifying", "certified")


def find(visit: Visit) -> Shown:
    """A page of a list."""
    words = visit.query
    sort, size = words.get("sort", "slot"), visit.most(words.get("limit", SIZES[0]))
    order, descending = SORTS[sort]
    marker = words.get("marker")
    lines = slots.page(
        visit.plane,
        SlotQuery(
            states=tuple(words.get("state", ())),
            **{
                name: words.get(name) for name in ("host", "model", "serial", "hold_code", "server")
            },
        ),
        limit=size,
        order=order,
        descending=descending,
        after=None if marker is None else read_marker(marker, order),
    )
    found, now = fleet.outlooks(visit.plane, lines), visit.now
    rows = [_row(visit, one, now) for one in found]
    kept = {name: value for name, value in words.items() if name not in ("marker", "part")}
    following = ""
    last = next((line for line in reversed(lines) if marks(line, order)), None)
    if len(lines) == size and last is not None:
        following = visit.url("/slots", {**kept, "marker": marker_of(last, order)})
    said = {
        "rows": rows,
        "words": words,
        "states": [state.value for state in State],
        "sorts": tuple(SORTS),
        "size": size,
        "sizes": sorted({visit.most(one) for one in SIZES}),
        "following": following,
        "first": visit.url("/slots", kept) if marker is not None else "",
        # Seconds between two looks of the script: long lists cost more.
        "every": 5 if len(rows) <= 200 else 10,
    }
    return Shown("slots.html", said, Live(rows, {"rows": [one.id for one in rows]}))


def show(visit: Visit) -> Shown:
    """One slot."""
    return slot_page(visit, status=200)


def slot_page(
    visit: Visit,
    *,
    status: int,
    said: str = "",
    detail: str = "",
    fields: dict[str, str] | None = None,
    act: str = "",
) -> Shown:
    """A slot's view; after an act that was not done with what is wrong, and what was typed."""
    slot = slots.named(visit.plane, visit.names["slot"])
    seen = slots.versioned_closely(visit.plane, slot)
    view, now = seen.slot, visit.now
    path = f"/slots/{quote(slots.name(view.slot), safe=':')}"
    # What the caller may not see by the API is left out of the page.
    lines, most = list[HistoryRow](), visit.most(HISTORY)
    if visit.allows("slots:history"):
        # One more than is shown, to know whether there is more.
        lines = list(slots.newest_history(visit.plane, view.slot, most + 1))
    older = len(lines) > most
    # A host erases some of its drives at once: the open cases before this one say how long it
    # waits.
    siblings: tuple[SlotOutlook, ...] = ()
    if visit.allows("slots:list") and view.state.value in CASE_STATES:
        query = SlotQuery(host=view.slot.host, states=CASE_STATES)
        same_host = slots.page(visit.plane, query, limit=visit.most(SIZES[0]))
        siblings = fleet.outlooks(visit.plane, same_host)
    issued: tuple[Any, ...] = ()
    if visit.allows("certificates:list"):
        issued = certificates.page(visit.plane, limit=visit.most(_CERTIFICATES), slot=view.slot)
    pieces = [
        piece("now", "slot_pieces.html", "now", view, _case(view, siblings), visit.url, now),
        piece("facts", "slot_pieces.html", "facts", view, visit.url, now),
        piece("life", "slot_pieces.html", "life", lines[-most:][::-1], older, now),
    ]
    possible = choices.possible(view, visit.allows)
    # Whoever can decide nothing needs no secret, and the page may be kept by the browser.
    opened = forms.opened(visit.req, visit.user) if possible else forms.NOTHING
    since = _number((fields or {}).get("seen"))
    done = visit.query.get("done")
    words = {
        "view": view,
        "name": slots.name(view.slot),
        "path": visit.url(path),
        "version": seen.version,
        "revision": view.revision,
        "token": opened.token,
        "acts": possible,
        "confirm": confirmation(view),
        "issued": issued,
        "said": said,
        "detail": detail,
        "fields": fields or {},
        "tried": act,
        # What happened since the caller looked, where a decision came too late.
        "since": [line for line in lines if since is not None and line.revision > since]
        if status == 412
        else [],
        "done": next((line for line in lines if line.revision == done), None),
        "maintains": visit.allows("maintenances:get"),
        "unacted": bool(visit.query.get("unacted")),
    }
    return Shown("slot.html", words, Live(pieces, {}, seen.version), status, opened.headers)


def where(line: SlotLine) -> str:
    """A slot in a path."""
    return quote(f"{line.host}_{line.address.upper()}", safe=":")


def confirmation(view: SlotView) -> tuple[str, str]:
    """What has to be typed for what cannot be undone: its serial; without one its address."""
    serial = texts.visible(view.serial).strip()
    return ("serial number", serial) if serial else ("address", view.slot.address)


def _case(view: SlotView, siblings: tuple[SlotOutlook, ...]) -> dict[str, Any]:
    """How far the case is: when it is due, and what its host has before it."""
    own = next((one for one in siblings if one.line.address == view.slot.address), None)
    waiting = sorted(siblings, key=_began)
    place = next(
        (number for number, one in enumerate(waiting) if one.line.address == view.slot.address),
        None,
    )
    return {
        "due_at": own.due_at if own else None,
        "late": bool(own and own.late),
        "place": place,
        "open": len(waiting),
        "before": [one.line for one in waiting[:place]] if place else [],
    }


def _began(one: SlotOutlook) -> tuple[bool, datetime | None, int]:
    # Damaged rows last: the bool comes first, so that None is never compared with a time.
    return one.line.entered_at is None, one.line.entered_at, one.line.id


def _row(visit: Visit, one: SlotOutlook, now: datetime) -> Piece:
    link = visit.url(f"/slots/{where(one.line)}")
    return piece(f"s{one.line.id}", "slot_pieces.html", "row", one, link, now)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None


VIEWS: Final = (
    PageView(
        "/slots",
        "slots:list",
        find,
        query={
            **FILTERS,
            "sort": {"enum": list(SORTS)},
            "limit": {"type": "integer", "minimum": 1, "maximum": SIZES[-1]},
            "marker": {"type": "string", "maxLength": 300},
        },
    ),
    PageView(
        "/slots/{slot}",
        "slots:get",
        show,
        query={
            "done": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
            "unacted": {"enum": ["1"]},
        },
    ),
)
