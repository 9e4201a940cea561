"""Slots: enrolment, compare-and-set, history. The only code that writes a slot's state."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.errors import ConflictError, IllegalTransitionError
from quarantine.record import alarms, certificates, drives, messages, servers
from quarantine.record.database import models, rows
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import counted, separately, told
from quarantine.record.words import lifecycle
from quarantine.record.words.clock import CLOCKS_APART, is_to_come
from quarantine.record.words.facts import (
    JSON,
    Initiator,
    NewCertificate,
    NonceUse,
    OfferClaim,
    SlotChanges,
    SlotRecord,
    UnreadableSlot,
)
from quarantine.record.words.reasons import LASTING, HoldCode, HoldReason
from quarantine.record.words.states import Event, State
from quarantine.record.words.texts import storable

_SLOTS = models.slots
_HISTORY = models.history

# What every look and every step asks is built once: building a statement and finding its text
# again takes longer than the database does.
_OF_ID: Final = sa.select(_SLOTS).where(_SLOTS.c.id == sa.bindparam("one"))
_OF_SLOT: Final = sa.select(_SLOTS).where(
    _SLOTS.c.host == sa.bindparam("of"), _SLOTS.c.address == sa.bindparam("at")
)
# The names differ from the columns': those are SQLAlchemy's own for the values to set.
_AS_IT_WAS: Final = sa.update(_SLOTS).where(
    _SLOTS.c.id == sa.bindparam("was_id"),
    _SLOTS.c.state == sa.bindparam("was_state"),
    _SLOTS.c.generation == sa.bindparam("was_generation"),
    _SLOTS.c.revision == sa.bindparam("was_revision"),
)
_NEW_LINE: Final = sa.insert(_HISTORY)

NO_CHANGES = SlotChanges()
NO_DETAIL: Mapping[str, JSON] = {}


class SlotRepository(Repository):
    """What the store knows about slots."""

    def enrol(
        self,
        slot: Slot,
        *,
        provider: str,
        resource_class: str,
        in_use: bool,
        profile: str,
        policy: str,
        consumer: str | None = None,
        reason: str = "",
        by: Initiator | None = None,
    ) -> SlotRecord:
        """A new record: ``in_use`` where a tenant has the drive, else ``released``; history says
        who took it into care, and why.

        A retired slot may be enrolled again; its generation goes on, because hosts refuse smaller
        ones. Raises :class:`ConflictError` when the slot is enrolled already.
        """
        event = Event.ENROLLED_IN_USE if in_use else Event.ENROLLED_FREE
        now = self._clock()
        values: dict[str, Any] = {
            **rows.EMPTY_CASE,
            **rows.identity_columns(None),
            "provider": provider,
            "resource_class": resource_class,
            "profile": profile,
            "policy": policy,
            "consumer": consumer,
            "custody": None,
            "custody_ready": False,
            **rows.NO_CERTIFICATE,
            **rows.next_hold_columns(None),
            "alarm": "",
            "provider_generation": None,
            "read_at": None,
            "reason": "",
            "hold_code": None,
            "entered_at": now,
        }
        with self._writing() as db:
            old = _find(db, slot)
            if old is not None and old.state is not State.RETIRED:
                raise ConflictError(
                    f"{slot}: expected a slot that is not enrolled, found it {old.state}; "
                    "retire it first or leave it"
                )
            values["state"] = lifecycle.target(old.state if old else None, event)
            if old is None:
                row_id = db.execute(
                    sa.insert(_SLOTS).values(
                        host=slot.host,
                        address=slot.address,
                        generation=0,
                        revision=1,
                        created_at=now,
                        **values,
                    )
                ).inserted_primary_key
                assert row_id is not None
                record = _read(db, row_id[0])
            else:
                record = _swap(db, old, values)
                _end_alarms(db, old, record, now)
            self._append(db, record, event, old.state if old else None, reason, NO_DETAIL, by=by)
            return record

    def slot(self, slot: Slot) -> SlotRecord | None:
        """The record of a slot; None where it is not enrolled."""
        with self._reading() as db:
            return _find(db, slot)

    def slots(
        self,
        *,
        host: str | None = None,
        states: Iterable[State] | None = None,
        identity: ControllerIdentity | None = None,
        server: str | None = None,
    ) -> list[SlotRecord]:
        """All records that fit, by host and address; rows that cannot be read are left out.

        ``identity``: expected in these slots. ``server``: it, or a migration of it, was seen there
        last.
        """
        query = sa.select(_SLOTS).order_by(_SLOTS.c.host, _SLOTS.c.address)
        if host is not None:
            query = query.where(_SLOTS.c.host == host)
        if states is not None:
            query = query.where(_SLOTS.c.state.in_([state.value for state in states]))
        if identity is not None:
            query = query.where(_SLOTS.c.identity_digest == identity.digest)
        with self._reading() as db:
            if server is not None:
                query = query.where(_SLOTS.c.consumer.in_(servers.consumers_of(db, server)))
            found = _each(db, query)
        return [record for record in found if isinstance(record, SlotRecord)]

    def every_slot(
        self, ids: Collection[int] | None = None
    ) -> tuple[list[SlotRecord], list[UnreadableSlot]]:
        """All records, or some, by host and address, and the rows that cannot be read."""
        query = sa.select(_SLOTS).order_by(_SLOTS.c.host, _SLOTS.c.address)
        if ids is not None:
            query = query.where(_SLOTS.c.id.in_(ids))
        with self._reading() as db:
            found = _each(db, query)
        return (
            [row for row in found if isinstance(row, SlotRecord)],
            [row for row in found if isinstance(row, UnreadableSlot)],
        )

    def places(
        self, *, identity: ControllerIdentity | None = None, server: str | None = None
    ) -> frozenset[Slot]:
        """The slots that expect the drive, or where that server, or a migration of it, was seen
        last, also those whose rows cannot be read as a whole: evidence goes by these. Raises
        :class:`UnreadableError`."""
        query = sa.select(_SLOTS.c.host, _SLOTS.c.address)
        if identity is not None:
            query = query.where(_SLOTS.c.identity_digest == identity.digest)
        with self._reading() as db, told("slots"):
            if server is not None:
                query = query.where(_SLOTS.c.consumer.in_(servers.consumers_of(db, server)))
            return frozenset(Slot(host, address) for host, address in db.execute(query))

    def held_by_code(self) -> dict[str | None, int]:
        """How many slots are held for each code; None counts those of a release without codes."""
        query = (
            sa.select(_SLOTS.c.hold_code, sa.func.count())
            .where(_SLOTS.c.state == State.HELD.value)
            .group_by(_SLOTS.c.hold_code)
        )
        with self._reading() as db:
            return dict(counted(db, query, _SLOTS.c.hold_code))

    def claims(self, slot: Slot | None = None) -> list[OfferClaim]:
        """All slots, or that one, that may be rightly on offer: certified or available.

        Rows that cannot be read are left out: they justify nothing.
        """
        drives, hosts = models.drives, models.hosts
        clean = sa.and_(
            drives.c.dirty.is_(False),
            drives.c.retired.is_(False),
            drives.c.certificate == _SLOTS.c.certificate,
        )
        query = (
            sa.select(
                *(_SLOTS.c[name] for name in rows.CLAIM),
                # Without a row of the drive the comparison is NULL: not clean.
                sa.func.coalesce(clean, sa.false()).label("clean"),
                hosts.c.name.is_not(None).label("registered"),
            )
            .join(drives, drives.c.digest == _SLOTS.c.identity_digest, isouter=True)
            .join(hosts, hosts.c.name == _SLOTS.c.host, isouter=True)
            # Certified too: Placement has the slot back a moment before the record says available.
            .where(_SLOTS.c.state.in_([State.AVAILABLE.value, State.CERTIFIED.value]))
        )
        if slot is not None:
            query = query.where(_SLOTS.c.host == slot.host, _SLOTS.c.address == slot.address)
        with self._reading() as db:
            those = separately(db, query, _SLOTS.c.id)
            found = [rows.claim(row) for _id, row, _why in those if row is not None]
        return [claim for claim in found if claim is not None]

    def resource_classes(self) -> list[str]:
        """Those of the enrolled slots."""
        return sorted(self._distinct(_SLOTS.c.resource_class, sa.true()))

    def hosts_in_care(self) -> frozenset[str]:
        """Those that have an enrolled slot, rows that cannot be read included."""
        return frozenset(self._distinct(_SLOTS.c.host, _SLOTS.c.state != State.RETIRED.value))

    def _distinct(self, column: sa.Column[str], which: sa.ColumnElement[bool]) -> set[str]:
        """What can be read of a column's values."""
        query = sa.select(column).where(which).distinct()
        with self._reading() as db:
            rows = separately(db, query, _SLOTS.c.id)
            found = {row[column.name] for _id, row, _why in rows if row is not None}
        return {one for one in found if isinstance(one, str)}

    def transition(
        self,
        record: SlotRecord,
        event: Event,
        *,
        reason: str = "",
        detail: Mapping[str, JSON] = NO_DETAIL,
        changes: SlotChanges = NO_CHANGES,
        certificate: NewCertificate | None = None,
        nonce: NonceUse | None = None,
        code: HoldCode | None = None,
        by: Initiator | None = None,
    ) -> SlotRecord:
        """Moves the slot if it is still at ``record``'s state, generation and revision.

        In one transaction: the slot, exactly one line of history, what we know of the drive, the
        certificate (with ``certified``; with ``held`` one that says so, under which nothing goes
        out), and the nonce of the report where given. Holds are taken by :meth:`hold`, which has
        a ``code``. ``by`` is who decided, for the line of history.
        Raises :class:`ConflictError` when somebody else was quicker (also at the certificate
        chain or the nonce) and :class:`IllegalTransitionError` when the table has no such step.
        """
        state = lifecycle.target(record.state, event)
        _require(record, event, reason, certificate)
        now = self._clock()
        values = _case_columns(record, event, changes)
        if event in (Event.HELD, Event.RETIRED):
            values |= rows.next_hold_columns(None)  # whoever asked for it has it
        # What was wrong was so in the state that it leaves: what still is comes again.
        values |= {"alarm": ""} | rows.columns(changes)
        entered_at = _after_look(record.read_at, now)
        values |= {"state": state.value, "reason": storable(reason), "entered_at": entered_at}
        if record.read_at is not None and is_to_come(record.read_at, now):
            # Noted before our clock was set back, so it was before this step. Left as it is, the
            # new state would count as looked at until that time comes.
            values["read_at"] = now - timedelta.resolution
        # Of this hold or of none: nothing that the slot was held for before counts any more.
        values["hold_code"] = None if code is None else code.value
        if certificate is not None and event is Event.CERTIFIED:
            values["certificate"] = certificate.digest
        with self._writing() as db:
            # First: whoever was slower is refused before anything else is written.
            after = _swap(db, record, values)
            if event is Event.RETURNED:
                drives.require_returnable(db, record)
            _end_alarms(db, record, after, now)
            self._append(db, after, event, record.state, reason, detail, code, by)
            if nonce is not None:
                messages.spend(db, nonce, now)
            if certificate is not None:
                certificates.append(db, after, certificate, now)
            drives.after_transition(db, after, event, certificate, now)
            return after

    def hold(
        self,
        record: SlotRecord,
        why: HoldReason,
        *,
        detail: Mapping[str, JSON] = NO_DETAIL,
        changes: SlotChanges = NO_CHANGES,
        certificate: NewCertificate | None = None,
        nonce: NonceUse | None = None,
        by: Initiator | None = None,
    ) -> SlotRecord:
        """Holds the slot; raises as :meth:`transition`."""
        return self.transition(
            record,
            Event.HELD,
            reason=why.text,
            detail=detail,
            changes=changes,
            certificate=certificate,
            nonce=nonce,
            code=why.code,
            by=by,
        )

    def amend(
        self,
        record: SlotRecord,
        changes: SlotChanges,
        *,
        note: str = "",
        code: HoldCode | None = None,
        nonce: NonceUse | None = None,
        by: Initiator | None = None,
    ) -> SlotRecord:
        """Writes fields without a change of state, by the same compare-and-set.

        ``note`` makes a line of history, ``by`` with who decided; progress and looks need none.
        With a ``code`` it says what the slot would be held for, were it not held already.
        Raises :class:`ConflictError` when the record moved on, or the ``nonce`` is spent.
        """
        now = self._clock()
        values = _case_columns(record, None, changes) | rows.columns(changes)
        with self._writing() as db:
            after = _swap(db, record, values)
            _end_alarms(db, record, after, now)
            if note:
                self._append(db, after, None, record.state, note, NO_DETAIL, code, by)
            if nonce is not None:
                messages.spend(db, nonce, now)
            # A slot that learns its drive: seen, not used. What is known of the drive stands, and
            # an unknown one is dirty.
            if after.identity is not None and after.identity != record.identity:
                drives.note(db, after.identity, after.slot, dirty=False, reason=note, now=now)
            return after

    def _append(
        self,
        db: sa.Connection,
        after: SlotRecord,
        event: Event | None,
        source: State | None,
        reason: str,
        detail: Mapping[str, JSON],
        code: HoldCode | None = None,
        by: Initiator | None = None,
    ) -> None:
        _append(db, self._clock(), after, event, source, reason, detail, code, by)


