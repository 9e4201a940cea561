"""Drives: each one's life across hosts and slots, by what its controller calls itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.errors import UnknownError
from quarantine.operations.plane import Plane
from quarantine.record.pages import CertificateLine as CertificateLine
from quarantine.record.pages import DriveLine as DriveLine
from quarantine.record.pages import DriveQuery as DriveQuery
from quarantine.record.pages import SlotLine as SlotLine
from quarantine.record.words.texts import storable

MOST: Final = 100
"""Cases of a drive that are shown, the newest; its certificates have all of them."""

_SLOTS: Final = 10
"""Slots of a drive that are shown. It is expected in one; in several where somebody moved it."""


@dataclass(frozen=True)
class DriveView:
    """One drive. Times are UTC."""

    digest: str
    identity: ControllerIdentity
    firmware: str | None
    """The revision that ran at its last certificate."""
    seen_in: Slot
    """Where it was seen, or spoken of, last."""
    slots: tuple[SlotLine, ...]
    """Where it is expected now."""
    dirty: bool
    """It may hold somebody's data."""
    retired: bool
    reason: str
    """Why it is dirty, clean or retired."""
    changed_at: datetime
    certificate: str | None
    """Digest of its last one, also when it has become dirty since."""
    certified_in: Slot | None
    certified_at: datetime | None
    dirty_in: Slot | None
    """Where it last became dirty."""
    dirty_at: datetime | None
    cases: tuple[CertificateLine, ...]
    """The newest of its certificates, newest first: each where, and after which server."""


def page(plane: Plane, query: DriveQuery, *, limit: int, after: str = "") -> tuple[DriveLine, ...]:
    """Drives by digest, those behind ``after``. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.drive_page(query, limit=limit, after=after))


def show(plane: Plane, digest: str) -> DriveView:
    """One, by the digest of its identity. Raises ``UnknownError``."""
    with plane.parts() as parts:
        # PostgreSQL refuses a NUL even in a question: in its storable form such a text finds
        # nothing.
        record = parts.store.drive(storable(digest))
        if record is None:
            raise UnknownError(
                f"drive {codec.shown(digest)}: expected the digest of a drive that was seen; "
                "'nvme-quarantine drive list --serial SERIAL' finds one"
            )
        slots = parts.store.drive_slots(digest, limit=_SLOTS)
        cases = parts.store.drive_certificates(digest, limit=MOST)
    return DriveView(
        digest=record.digest,
        identity=record.identity,
        firmware=record.firmware,
        seen_in=record.slot,
        slots=tuple(slots),
        dirty=record.dirty,
        retired=record.retired,
        reason=record.reason,
        changed_at=record.changed_at,
        certificate=record.certificate,
        certified_in=record.certified_slot,
        certified_at=record.certified_at,
        dirty_in=record.dirty_slot,
        dirty_at=record.dirty_at,
        cases=tuple(cases),
    )
