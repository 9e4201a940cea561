"""The chain of certificates: appended with the transition that they justify, never changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    UnavailableError,
    UnreadableError,
)
from quarantine.record import totals
from quarantine.record.database import models, rows
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import told, whole
from quarantine.record.words.facts import (
    NewCertificate,
    SignedTestimony,
    SlotRecord,
    StoredCertificate,
    StoredRotation,
)

_TABLE = models.certificates
_TESTIMONIES = models.testimonies
_ROTATIONS = models.rotations


_END = (_TABLE.c.number, _TABLE.c.digest, _TABLE.c.token)
_NEXT = _TABLE.alias()
_WRONG_NUMBERS = 8
"""So many rows are read for the chain's end where each has a number that its token does not say."""

_LEAST_WRONG = 1 << 62
_IS_NUMBER = _TABLE.c.number < _LEAST_WRONG
"""In SQLite text in an old row is greater than any number: it would look like the chain's end."""


@dataclass(frozen=True)
class NewestLink:
    """What the next link is made of, and nothing else of the newest one: what is damaged of the
    rest is no other drive's."""

    number: int
    digest: str
    token: str


class CertificateRepository(Repository):
    """What the store knows about certificates. They come in through ``transition`` only."""

    def certificate(self, key: str | int) -> StoredCertificate | None:
        """By digest, or by its number in the chain. Raises :class:`UnreadableError`."""
        column = _TABLE.c.number if isinstance(key, int) else _TABLE.c.digest
        with self._reading() as db, told(f"certificate {key}"):
            row = db.execute(sa.select(_TABLE).where(column == key)).mappings().first()
            return None if row is None else rows.certificate(row)

    def certificates(
        self,
        *,
        slot: Slot | None = None,
        server: str | None = None,
        drive: str | None = None,
    ) -> list[StoredCertificate]:
        """All that fit, in the chain's order.

        ``drive``: digest of an identity. ``server``: as Placement or the host's gate named it.
        """
        query = sa.select(_TABLE).order_by(_TABLE.c.number)
        if slot is not None:
            query = query.where(_of_slot(slot))
        if server is not None:
            query = query.where(sa.or_(_TABLE.c.server == server, _TABLE.c.owner == server))
        if drive is not None:
            query = query.where(_TABLE.c.drive == drive)
        with self._reading() as db, told("certificates"):
            return [rows.certificate(row) for row in db.execute(query).mappings()]

    def newest_of(
        self, *, slot: Slot | None = None, drive: str | None = None
    ) -> StoredCertificate | None:
        """The last one of a slot or a drive, as :meth:`certificates` has it at its end; the others,
        of years, are not read."""
        query = sa.select(_TABLE).order_by(_TABLE.c.number.desc()).limit(1)
        if slot is not None:
            query = query.where(_of_slot(slot))
        if drive is not None:
            query = query.where(_TABLE.c.drive == drive)
        with self._reading() as db, told("certificates"):
            row = db.execute(query).mappings().first()
            return None if row is None else rows.certificate(row)

    def certificates_beginning(self, text: str) -> list[StoredCertificate]:
        """Those whose digest begins so; two where there are more. Raises
        :class:`UnreadableError`."""
        digest = _TABLE.c.digest
        # A range, which the index has; g is what follows on f.
        query = sa.select(_TABLE).where(digest >= text, digest < f"{text}g").order_by(digest)
        with self._reading() as db, told(f"certificate {text}"):
            found = db.execute(query.limit(2)).mappings()
            return [rows.certificate(row) for row in found]

    def testimony(self, digest: str) -> SignedTestimony | None:
        """What the certificate rests on; None for those that are older than its keeping.

        Raises :class:`UnreadableError` for a damaged row.
        """
        query = sa.select(_TESTIMONIES).where(_TESTIMONIES.c.certificate == digest)
        with self._reading() as db:
            row = db.execute(query).mappings().first()
        if row is None:
            return None
        what = f"testimony of certificate {digest}"
        try:
            key = PublicKey.from_jwk(codec.parse(row["host_key"], what), what)
        except BadWireError as error:
            raise UnreadableError(str(error)) from error
        return SignedTestimony(row["order_token"], row["report_token"], key)

    def last_certificate(self) -> StoredCertificate | None:
        """The chain's end; the next certificate names its digest as ``previous``."""
        with self._reading() as db, told("the newest certificate"):
            return _last(db)

    def chain_end(self) -> NewestLink | None:
        """What the next certificate names. Raises :class:`UnreadableError`."""
        with self._reading() as db:
            return _end(db)

    def rotations(self) -> list[StoredRotation]:
        """Each change of the signing key, the oldest first."""
        with self._reading() as db:
            rows = db.execute(sa.select(_ROTATIONS).order_by(_ROTATIONS.c.number)).mappings()
            return [StoredRotation(**row) for row in rows]

    def rotate(
        self,
        old_key: str,
        new_key: str,
        make: Callable[[int, str, str], str],
        former: Sequence[str] = (),
    ) -> StoredRotation:
        """Has ``new_key`` sign what comes next; both are thumbprints, and so are the ``former``
        ones, of keys that another one followed without this.

        ``make`` makes the document of the chain's end as it is then: position, digest and token.
        Raises :class:`ConflictError` where another key is the one that signs, or the chain grew
        meanwhile.
        """
        with self._writing() as db:
            last = _end(db, lock=True)
            # Twice: whoever waited for a writer's lock is given the row that was last before that
            # writer appended.
            if _end(db, lock=True) != last:
                raise ConflictError("rotation: expected the chain to stand still; do it again")
            signs = _signs(db, last)
            if signs is not None and signs not in (old_key, *former):
                raise ConflictError(
                    f"rotation: expected the key that signs, {signs}, found {old_key}"
                )
            turned = _last_rotation(db)
            number = 1 if turned is None else turned.number + 1
            end = (0, "", "") if last is None else (last.number, last.digest, last.token)
            document = make(*end)
            found = StoredRotation(number, new_key, document)
            db.execute(sa.insert(_ROTATIONS).values(**vars(found)))
            return found