def note(db: sa.Connection, slot: Slot, text: str, by: Initiator | None, now: datetime) -> None:
    """Within a transaction: a line in the history of a slot, where it is enrolled.

    Raises :class:`ConflictError` where somebody else writes to it in this moment.
    """
    record = _find(db, slot)
    if record is not None:
        # Nothing changes but the revision: each line of history has one of its own.
        after = _swap(db, record, {})
        _append(db, now, after, None, record.state, text, NO_DETAIL, None, by)


def _after_look(read_at: datetime | None, now: datetime) -> datetime:
    """When a state begins that is written ``now``: after the look before it, also where that was
    noted by a machine whose clock is a little ahead of ours. Else the state would count as looked
    at, and what it was free of until just now as somebody's doing."""
    if read_at is None or not now < read_at <= now + CLOCKS_APART:
        return now
    return read_at + timedelta.resolution


def _append(
    db: sa.Connection,
    now: datetime,
    after: SlotRecord,
    event: Event | None,
    source: State | None,
    reason: str,
    detail: Mapping[str, JSON],
    code: HoldCode | None,
    by: Initiator | None,
) -> None:
    db.execute(
        _NEW_LINE,
        {
            "slot_id": after.id,
            "revision": after.revision,
            "at": now,
            "event": None if event is None else event.value,
            "source": None if source is None else source.value,
            "target": after.state.value,
            "generation": after.generation,
            "reason": storable(reason),
            "hold_code": None if code is None else code.value,
            "detail": rows.detail_text(detail),
            **rows.initiator_columns(by),
        },
    )


