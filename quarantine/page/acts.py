"""What people decide about a slot, on the page as by the API and by the commands."""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import quote

from quarantine.api import documents, faults
from quarantine.api.operation import Operation
from quarantine.api.routes import OPERATIONS
from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
)
from quarantine.operations import decisions, slots
from quarantine.operations.decisions import Decision
from quarantine.page import forms
from quarantine.page.slots import confirmation, slot_page
from quarantine.page.view import Shown, View, Visit

LOG = logging.getLogger(__name__)

_ACTS: Final = {"hold": decisions.hold, "release": decisions.release, "retire": decisions.retire}
_FINAL: Final = frozenset({"release", "retire"})
"""What was on the drive is gone afterwards, or the drive is: its serial number is typed."""


def _operation(name: str) -> Operation:
    return next(
        one
        for one in OPERATIONS
        if one.method == "POST" and one.path == f"/v1/slots/{{slot}}/{name}"
    )


_SAME: Final = {name: _operation(name) for name in _ACTS}
"""What the API takes for it: whatever it would refuse is refused here."""


def decide(visit: Visit, name: str) -> Shown:
    """One decision. What is wrong with it is said beside the form, with what was typed kept."""
    fields = forms.read(visit.req)
    named = visit.conf.api.auth_strategy != "noauth"
    forms.check(visit.req, fields, visit.user, named=named)
    slot = slots.named(visit.plane, visit.names["slot"])
    seen = slots.versioned(visit.plane, slot)

    def again(status: int, said: str, detail: str = "") -> Shown:
        return slot_page(visit, status=status, said=said, detail=detail, fields=fields, act=name)

    body: dict[str, Any] = {"reason": fields.get("reason", "").strip()}
    if fields.get("new_drive"):
        body["new_drive"] = True
    if not body["reason"]:
        return again(400, "Nothing was done: say why.", "The history keeps it for your successor.")
    try:
        documents.check(body, _SAME[name].body_validator, "form")
    except faults.Fault as fault:
        return again(fault.status, "Nothing was done.", fault.detail)
    if seen.version != fields.get("version", ""):
        return _stale(again)
    if name in _FINAL:
        what, expected = confirmation(seen.slot)
        if " ".join(fields.get("confirm", "").split()) != " ".join(expected.split()):
            return again(400, f"Nothing was done: what was typed is not the {what}.")
    more = {"new_drive": True} if body.get("new_drive") else {}
    try:
        done = _ACTS[name](
            visit.plane,
            slot,
            reason=body["reason"],
            decision=Decision(visit.by, (seen.version,)),
            **more,
        )
    except StaleError:
        return _stale(again)
    except (ConflictError, IllegalTransitionError) as error:
        return again(409, "Nothing was done.", str(error))
    finally:
        visit.snapshots.forget()
    words = {"done": _line(visit, done.slot.slot), "unacted": "1" if done.unacted else None}
    return Shown(elsewhere=visit.url(_path(visit), words))


def _stale(again: Any) -> Shown:
    shown: Shown = again(
        412,
        "It has changed since you looked, and nothing was done.",
        "The form below is of the slot as it is now.",
    )
    return shown


def _line(visit: Visit, slot: Any) -> int | None:
    """The line of history that this request wrote; None also where it cannot be read now: what
    was decided stays decided."""
    try:
        lines = slots.newest_history(visit.plane, slot, 1_000)
    except QuarantineError as error:
        LOG.warning("slot %s: decided; its history: %s", slot, error)
        return None
    own = (one.revision for one in reversed(lines) if one.by and one.by.request == visit.by.request)
    return next(own, None)


def _back(visit: Visit) -> Shown:
    """Who loads the address of a decision again looks at the slot."""
    return Shown(elsewhere=visit.url(_path(visit)))


def _path(visit: Visit) -> str:
    """Quoted: it goes into a header."""
    return f"/slots/{quote(visit.names['slot'], safe=':')}"


def _views(name: str) -> tuple[View, View]:
    def act(visit: Visit) -> Shown:
        return decide(visit, name)

    path = f"/slots/{{slot}}/{name}"
    return View(path, f"slots:{name}", act, "POST"), View(path, "slots:get", _back)


VIEWS: Final = tuple(view for name in _ACTS for view in _views(name))
