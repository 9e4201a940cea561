"""Slots: looking at them, and what only people decide, with a reason for the history."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Step
from quarantine.cloud.facts import provider_name, slot_of
from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
    UnavailableError,
    UnknownError,
    UnreadOutcomeError,
)
from quarantine.operations import capacity
from quarantine.operations.plane import Plane
from quarantine.record import lifecycle
from quarantine.record.facts import HistoryRow as HistoryRow
from quarantine.record.facts import Initiator as Initiator
from quarantine.record.facts import SlotChanges, SlotRecord
from quarantine.record.pages import SlotLine as SlotLine
from quarantine.record.pages import SlotOrder as SlotOrder
from quarantine.record.pages import SlotQuery as SlotQuery
from quarantine.record.reasons import HoldCode
from quarantine.record.states import WAITING_FOR_PEOPLE, Custody, Event
from quarantine.record.states import State as State
from quarantine.record.store import Store
from quarantine.record.texts import NAME_LENGTH, storable
from quarantine.rules import defences, holds, unsold
from quarantine.rules.action import ServiceLimits
from quarantine.rules.unsold import SaleFacts
from quarantine.service import host_liveness
from quarantine.service.parts import Parts

DECIDED_ON: Final = (
    *("id", "slot", "state", "entered_at", "reason", "hold_code", "alarm", "identity"),
    *("generation", "profile", "policy", "consumer", "custody", "custody_stage", "order_id"),
    *("certificate", "ticket_ready", "provider", "resource_class"),
)
"""What a slot's version is of."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_TRIES: Final = 5
"""How often a decision is written anew behind somebody who changed nothing that it is about."""


@dataclass(frozen=True)
class SlotView:
    """One slot for people: its record without what is signed or secret. Times are UTC."""

    slot: Slot
    state: State
    entered_at: datetime
    """When the present state began."""
    reason: str
    hold_code: str
    """Of a slot that is held: the kind of its reason (:mod:`quarantine.rules.holds`)."""
    remedy: str
    """What would return a held drive."""
    detail: str
    """What it waits for; where its host is silent, that."""
    alarm: str
    model: str
    serial: str
    identity: ControllerIdentity | None
    generation: int
    revision: int
    profile: str
    policy: str
    consumer: str | None
    """UUID of the server that has the drive, or had it last."""
    custody: str | None
    custody_stage: Custody
    order_id: str | None
    ordered_at: datetime | None
    attempts: int
    heard_at: datetime | None
    step: Step | None
    fraction: float
    """Of ``step``, 0 to 1."""
    certificate: str | None
    ticket: str
    """How far its ticket is; empty where it has none."""
    ticket_at: datetime | None
    ticket_ready: bool
    provider: str
    resource_class: str
    read_at: datetime | None
    created_at: datetime
    remarks: str
    """What is wrong, why it is in its state, and what it waits for, each once."""
    unsold: str
    """Why it cannot be sold now, and what returns it; empty where it can."""


@dataclass(frozen=True)
class SlotDecision:
    """What became of a decision."""

    slot: SlotView
    unacted: str
    """Why it was not acted on at once: the running service does. Empty where it was."""
    version: str = ""
    """The slot's, as in :class:`VersionedSlot`."""


@dataclass(frozen=True)
class VersionedSlot:
    """A slot, and the version of what people decide on."""

    slot: SlotView
    version: str
    """Another one when anything of :data:`DECIDED_ON` has changed. Progress, and when the host or
    Placement was last asked, are not part of it."""


@dataclass(frozen=True)
class SlotLook:
    """What one look at one slot came to; ``error`` is empty when it went through."""

    slot: Slot
    state: State | None
    error: str


def find(
    plane: Plane, *, host: str | None = None, states: Collection[State] = ()
) -> tuple[SlotView, ...]:
    """The slots of a host and of some states; by default all. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        records = parts.store.slots(host=host, states=states or None)
        return tuple(_views(parts, records))


def show(plane: Plane, slot: Slot) -> SlotView:
    """One slot. Raises ``BadInputError`` for one that is not enrolled."""
    with plane.parts() as parts:
        return _views(parts, [known(parts.store, slot)], closely=True)[0]


def versioned(plane: Plane, slot: Slot) -> VersionedSlot:
    """One slot for somebody who may decide about it later. Raises ``UnknownError``."""
    with plane.parts() as parts:
        record = known(parts.store, slot)
        return VersionedSlot(view(record), version(record))


def name(slot: Slot) -> str:
    """What Placement calls the slot's resource provider."""
    return provider_name(slot)


