"""Rows of the slots and history tables to facts, and changes to columns. No I/O."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Step
from quarantine.errors import UnreadableError
from quarantine.record.database import stored
from quarantine.record.database.models import INITIATOR
from quarantine.record.words.facts import (
    JSON,
    HistoryRow,
    Initiator,
    NextHold,
    OfferClaim,
    SlotChanges,
    SlotRecord,
    StoredCertificate,
    UnreadableSlot,
    Unset,
)
from quarantine.record.words.states import Custody, Event, State
from quarantine.record.words.texts import ALARM_LENGTH, NAME_LENGTH, storable

LOG = logging.getLogger(__name__)

Row = Mapping[Any, Any]

NO_CERTIFICATE: Mapping[str, Any] = {
    "certificate": None,
    "ticket_token": None,
    "ticket_incarnation": None,
    "ticket_at": None,
    "ticket_ready": False,
    "offered_as": None,
}
"""The columns of a drive that is certified for nobody: what it was handed out with goes with its
certificate."""

EMPTY_CASE: Mapping[str, Any] = {
    "order_id": None,
    "nonce": None,
    "order_token": None,
    "ordered_at": None,
    "heard_at": None,
    "attempts": 0,
    "step": None,
    "fraction": 0.0,
    "detail": "",
}
"""The columns of a case that has just begun."""

_PLAIN = tuple(
    field.name
    for field in dataclasses.fields(SlotRecord)
    if field.name not in ("slot", "state", "identity", "step", "custody_stage", "next_hold")
)


def slot_record(row: Row) -> SlotRecord:
    """One row of ``slots``. Raises :class:`UnreadableError`."""
    try:
        return SlotRecord(
            slot=Slot(row["host"], row["address"]),
            state=State(row["state"]),
            identity=identity(row["identity"]),
            custody_stage=custody_stage(
                State(row["state"]), row["custody"], ready=row["custody_ready"]
            ),
            step=None if row["step"] is None else Step(row["step"]),
            next_hold=_next_hold(row),
            **{name: row[name] for name in _PLAIN},
        )
    except (ValueError, TypeError) as error:
        raise UnreadableError(str(error)) from error


def slot_or_why(row: Row) -> SlotRecord | UnreadableSlot:
    """One row of ``slots``, or why it cannot be read."""
    try:
        return slot_record(row)
    except UnreadableError as error:
        return UnreadableSlot(row["host"], row["address"], row["provider"], str(error))


CLAIM = ("host", "address", "provider", "state", "custody", "custody_ready", "identity")
"""The columns of a claim."""


def claim(row: Row) -> OfferClaim | None:
    """A slot's claim to be on offer; None where the row cannot be read."""
    try:
        identity(row["identity"])
        slot, state = Slot(row["host"], row["address"]), State(row["state"])
    except (ValueError, TypeError, UnreadableError):
        return None
    clean, registered = bool(row["clean"]), bool(row["registered"])
    stage = custody_stage(state, row["custody"], ready=row["custody_ready"])
    return OfferClaim(row["provider"], slot, state, stage, clean, registered)


def custody_stage(state: State, custody: str | None, *, ready: bool) -> Custody:
    """The stage by what is stored: ``custody_ready`` alone means one thing on the way in and
    another on the way out, and which way a slot goes is in its state.
    """
    if ready:
        return Custody.HELD
    if state is State.CERTIFIED:
        return Custody.RETURNING
    return Custody.left(custody)


def identity(text: str | None) -> ControllerIdentity | None:
    """A stored identity. Raises :class:`UnreadableError`."""
    return None if text is None else stored.load(ControllerIdentity, text, "stored identity")


_WORD: Final = re.compile(r"[a-z][a-z0-9_-]*")
"""What events of any release look like."""


def history_rows(found: Iterable[Row]) -> list[HistoryRow]:
    """Lines of history. An event that only another release knows is read as none: the states, which
    both know, say what it did.

    Raises ``ValueError`` or ``TypeError`` for a damaged line.
    """
    lines: list[HistoryRow] = []
    for row in found:
        if is_of_another_release(row["event"]):
            LOG.warning("history line %s is of another release: %s", row["seq"], row["event"])
            lines.append(history_row({**row, "event": None}))
            continue
        line = history_row(row)
        # A state without an event is damage: what this release does not know was seen above.
        if line.event is None and line.became is not None:
            raise ValueError(f"line {line.seq}: expected the event of a new state, found none")
        lines.append(line)
    return lines