def enter_again(db: sa.Connection, host: str, now: datetime) -> None:
    """Within a transaction: states of a host's slots that began in time to come begin now.

    So was our clock set back; the host's words of these states would count as older ones.
    """
    ahead = sa.and_(_SLOTS.c.host == host, _SLOTS.c.entered_at > now + CLOCKS_APART)
    # Asked first: nearly every hello finds none, and an UPDATE that fits no row locks too.
    if db.scalar(sa.select(sa.func.count()).where(ahead)):
        db.execute(sa.update(_SLOTS).where(ahead).values(entered_at=now))


def _require(
    record: SlotRecord, event: Event, reason: str, certificate: NewCertificate | None
) -> None:
    if event in lifecycle.NEEDS_REASON and not reason.strip():
        raise IllegalTransitionError(f"{record.slot}: expected a reason for {event}, found none")
    if event is Event.CERTIFIED and certificate is None:
        raise IllegalTransitionError(
            f"{record.slot}: expected a certificate with 'certified', found none"
        )
    if certificate is not None and event not in (Event.CERTIFIED, Event.HELD):
        raise IllegalTransitionError(
            f"{record.slot}: expected a certificate with 'certified' or 'held' and nowhere else, "
            f"found one with {event}"
        )
    if event is Event.RETURNED and record.certificate is None:
        raise IllegalTransitionError(
            f"{record.slot}: expected a certificate before its return, found none; hold the slot"
        )


