"""What the store knows about a slot beyond its own record, for one decision."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from quarantine.errors import UnreadableError
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotRecord
from quarantine.record.words.states import Event, State
from quarantine.rules.action import ServiceLimits, SlotContext
from quarantine.rules.defences import weigh
from quarantine.rules.observation import unseen

_NEWEST: Final = 5
"""Lines of history in which a hold is that Placement has not been looked at since."""


def context_of(store: Store, record: SlotRecord, limits: ServiceLimits) -> SlotContext:
    """Its host's word, its drive, and how often its order came back. Nova has not been asked.

    Where a row cannot be read the past is unknown, and what it might lack it lacks.
    """
    try:
        return _context(store, record, limits)
    except UnreadableError as error:
        return SlotContext(unknown=str(error), lacks=f"the record cannot be read ({error})")


def _context(store: Store, record: SlotRecord, limits: ServiceLimits) -> SlotContext:
    context = weigh(record, store.host(record.slot.host), limits)
    # Each state is asked for what its rules need, and no more: each answer is a query.
    if record.state in (State.CERTIFIED, State.AVAILABLE):
        return replace(context, lacks=_lacks(store, record))
    if record.state is State.HELD:
        return replace(context, held_by=_held_by(store, record))
    if record.state is State.QUARANTINED and record.attempts:
        case = store.history(record.slot, record.generation)
        return replace(context, postponed=sum(r.event is Event.POSTPONED for r in case))
    return context


def _held_by(store: Store, record: SlotRecord) -> Initiator | None:
    """See :attr:`SlotContext.held_by`."""
    if record.certificate is None or record.custody is not None:
        return None
    lines = store.newest_history(record.slot, _NEWEST)
    last = next((line for line in reversed(lines) if line.became is not None), None)
    if last is None or last.event is not Event.HELD or last.source is not State.AVAILABLE:
        return None
    # The record was written since the hold, and Placement looked at: the slot is reserved by then.
    if record.revision != last.revision and not unseen(record):
        return None
    if any(line.hold_code is not None for line in lines if line.revision > last.revision):
        return None  # its host named another drive there since
    return None if _lacks(store, record) else last.by


def _lacks(store: Store, record: SlotRecord) -> str:
    if record.certificate is None or record.identity is None:
        return "the slot has no certificate"
    drive = store.drive(record.identity.digest)
    if drive is None or drive.dirty or drive.retired:
        why = drive.reason if drive else "unknown"
        return f"the drive is {'retired' if drive and drive.retired else 'dirty'} ({why})"
    if drive.certificate != record.certificate:
        return "the drive's last certificate is of another case"
    return ""
