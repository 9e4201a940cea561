"""What each single look of the control plane has to do, and must not do, whatever went before."""

from __future__ import annotations

import dataclasses

from quarantine.cloud.facts import View
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import WAITING_FOR_PEOPLE, Event, State
from quarantine.rules.action import Action, ActionKind, SlotContext
from tests.model.placement import Placement
from tests.model.search import Slip
from tests.model.tables import Store
from tests.model.world import World


def hasty(p: int, record: SlotRecord, view: View | None, action: Action) -> None:
    """What must not be done a moment after the last step."""
    again = {ActionKind.RESEND: record.ordered_at, ActionKind.TICKET: record.ticket_at}.get(
        action.act
    )
    if again is not None:
        raise Slip(f"host {p} is sent again what it was sent a moment ago")
    claimed = view is not None and not view.locked and view.foreign(record.custody)
    if action.act is ActionKind.RESERVE and record.state is State.IN_USE and claimed:
        raise Slip(f"slot of host {p} is reserved between Nova's claim and its burn")


def told(p: int, record: SlotRecord, view: View | None, past: SlotContext, action: Action) -> None:
    """People hear of a guest that runs with a drive which no server has."""
    quiet = action.act in (ActionKind.NOTHING, ActionKind.WAIT) and not record.alarm
    ours = view is not None and view.provider.uuid == record.provider
    if quiet and ours and past.running and record.state is not State.IN_USE:
        raise Slip(f"nobody is told of the guest that runs with the drive of host {p}")
    if (
        view is None
        and record.state not in WAITING_FOR_PEOPLE
        and action.act is not ActionKind.WAIT
    ):
        raise Slip(f"nobody is told that the provider of host {p} is gone")


def locked(p: int, record: SlotRecord, view: View | None, action: Action, late: bool) -> None:
    """Each look puts the lock back, but for the moment between Nova's claim and its burn."""
    if view is None or view.provider.uuid != record.provider or view.locked:
        return
    calm = (
        ActionKind.NOTHING,
        ActionKind.WAIT,
        ActionKind.ORDER,
        ActionKind.RESEND,
        ActionKind.TICKET,
    )
    offered = record.state is State.AVAILABLE or (record.state is State.IN_USE and not late)
    if action.act in calm and not offered:
        raise Slip(f"a look leaves the slot of host {p} without its lock")
    if (
        action.act is ActionKind.TRANSITION
        and action.event is not Event.RETURNED
        and not view.allocations
    ):
        raise Slip(f"slot of host {p} is on offer, and its record moves on before it is reserved")


def same(record: SlotRecord, world: World, store: Store, placement: Placement) -> bool:
    """Nothing is different after a look but how often the record was written."""
    after = dataclasses.replace(store.records[record.slot], revision=record.revision)
    return after == record and placement.world == world
