"""The control plane's tables in the model: the same compare-and-set as the real ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Hello
from quarantine.errors import ConflictError, IllegalTransitionError
from quarantine.record import slots as table
from quarantine.record.database import rows
from quarantine.record.words import lifecycle
from quarantine.record.words.facts import (
    SWEEP,
    Approved,
    DriveRecord,
    GoodPass,
    HostRecord,
    Maintenance,
    NewCertificate,
    Refusal,
    SlotChanges,
    SlotRecord,
)
from quarantine.record.words.reasons import HoldReason
from quarantine.record.words.states import Custody, Event, State
from tests.model.glimpse import Glimpse
from tests.model.papers import (
    CLASS,
    HELLOS,
    LONGER_AGO,
    NOW,
    RECORDS,
    certificate,
    drive_of,
    identity,
    incarnation,
    instance,
    provider_uuid,
    slot,
)
from tests.model.seals import Key
from tests.model.world import GONE, NOWHERE, Known, Place, World
from tests.unit.quarantine.testimony import POLICY, PROFILE


class CrashedError(Exception):
    """The process ended after its last write."""


class Writes:
    """Counts what is durable; the process may end after any of it."""

    def __init__(self, last: int | None) -> None:
        self._last = last
        self.count = 0

    def done(self) -> None:
        self.count += 1
        if self.count == self._last:
            raise CrashedError


class Store:
    """The tables: compare-and-set, one transition one write, drives by identity."""

    def __init__(self, world: World, writes: Writes) -> None:
        self._writes = writes
        self.world = world
        self.records: dict[Slot, SlotRecord] = {
            slot(p): RECORDS[place.record]
            for p, place in enumerate(world.places)
            if place.record != NOWHERE
        }
        self.known: list[Known | None] = list(world.known)

    # What the decisions read

    def slot(self, place: Slot) -> SlotRecord | None:
        return self.records.get(place)

    def slots(
        self,
        *,
        host: str | None = None,
        states: Iterable[State] | None = None,
        identity: ControllerIdentity | None = None,
        server: str | None = None,
    ) -> list[SlotRecord]:
        # No set: what is hidden of a record would not be in it, and no error either.
        wanted = None if states is None else tuple(states)
        return [
            record
            for record in self.records.values()
            if host in (None, record.slot.host)
            and (wanted is None or record.state in wanted)
            and identity in (None, record.identity)
            and server in (None, record.consumer)
        ]

    def places(
        self, *, identity: ControllerIdentity | None = None, server: str | None = None
    ) -> frozenset[Slot]:
        return frozenset(each.slot for each in self.slots(identity=identity, server=server))

    def drive(self, digest: str) -> DriveRecord | None:
        for number, known in enumerate(self.known):
            if known is not None and identity(number).digest == digest:
                return DriveRecord(
                    digest=digest,
                    identity=identity(number),
                    slot=slot(known.seen),
                    dirty=known.dirty,
                    retired=False,
                    reason="",
                    changed_at=NOW,
                    certificate=_certificate(known.certificate),
                    certified_slot=None,
                    certified_at=None,
                    dirty_slot=None,
                    dirty_at=None,
                )
        return None

    def host(self, name: str) -> HostRecord | None:
        place = self.world.places[int(name[-1])]
        hello = None if place.hello == NOWHERE else HELLOS[place.hello]
        return HostRecord(
            name=name,
            key=Key.public,
            incarnation=incarnation(place.registered),
            sequence=0,
            hello=hello,
            registered_at=NOW,
            heard_at=None if hello is None else NOW if place.heard else LONGER_AGO,
        )

    def profile(self, name: str) -> Approved[Any]:
        return Approved(name, 1, "", PROFILE, "", NOW)

    def policy(self, name: str) -> None:
        return None

    def passes(self) -> list[GoodPass]:
        """The service sweeps: what is overdue did not wait for it alone."""
        return [GoodPass(SWEEP, NOW, 60.0)]

    def history(self, place: Slot, generation: int | None = None) -> list[Any]:
        return []

    def newest_history(self, _place: Slot, _limit: int) -> list[Any]:
        return []  # no person holds what is on offer

    def nonce(self, nonce: str) -> None:
        """A replayed report has to be refused by its ids alone here."""
        return None

    def record_refusal(self, *_: object) -> Refusal:
        return Refusal(0, "", "", "", "", "", 1, NOW, NOW)

    def host_seen(self, name: str, sequence: int, hello: Hello) -> HostRecord:
        p = int(name[-1])
        self.world = self.world.at(p, hello=HELLOS.number(hello), heard=True)
        found = self.host(name)
        assert found is not None
        return found

    # What they write

    def transition(
        self,
        record: SlotRecord,
        event: Event,
        *,
        reason: str = "",
        detail: Mapping[str, Any] | None = None,
        changes: SlotChanges = table.NO_CHANGES,
        certificate: NewCertificate | None = None,
        nonce: object = None,
        code: object = None,
        by: object = None,
    ) -> SlotRecord:
        state = lifecycle.target(record.state, event)
        if isinstance(record, Glimpse):
            return self._held_unseen(record, state, event)
        table._require(record, event, reason, certificate)
        if event is Event.RETURNED:
            self._require_returnable(record)
        values = table._case_columns(record, event, changes) | rows.columns(changes)
        values |= {"state": state, "reason": reason, "entered_at": NOW}
        if certificate is not None:
            values["certificate"] = certificate.digest
        after = self._swap(record, values, changes)
        self._drive_after(after, event, certificate)
        self._writes.done()
        return after

    def hold(self, record: SlotRecord, why: HoldReason, **named: Any) -> SlotRecord:
        # The code decides nothing: with it a state of the world would be many.
        return self.transition(record, Event.HELD, reason=why.text, **named)

    def amend(
        self,
        record: SlotRecord,
        changes: SlotChanges,
        *,
        note: str = "",
        code: object = None,
        nonce: object = None,
    ) -> SlotRecord:
        values = table._case_columns(record, None, changes) | rows.columns(changes)
        after = self._swap(record, values, changes)
        if after.identity is not None and after.identity != record.identity:
            self.note_drive(after.identity, after.slot, False, note)
        self._writes.done()
        return after

    def maintenances(self, _host: str | None = None) -> list[Maintenance]:
        return []

    def drives_seen_in(self, _host: str) -> int:
        return 0

    def note_drive(self, who: ControllerIdentity, place: Slot, dirty: bool, reason: str) -> None:
        number, p = drive_of(who), int(place.host[-1])
        known = self.known[number]
        if known is None:
            known = Known()
        if dirty:
            known = known._replace(dirty=True)
        self.known[number] = known._replace(seen=p)

    def _swap(self, record: SlotRecord, values: dict[str, Any], changes: SlotChanges) -> SlotRecord:
        if self.records.get(record.slot) != record:
            raise ConflictError(f"{record.slot}: changed")
        for derived in ("identity_digest", "model", "serial"):
            values.pop(derived, None)  # from the identity, for whoever asks the table
        ready = values.pop("custody_ready", record.custody_stage is Custody.HELD)
        state, custody = values.get("state", record.state), values.get("custody", record.custody)
        values["custody_stage"] = rows.custody_stage(state, custody, ready=ready)
        if "identity" in values:
            values["identity"] = changes.identity
        after = dataclasses.replace(record, **values, revision=record.revision + 1)
        self.records[record.slot] = after
        return after

    def _held_unseen(self, record: Glimpse, state: State, event: Event) -> Glimpse:
        """Of another host's slot only that it is held, and what becomes of its drive."""
        if event is not Event.HELD:
            raise AssertionError(f"{record.slot}: another host's word led to {event}")
        after = dataclasses.replace(record, state=state)
        self.records[record.slot] = after
        self._drive_after(after, event, None)
        self._writes.done()
        return after

    def _require_returnable(self, record: SlotRecord) -> None:
        known = None if record.identity is None else self.known[drive_of(record.identity)]
        if known is None or known.dirty or _certificate(known.certificate) != record.certificate:
            raise IllegalTransitionError(f"{record.slot}: the drive is not clean by this case")

    def _drive_after(
        self, record: SlotRecord, event: Event, certificate: NewCertificate | None
    ) -> None:
        if record.identity is None:
            return
        number, p = drive_of(record.identity), int(record.slot.host[-1])
        if event in lifecycle.DIRTIES_DRIVE or not self.known[number]:
            self.note_drive(record.identity, record.slot, True, event.value)
        if certificate is not None:
            # The place's older certificates are of other cases now.
            self.known = [
                known._replace(certificate=GONE) if known and known.certificate == p else known
                for known in self.known
            ]
            self.known[number] = Known(False, p, p)

    def result(self, world: World) -> World:
        """The world with what was written."""
        for p in range(len(world.places)):
            record = self.records.get(slot(p))
            world = world.at(p, record=NOWHERE if record is None else RECORDS.number(record))
        return world._replace(known=tuple(self.known))