def _case_columns(record: SlotRecord, event: Event | None, changes: SlotChanges) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if changes.new_case or event in lifecycle.NEW_CASE:
        generation = max(record.generation, changes.above) + 1
        values |= {**rows.EMPTY_CASE, **rows.NO_CERTIFICATE, "generation": generation}
    if event in lifecycle.VOIDS_CERTIFICATE:
        values |= rows.NO_CERTIFICATE
    return values


def _each(db: sa.Connection, query: sa.Select[Any]) -> list[SlotRecord | UnreadableSlot]:
    """Row by row: a damaged one is no other slot's. One without a name that can be read is left
    out; the log has its number."""
    found: list[SlotRecord | UnreadableSlot] = []
    for number, row, why in separately(db, query, _SLOTS.c.id):
        if row is not None:
            found.append(rows.slot_or_why(row))
            continue
        # The row cannot be fetched as a whole: its name alone, and then its provider, may be.
        named = sa.select(_SLOTS.c.host, _SLOTS.c.address).where(_SLOTS.c.id == number)
        for _number, name, _why in separately(db, named, _SLOTS.c.id):
            if name is not None:
                provider = sa.select(_SLOTS.c.provider).where(_SLOTS.c.id == number)
                shown = [r["provider"] for _, r, _ in separately(db, provider, _SLOTS.c.id) if r]
                place = name["host"], name["address"]
                found.append(UnreadableSlot(*place, next(iter(shown), ""), why))
    return found