def history(plane: Plane, slot: Slot) -> tuple[HistoryRow, ...]:
    """What happened to a slot, oldest first. Raises ``BadInputError``."""
    with plane.parts() as parts:
        return tuple(parts.store.history(known(parts.store, slot).slot))


@dataclass(frozen=True)
class Decision:
    """Who decides, and on what."""

    by: Initiator | None = None
    versions: tuple[str, ...] = ()
    """The slot has to be at one of these (:class:`VersionedSlot`). Empty: as it is now."""


ANYHOW: Final = Decision()
"""As somebody decides who looks at the slot while typing."""


def hold(plane: Plane, slot: Slot, *, reason: str, decision: Decision = ANYHOW) -> SlotDecision:
    """Keeps a slot out of the pool.

    Raises ``UnknownError``, ``IllegalTransitionError``, ``StaleError``.
    """
    why = holds.because(HoldCode.BY_PERSON, reason)

    def kept(store: Store, record: SlotRecord) -> SlotRecord:
        _require_step(record, Event.HELD)
        return store.hold(record, why, by=decision.by)

    return _decide(plane, slot, decision, kept)


def retire(plane: Plane, slot: Slot, *, reason: str, decision: Decision = ANYHOW) -> SlotDecision:
    """Gives its drive up; it is never handed out again. Raises as :func:`hold`."""

    def given_up(store: Store, record: SlotRecord) -> SlotRecord:
        _require_step(record, Event.RETIRED)
        return store.transition(record, Event.RETIRED, reason=reason, by=decision.by)

    return _decide(plane, slot, decision, given_up)


def release(
    plane: Plane,
    slot: Slot,
    *,
    reason: str,
    new_drive: bool = False,
    decision: Decision = ANYHOW,
) -> SlotDecision:
    """Ends a hold: the drive goes through quarantine again.

    With ``new_drive`` the one that the host names next is accepted in the slot. Raises as
    :func:`hold`.
    """

    def let_go(store: Store, record: SlotRecord) -> SlotRecord:
        return _released(store, record, reason, new_drive, decision.by)

    return _decide(plane, slot, decision, let_go)


def named(plane: Plane, called: str) -> Slot:
    """The enrolled slot that Placement calls so, by the name or the uuid of its provider.

    Raises ``UnknownError``.
    """
    found = slot_of(called)
    with plane.parts() as parts:
        if found is not None:
            return known(parts.store, found).slot
        slots = parts.store.slots_with_provider(called) if _UUID.fullmatch(called) else []
    if len(slots) != 1:
        raise UnknownError(
            "slot: expected the name or the uuid of an enrolled slot's resource provider, "
            f"found {'several slots' if slots else 'none'} of {codec.shown(called)}"
        )
    return slots[0]


def page(
    plane: Plane,
    query: SlotQuery,
    *,
    limit: int,
    order: SlotOrder = SlotOrder.SLOT,
    descending: bool = False,
    after: tuple[Any, Any] | None = None,
) -> tuple[SlotLine, ...]:
    """A page of slots (:mod:`quarantine.record.pages`). Raises ``UnavailableError``."""
    with plane.parts() as parts:
        found = parts.store.slot_page(
            query, limit=limit, order=order, descending=descending, after=after
        )
        return tuple(found)


def history_page(
    plane: Plane, slot: Slot, *, limit: int, after: int = 0
) -> tuple[tuple[HistoryRow, ...], int | None]:
    """Lines behind a revision, and the revision to go on behind; None at the end.

    Raises ``UnknownError``.
    """
    with plane.parts() as parts:
        lines, more = parts.store.history_page(
            known(parts.store, slot).slot, limit=limit, after=after
        )
        return tuple(lines), more


