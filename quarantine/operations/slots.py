"""Slots: looking at them, and what only people decide, with a reason for the history."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Step
from quarantine.errors import BadInputError, IllegalTransitionError, QuarantineError
from quarantine.operations import capacity
from quarantine.operations.plane import Plane
from quarantine.record import lifecycle
from quarantine.record.facts import HistoryRow as HistoryRow
from quarantine.record.facts import SlotChanges, SlotRecord
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


def history(plane: Plane, slot: Slot) -> tuple[HistoryRow, ...]:
    """What happened to a slot, oldest first. Raises ``BadInputError``."""
    with plane.parts() as parts:
        return tuple(parts.store.history(known(parts.store, slot).slot))


def hold(plane: Plane, slot: Slot, *, reason: str) -> SlotDecision:
    """Keeps a slot out of the pool. Raises ``BadInputError``, ``IllegalTransitionError``."""
    why = holds.because(HoldCode.BY_PERSON, reason)

    def kept(store: Store, record: SlotRecord) -> SlotRecord:
        _require_step(record, Event.HELD)
        return store.hold(record, why)

    return _decide(plane, slot, kept)


def retire(plane: Plane, slot: Slot, *, reason: str) -> SlotDecision:
    """Gives its drive up; it is never handed out again. Raises as :func:`hold`."""

    def given_up(store: Store, record: SlotRecord) -> SlotRecord:
        _require_step(record, Event.RETIRED)
        return store.transition(record, Event.RETIRED, reason=reason)

    return _decide(plane, slot, given_up)


def release(plane: Plane, slot: Slot, *, reason: str, new_drive: bool = False) -> SlotDecision:
    """Ends a hold: the drive goes through quarantine again.

    With ``new_drive`` the one that the host names next is accepted in the slot. Raises
    ``BadInputError``, ``IllegalTransitionError``.
    """
    return _decide(plane, slot, lambda store, record: _released(store, record, reason, new_drive))


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
        raise BadInputError(
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


def _ticket(record: SlotRecord) -> str:
    if record.ticket_token is None:
        return ""
    if record.ticket_ready:
        return "valid on the host, by its receipt"
    if record.ticket_at is None:
        return "signed, not sent yet"
    return f"sent at {record.ticket_at.astimezone(UTC):%Y-%m-%d %H:%M:%S}, no receipt yet"


def _views(
    parts: Parts, records: Collection[SlotRecord], *, closely: bool = False
) -> list[SlotView]:
    """``closely`` reads what the host's hello says, and what cases of the model take: for one."""
    heard, after, now = (
        parts.store.last_heard(),
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
    plane: Plane, slot: Slot, decide: Callable[[Store, SlotRecord], SlotRecord]
) -> SlotDecision:
    """Writes a decision down, and acts on it at once; where that fails the service does it."""
    with plane.assembly() as assembly:
        record = decide(assembly.store, known(assembly.store, slot))
        unacted = ""
        try:
            assembly.reconciler.look(record.slot)
        except QuarantineError as error:
            unacted = str(error)
        after = assembly.store.slot(record.slot) or record
        return SlotDecision(_views(assembly, [after], closely=True)[0], unacted)


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


def _released(store: Store, record: SlotRecord, reason: str, new_drive: bool) -> SlotRecord:
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
    return store.transition(record, Event.RELEASED_BY_OPERATOR, reason=reason, changes=changes)


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
