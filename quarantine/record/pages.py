"""Pages of lists: some light columns, in an order that an index has, of at most so many rows.

No page reads a document or a token, and none is found by counting from the beginning: it goes on
behind the last row of the one before. A row that cannot be read ends no page: what of it can be
read is given, and which columns are damaged.
"""

from __future__ import annotations

import enum
import logging
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa

from eraser.protocol.identity import Slot
from quarantine.record.database import models
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import UNREADABLE, of_the_row
from quarantine.record.database.lines import lines_of, named, named_page
from quarantine.record.database.paging import asked_of_each, in_one_of
from quarantine.record.servers import consumers_of
from quarantine.record.words.clock import CLOCKS_APART
from quarantine.record.words.reasons import OLDER
from quarantine.record.words.states import State
from quarantine.record.words.texts import NAME_LENGTH, storable

LOG = logging.getLogger(__name__)

_SLOTS = models.slots
_CERTIFICATES = models.certificates

CHUNK: Final = 500
"""Rows that a walk over all of them has in memory."""
PLACES: Final = 500
"""Of rows that are a few words long."""


class SlotOrder(enum.StrEnum):
    """What a list of slots is sorted by."""

    SLOT = "slot"
    """Host and address."""
    ENTERED_AT = "entered_at"
    """Since when they are in their states."""


@dataclass(frozen=True)
class SlotQuery:
    """Which slots. What is None, or empty, is not asked for."""

    states: tuple[str, ...] = ()
    host: str | None = None
    model: str | None = None
    serial: str | None = None
    hold_code: str | None = None
    """:data:`OLDER`: held by a release that had no codes."""
    server: str | None = None
    """Uuid of the server that has the drive, or had it last, itself or by a migration."""


@dataclass(frozen=True)
class SlotLine:
    """A slot in a list. Its texts are as they are stored: a state of another release too.

    What of it is damaged is empty, zero, or None.
    """

    id: int
    host: str
    address: str
    provider: str
    state: str
    entered_at: datetime | None
    """None where that is damaged."""
    reason: str
    hold_code: str | None
    alarm: str
    model: str | None
    serial: str | None
    generation: int
    profile: str
    policy: str
    consumer: str | None
    step: str | None
    fraction: float
    detail: str
    certificate: str | None
    next_hold: str | None = None
    """Why it is to be held at its next release."""
    heard_at: datetime | None = None
    """The host's last word about its order."""
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""

    @property
    def slot(self) -> Slot:
        """Host and address. Raises ``ValueError`` for a damaged row."""
        return Slot(self.host, self.address)


@dataclass(frozen=True)
class CertificateLine:
    """A certificate in a list."""

    number: int
    digest: str
    host: str
    address: str
    generation: int
    drive: str
    server: str | None
    owner: str | None
    created_at: datetime | None
    """None where that is damaged."""
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


@dataclass(frozen=True)
class CertificateText:
    """A certificate as it is handed on."""

    number: int
    digest: str
    """Empty where that is damaged."""
    token: str | None
    """None where it cannot be read."""


@dataclass(frozen=True)
class HostLine:
    """A host in a list, without what it said."""

    name: str
    thumbprint: str
    incarnation: str
    registered_at: datetime | None
    """None where that is damaged."""
    heard_at: datetime | None
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


@dataclass(frozen=True)
class DriveQuery:
    """Which drives. What is None is not asked for."""

    model: str | None = None
    serial: str | None = None
    firmware: str | None = None


@dataclass(frozen=True)
class DriveLine:
    """A drive in a list, by the digest of its identity; where it was seen, or spoken of, last."""

    digest: str
    model: str | None
    serial: str | None
    firmware: str | None
    """By its last certificate."""
    host: str
    address: str
    dirty: bool
    retired: bool
    reason: str
    changed_at: datetime | None
    """None where that is damaged."""
    certificate: str | None
    certified_at: datetime | None
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


_DRIVE_LINE: Final = tuple(models.drives.c[field.name] for field in fields(DriveLine)[:-1])
_LINE: Final = tuple(_SLOTS.c[field.name] for field in fields(SlotLine)[:-1])
_CERTIFICATE_LINE: Final = tuple(
    _CERTIFICATES.c[field.name] for field in fields(CertificateLine)[:-1]
)
_CERTIFICATE_TEXT: Final = tuple(_CERTIFICATES.c[one.name] for one in fields(CertificateText))
_HOST_LINE: Final = tuple(models.hosts.c[field.name] for field in fields(HostLine)[:-1])


@dataclass(frozen=True)
class CampaignQuery:
    """Which slots are to be erased again. What is None is not asked for."""

    model: str | None = None
    firmware: str | None = None
    """That ran at the drive's last certificate."""
    host: str | None = None
    hold_code: str | None = None
    """Slots that are held for this; without it held slots are left to people."""
    certified_before: datetime | None = None