def _certificate(place: int) -> str | None:
    return None if place == NOWHERE else certificate(place)


def held_elsewhere(number: int) -> int:
    """A slot's record after another host's word: that its drive was seen there."""
    store = Store(World((), (Place(record=number),), (None, None), 0), Writes(None))
    after = store.transition(RECORDS[number], Event.HELD, reason="seen elsewhere")
    return RECORDS.number(after)


def fresh_record(place: int, *, in_use: bool, generation: int = 0) -> SlotRecord:
    """As enrolment leaves it (``SlotRoom.enrol``)."""
    return SlotRecord(
        id=place + 1,
        slot=slot(place),
        provider=provider_uuid(place, "known"),
        resource_class=CLASS,
        state=State.IN_USE if in_use else State.RELEASED,
        generation=generation,
        revision=0,
        reason="",
        profile=PROFILE.name,
        policy=POLICY.name,
        identity=None,
        consumer=instance(place) if in_use else None,
        custody=None,
        custody_stage=Custody.NONE,
        order_id=None,
        nonce=None,
        order_token=None,
        ordered_at=None,
        heard_at=None,
        attempts=0,
        step=None,
        fraction=0.0,
        detail="",
        certificate=None,
        ticket_token=None,
        ticket_incarnation=None,
        ticket_at=None,
        ticket_ready=False,
        alarm="",
        provider_generation=None,
        offered_as=None,
        read_at=None,
        entered_at=NOW,
        created_at=NOW,
    )