def each(plane: Plane, query: SlotQuery) -> Iterator[SlotLine]:
    """All slots that fit, some read at a time. Raises ``UnavailableError``, also on the way."""
    with plane.parts() as parts:
        yield from parts.store.each_slot(query)


def reconcile(
    plane: Plane, *, slot: Slot | None = None, host: str | None = None
) -> tuple[SlotLook, ...]:
    """Looks at one slot now, at a host's, or at all of them. Raises ``BadInputError``."""
    with plane.assembly() as assembly:
        if slot is not None:
            known(assembly.store, slot)
            found = assembly.reconciler.bell(slot.host, slot.address)
        elif host is not None:
            found = assembly.reconciler.bell(host)
        else:
            found = assembly.reconciler.sweep()
        return tuple(SlotLook(one.slot, one.state, one.error) for one in found)


def known(store: Store, slot: Slot) -> SlotRecord:
    """The record of an enrolled slot. Raises ``BadInputError``."""
    record = store.slot(slot)
    if record is None:
        raise UnknownError(
            f"{slot}: expected an enrolled slot; 'nvme-quarantine slot list' lists them"
        )
    return record


def view(record: SlotRecord, silence: str = "", why: str = "") -> SlotView:
    """What people see of a record; ``silence`` is what is said of its host's, ``why`` why it cannot
    be sold."""
    drive, detail = record.identity, "; ".join(filter(None, (silence, record.detail)))
    alarm = f"ALARM: {record.alarm}" if record.alarm else ""
    return SlotView(
        slot=record.slot,
        state=record.state,
        entered_at=record.entered_at,
        reason=record.reason,
        hold_code=holds.shown(record),
        remedy=holds.remedy(record),
        detail=detail,
        alarm=record.alarm,
        model=drive.model if drive else "",
        serial=drive.serial if drive else "",
        identity=record.identity,
        generation=record.generation,
        revision=record.revision,
        profile=record.profile,
        policy=record.policy,
        consumer=record.consumer,
        custody=record.custody,
        custody_stage=record.custody_stage,
        order_id=record.order_id,
        ordered_at=record.ordered_at,
        attempts=record.attempts,
        heard_at=record.heard_at,
        step=record.step,
        fraction=record.fraction,
        certificate=record.certificate,
        ticket=_ticket(record),
        ticket_at=record.ticket_at,
        ticket_ready=record.ticket_ready,
        provider=record.provider,
        resource_class=record.resource_class,
        read_at=record.read_at,
        created_at=record.created_at,
        remarks="; ".join(dict.fromkeys(filter(None, (alarm, holds.said(record), detail)))),
        unsold=why,
    )


def version(record: SlotRecord) -> str:
    """See :class:`VersionedSlot`."""
    said = [getattr(record, name) for name in DECIDED_ON]
    return codec.digest([str(one) if isinstance(one, datetime) else one for one in said])[:32]


def _ticket(record: SlotRecord) -> str:
    if record.ticket_token is None:
        return ""
    if record.ticket_ready:
        return "valid on the host, by its receipt"
    if record.ticket_at is None:
        return "signed, not sent yet"
    return f"sent at {record.ticket_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}, no receipt yet"


def _views(parts: Parts, records: Sequence[SlotRecord], *, closely: bool = False) -> list[SlotView]:
    """``closely`` reads what the host's hello says, and what cases of the model take: for one."""
    one = [records[0].slot.host] if len(records) == 1 else None
    heard, after, now = (
        parts.store.last_heard(one),
        parts.conf.detection.silent_after,
        parts.doors.now(),
    )
    views = []
    for record in records:
        at = heard.get(record.slot.host)
        facts = SaleFacts(
            state=record.state,
            entered_at=record.entered_at,
            reason=record.reason,
            hold_code=record.hold_code,
            consumer=record.consumer,
            detail=record.detail,
            silent=capacity.silence(at, now, after),
            overdue=parts.conf.erase.overdue_after,
        )
        if closely:
            facts = _closer(parts, record, facts)
        silence = host_liveness.words(record, at, now, after)
        views.append(view(record, silence, unsold.why(facts, now)))
    return views


