"""What Placement would hand out and must not, beside the slots' own steps."""

from __future__ import annotations

import logging

from quarantine import custody
from quarantine.cloud.facts import ONE_TIME_USE, Provider
from quarantine.errors import QuarantineError
from quarantine.record.facts import SlotChanges, SlotRecord
from quarantine.record.states import Event
from quarantine.record.store import Store

LOG = logging.getLogger(__name__)


def hold_unburnt(store: Store, placement: custody.Door, record: SlotRecord) -> None:
    """Nova reserves only what has the trait: a short use of this one would leave no mark.

    A provider that is gone, or has a user, is left to the look that follows.
    """
    try:
        view = placement.view(record.provider, record.resource_class)
        if view is None or view.foreign(None):
            return
        reason = (
            f"on offer without the trait {ONE_TIME_USE}: Nova would hand the drive on without "
            "an erase; restore one_time_use in device_spec, then release the slot"
        )
        changes = SlotChanges(new_case=True)
        store.transition(record, Event.HELD, reason=reason, changes=changes)
        LOG.error("ALARM %s: %s", record.slot, reason)
    except Exception as error:
        _tell(str(record.slot), error)


def reserve_stranger(placement: custody.Door, provider: Provider) -> None:
    """A slot of our resource class on offer that nobody enrolled holds an unknown drive."""
    try:
        view = placement.view(provider.uuid, "")
        if view is not None and not view.locked and not view.allocations:
            custody.reserve(placement, view)
            LOG.error("ALARM %s: on offer and not enrolled; reserved, enrol it", provider.name)
    except Exception as error:
        _tell(provider.name, error)


def _tell(what: str, error: Exception) -> None:
    """One odd slot, or a mistake of ours about it, must not end the sweep of all the others."""
    if isinstance(error, QuarantineError):
        LOG.warning("%s: %s", what, error)
    else:
        LOG.error("%s: unexpected", what, exc_info=error)