def _of_slot(slot: Slot) -> sa.ColumnElement[bool]:
    """By the slot's number, which an index has; by its names all certificates would be read."""
    there = models.slots.c.host == slot.host, models.slots.c.address == slot.address
    return _TABLE.c.slot_id == sa.select(models.slots.c.id).where(*there).scalar_subquery()


def append(
    db: sa.Connection, record: SlotRecord, certificate: NewCertificate, now: datetime
) -> None:
    """Within a transaction: the next link.

    Raises :class:`ConflictError` when the chain has grown since ``previous`` was read; two writers
    at the same instant meet the table's unique columns instead, with the same result.
    """
    if record.identity is None or record.order_id is None:
        raise IllegalTransitionError(
            f"{record.slot}: expected a known drive and an order to certify, found none; hold it"
        )
    last = _end(db, lock=True)
    signs = _signs(db, last)
    known = (certificate.key, *certificate.former)
    if certificate.key and signs is not None and signs not in known:
        raise UnavailableError(
            f"certificate chain: expected the signing key {signs}, found {certificate.key}; set "
            "[evidence]signing_key to the former and restart; 'nvme-quarantine key rotate' has "
            "another one follow it, or, where it is lost, its public half in [evidence]former_keys"
        )
    end = "" if last is None else last.digest
    if certificate.previous != end:
        raise ConflictError(
            f"certificate chain: expected its end at {certificate.previous or 'nothing'}, "
            f"found {end or 'nothing'}; sign again on the new end"
        )
    number = 1 if last is None else last.number + 1
    db.execute(
        sa.insert(_TABLE).values(
            number=number,
            digest=certificate.digest,
            previous=certificate.previous,
            slot_id=record.id,
            host=record.slot.host,
            address=record.slot.address,
            generation=record.generation,
            drive=record.identity.digest,
            order_id=record.order_id,
            server=certificate.server,
            owner=certificate.owner,
            token=certificate.token,
            created_at=now,
        )
    )
    totals.note_duration(db, record, number, certificate.verify_seconds, now)
    given = certificate.testimony
    if given is not None:
        db.execute(
            sa.insert(_TESTIMONIES).values(
                certificate=certificate.digest,
                order_token=given.order,
                report_token=given.report,
                host_key=json.dumps(given.host_key.jwk(), sort_keys=True),
            )
        )


def _last(db: sa.Connection) -> StoredCertificate | None:
    query = sa.select(_TABLE).order_by(_TABLE.c.number.desc()).limit(1)
    row = db.execute(query).mappings().first()
    return None if row is None else rows.certificate(row)


def _end(db: sa.Connection, *, lock: bool = False) -> NewestLink | None:
    """The newest one; an old one's wrong number holds nobody. Not just any that no other names:
    that may be an old one, whose follower is damaged."""
    follows = sa.exists().where(_NEXT.c.previous == _TABLE.c.digest).label("follows")
    below = _LEAST_WRONG
    with told("the newest certificate"):
        for _ in range(_WRONG_NUMBERS):
            # In one statement: a link that comes between two would look as if it stood before.
            query = sa.select(*_END, follows).where(_TABLE.c.number < below)
            query = query.order_by(_TABLE.c.number.desc()).limit(1)
            row = db.execute(query.with_for_update() if lock else query).first()
            if row is None:
                # No row with a number is left: the chain is empty, or what it has is damaged.
                if db.execute(sa.select(sa.exists().where(~_IS_NUMBER))).scalar():
                    raise ValueError("it has no number")
                return None
            if not whole(_END)(row) or not row.digest:
                raise ValueError("its number, digest or token is damaged")
            if not row.follows:
                # The row above was passed over for its wrong number, and the next link would need
                # it.
                if row.number + 1 == below:
                    raise ValueError(f"number {below} is another one's")
                return NewestLink(row.number, row.digest, row.token)
            # Only a row whose own token gives it another number may be passed over.
            if _said_position(row.token) in (None, row.number):
                raise ValueError(f"another one follows number {row.number}, and has a lower one")
            below = row.number
        raise ValueError("those before it have wrong numbers too")


def _said_position(token: str) -> Any:
    """Where a certificate says that it stands; None where that cannot be read."""
    try:
        said = codec.parse(signing.unverified_payload(token, "certificate"), "certificate")
    except BadWireError:
        return None
    return said.get("position") if isinstance(said, dict) else None


def _last_rotation(db: sa.Connection) -> StoredRotation | None:
    query = sa.select(_ROTATIONS).order_by(_ROTATIONS.c.number.desc()).limit(1)
    row = db.execute(query.with_for_update()).mappings().first()
    return None if row is None else StoredRotation(**row)


def _signs(db: sa.Connection, last: NewestLink | None) -> str | None:
    """The key that signs what comes next: whom the last rotation names, else whoever signed the
    last certificate; None where neither tells."""
    turned = _last_rotation(db)
    if turned is not None:
        return turned.new_key
    try:
        return None if last is None else signing.unverified_key(last.token, "last certificate")
    except BadWireError:
        return None