def _closer(parts: Parts, record: SlotRecord, facts: SaleFacts) -> SaleFacts:
    if record.state is State.CERTIFIED:
        host = parts.store.host(record.slot.host)
        limits = ServiceLimits.from_conf(parts.conf)
        facts = replace(facts, unguarded=defences.weigh(record, host, limits).unguarded)
    if record.identity is None:
        return facts
    model = storable(record.identity.model, NAME_LENGTH)
    return replace(facts, pace=capacity.pace_of(parts.store, model))


def _decide(
    plane: Plane,
    slot: Slot,
    decision: Decision,
    decide: Callable[[Store, SlotRecord], SlotRecord],
) -> SlotDecision:
    """Writes a decision down, and acts on it at once; where that fails the service does it."""
    with plane.assembly() as assembly:
        record = _decided(assembly.store, slot, decision, decide)
        unacted = ""
        try:
            assembly.reconciler.look(record.slot)
        except QuarantineError as error:
            unacted = str(error)
        try:
            after = assembly.store.slot(record.slot) or record
            return SlotDecision(_views(assembly, [after], closely=True)[0], unacted, version(after))
        except UnavailableError as error:
            raise UnreadOutcomeError(
                f"{record.slot}: the decision is on record, and the service acts on it; what came "
                f"of it cannot be read now: {error}"
            ) from error


def _decided(
    store: Store,
    slot: Slot,
    decision: Decision,
    decide: Callable[[Store, SlotRecord], SlotRecord],
) -> SlotRecord:
    for last in (*(False,) * (_TRIES - 1), True):
        record = known(store, slot)
        if decision.versions and version(record) not in decision.versions:
            raise StaleError(
                f"{slot}: expected it as it was when this was decided, found it {record.state} "
                f"since {record.entered_at:%Y-%m-%d %H:%M:%S}, or something else of it changed; "
                "look at it again"
            )
        try:
            return decide(store, record)
        except ConflictError:
            # A host's progress, say: with a version it is known that the decision still stands.
            if last or not decision.versions:
                raise
    raise AssertionError("unreachable")


def _require_step(record: SlotRecord, event: Event) -> None:
    if event not in lifecycle.events(record.state):
        raise IllegalTransitionError(f"{record.slot}: {_why_not(record)}")


def _why_not(record: SlotRecord) -> str:
    """Why a slot can be neither held nor retired as it is, and what can be done."""
    if record.state is State.IN_USE:
        return (
            f"server {record.consumer or 'unknown'} has the drive, and nothing is taken from a "
            "server; it is erased when the server lets go of it: decide then"
        )
    if record.state in WAITING_FOR_PEOPLE:
        return f"it is {record.state} already ({record.reason})"
    return f"it is {record.state}: hold it first, then retire it"


def _released(
    store: Store, record: SlotRecord, reason: str, new_drive: bool, by: Initiator | None
) -> SlotRecord:
    changes = SlotChanges()
    if new_drive:
        if record.state is not State.HELD:
            raise IllegalTransitionError(
                f"{record.slot}: expected a held slot to accept a new drive in, "
                f"found it {record.state}"
            )
        _require_another_drive(store, record)
        if reason.strip():
            reason += " (another drive is accepted in the slot)"
        # The last consumer had the old drive: the new one's certificate must not name it.
        changes = SlotChanges(identity=None, consumer=None)
    return store.transition(
        record, Event.RELEASED_BY_OPERATOR, reason=reason, changes=changes, by=by
    )


def _require_another_drive(store: Store, record: SlotRecord) -> None:
    """Else the drive that was pulled would be learned again, from a word of before the exchange."""
    host = store.host(record.slot.host)
    drives = host.hello.drives if host and host.hello else ()
    seen = next((d.identity for d in drives if d.address == record.slot.address), None)
    if host is not None and seen is not None and seen == record.identity:
        heard = f" at {host.heard_at:%Y-%m-%d %H:%M:%S}" if host.heard_at else ""
        raise IllegalTransitionError(
            f"{record.slot}: expected its host to name another drive, found serial {seen.serial} "
            f"still named{heard}; wait for the host's next word (host show), or "
            "release without --new-drive"
        )
