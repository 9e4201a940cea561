"""What people decide about a slot, on the page as by the API and by the commands."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from quarantine.api import faults
from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
)
from quarantine.operations import decisions, slots
from quarantine.operations.decisions import Decision, SlotDecision
from quarantine.page import submission
from quarantine.page.choices import CHOICES, HOLD_LATER, TAKE_BACK
from quarantine.page.view import Shown, Visit
from quarantine.page.views.slots import confirmation, slot_page

LOG = logging.getLogger(__name__)

_ACTS: Final[dict[str, Callable[..., SlotDecision]]] = {
    "hold": decisions.hold,
    HOLD_LATER: functools.partial(decisions.hold, at_next_release=True),
    TAKE_BACK: decisions.release,
    "release": decisions.release,
    "erase": decisions.erase,
    "retire": decisions.retire,
}
_SAME: Final = {
    name: submission.same("POST", f"/v1/slots/{{slot}}/{one.verb}") for name, one in CHOICES.items()
}


def decide(visit: Visit, name: str) -> Shown:
    """One decision. What is wrong with it is said beside the form, with what was typed kept."""
    fields = visit.sent()
    slot = slots.named(visit.plane, visit.names["slot"])
    seen = slots.versioned(visit.plane, slot)

    def again(status: int, said: str, detail: str = "") -> Shown:
        return submission.beside(
            visit,
            "slots:get",
            submission.Refused(status, said, detail),
            lambda: slot_page(
                visit, status=status, said=said, detail=detail, fields=fields, act=name
            ),
        )

    body: dict[str, Any] = {"reason": fields.get("reason", "").strip()}
    if name == "release" and fields.get("new_drive"):
        body["new_drive"] = True
    if wrong := submission.refused(body, _SAME[name]):
        return again(wrong.status, wrong.said, wrong.detail)
    # Before what was typed is judged: another drive may be in the slot, with another serial number.
    if seen.version != fields.get("version", ""):
        return again(412, *submission.STALE)
    if name == TAKE_BACK and not seen.slot.next_hold:
        # Else it would be a release, for which more has to be typed.
        return again(409, "Nothing was done.", "It is not to be held at its next release.")
    if CHOICES[name].final:
        what, expected = confirmation(seen.slot)
        if not submission.typed(fields.get("confirm", ""), expected):
            return again(400, f"Nothing was done: what was typed is not the {what}.")
    more = {"new_drive": True} if body.get("new_drive") else {}
    try:
        # The operation compares the version again, where nothing can change in between.
        done = _ACTS[name](
            visit.plane,
            slot,
            reason=body["reason"],
            decision=Decision(visit.by, (seen.version,)),
            **more,
        )
    except StaleError:
        # A StaleError is a ConflictError too: it comes first.
        return again(412, *submission.STALE)
    except (ConflictError, IllegalTransitionError) as error:
        return again(409, "Nothing was done.", faults.of(error).detail)
    finally:
        # Also after an error: some end behind something that was done.
        visit.snapshots.forget()
    words = {"done": _line(visit, done.slot.slot), "unacted": "1" if done.unacted else None}
    return Shown(elsewhere=visit.url(_path(visit), words))


def _line(visit: Visit, slot: Any) -> int | None:
    """The line of history that this request wrote; None also where it cannot be read now: what
    was decided stays decided."""
    try:
        lines = slots.newest_history(visit.plane, slot, 1_000)
    except QuarantineError as error:
        LOG.warning("slot %s: decided; its history: %s", slot, error)
        return None
    # The service may have written more lines since, and an act writes several: the last of this
    # request's.
    own = (one.revision for one in reversed(lines) if one.by and one.by.request == visit.by.request)
    return next(own, None)


def _path(visit: Visit) -> str:
    """Quoted: it goes into a header."""
    return f"/slots/{quote(visit.names['slot'], safe=':')}"


VIEWS: Final = tuple(
    view
    for name, one in CHOICES.items()
    for view in submission.views(
        f"/slots/{{slot}}/{name}",
        one.rule,
        functools.partial(decide, name=name),
        _path,
        "slots:get",
    )
)
