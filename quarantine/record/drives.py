"""Drives by identity: a dirty drive that is pulled and turns up elsewhere is still dirty.

A drive is born dirty. Only a certificate makes it clean, in the transaction that certifies.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.errors import IllegalTransitionError
from quarantine.record.database import models, stored
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import told
from quarantine.record.database.rows import Row
from quarantine.record.words import lifecycle
from quarantine.record.words.facts import DriveRecord, NewCertificate, SlotRecord
from quarantine.record.words.states import Event
from quarantine.record.words.texts import NAME_LENGTH, storable

_DRIVES = models.drives

# Asked in every step of a slot; built once, as those of slots.py.
_OF_DIGEST: Final = sa.select(_DRIVES).where(_DRIVES.c.digest == sa.bindparam("of"))
_IS_THERE: Final = sa.select(sa.literal(1)).where(_DRIVES.c.digest == sa.bindparam("of"))
_CHANGED: Final = sa.update(_DRIVES).where(_DRIVES.c.digest == sa.bindparam("of"))


class DriveRepository(Repository):
    """What the store knows about drives."""

    def note_drive(
        self, identity: ControllerIdentity, slot: Slot, dirty: bool, reason: str
    ) -> DriveRecord:
        """The drive is, or was, in ``slot``.

        ``dirty`` True: it may hold somebody's data from now on. False: it was seen, and what we
        knew of it stands; an unknown drive is dirty all the same.
        """
        with self._writing() as db:
            note(db, identity, slot, dirty=dirty, reason=reason, now=self._clock())
            found = find(db, identity.digest)
            assert found is not None
            return found

    def drive(self, digest: str) -> DriveRecord | None:
        """By the digest of its identity; None for a drive never heard of, which is dirty."""
        with self._reading() as db:
            return find(db, digest)

    def drives_seen_in(self, host: str) -> int:
        """How many drives were seen in that host last."""
        with self._reading() as db:
            query = sa.select(sa.func.count()).where(_DRIVES.c.host == host)
            return db.execute(query).scalar_one()

    def drives(self, *, dirty: bool | None = None) -> list[DriveRecord]:
        """All drives, or the dirty or clean ones, by where they were last seen."""
        query = sa.select(_DRIVES).order_by(_DRIVES.c.host, _DRIVES.c.address, _DRIVES.c.digest)
        if dirty is not None:
            query = query.where(_DRIVES.c.dirty == dirty)
        with self._reading() as db:
            return [_record(row) for row in db.execute(query).mappings()]


def find(db: sa.Connection, digest: str) -> DriveRecord | None:
    """Within a transaction: the drive with this digest. Raises :class:`UnreadableError`."""
    with told(f"drive {digest}"):
        row = db.execute(_OF_DIGEST, {"of": digest}).mappings().first()
        return None if row is None else _record(row)


def _is_known(db: sa.Connection, digest: str) -> bool:
    """There is a row of it, which may be damaged: what is written to it asks for no more."""
    return db.execute(_IS_THERE, {"of": digest}).first() is not None


def note(
    db: sa.Connection,
    identity: ControllerIdentity,
    slot: Slot,
    *,
    dirty: bool,
    reason: str,
    now: datetime,
) -> None:
    """Within a transaction: see :meth:`DriveRepository.note_drive`."""
    values: dict[str, Any] = {"host": slot.host, "address": slot.address}
    known = _is_known(db, identity.digest)
    # A clean drive that is only seen stays clean: where it is, and nothing else, is written.
    if not known or dirty:
        values |= {
            "dirty": True,
            "dirty_host": slot.host,
            "dirty_address": slot.address,
            "dirty_at": now,
            "reason": storable(reason),
            "changed_at": now,
        }
    if not known:
        db.execute(
            sa.insert(_DRIVES).values(
                digest=identity.digest,
                identity=codec.canonical(identity).decode(),
                model=storable(identity.model, NAME_LENGTH),
                serial=storable(identity.serial, NAME_LENGTH),
                retired=False,
                **values,
            )
        )
    else:
        _update(db, identity.digest, values)


def after_transition(
    db: sa.Connection,
    record: SlotRecord,
    event: Event,
    certificate: NewCertificate | None,
    now: datetime,
) -> None:
    """What a slot's step says about the drive in it, written with the step."""
    if record.identity is None:
        return
    slot, digest = record.slot, record.identity.digest
    # Before the certificate below: a drive that is new here is born dirty, then made clean.
    if event in lifecycle.DIRTIES_DRIVE or not _is_known(db, digest):
        why = event.value if record.consumer is None else f"{event.value}: {record.consumer}"
        note(db, record.identity, slot, dirty=True, reason=why, now=now)
    # After it was called dirty: the words of who gave it up are the ones that stay.
    if event is Event.RETIRED:
        _update(db, digest, {"retired": True, "reason": record.reason, "changed_at": now})
    if certificate is not None and certificate.firmware:
        _update(db, digest, {"firmware": storable(certificate.firmware, NAME_LENGTH)})
    # One that a hold carries says what was erased, not that the drive may go out.
    if certificate is not None and event is Event.CERTIFIED:
        _update(
            db,
            digest,
            {
                "dirty": False,
                "reason": event.value,
                "changed_at": now,
                "certificate": certificate.digest,
                "certified_host": slot.host,
                "certified_address": slot.address,
                "certified_at": now,
                "host": slot.host,
                "address": slot.address,
            },
        )


def require_returnable(db: sa.Connection, record: SlotRecord) -> None:
    """The last look before ``available``: this very drive is clean, here, by this certificate.

    Raises :class:`IllegalTransitionError`. It catches a drive that turned up elsewhere, or was
    called dirty or retired, between its certificate and its return.
    """
    drive = None if record.identity is None else find(db, record.identity.digest)
    found = "no drive that we know"
    if drive is not None:
        if not drive.dirty and not drive.retired and drive.certificate == record.certificate:
            return
        found = f"its drive {'retired' if drive.retired else 'dirty'} ({drive.reason})"
        if not drive.dirty and not drive.retired:
            found = "a newer certificate of this drive, from another case"
    raise IllegalTransitionError(
        f"{record.slot}: expected a drive that is clean by this case's certificate, "
        f"found {found}; hold the slot"
    )


def _update(db: sa.Connection, digest: str, values: dict[str, Any]) -> None:
    db.execute(_CHANGED, {**values, "of": digest})


def _slot(host: str | None, address: str | None) -> Slot | None:
    return None if host is None or address is None else Slot(host, address)


def _record(row: Row) -> DriveRecord:
    return DriveRecord(
        digest=row["digest"],
        identity=stored.load(ControllerIdentity, row["identity"], "stored identity"),
        slot=Slot(row["host"], row["address"]),
        dirty=row["dirty"],
        retired=row["retired"],
        reason=row["reason"],
        changed_at=row["changed_at"],
        certificate=row["certificate"],
        certified_slot=_slot(row["certified_host"], row["certified_address"]),
        certified_at=row["certified_at"],
        dirty_slot=_slot(row["dirty_host"], row["dirty_address"]),
        dirty_at=row["dirty_at"],
        firmware=row["firmware"],
    )
