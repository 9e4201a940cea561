"""What Placement would hand out and must not, beside the slots' own steps."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from quarantine.cloud import custody
from quarantine.errors import QuarantineError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord, UnreadableSlot
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.rules.alarmbook import StandingAlarms, calling_for_hold
from quarantine.rules.decide import UNBURNABLE
from quarantine.rules.holds import because

LOG = logging.getLogger(__name__)


class TraitPlacement(custody.CustodyPlacement, Protocol):
    """What is needed here of :class:`quarantine.cloud.placement.Placement`."""

    def burns(self, uuid: str) -> bool:
        """Whether Nova reserves the slot at its next use."""


def hold_unburnable(store: Store, placement: TraitPlacement, record: SlotRecord) -> None:
    """Nova reserves only what has the trait: a short use of this one would leave no mark.

    A provider that is gone, or has a user, is left to the look that follows.
    """
    try:
        view = placement.view(record.provider, record.resource_class)
        # Asked by name: a listing that was empty for once must not hold a whole fleet.
        if view is None or view.foreign(None) or placement.burns(record.provider):
            return
        changes = SlotChanges(new_case=True)
        with calling_for_hold(record.slot, f"on offer, and {UNBURNABLE}"):
            store.hold(record, because(HoldCode.NO_ONE_TIME_USE, UNBURNABLE), changes=changes)
    except Exception as error:
        _tell(str(record.slot), error)


class UnreadableRows:
    """Rows that cannot be read: people hear of each once, and once when it can be read again.

    They have no right to be on offer, so the safety pass keeps their drives out of the pool.
    """

    def __init__(self) -> None:
        self._told = StandingAlarms()

    def tell(self, rows: Iterable[UnreadableSlot]) -> None:
        """The rows as they are now."""
        now = {str(row): row.why for row in rows}
        code = AlarmCode.RECORD_UNREADABLE
        for name in sorted(now):
            self._told.tell(
                name,
                code,
                f"its row cannot be read ({now[name]}): nothing is done but to keep its drive out "
                "of the pool; was it written by a newer release?",
            )
        self._told.end_others(now, code, "its row can be read again, or is gone")


def _tell(what: str, error: Exception) -> None:
    """One odd slot, or a mistake of ours about it, must not end the sweep of all the others."""
    if isinstance(error, QuarantineError):
        LOG.warning("%s: %s", what, error)
    else:
        LOG.error("%s: unexpected", what, exc_info=error)
