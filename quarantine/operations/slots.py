"""Slots: looking at them. What people do about one is in :mod:`quarantine.operations.decisions`."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Step
from quarantine.cloud.facts import provider_name, slot_of
from quarantine.errors import (
    UnknownError,
)
from quarantine.operations.overview import capacity
from quarantine.operations.plane import Plane
from quarantine.record.pages import SlotLine as SlotLine
from quarantine.record.pages import SlotOrder as SlotOrder
from quarantine.record.pages import SlotQuery as SlotQuery
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow as HistoryRow
from quarantine.record.words.facts import Initiator as Initiator
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import Custody
from quarantine.record.words.states import State as State
from quarantine.record.words.texts import NAME_LENGTH, storable
from quarantine.rules import defences, holds, maintenance
from quarantine.rules.action import ServiceLimits
from quarantine.rules.maintenance import Maintenances
from quarantine.rules.sale import notforsale
from quarantine.rules.sale.notforsale import SaleFacts
from quarantine.service.parts import Parts
from quarantine.service.watch import host_liveness

LOG = logging.getLogger(__name__)

DECIDED_ON: Final = (
    *("id", "slot", "state", "entered_at", "reason", "hold_code", "alarm", "identity"),
    *("generation", "profile", "policy", "consumer", "custody", "custody_stage", "order_id"),
    *("certificate", "ticket_ready", "provider", "resource_class", "next_hold"),
)
"""What a slot's version is of."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LINES: Final = 1000
"""Lines of history that are read at once."""
_SLOTS_AT_ONCE: Final = 500


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
    why: str
    """Why it cannot be sold now, with words of hosts, drives and people; empty where it can."""
    unsold: str
    """The same with ``remedy``."""
    next_hold: str = ""
    """Why it is to be held when its server lets go of the drive; empty where it is not."""
    maintenance: str = ""
    """Until when its delays, or its host's, call nobody, and why; empty where they do."""


@dataclass(frozen=True)
class VersionedSlot:
    """A slot, and the version of what people decide on."""

    slot: SlotView
    version: str
    """Another one when anything of :data:`DECIDED_ON` has changed. Progress, and when the host or
    Placement was last asked, are not part of it."""


def find(
    plane: Plane,
    *,
    host: str | None = None,
    states: Collection[State] = (),
    limit: int | None = None,
) -> Iterator[SlotView]:
    """The slots of a host and of some states, by default all, some read at a time; at most so many.

    One that cannot be read is left out, and the log says so. Raises ``UnavailableError``, also on
    the way.
    """
    query = SlotQuery(states=tuple(state.value for state in states), host=host)
    with plane.parts() as parts:
        lines = itertools.islice(parts.store.each_slot(query), limit)
        while some := list(itertools.islice(lines, _SLOTS_AT_ONCE)):
            records, unread = parts.store.every_slot([line.id for line in some])
            for slot in unread:
                LOG.warning("%s is left out of the list: %s", slot, slot.why)
            yield from _views(parts, records)


def show(plane: Plane, slot: Slot) -> SlotView:
    """One slot. Raises ``BadInputError`` for one that is not enrolled."""
    with plane.parts() as parts:
        return closely(parts, known(parts.store, slot))


def versioned(plane: Plane, slot: Slot) -> VersionedSlot:
    """One slot for somebody who may decide about it later. Raises ``UnknownError``."""
    with plane.parts() as parts:
        record = known(parts.store, slot)
        quiet = Maintenances.of(parts.store.maintenances(slot.host))
        maintained = maintenance.words(*quiet.of_slot(record.slot))
        return VersionedSlot(view(record, maintained=maintained), version(record))


def versioned_closely(plane: Plane, slot: Slot) -> VersionedSlot:
    """The same with all that :func:`show` says of it."""
    with plane.parts() as parts:
        record = known(parts.store, slot)
        return VersionedSlot(closely(parts, record), version(record))


def code_of(line: SlotLine) -> str | None:
    """Of a held slot in a list what it is held for, as :class:`SlotView` and the filter call it;
    None where it is not held, or where that cannot be read."""
    if line.hold_code or line.state != State.HELD or "hold_code" in line.damaged:
        return line.hold_code
    return holds.OLDER


def name(slot: Slot) -> str:
    """What Placement calls the slot's resource provider."""
    return provider_name(slot)


def history(plane: Plane, slot: Slot, *, limit: int | None = None) -> Iterator[HistoryRow]:
    """What happened to a slot, oldest first, as far as it can be read; at most so many lines, some
    read at a time. Raises ``BadInputError``; ``UnavailableError`` also on the way."""
    with plane.parts() as parts:
        return _lines(plane, known(parts.store, slot).slot, limit)