class CampaignPlace(NamedTuple):
    """A slot that a campaign is about."""

    id: int
    host: str
    address: str
    identity_digest: str | None
    resource_class: str
    state: str
    model: str | None
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


_PLACE: Final = tuple(_SLOTS.c[name] for name in CampaignPlace._fields[:-1])


class PageRepository(Repository):
    """What the store knows, in pages."""

    def slot_page(
        self,
        query: SlotQuery,
        *,
        limit: int,
        order: SlotOrder = SlotOrder.SLOT,
        descending: bool = False,
        after: tuple[Any, Any] | None = None,
    ) -> list[SlotLine]:
        """``limit`` slots at most, those behind ``after``.

        That is host and address of the last one of the page before, or when it entered its state
        and its id, as ``order`` says.
        """
        names = ("host", "address") if order is SlotOrder.SLOT else ("entered_at", "id")
        first, second = (_SLOTS.c[name] for name in names)
        way = (first.desc(), second.desc()) if descending else (first, second)

        def found(*columns: sa.Column[Any], states: tuple[str, ...]) -> sa.Select[Any]:
            fits = _conditions(replace(query, states=states), consumers)
            page = sa.select(*columns).where(*fits)
            if after is not None:
                page = page.where(_behind(first, second, after, descending))
            return page.order_by(*way).limit(limit)

        with self._reading() as db:
            consumers = consumers_of(db, query.server) if query.server is not None else []
            if len(states := tuple(dict.fromkeys(query.states))) < 2:
                page = found(*_LINE, states=states)
            else:
                of_each = (found(_SLOTS.c.id, states=(one,)) for one in states)
                which = in_one_of(_SLOTS.c.id, of_each)
                page = sa.select(*_LINE).where(which).order_by(*way).limit(limit)
            return lines_of(db, SlotLine, page, _LINE, _SLOTS.c.id)

    def slots_at(self, places: Iterable[tuple[str, str]]) -> list[SlotLine]:
        """Slots by host and address: a page of them at most."""
        which = [
            sa.and_(_SLOTS.c.host == host, _SLOTS.c.address == address) for host, address in places
        ]
        if not which:
            return []
        with self._reading() as db:
            query = sa.select(*_LINE).where(sa.or_(*which))
            return lines_of(db, SlotLine, query, _LINE, _SLOTS.c.id)

    def campaign_places(self, query: CampaignQuery) -> Iterator[CampaignPlace]:
        """Slots that a campaign is about, by id; but for retired ones. There may be as many as the
        fleet has: of all of them their ids are in memory, and of some the rest."""
        with self._reading() as db:
            every = db.execute(_campaign(sa.select(_SLOTS.c.id), query)).yield_per(PLACES).scalars()
            ids = array("q", sorted(array("q", every)))
        for first in range(0, len(ids), PLACES):
            # Asked again: between two pages a slot may have come to be another campaign's affair.
            which = _SLOTS.c.id.in_(ids[first : first + PLACES])
            still = asked_of_each(sa.and_(*_campaign_conditions(query)))
            found = _campaign_table(sa.select(*_PLACE), query).where(which, still)
            found = found.order_by(_SLOTS.c.id)
            with self._reading() as db:
                page = lines_of(db, CampaignPlace, found, _PLACE, _SLOTS.c.id)
            yield from named(page, "host", "address")

    def campaign_page(self, query: CampaignQuery, *, limit: int) -> list[SlotLine]:
        """The first of the slots that a campaign is about, by host and address."""
        found = _campaign(sa.select(_SLOTS.c.id), query)
        found = found.order_by(_SLOTS.c.host, _SLOTS.c.address).limit(limit)
        with self._reading() as db:
            which = db.execute(found).scalars().all()
            lines = sa.select(*_LINE).where(_SLOTS.c.id.in_(which))
            lines = lines.order_by(_SLOTS.c.host, _SLOTS.c.address)
            return lines_of(db, SlotLine, lines, _LINE, _SLOTS.c.id)

    def each_slot(self, query: SlotQuery) -> Iterator[SlotLine]:
        """All that fit, by host and address; each read in its turn, none twice."""
        after: tuple[str, str] | None = None
        nameless: set[int] = set()
        while page := self.slot_page(query, limit=CHUNK, after=after):
            yield from (line for line in page if line.id not in nameless)
            named = [line for line in page if line.host and line.address]
            if not named:
                return
            # Those behind the last name are read once more with the next ones.
            nameless |= {line.id for line in page} - {line.id for line in named}
            after = named[-1].host, named[-1].address

    def host_page(
        self,
        *,
        limit: int,
        after: str = "",
        heard_since: datetime | None = None,
        not_since: datetime | None = None,
    ) -> list[HostLine]:
        """Hosts by name, those behind ``after``: all, or those that were heard since a time, or
        were not. One that was never heard counts from when it was registered."""
        table = models.hosts
        query = sa.select(*_HOST_LINE).where(table.c.name > storable(after))
        heard, registered = table.c.heard_at, table.c.registered_at
        # A time to come was noted before our clock was set back: since then nobody was heard.
        latest = self._clock() + CLOCKS_APART
        if heard_since is not None:
            never = sa.and_(heard.is_(None), registered >= heard_since)
            # Nearly all are: by an index of times they would all be read, and then sorted.
            query = query.where(asked_of_each(sa.or_(heard.between(heard_since, latest), never)))
        if not_since is not None:
            never = sa.and_(heard.is_(None), registered < not_since)
            # Those are few, and the others are not read for them.
            silent = sa.select(table.c.name).where(sa.or_(heard < not_since, heard > latest, never))
            query = query.where(table.c.name.in_(silent))
        query = query.order_by(table.c.name)
        with self._reading() as db:
            return named_page(db, HostLine, query, _HOST_LINE, (table.c.name,), limit, "name")

    def drive_page(self, query: DriveQuery, *, limit: int, after: str = "") -> list[DriveLine]:
        """Drives by digest, those behind ``after``."""
        table = models.drives
        found = sa.select(*_DRIVE_LINE).where(table.c.digest > storable(after))
        for column, wanted in (
            (table.c.model, query.model),
            (table.c.serial, query.serial),
            (table.c.firmware, query.firmware),
        ):
            if wanted is not None:
                found = found.where(column == storable(wanted, NAME_LENGTH))
        with self._reading() as db:
            found = found.order_by(table.c.digest)
            return named_page(db, DriveLine, found, _DRIVE_LINE, (table.c.digest,), limit, "digest")

    def drive_slots(self, digest: str, *, limit: int) -> list[SlotLine]:
        """The slots that a drive is expected in: one, unless somebody moved it."""
        query = sa.select(*_LINE).where(_SLOTS.c.identity_digest == digest)
        query = query.order_by(_SLOTS.c.host, _SLOTS.c.address).limit(limit)
        with self._reading() as db:
            return lines_of(db, SlotLine, query, _LINE, _SLOTS.c.id)

    def drive_certificates(self, digest: str, *, limit: int) -> list[CertificateLine]:
        """A drive's certificates, the newest first."""
        table = _CERTIFICATES
        query = sa.select(*_CERTIFICATE_LINE).where(table.c.drive == digest)
        query = query.order_by(table.c.number.desc()).limit(limit)
        with self._reading() as db:
            return lines_of(db, CertificateLine, query, _CERTIFICATE_LINE, table.c.number)

    def slots_with_provider(self, uuid: str) -> list[Slot]:
        """The slots whose provider has this uuid; one, unless a provider was replaced."""
        query = sa.select(_SLOTS.c.host, _SLOTS.c.address).where(_SLOTS.c.provider == uuid).limit(2)
        with self._reading() as db:
            return [Slot(row.host, row.address) for row in db.execute(query)]

    def certificate_page(
        self,
        *,
        limit: int,
        after: int = 0,
        slot: Slot | None = None,
        server: str | None = None,
        user: str | None = None,
        drive: str | None = None,
    ) -> list[CertificateLine]:
        """Certificates behind the number ``after``, in the chain's order: of erases after
        ``server`` by our record or by the host's word, after ``user`` by our record alone."""
        table = _CERTIFICATES
        query = sa.select(*_CERTIFICATE_LINE).where(table.c.number > after)
        if slot is not None:
            ids = sa.select(_SLOTS.c.id).where(
                _SLOTS.c.host == slot.host, _SLOTS.c.address == slot.address
            )
            query = query.where(table.c.slot_id == ids.scalar_subquery())
        if server is not None:
            server = storable(server)
            query = query.where(sa.or_(table.c.server == server, table.c.owner == server))
        if user is not None:
            query = query.where(table.c.server == storable(user))
        if drive is not None:
            query = query.where(table.c.drive == storable(drive))
        with self._reading() as db:
            found = query.order_by(table.c.number).limit(limit)
            return lines_of(db, CertificateLine, found, _CERTIFICATE_LINE, table.c.number)

    def certificate_span(
        self, since: datetime | None, until: datetime | None
    ) -> tuple[int, int, int]:
        """First and last number, and count, of the certificates from ``since`` to before ``until``;
        three zeros where there are none."""
        table = _CERTIFICATES
        query = sa.select(
            sa.func.min(table.c.number), sa.func.max(table.c.number), sa.func.count()
        ).where(*_between(since, until))
        with self._reading() as db:
            first, last, count = db.execute(query).one()
            return (first or 0, last or 0, count)

    def each_certificate(
        self, span: tuple[int, int], since: datetime | None, until: datetime | None
    ) -> Iterator[CertificateText]:
        """Those of a span, in the chain's order, some at a time; the log names each that cannot be
        read."""
        table = _CERTIFICATES
        after, last = span[0] - 1, span[1]
        while True:
            query = (
                sa.select(*_CERTIFICATE_TEXT)
                .where(table.c.number > after, table.c.number <= last, *_between(since, until))
                .order_by(table.c.number)
                .limit(CHUNK)
            )
            with self._reading() as db:
                found = _texts(db, query)
            if not found:
                return
            yield from found
            after = found[-1].number


