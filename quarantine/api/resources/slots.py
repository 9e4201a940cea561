"""Slots: lists, one, its case and its life; and what people decide about one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eraser.protocol.identity import Slot
from quarantine.api import policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import (
    Ask,
    Operation,
    Reply,
    Schema,
    damaged,
    moment,
    read_moment,
)
from quarantine.api.resources.history import entry
from quarantine.api.resources.hosts import drive
from quarantine.operations import decisions, maintenance, slots
from quarantine.operations.decisions import Decision, SlotDecision
from quarantine.operations.maintenance import Maintenances
from quarantine.operations.slots import (
    SlotLine,
    SlotOrder,
    SlotQuery,
    SlotView,
    State,
)

UNACTED: Final = (
    "the first look after the decision did not go through, the log says why; the decision stands, "
    "and the running service acts on it with its next look"
)
"""What an error said may name a cloud, an address or a file: that is for the log."""


FILTERS: Final[dict[str, Schema]] = {
    "state": {
        "type": "array",
        "items": {"enum": [str(state) for state in State]},
        "maxItems": len(State),
        "uniqueItems": True,
        "description": "Repeatable: any of them.",
    },
    "host": schemas.NAME,
    "model": schemas.NAME,
    "serial": schemas.NAME,
    "hold_code": {**schemas.NAME, "description": "older: held by a release that had no codes."},
    "server": {
        **schemas.UUID,
        "description": "Who has the drive, or had it last, itself or by a migration.",
    },
}
SORTS: Final = {
    "slot": (SlotOrder.SLOT, False),
    "-slot": (SlotOrder.SLOT, True),
    "entered_at": (SlotOrder.ENTERED_AT, False),
    "-entered_at": (SlotOrder.ENTERED_AT, True),
}


def find(ask: Ask) -> Reply:
    """A page."""
    order, descending = SORTS[ask.query.get("sort", "slot")]
    marker = ask.query.get("marker")
    found = slots.page(
        ask.plane,
        query_of(ask),
        limit=ask.limit,
        order=order,
        descending=descending,
        after=None if marker is None else read_marker(marker, order),
    )
    quiet = maintenance.in_effect(ask.plane, {one.host for one in found})
    silent = slots.silences(ask.plane, found)
    document: dict[str, Any] = {"slots": [line(one, quiet, silent) for one in found]}
    # The last row may be damaged: the next page begins behind the last one whose place is known.
    last = next((one for one in reversed(found) if marks(one, order)), None)
    if len(found) == ask.limit and last is not None:
        following = ask.link({"marker": marker_of(last, order)})
        document["slots_links"] = [{"rel": "next", "href": following}]
    return Reply(document)


def query_of(ask: Ask) -> SlotQuery:
    """The filters of a request."""
    words = ask.query
    return SlotQuery(
        states=tuple(words.get("state", ())),
        host=words.get("host"),
        model=words.get("model"),
        serial=words.get("serial"),
        hold_code=words.get("hold_code"),
        server=words.get("server"),
    )


def show(ask: Ask) -> Reply:
    """One."""
    found = slots.versioned(ask.plane, _slot(ask))
    return Reply(document(found.slot), version=found.version)


def case(ask: Ask) -> Reply:
    """How far it is."""
    view = slots.show(ask.plane, _slot(ask))
    return Reply(
        {
            "slot": slots.name(view.slot),
            "state": view.state.value,
            "generation": view.generation,
            "order": view.order_id,
            "ordered_at": moment(view.ordered_at),
            "attempts": view.attempts,
            "heard_at": moment(view.heard_at),
            "step": view.step.value if view.step else None,
            "fraction": view.fraction,
            "waits_for": view.detail,
            "unsold": view.unsold,
            "ticket": view.ticket,
            "ticket_at": moment(view.ticket_at),
            "read_at": moment(view.read_at),
        }
    )


def history(ask: Ask) -> Reply:
    """A page of its life."""
    marker = ask.query.get("marker", 0)
    lines, more = slots.history_page(ask.plane, _slot(ask), limit=ask.limit, after=marker)
    said: dict[str, Any] = {"history": [entry(one) for one in lines]}
    if more is not None:
        said["history_links"] = [{"rel": "next", "href": ask.link({"marker": more})}]
    return Reply(said)


def hold(ask: Ask) -> Reply:
    """Keeps it out of the pool."""
    done = decisions.hold(
        ask.plane,
        _slot(ask),
        reason=ask.body["reason"],
        at_next_release=ask.body.get("at_next_release", False),
        decision=_decision(ask),
    )
    return _decided(done)


def retire(ask: Ask) -> Reply:
    """Gives its drive up."""
    done = decisions.retire(
        ask.plane, _slot(ask), reason=ask.body["reason"], decision=_decision(ask)
    )
    return _decided(done)


def release(ask: Ask) -> Reply:
    """Ends a hold."""
    done = decisions.release(
        ask.plane,
        _slot(ask),
        reason=ask.body["reason"],
        new_drive=ask.body.get("new_drive", False),
        decision=_decision(ask),
    )
    return _decided(done)


def erase(ask: Ask) -> Reply:
    """Has its drive erased again."""
    done = decisions.erase(
        ask.plane, _slot(ask), reason=ask.body["reason"], decision=_decision(ask)
    )
    return _decided(done)


def line(one: SlotLine, quiet: Maintenances, silent: Mapping[int, str]) -> dict[str, Any]:
    """A slot in a list. ``quiet``: the maintenances in effect; ``silent``: whose hosts are."""
    return {
        "id": _name(one),
        "host": one.host,
        "address": one.address,
        "provider": one.provider,
        "state": one.state,
        "entered_at": moment(one.entered_at),
        "reason": one.reason,
        "hold_code": slots.code_of(one),
        "alarm": one.alarm,
        "generation": one.generation,
        "profile": one.profile,
        "policy": one.policy,
        "server": one.consumer,
        "certificate": one.certificate,
        "next_hold": one.next_hold,
        "model": one.model,
        "serial": one.serial,
        "step": one.step,
        "fraction": one.fraction,
        "waits_for": "; ".join(filter(None, (silent[one.id], one.detail))),
        "maintenance": maintenance.words(*quiet.of_place(one.host, one.address)),
        "damaged": damaged(one.damaged),
    }


def document(view: SlotView) -> dict[str, Any]:
    """A slot alone: what its version is of."""
    return {
        "id": slots.name(view.slot),
        "host": view.slot.host,
        "address": view.slot.address,
        "provider": view.provider,
        "state": view.state.value,
        "entered_at": moment(view.entered_at),
        "reason": view.reason,
        "hold_code": view.hold_code or None,
        "remedy": view.remedy,
        "alarm": view.alarm,
        "generation": view.generation,
        "profile": view.profile,
        "policy": view.policy,
        "server": view.consumer,
        "certificate": view.certificate,
        "drive": drive(view.identity),
        "resource_class": view.resource_class,
        "custody": view.custody_stage.value,
        "order": view.order_id,
        "ticket_valid": view.ticket_ready,
        "created_at": moment(view.created_at),
        "next_hold": view.next_hold or None,
        "maintenance": view.maintenance,
    }


def _slot(ask: Ask) -> Slot:
    return slots.named(ask.plane, ask.names["slot"])


def _decision(ask: Ask) -> Decision:
    return Decision(ask.by, ask.versions)


def _decided(done: SlotDecision) -> Reply:
    return Reply(
        {"slot": document(done.slot), "unacted": UNACTED if done.unacted else ""},
        version=done.version,
    )


def _name(one: SlotLine) -> str:
    # As Nova names the provider; our own addresses are in lower case.
    return f"{one.host}_{one.address.upper()}"


def marks(one: SlotLine, order: SlotOrder) -> bool:
    """Whether a page can go on behind it: behind a damaged one it may not be known where that is,
    and then it is told again."""
    return bool(one.host and one.address) if order is SlotOrder.SLOT else one.entered_at is not None


def marker_of(last: SlotLine, order: SlotOrder) -> str:
    """Where the page behind this one goes on."""
    if order is SlotOrder.SLOT:
        return _name(last)
    return f"{moment(last.entered_at)}~{last.id}"


def read_marker(text: str, order: SlotOrder) -> tuple[Any, Any]:
    """Raises :class:`Fault`."""
    wrong = Fault(400, "schema", "query.marker: expected it as a link to the next page has it")
    if order is SlotOrder.SLOT:
        host, _, address = text.rpartition("_")
        if not host or not text.isascii():
            raise wrong
        return host, address.lower()
    at, _, number = text.partition("~")
    # Several slots entered a state at one time: the row's number tells them apart. Eighteen digits
    # fit the 64 bits of a column.
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        raise wrong
    return read_moment(at, "query.marker"), int(number)


_ACT: Final[dict[str, Any]] = {"default": policies.ADMIN, "changes": True}
_READ: Final[dict[str, Any]] = {"default": policies.READER}
_ONE: Final = "/v1/slots/{slot}"

OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/slots",
        "List slots",
        find,
        rule="slots:list",
        query={
            **FILTERS,
            "sort": {"enum": list(SORTS), "description": "With - the other way round."},
            "limit": schemas.LIMIT,
            "marker": schemas.MARKER,
        },
        response=schemas.page("slots", schemas.SLOT_LINE),
        **_READ,
    ),
    Operation("GET", _ONE, "Show a slot", show, "slots:get", response=schemas.SLOT, **_READ),
    Operation(
        "GET",
        f"{_ONE}/case",
        "Show how far a slot's case is",
        case,
        "slots:get",
        response=schemas.CASE,
        **_READ,
    ),
    Operation(
        "GET",
        f"{_ONE}/history",
        "List what happened to a slot, oldest first",
        history,
        "slots:history",
        query={
            "limit": schemas.LIMIT,
            "marker": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        },
        response=schemas.page("history", schemas.LINE),
        **_READ,
    ),
    Operation(
        "POST",
        f"{_ONE}/hold",
        "Keep a slot out of the pool, now or from its next release on",
        hold,
        "slots:hold",
        body=schemas.HOLD,
        response=schemas.DECIDED,
        **_ACT,
    ),
    Operation(
        "POST",
        f"{_ONE}/release",
        "End a hold: the drive is erased again; or take back one at the next release",
        release,
        "slots:release",
        body=schemas.RELEASE,
        response=schemas.DECIDED,
        **_ACT,
    ),
    Operation(
        "POST",
        f"{_ONE}/erase",
        "Have the drive of a slot that is certified, on offer or held erased again",
        erase,
        "slots:erase",
        policies.AS_HOLD_AND_RELEASE,
        body=schemas.DECISION,
        response=schemas.DECIDED,
        changes=True,
    ),
    Operation(
        "POST",
        f"{_ONE}/retire",
        "Give up the drive of a slot that no server has and no erase runs on",
        retire,
        "slots:retire",
        body=schemas.DECISION,
        response=schemas.DECIDED,
        **_ACT,
    ),
)
