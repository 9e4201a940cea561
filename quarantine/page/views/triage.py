"""The first view: what needs a person, then what can be sold where."""

from __future__ import annotations

from typing import Any, Final

from quarantine.operations import slots
from quarantine.operations.overview import fleet, health
from quarantine.operations.overview.fleet import Fleet, SlotOutlook
from quarantine.operations.slots import SlotOrder, SlotQuery, State
from quarantine.page.render import Live, Piece, piece
from quarantine.page.view import PageView, Shown, Visit
from quarantine.page.views.slots import where

KINDS: Final = 8
"""Codes of holds that are spelt out."""
EACH: Final = 3
"""Slots of one code."""
MOST: Final = 15
"""Late slots, and silent hosts."""
HOSTS: Final = 50
"""Of the fleet's table."""


def home(visit: Visit) -> Shown:
    """Triage and fleet."""
    now = visit.snapshots.fleet()
    pieces = [_summary(visit, now), _held(visit, now), _late(visit, now)]
    if visit.allows("hosts:list"):
        pieces.append(_silent(visit, now))
    if visit.allows("capacity:get"):
        pieces.append(_flavors(visit, now))
        pieces.append(hosts_piece(visit, now, 0))
    return Shown("home.html", {"fleet": now}, Live(pieces, {}))


def table(visit: Visit) -> Shown:
    """The fleet by host and flavor."""
    now = visit.snapshots.fleet()
    start = visit.query.get("from", 0)
    pieces = [_flavors(visit, now), hosts_piece(visit, now, start)]
    return Shown("fleet.html", {"fleet": now}, Live(pieces, {}))


def hosts_piece(visit: Visit, now: Fleet, start: int) -> Piece:
    """Some hosts of the fleet, each with its flavors."""
    step = visit.most(HOSTS)
    words = {
        "rows": now.rows(start, step),
        "flavors": now.flavors,
        "hosts": len(now.stocks),
        "start": start,
        "step": step,
        "hears": visit.allows("hosts:list"),
    }
    return _piece(visit, "hosts", words, now)


def _summary(visit: Visit, now: Fleet) -> Piece:
    # What waits for a person stands first.
    order = (State.HELD, *(state for state in State if state is not State.HELD))
    states = {state.value: now.states.get(state.value, 0) for state in order}
    # States of another release are one number: no slot is missing in the sum.
    others = sum(count for name, count in now.states.items() if name not in states)
    problems = [f"{one.name}: {one.problem}" for one in health.shared_look(visit.plane).checks]
    words = {
        "states": states,
        "others": others,
        # A check without a problem has no words behind its name.
        "problems": [line for line in problems if not line.endswith(": ")],
    }
    return _piece(visit, "summary", words, now)


def _held(visit: Visit, now: Fleet) -> Piece:
    """By code: its remedy once, then the slots that wait longest."""
    kinds = []
    for kind in now.held[:KINDS]:
        query = SlotQuery(states=("held",), hold_code=kind.code)
        lines = slots.page(visit.plane, query, limit=EACH, order=SlotOrder.ENTERED_AT)
        kinds.append((kind, _rows(visit, fleet.outlooks(visit.plane, lines))))
    count = sum(kind.slots for kind in now.held)
    more = sum(kind.slots for kind in now.held[KINDS:])
    return _piece(visit, "held", {"kinds": kinds, "count": count, "more": more}, now)


def _late(visit: Visit, now: Fleet) -> Piece:
    # The snapshot may be seconds old: slots that went on since are left out.
    late = fleet.late(visit.plane, now.latest)[:MOST] if now.late else ()
    return _piece(visit, "late", {"rows": _rows(visit, late), "count": now.late}, now)


def _silent(visit: Visit, now: Fleet) -> Piece:
    return _piece(visit, "silent", {"rows": now.silent[:MOST], "count": len(now.silent)}, now)


def _flavors(visit: Visit, now: Fleet) -> Piece:
    return _piece(visit, "flavors", {"flavors": now.flavors, "problem": now.problem}, now)


def _rows(visit: Visit, found: tuple[SlotOutlook, ...]) -> list[tuple[SlotOutlook, str]]:
    return [(one, visit.url(f"/slots/{where(one.line)}")) for one in found]


def _piece(visit: Visit, name: str, words: dict[str, Any], now: Fleet) -> Piece:
    return piece(name, "triage_pieces.html", name, words, visit.url, now.at)


VIEWS: Final = (
    PageView("", "slots:list", home),
    PageView(
        "/fleet",
        "capacity:get",
        table,
        query={"from": {"type": "integer", "minimum": 0, "maximum": 10**6}},
    ),
)