def _find(db: sa.Connection, slot: Slot) -> SlotRecord | None:
    with told(str(slot)):
        row = db.execute(_OF_SLOT, {"of": slot.host, "at": slot.address}).mappings().first()
    return None if row is None else rows.slot_record(row)


def _read(db: sa.Connection, record_id: int) -> SlotRecord:
    with told(f"slot {record_id}"):
        row = db.execute(_OF_ID, {"one": record_id}).mappings().one()
    return rows.slot_record(row)


def _end_alarms(db: sa.Connection, before: SlotRecord, after: SlotRecord, now: datetime) -> None:
    """What people were called for and is so no more.

    The record has the worst trouble alone: behind another text the former may stand as before, so
    all are over when none is left.
    """
    codes = set(LASTING) if before.alarm and not after.alarm else set()
    if before.state is not after.state and before.state in alarms.CALLED_FOR:
        codes.add(alarms.CALLED_FOR[before.state])
    if codes:
        alarms.end(db, before.slot, codes, now)


def _swap(db: sa.Connection, record: SlotRecord, values: Mapping[str, Any]) -> SlotRecord:
    """The compare-and-set itself: one UPDATE that fits one row or none."""
    was = {
        "was_id": record.id,
        "was_state": record.state.value,
        "was_generation": record.generation,
        "was_revision": record.revision,
    }
    done = db.execute(_AS_IT_WAS, {**values, "revision": record.revision + 1, **was})
    if done.rowcount != 1:
        raise ConflictError(
            f"{record.slot}: expected it {record.state}, generation {record.generation}, "
            f"revision {record.revision}, found it changed since; re-read and decide again"
        )
    return _read(db, record.id)