def _texts(db: sa.Connection, query: sa.Select[Any]) -> list[CertificateText]:
    """The certificates of a question. Where one cannot be read, each is read by itself."""
    number = _CERTIFICATES.c.number
    try:
        found = [tuple(row) for row in db.execute(query)]
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
        found = []
        for each in db.execute(query.with_only_columns(number)).scalars().all():
            read: list[Any] = [each]
            for column in _CERTIFICATE_TEXT[1:]:
                try:
                    read.append(db.execute(sa.select(column).where(number == each)).scalar())
                except UNREADABLE as why:
                    if not of_the_row(why):
                        raise
                    read.append(None)
            found.append(tuple(read))
    made = []
    for place, digest, token in found:
        if not isinstance(token, str):
            LOG.warning("certificate %s: it cannot be read", place)
        made.append(
            CertificateText(
                place,
                digest if isinstance(digest, str) else "",
                token if isinstance(token, str) else None,
            )
        )
    return made


def _between(since: datetime | None, until: datetime | None) -> Iterator[sa.ColumnElement[bool]]:
    if since is not None:
        yield _CERTIFICATES.c.created_at >= since
    if until is not None:
        yield _CERTIFICATES.c.created_at < until


def _campaign(found: sa.Select[Any], query: CampaignQuery) -> sa.Select[Any]:
    return _campaign_table(found, query).where(*_campaign_conditions(query))


