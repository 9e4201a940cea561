"""What the record knows of where a drive was: its certificates, its slots and their histories."""

from __future__ import annotations

from collections.abc import Sequence

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow, StoredCertificate
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import State
from quarantine.rules.reports.lastuse import DrivePast, Moment
from quarantine.service.issue.drive_inventory import seen_in

_CLAIMED = frozenset({HoldCode.CLAIMED, HoldCode.NOT_CLEAN, HoldCode.NOT_GIVEN_BACK})
"""Holds of a slot that somebody had or may have claimed."""


def past_of(
    store: Store, drive: ControllerIdentity, here: Slot, history: Sequence[HistoryRow]
) -> DrivePast:
    """``history`` is the whole of ``here``, where the drive is now."""
    slots = store.places(identity=drive) - {here}
    lines = {slot: store.history(slot) for slot in slots} | {here: history}
    stored = store.newest_of(drive=drive.digest)
    claims = (_last_claim(slot, rows) for slot, rows in lines.items())
    return DrivePast(
        erased=None if stored is None else _erased(store, stored),
        claims=tuple(claim for claim in claims if claim is not None),
        sightings=tuple(_sightings(history)),
    )


def _erased(store: Store, stored: StoredCertificate) -> Moment:
    rows = store.history(stored.slot, stored.generation)
    seqs = [row.seq for row in rows if row.detail.get("certificate") == stored.digest]
    # One whose line does not name it was written by an earlier release, in that case's time.
    return Moment(stored.slot, max(seqs or [row.seq for row in rows], default=0))


def _last_claim(slot: Slot, rows: Sequence[HistoryRow]) -> Moment | None:
    seqs = [row.seq for row in rows if row.became is State.IN_USE or row.hold_code in _CLAIMED]
    return Moment(slot, max(seqs)) if seqs else None


def _sightings(rows: Sequence[HistoryRow]) -> list[Moment]:
    found = ((seen_in(row.reason), row) for row in rows if row.hold_code == HoldCode.TWO_PLACES)
    return [Moment(slot, row.seq) for slot, row in found if slot is not None]