def _lines(plane: Plane, slot: Slot, left: int | None) -> Iterator[HistoryRow]:
    after = 0
    while left is None or left > 0:
        most = _LINES if left is None else min(_LINES, left)
        lines, more = history_page(plane, slot, limit=most, after=after)
        yield from lines
        if more is None:
            return
        left, after = None if left is None else left - len(lines), more


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


def placed(plane: Plane, called: str) -> Slot:
    """The slot that Placement calls so, for a question of what is kept beside slots: by the name of
    its provider also one that is not enrolled, or whose row cannot be read.

    Raises ``UnknownError`` for a name of another kind.
    """
    found = slot_of(called)
    return named(plane, called) if found is None else found


def require_enrolled(plane: Plane, slot: Slot) -> None:
    """Where nothing is kept of a slot it may be none of ours. A row that cannot be read is one.

    Raises ``UnknownError``.
    """
    with plane.parts() as parts:
        if not parts.store.slots_at([(slot.host, slot.address)]):
            raise _unknown(slot)


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


def newest_history(plane: Plane, slot: Slot, limit: int) -> tuple[HistoryRow, ...]:
    """The last ``limit`` lines of a slot's life, oldest first. Raises ``UnknownError``."""
    with plane.parts() as parts:
        return tuple(parts.store.newest_history(known(parts.store, slot).slot, limit))


def silences(plane: Plane, lines: Sequence[SlotLine]) -> dict[int, str]:
    """Of each slot of a list, by its number, that its host is silent; empty where that is not so,
    or nothing waits for it. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        heard = parts.store.last_heard({line.host for line in lines})
        after, now = parts.conf.detection.silent_after, parts.doors.now()
    return {line.id: host_liveness.words(line, heard.get(line.host), now, after) for line in lines}


def each(plane: Plane, query: SlotQuery) -> Iterator[SlotLine]:
    """All slots that fit, some read at a time. Raises ``UnavailableError``, also on the way."""
    with plane.parts() as parts:
        yield from parts.store.each_slot(query)


def known(store: Store, slot: Slot) -> SlotRecord:
    """The record of an enrolled slot. Raises ``UnknownError`` where it is not enrolled."""
    record = store.slot(slot)
    if record is None:
        raise _unknown(slot)
    return record


def _unknown(slot: Slot) -> UnknownError:
    return UnknownError(
        f"{slot}: expected an enrolled slot; 'nvme-quarantine slot list' lists them"
    )


def view(record: SlotRecord, silence: str = "", why: str = "", maintained: str = "") -> SlotView:
    """What people see of a record; ``silence`` is what is said of its host's, ``why`` why it cannot
    be sold, ``maintained`` what is said of its maintenance."""
    drive, detail = record.identity, "; ".join(filter(None, (silence, record.detail)))
    remedy = holds.remedy(record)
    alarm = f"ALARM: {record.alarm}" if record.alarm else ""
    later = f"to be held at its next release: {record.next_hold.reason}" if record.next_hold else ""
    return SlotView(
        slot=record.slot,
        state=record.state,
        entered_at=record.entered_at,
        reason=record.reason,
        hold_code=holds.shown(record),
        remedy=remedy,
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
        remarks="; ".join(
            dict.fromkeys(filter(None, (alarm, holds.said(record), later, maintained, detail)))
        ),
        why=why,
        unsold=notforsale.together(why, remedy),
        next_hold=record.next_hold.reason if record.next_hold else "",
        maintenance=maintained,
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


def closely(parts: Parts, record: SlotRecord) -> SlotView:
    """One slot for people, with all that can be said of it."""
    return _views(parts, [record], closely=True)[0]


def _views(parts: Parts, records: Sequence[SlotRecord], *, closely: bool = False) -> list[SlotView]:
    """``closely`` reads what the host's hello says, and what cases of the model take: for one."""
    hosts = {record.slot.host for record in records}
    heard, after, now = (
        parts.store.last_heard(hosts),
        parts.conf.detection.silent_after,
        parts.doors.now(),
    )
    quiet = Maintenances.of(parts.store.maintenances_on(hosts))
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
            next_hold=record.next_hold.reason if record.next_hold else "",
            silent=capacity.silence(at, now, after),
            overdue=parts.conf.erase.overdue_after,
        )
        if closely:
            facts = _closer(parts, record, facts)
        silence = host_liveness.words(record, at, now, after)
        maintained = maintenance.words(*quiet.of_slot(record.slot))
        views.append(view(record, silence, notforsale.why(facts, now), maintained))
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