def _campaign_table(found: sa.Select[Any], query: CampaignQuery) -> sa.Select[Any]:
    drives = models.drives
    if query.firmware is not None or query.certified_before is not None:
        found = found.join(drives, drives.c.digest == _SLOTS.c.identity_digest)
    return found


def _campaign_conditions(query: CampaignQuery) -> Iterator[sa.ColumnElement[bool]]:
    drives = models.drives
    if query.firmware is not None:
        yield drives.c.firmware == storable(query.firmware, NAME_LENGTH)
    if query.certified_before is not None:
        yield drives.c.certified_at < query.certified_before
    yield _SLOTS.c.state != State.RETIRED.value
    yield from _conditions(SlotQuery(host=query.host, model=query.model, hold_code=query.hold_code))


def _conditions(
    query: SlotQuery, consumers: Sequence[str] = ()
) -> Iterator[sa.ColumnElement[bool]]:
    """``consumers``: what holds drives for the server that is asked for."""
    code = None if query.hold_code == OLDER else query.hold_code
    few = {
        _SLOTS.c.serial: query.serial and storable(query.serial, NAME_LENGTH),
        _SLOTS.c.host: query.host and storable(query.host),
    }
    many = {
        _SLOTS.c.hold_code: code and storable(code),
        _SLOTS.c.model: query.model and storable(query.model, NAME_LENGTH),
    }
    is_of_few = query.server is not None
    if is_of_few:
        yield _SLOTS.c.consumer.in_(consumers)
    for column, wanted in few.items():
        if wanted is not None:
            yield column == wanted
            is_of_few = True
    # Else the index of a state may be taken for one of a serial.
    of = asked_of_each if is_of_few else lambda condition: condition
    for column, wanted in many.items():
        if wanted is not None:
            yield of(column == wanted)
    if query.hold_code == OLDER:
        yield of(_SLOTS.c.state == State.HELD.value)
        yield asked_of_each(_SLOTS.c.hold_code.is_(None))
    if len(query.states) == 1:
        yield of(_SLOTS.c.state == query.states[0])
    elif query.states:
        yield of(_SLOTS.c.state.in_(query.states))


def _behind(
    first: sa.Column[Any], second: sa.Column[Any], after: Sequence[Any], descending: bool
) -> sa.ColumnElement[bool]:
    """Rows behind a pair. Not as a comparison of pairs, for which MariaDB uses no index."""
    one, two = (storable(word) if isinstance(word, str) else word for word in after)
    if descending:
        return sa.and_(first <= one, sa.or_(first < one, second < two))
    return sa.and_(first >= one, sa.or_(first > one, second > two))
