"""What is rightly on offer. Pure.

Everything else that Placement would hand out is reserved, whatever it is: a drive in use whose lock
was lowered, one that is held, a slot that nobody enrolled, a row that cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable

from eraser.protocol.identity import Slot
from quarantine.record.words.facts import UNSETTLED, HistoryRow, OfferClaim, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Custody, State

Offer = tuple[str, Slot]
"""A provider's uuid, and the slot that its name stands for."""


def entitled(claims: Iterable[OfferClaim], *, tickets: bool) -> frozenset[Offer]:
    """The offers that the record justifies; ``tickets``: their hosts must be registered."""
    return frozenset((c.provider, c.slot) for c in claims if _justified(c, tickets=tickets))


def _justified(claim: OfferClaim, *, tickets: bool) -> bool:
    # Between our write to Placement and the record's next state a slot is on offer as certified.
    giving_back = claim.state is State.CERTIFIED and claim.custody_stage is Custody.RETURNING
    given = claim.state is State.AVAILABLE or giving_back
    return given and claim.clean and (claim.registered or not tickets)


def is_unburned(record: SlotRecord) -> bool:
    """A server's claim that Nova had not burned when we looked last: nobody need have lowered
    anything. Where it is gone, the build or the move ended before that."""
    return record.state is State.IN_USE and record.provider_generation == UNSETTLED


def is_as_a_person_found_it(record: SlotRecord, last: HistoryRow | None) -> bool:
    """On offer since it was so rightly: a person keeps the drive from its next server, and nobody
    has reserved it, nor looked at it, since. ``last`` is the newest line of its history."""
    read = record.read_at
    return (
        last is not None
        and last.became is record.state
        and last.source is State.AVAILABLE
        and (record.state is State.RETIRED or record.hold_code == HoldCode.BY_PERSON)
        and (read is None or read <= record.entered_at)
    )