def is_of_another_release(event: object) -> bool:
    """Whether an event is a word that only another release knows, and no damage."""
    known = event is None or event in list(Event)
    return not known and isinstance(event, str) and bool(_WORD.fullmatch(event))


def history_row(row: Row) -> HistoryRow:
    """One row of ``history`` joined with its slot."""
    return HistoryRow(
        seq=row["seq"],
        slot=Slot(row["host"], row["address"]),
        at=row["at"],
        event=None if row["event"] is None else Event(row["event"]),
        source=None if row["source"] is None else State(row["source"]),
        target=State(row["target"]),
        generation=row["generation"],
        revision=row["revision"],
        reason=row["reason"],
        detail=_detail(row["detail"]),
        hold_code=row["hold_code"],
        by=_initiator(row),
    )


def _detail(text: str) -> dict[str, Any]:
    """Members; a number that no JSON has is damage too."""
    found = json.loads(text, parse_constant=_finite, parse_float=_finite)
    if not isinstance(found, dict):
        raise ValueError(f"detail: expected members, found {type(found).__name__}")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"detail: expected a finite number, found {text}")
    return number


def _initiator(row: Row) -> Initiator | None:
    if row["by_user"] is None:
        return None
    return Initiator(row["by_user"], row["by_project"] or "", row["by_request"] or "")


def initiator_columns(by: Initiator | None) -> dict[str, str]:
    """Who decided, for a line of history."""
    if by is None:
        return {}
    said = {"by_user": by.user, "by_project": by.project, "by_request": by.request}
    return {name: storable(text, INITIATOR) for name, text in said.items()}


def certificate(row: Row) -> StoredCertificate:
    """One row of ``certificates``. Raises ``ValueError``."""
    for name in ("number", "generation"):
        if not isinstance(row[name], int):
            raise ValueError(f"{name}: expected a number, found {type(row[name]).__name__}")
    return StoredCertificate(
        number=row["number"],
        digest=row["digest"],
        previous=row["previous"],
        slot=Slot(row["host"], row["address"]),
        generation=row["generation"],
        drive=row["drive"],
        order_id=row["order_id"],
        server=row["server"],
        owner=row["owner"],
        token=row["token"],
        created_at=row["created_at"],
    )


def columns(changes: SlotChanges) -> dict[str, Any]:
    """The columns that ``changes`` sets."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(changes):
        value = getattr(changes, field.name)
        if field.name in ("new_case", "above") or isinstance(value, Unset):
            continue
        if field.name == "identity":
            found.update(identity_columns(value))
        elif field.name == "detail":
            found[field.name] = storable(value)
        elif field.name == "custody_stage":
            found["custody_ready"] = value is Custody.HELD
        elif field.name == "next_hold":
            found.update(next_hold_columns(value))
        elif field.name == "alarm":
            found[field.name] = storable(value, ALARM_LENGTH)
        else:
            found[field.name] = value
    return found


def next_hold_columns(value: NextHold | None) -> dict[str, Any]:
    """Why and by whose word a slot is to be held at its next release; None: it is not."""
    said = initiator_columns(value.by if value else None)
    return {
        "next_hold": None if value is None else storable(value.reason),
        **{f"next_hold_{name}": said.get(f"by_{name}") for name in ("user", "project", "request")},
    }


def _next_hold(row: Row) -> NextHold | None:
    if row["next_hold"] is None:
        return None
    user = row["next_hold_user"]
    words = row["next_hold_project"] or "", row["next_hold_request"] or ""
    return NextHold(row["next_hold"], None if user is None else Initiator(user, *words))


def identity_columns(value: ControllerIdentity | None) -> dict[str, Any]:
    """An identity in its canonical form, and the digest that is its key."""
    if value is None:
        return {"identity": None, "identity_digest": None, "model": None, "serial": None}
    return {
        "identity": codec.canonical(value).decode(),
        "identity_digest": value.digest,
        "model": storable(value.model, NAME_LENGTH),
        "serial": storable(value.serial, NAME_LENGTH),
    }


def detail_text(detail: Mapping[str, JSON]) -> str:
    """History detail as ASCII JSON, so that no database argues about characters."""
    return json.dumps(codec.plain(dict(detail)), sort_keys=True, allow_nan=False)
