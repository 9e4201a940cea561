"""What every database behind the store must do: SQLite, PostgreSQL, MariaDB."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import Policy
from eraser.protocol.profile import NamespaceLayout, Profile
from eraser.protocol.report import Hello, SeenDrive, Step
from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import (
    BadInputError,
    ConflictError,
    IllegalTransitionError,
    StaleError,
    UnavailableError,
)
from quarantine.record import messages
from quarantine.record.database import models
from quarantine.record.database.engine import make_engine
from quarantine.record.pages import CampaignQuery, DriveQuery
from quarantine.record.store import Store
from quarantine.record.words.campaign_facts import CampaignState, CampaignStep
from quarantine.record.words.facts import (
    Initiator,
    NewCertificate,
    NextHold,
    NonceUse,
    SlotChanges,
    SlotRecord,
    Subject,
)
from quarantine.record.words.states import Custody, Event, State
from tests.unit.quarantine import store_racers
from tests.unit.quarantine.pages_suite import PagesSuite
from tests.unit.quarantine.store_racers import identity
from tests.unit.quarantine.totals_suite import TotalsSuite

SLOT = Slot("compute-1", "0000:01:00.0")
OTHER = Slot("compute-2", "0000:02:00.0")
DRIVE = identity("S1")
HOSTILE = "../../x<script>\0\x07\u00ff\u0130'; --"
ORDER = "order-0000000001"
NONCE = "nonce-0000000001"
INCARNATION = "incarnation-00000001"


def enrol(store: Store, slot: Slot = SLOT, *, in_use: bool = False) -> SlotRecord:
    return store.enrol(
        slot,
        provider="11111111-1111-1111-1111-111111111111",
        resource_class="CUSTOM_NVME_I1",
        in_use=in_use,
        profile="model-x",
        policy="purge",
        consumer="server-1" if in_use else None,
    )


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def next_certificate(store: Store, text: str = "one") -> NewCertificate:
    last = store.last_certificate()
    return NewCertificate(f"token {text}", digest_of(text), last.digest if last else "", "server-1")


def erasing(store: Store, slot: Slot = SLOT, drive: ControllerIdentity = DRIVE) -> SlotRecord:
    record = store.amend(enrol(store, slot), SlotChanges(identity=drive))
    record = store.transition(record, Event.CUSTODY_TAKEN, changes=SlotChanges(custody="ours"))
    return store.transition(
        record, Event.ORDERED, changes=SlotChanges(order_id=ORDER, nonce=NONCE, order_token="jws")
    )


def certified(
    store: Store, slot: Slot = SLOT, drive: ControllerIdentity = DRIVE, text: str = "one"
) -> SlotRecord:
    record = erasing(store, slot, drive)
    return store.transition(record, Event.CERTIFIED, certificate=next_certificate(store, text))


def current(store: Store, slot: Slot = SLOT) -> SlotRecord:
    record = store.slot(slot)
    assert record is not None
    return record


def use_nonce(store: Store, nonce: str, order_id: str, digest: str = "") -> bool:
    try:
        with store._writing() as db:
            now = datetime.now(UTC)
            messages.spend(db, NonceUse(nonce, order_id, digest, now), now)
    except ConflictError:
        return False
    return True


def hello(sequence: int, incarnation: str = INCARNATION) -> Hello:
    seen = (SeenDrive(SLOT.address, "nvme", DRIVE), SeenDrive(OTHER.address, "", None))
    return Hello("compute-1", incarnation, sequence, "0.1.0", seen, (ORDER,))


PROFILE = Profile("model-x", 1, 2, "Model", ("FW1",), (NamespaceLayout(1, 1000, 512, 0),))


class StoreSuite(TotalsSuite, PagesSuite):
    """Give it two fixtures: ``url``, a migrated record without rows; ``bare_url``, an empty one."""

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        store = Store.open(url)
        yield store
        store.close()

    # Enrolment

    def test_a_free_slot_enters_at_released_and_a_used_one_at_in_use(self, store: Store) -> None:
        free, used = enrol(store), enrol(store, OTHER, in_use=True)
        assert (free.state, free.generation, free.revision) == (State.RELEASED, 0, 1)
        assert (used.state, used.consumer) == (State.IN_USE, "server-1")
        assert store.slot(SLOT) == free
        assert store.slot(Slot("compute-3", "0000:01:00.0")) is None

    def test_an_enrolled_slot_is_not_enrolled_again(self, store: Store) -> None:
        before = enrol(store)
        with pytest.raises(ConflictError, match="not enrolled, found it released"):
            enrol(store, in_use=True)
        assert current(store) == before
        assert len(store.history(SLOT)) == 1

    def test_a_retired_slot_is_enrolled_anew_and_its_generation_goes_on(self, store: Store) -> None:
        record = store.transition(certified(store), Event.HELD, reason="smells")
        store.transition(record, Event.RETIRED, reason="pulled")
        again = enrol(store)
        assert (again.state, again.generation, again.id) == (State.RELEASED, 1, record.id)
        assert (again.identity, again.certificate, again.order_id) == (None, None, None)
        assert store.transition(again, Event.CUSTODY_TAKEN).generation == 2

    def test_hosts_whose_names_differ_in_case_are_two(self, store: Store) -> None:
        # MariaDB compares text without case unless it is told otherwise: one host's slot would
        # answer to the other's name.
        lower, upper = enrol(store), enrol(store, Slot("Compute-1", SLOT.address))
        assert (store.slot(SLOT), store.slot(Slot("Compute-1", SLOT.address))) == (lower, upper)
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        assert store.host("Compute-1") is None

    def test_slots_are_found_by_host_state_and_drive(self, store: Store) -> None:
        first, second = enrol(store), enrol(store, OTHER, in_use=True)
        first = store.amend(first, SlotChanges(identity=DRIVE))
        assert store.slots() == [first, second]
        assert store.slots(host="compute-2") == [second]
        assert store.slots(states=[State.RELEASED, State.HELD]) == [first]
        assert store.slots(states=[]) == []
        assert store.slots(identity=DRIVE) == [first]
        assert store.slots(identity=identity("S2")) == []

    def test_a_claim_rests_on_the_drives_own_certificate_and_a_registered_host(
        self, store: Store
    ) -> None:
        enrol(store, OTHER)
        record = certified(store)
        (claim,) = store.claims()
        assert (claim.provider, claim.slot, claim.state) == (record.provider, SLOT, record.state)
        assert (claim.custody_stage, claim.clean, claim.registered) == (
            Custody.RETURNING,
            True,
            False,
        )
        store.register_host(SLOT.host, PrivateKey.generate().public, INCARNATION)
        store.transition(record, Event.RETURNED)
        (claim,) = store.claims(SLOT)
        assert (claim.state, claim.clean, claim.registered) == (State.AVAILABLE, True, True)
        assert store.claims(OTHER) == []
        store.note_drive(DRIVE, OTHER, True, "seen elsewhere")
        assert [claim.clean for claim in store.claims()] == [False]
        assert store.resource_classes() == ["CUSTOM_NVME_I1"]

    def test_a_host_is_in_care_with_a_slot_that_is_not_retired(self, store: Store) -> None:
        assert store.hosts_in_care() == frozenset()
        first = enrol(store)
        enrol(store, Slot("compute-2", SLOT.address), in_use=True)
        assert store.hosts_in_care() == {SLOT.host, "compute-2"}
        store.transition(first, Event.RETIRED, reason="pulled")
        assert store.hosts_in_care() == {"compute-2"}

    # Compare-and-set

    @pytest.mark.parametrize("field", ["state", "generation", "revision"])
    def test_a_stale_look_changes_nothing(self, store: Store, field: str) -> None:
        record = enrol(store)
        stale = {"state": State.AVAILABLE, "generation": 7, "revision": 9}[field]
        seen = dataclasses.replace(record, **{field: stale})  # type: ignore[arg-type]
        with pytest.raises(ConflictError, match="re-read"):
            store.transition(seen, Event.HELD, reason="x")
        with pytest.raises(ConflictError, match="re-read"):
            store.amend(seen, SlotChanges(attempts=5), note="x")
        assert current(store) == record
        assert len(store.history(SLOT)) == 1

    def test_each_write_moves_the_revision_so_that_any_other_look_is_stale(
        self, store: Store
    ) -> None:
        record = enrol(store)
        amended = store.amend(record, SlotChanges(detail="looked"))
        assert amended.revision == record.revision + 1
        with pytest.raises(ConflictError):
            store.transition(record, Event.CUSTODY_TAKEN)

    @pytest.mark.parametrize("event", sorted(set(Event) - {Event.RELEASE_SEEN}))
    def test_what_the_table_does_not_have_is_not_done(self, store: Store, event: Event) -> None:
        record = enrol(store, in_use=True)
        with pytest.raises(IllegalTransitionError):
            store.transition(record, event, reason="x")
        assert current(store) == record
        assert len(store.history(SLOT)) == 1

    @pytest.mark.parametrize("event", [Event.HELD, Event.RETIRED])
    def test_a_step_that_needs_a_reason_is_not_done_without(
        self, store: Store, event: Event
    ) -> None:
        record = enrol(store)
        with pytest.raises(IllegalTransitionError, match="reason"):
            store.transition(record, event, reason=" ")
        assert store.transition(record, event, reason="seen smoke").reason == "seen smoke"

    # History

    def test_each_step_writes_one_line(self, store: Store) -> None:
        record = certified(store)
        record = store.transition(
            record, Event.RETURNED, detail={"seconds": 1.5, "who": ["a", None, True]}
        )
        lines = store.history(SLOT)
        assert [(line.event, line.source, line.target) for line in lines] == [
            (Event.ENROLLED_FREE, None, State.RELEASED),
            (Event.CUSTODY_TAKEN, State.RELEASED, State.QUARANTINED),
            (Event.ORDERED, State.QUARANTINED, State.ERASING),
            (Event.CERTIFIED, State.ERASING, State.CERTIFIED),
            (Event.RETURNED, State.CERTIFIED, State.AVAILABLE),
        ]
        assert [line.generation for line in lines] == [0, 1, 1, 1, 1]
        assert [line.seq for line in lines] == sorted({line.seq for line in lines})
        assert lines[-1].detail == {"seconds": 1.5, "who": ["a", None, True]}
        assert lines[-1].revision == record.revision
        assert all(line.at.utcoffset() == timedelta(0) for line in lines)
        assert store.history(OTHER) == []

    def test_progress_writes_no_line_and_a_note_writes_one(self, store: Store) -> None:
        record = enrol(store)
        record = store.amend(record, SlotChanges(step=Step.VERIFY, fraction=0.5, detail="half"))
        assert (record.step, record.fraction, record.detail) == (Step.VERIFY, 0.5, "half")
        assert len(store.history(SLOT)) == 1
        record = store.amend(record, SlotChanges(), note="looked at by hand")
        line = store.history(SLOT)[-1]
        assert (line.event, line.source, line.target) == (None, State.RELEASED, State.RELEASED)
        assert (line.reason, line.revision) == ("looked at by hand", record.revision)

    def test_a_new_state_tells_when_and_why_it_was_entered(self, url: str) -> None:
        times = [datetime(2026, 11, 20, 12, 0, n, 123456, tzinfo=UTC) for n in range(20)]
        store = Store.open(url, clock=iter(times).__next__)
        first = enrol(store)
        later = store.transition(first, Event.HELD, reason="why")
        assert first.entered_at == first.created_at == times[0]
        assert later.entered_at > first.entered_at
        assert later.created_at == first.created_at
        assert (later.reason, later.entered_at.microsecond) == ("why", 123456)
        store.close()

    # Fields

    def test_unset_leaves_a_field_and_none_clears_it(self, store: Store) -> None:
        zone = timezone(timedelta(hours=5))
        moment = datetime(2026, 11, 20, 17, 0, 0, 7, tzinfo=zone)
        changes = SlotChanges(
            provider="22222222-2222-2222-2222-222222222222",
            resource_class="RC",
            profile="p2",
            policy="q2",
            identity=DRIVE,
            consumer="server-9",
            custody="ours",
            custody_stage=Custody.HELD,
            order_id=ORDER,
            nonce=NONCE,
            order_token="j" * 200_000,
            ordered_at=moment,
            heard_at=moment,
            attempts=3,
            step=Step.ERASE,
            fraction=0.25,
            detail="d",
            ticket_token="t" * 9_000,
            ticket_incarnation="life",
            ticket_at=moment,
            ticket_ready=True,
            alarm="a" * 1000,
            provider_generation=12,
            offered_as="17 a b",
            read_at=moment,
            next_hold=NextHold("odd", Initiator("ada", "ops", "req-1")),
        )
        written = store.amend(enrol(store), changes)
        for field in dataclasses.fields(changes):
            if field.name not in ("new_case", "above"):
                assert getattr(written, field.name) == getattr(changes, field.name), field.name
        assert written.read_at is not None
        assert written.read_at.tzinfo is UTC
        same = store.amend(written, SlotChanges())
        assert dataclasses.replace(same, revision=written.revision) == written
        none = SlotChanges(custody=None, read_at=None, step=None, next_hold=None)
        cleared = store.amend(same, none)
        assert (cleared.custody, cleared.read_at, cleared.step) == (None, None, None)
        assert cleared.next_hold is None
        assert cleared.order_token == written.order_token

    @pytest.mark.parametrize("event", [Event.RELEASE_SEEN, Event.RECALLED, Event.HELD])
    def test_a_ticket_goes_with_its_certificate(self, store: Store, event: Event) -> None:
        record = certified(store)
        ticket = SlotChanges(ticket_token="t", ticket_incarnation="life", ticket_ready=True)
        record = store.amend(record, ticket)
        if event is Event.RELEASE_SEEN:
            record = store.transition(record, Event.RETURNED)
            assert record.ticket_ready
        changes = SlotChanges(new_case=event is Event.HELD)
        record = store.transition(record, event, reason="why", changes=changes)
        assert record.certificate is None
        assert (record.ticket_token, record.ticket_incarnation) == (None, None)
        assert not record.ticket_ready

    def test_an_alarm_stands_until_the_slot_moves(self, store: Store) -> None:
        record = store.amend(enrol(store), SlotChanges(alarm="x" * 2000))
        assert len(record.alarm) == 1000
        assert store.transition(record, Event.CUSTODY_TAKEN).alarm == ""

    def test_a_new_case_forgets_the_last_ones_order(self, store: Store) -> None:
        record = store.transition(certified(store), Event.RETURNED)
        record = store.transition(record, Event.RELEASE_SEEN)
        assert record.certificate is None
        record = store.transition(
            record, Event.CUSTODY_TAKEN, changes=SlotChanges(custody="second")
        )
        assert (record.generation, record.custody) == (2, "second")
        assert (record.order_id, record.nonce, record.order_token) == (None, None, None)
        assert (record.attempts, record.step, record.certificate) == (0, None, None)

    def test_a_hold_can_end_the_case_for_good(self, store: Store) -> None:
        record = erasing(store)
        kept = store.transition(record, Event.HELD, reason="burned again")
        assert (kept.generation, kept.order_id) == (1, ORDER)
        ended = store.amend(kept, SlotChanges(new_case=True), note="new case")
        assert (ended.generation, ended.order_id, ended.state) == (2, None, State.HELD)

    def test_a_hold_with_a_new_case_is_one_step(self, store: Store) -> None:
        held = store.transition(
            certified(store), Event.HELD, reason="burned again", changes=SlotChanges(new_case=True)
        )
        assert (held.generation, held.nonce, held.certificate) == (2, None, None)
        assert store.history(SLOT)[-1].generation == 2

    def test_what_a_drive_chose_is_kept_as_it_is(self, store: Store) -> None:
        drive = dataclasses.replace(DRIVE, serial=HOSTILE[:20], model=HOSTILE, subnqn="\0")
        record = store.amend(enrol(store), SlotChanges(identity=drive))
        assert record.identity == drive
        found = store.drive(drive.digest)
        assert found is not None
        assert found.identity == drive

    def test_reasons_that_quote_strangers_are_storable(self, store: Store) -> None:
        record = store.transition(enrol(store), Event.HELD, reason=HOSTILE + "\ud800" + "x" * 9999)
        assert "\0" not in record.reason
        assert record.reason.startswith("../../x<script>\\x00")
        assert len(record.reason) == 4000
        line = store.history(SLOT)[-1]
        assert line.reason == record.reason

    def test_the_history_of_one_case(self, store: Store) -> None:
        record = erasing(store)
        record = store.transition(record, Event.POSTPONED, reason="in use")
        later = store.amend(record, SlotChanges(new_case=True))
        store.transition(later, Event.ORDERED)
        assert {row.generation for row in store.history(SLOT)} > {1, 2}
        assert store.history(SLOT, 1)[-1].event is Event.POSTPONED
        assert [row.event for row in store.history(SLOT, 2)][-1] is Event.ORDERED
        for generation in (1, 2):
            assert {row.generation for row in store.history(SLOT, generation)} == {generation}

    # Certificates

    def test_certified_and_its_certificate_are_one(self, store: Store) -> None:
        record = erasing(store)
        with pytest.raises(IllegalTransitionError, match="certificate"):
            store.transition(record, Event.CERTIFIED)
        with pytest.raises(IllegalTransitionError, match="certificate"):
            store.transition(
                record, Event.POSTPONED, reason="x", certificate=next_certificate(store)
            )
        assert store.certificates() == []
        after = store.transition(record, Event.CERTIFIED, certificate=next_certificate(store))
        link = store.last_certificate()
        assert link is not None
        assert after.certificate == link.digest == digest_of("one")
        assert (link.number, link.previous, link.generation) == (1, "", 1)
        assert (link.slot, link.drive, link.order_id) == (SLOT, DRIVE.digest, ORDER)
        assert store.certificate(1) == store.certificate(link.digest) == link
        assert store.certificate(2) is None
        assert store.certificate("0" * 64) is None

    def test_only_a_known_drive_on_an_order_is_certified(self, store: Store) -> None:
        record = store.transition(enrol(store), Event.CUSTODY_TAKEN)
        record = store.transition(record, Event.ORDERED, changes=SlotChanges(order_id=ORDER))
        with pytest.raises(IllegalTransitionError, match="known drive"):
            store.transition(record, Event.CERTIFIED, certificate=next_certificate(store))
        assert current(store) == record

    @pytest.mark.parametrize("previous", ["", digest_of("elsewhere")])
    def test_a_chain_that_grew_takes_no_link_to_its_old_end(
        self, store: Store, previous: str
    ) -> None:
        certified(store, OTHER, identity("S2"), "first")
        record = erasing(store)
        lines = store.history(SLOT)
        spent = NonceUse(NONCE, ORDER, "", datetime.now(UTC))
        with pytest.raises(ConflictError, match="chain"):
            store.transition(
                record,
                Event.CERTIFIED,
                certificate=NewCertificate("t", digest_of("x"), previous),
                nonce=spent,
            )
        # All of it or nothing.
        assert current(store) == record
        assert store.history(SLOT) == lines
        assert store.nonce(NONCE) is None
        assert len(store.certificates()) == 1
        drive = store.drive(DRIVE.digest)
        assert drive is not None
        assert drive.dirty

    def test_a_key_that_was_replaced_certifies_nothing(self, store: Store) -> None:
        certified(store)
        told: list[tuple[int, str]] = []

        def make(position: int, digest: str, _token: str) -> str:
            told.append((position, digest))
            return "document"

        first = store.rotate("old", "new", make)
        assert told == [(1, digest_of("one"))]
        assert (first.number, store.rotations()) == (1, [first])
        record = erasing(store, OTHER, identity("S2"))
        of_old, of_new = (
            dataclasses.replace(next_certificate(store, "two"), key=key) for key in ("old", "new")
        )
        with pytest.raises(UnavailableError, match="expected the signing key new"):
            store.transition(record, Event.CERTIFIED, certificate=of_old)
        assert len(store.certificates()) == 1
        store.transition(record, Event.CERTIFIED, certificate=of_new)
        with pytest.raises(ConflictError, match="expected the key that signs, new, found old"):
            store.rotate("old", "third", make)
        assert store.rotate("new", "third", make).number == 2

    def test_certificates_are_found_by_slot_server_and_drive(self, store: Store) -> None:
        certified(store, SLOT, DRIVE, "a")
        certified(store, OTHER, identity("S2"), "b")
        one, two = store.certificates()
        assert (one.number, two.number, two.previous) == (1, 2, one.digest)
        assert store.certificates(slot=OTHER) == [two]
        assert store.certificates(drive=DRIVE.digest) == [one]
        assert store.certificates(server="server-1") == [one, two]
        assert store.certificates(server="nobody") == []

    def test_a_certificate_of_a_hold_gives_nothing_to_anybody(self, store: Store) -> None:
        record = erasing(store)
        held = store.transition(
            record, Event.HELD, reason="worn", certificate=next_certificate(store)
        )
        assert (held.state, held.certificate) == (State.HELD, None)
        (link,) = store.certificates()
        assert (link.slot, link.generation) == (SLOT, record.generation)
        drive = store.drive(DRIVE.digest)
        assert drive is not None
        assert (drive.dirty, drive.certificate) == (True, None)
        released = store.transition(held, Event.RELEASED_BY_OPERATOR, reason="x")
        store.transition(released, Event.CUSTODY_TAKEN)
        again = store.transition(
            current(store), Event.ORDERED, changes=SlotChanges(order_id=ORDER, nonce="n2")
        )
        after = store.transition(again, Event.CERTIFIED, certificate=next_certificate(store, "b"))
        assert after.certificate == digest_of("b")
        assert store.certificates()[1].previous == link.digest

    def test_a_certificate_is_found_by_whom_placement_or_the_gate_named(self, store: Store) -> None:
        record = erasing(store)
        new = dataclasses.replace(next_certificate(store), owner="server-2")
        store.transition(record, Event.CERTIFIED, certificate=new)
        (link,) = store.certificates()
        assert (link.server, link.owner) == ("server-1", "server-2")
        assert store.certificates(server="server-1") == store.certificates(server="server-2")
        assert store.certificates(server="server-3") == []

    def test_what_nova_says_of_a_migration_stands(self, store: Store) -> None:
        used = enrol(store, in_use=True)
        assert store.server_behind("server-1") == "server-1"
        for _ in range(2):
            store.note_move("server-1", "mover")
        assert (store.server_behind("server-1"), store.server_behind("mover")) == ("mover", "mover")
        assert store.slots(server="mover") == store.slots(server="server-1") == [used]
        assert store.places(server="mover") == {SLOT}
        assert store.slots(server="nobody") == []
        assert store.places(server="nobody") == frozenset()
        for odd in ("\0", "x" * 300, "\ud800"):
            assert store.server_behind(odd) == odd

    def test_lines_of_history_that_name_somebody(self, store: Store) -> None:
        enrol(store, OTHER)
        record = store.transition(erasing(store), Event.HELD, reason="50%_of ann's drive")
        store.transition(record, Event.RELEASED_BY_OPERATOR, reason="for bob")
        assert [row.reason for row in store.mentions("ann")] == ["50%_of ann's drive"]
        assert [row.slot for row in store.mentions("bob")] == [SLOT]
        assert len(store.mentions("50%_of")) == 1
        assert store.mentions("50__of") == [], "no pattern of the caller's"
        assert store.mentions("carol") == []

    # Drives

    def test_a_drive_is_dirty_until_a_certificate_and_after_a_claim(self, store: Store) -> None:
        def dirty() -> bool:
            found = store.drive(DRIVE.digest)
            assert found is not None
            return found.dirty

        record = erasing(store)
        assert dirty()
        record = store.transition(record, Event.CERTIFIED, certificate=next_certificate(store))
        assert not dirty()
        record = store.transition(record, Event.RETURNED)
        assert not dirty()
        store.transition(record, Event.CLAIM_SEEN, changes=SlotChanges(consumer="server-2"))
        assert dirty()
        found = store.drive(DRIVE.digest)
        assert found is not None
        assert found.reason == "claim_seen: server-2"
        assert (found.certificate, found.certified_slot) == (digest_of("one"), SLOT)
        assert store.drives(dirty=True) == [found]
        assert store.drives(dirty=False) == []
        assert store.drives() == [found]

    def test_a_dirty_drive_that_turns_up_elsewhere_is_still_dirty(self, store: Store) -> None:
        erasing(store)
        seen = store.note_drive(DRIVE, OTHER, False, "hello of compute-2")
        assert (seen.dirty, seen.slot, seen.dirty_slot) == (True, OTHER, SLOT)

    def test_a_drive_never_heard_of_is_dirty(self, store: Store) -> None:
        assert store.drive(DRIVE.digest) is None
        assert store.note_drive(DRIVE, SLOT, False, "hello").dirty

    def test_a_sighting_does_not_make_a_clean_drive_dirty(self, store: Store) -> None:
        certified(store)
        assert not store.note_drive(DRIVE, SLOT, False, "hello").dirty
        dirtied = store.note_drive(DRIVE, OTHER, True, "write counters moved")
        assert (dirtied.dirty, dirtied.reason) == (True, "write counters moved")

    def test_a_drive_that_got_dirty_after_its_certificate_is_not_returned(
        self, store: Store
    ) -> None:
        record = certified(store)
        store.note_drive(DRIVE, OTHER, True, "seen in another host")
        with pytest.raises(IllegalTransitionError, match="dirty"):
            store.transition(record, Event.RETURNED)
        assert current(store).state is State.CERTIFIED

    def test_who_returns_a_slot_that_moved_on_is_told_just_that(self, store: Store) -> None:
        record = certified(store)
        back = store.transition(record, Event.RETURNED)
        store.transition(back, Event.CLAIM_SEEN)
        with pytest.raises(ConflictError):
            store.transition(record, Event.RETURNED)

    def test_a_retired_drive_is_returned_nowhere(self, store: Store) -> None:
        held = store.transition(erasing(store), Event.HELD, reason="smoke")
        store.transition(held, Event.RETIRED, reason="smoke")
        record = certified(store, OTHER, DRIVE)
        with pytest.raises(IllegalTransitionError, match="retired"):
            store.transition(record, Event.RETURNED)

    def test_a_drive_certified_elsewhere_since_is_not_returned_here(self, store: Store) -> None:
        record = certified(store, SLOT, DRIVE, "a")
        certified(store, OTHER, DRIVE, "b")
        with pytest.raises(IllegalTransitionError, match="newer certificate"):
            store.transition(record, Event.RETURNED)

    def test_a_case_whose_certificate_was_voided_is_not_returned(self, store: Store) -> None:
        record = store.amend(certified(store), SlotChanges(new_case=True))
        with pytest.raises(IllegalTransitionError, match="certificate before its return"):
            store.transition(record, Event.RETURNED)

    # Messages

    def test_a_nonce_is_good_once(self, store: Store) -> None:
        assert use_nonce(store, NONCE, ORDER, "d1")
        assert not use_nonce(store, NONCE, ORDER, "d1")
        assert not use_nonce(store, NONCE, "order-0000000002", "d2")
        use = store.nonce(NONCE)
        assert use is not None
        assert (use.order_id, use.digest) == (ORDER, "d1")
        assert store.nonce("another-nonce-000") is None

    def test_a_spent_nonce_stops_the_whole_step(self, store: Store) -> None:
        record = erasing(store)
        use_nonce(store, NONCE, ORDER)
        use = NonceUse(NONCE, ORDER, "", datetime.now(UTC))
        with pytest.raises(ConflictError, match="spent"):
            store.transition(record, Event.HELD, reason="x", nonce=use)
        assert current(store) == record
        fresh = dataclasses.replace(use, nonce="nonce-0000000002", digest="d")
        store.transition(record, Event.HELD, reason="x", nonce=fresh)
        stored = store.nonce(fresh.nonce)
        assert stored is not None
        assert stored.digest == "d"

    def test_a_value_too_long_for_its_column_is_bad_input_or_kept_whole(self, store: Store) -> None:
        # SQLite keeps what it gets; a server that has limits must say so, not cut.
        long = "n" * 300
        try:
            assert use_nonce(store, long, ORDER)
        except BadInputError:
            assert use_nonce(store, NONCE, ORDER)
        else:
            assert not use_nonce(store, long, ORDER)

    def test_strangers_with_ever_new_words_do_not_fill_the_disk(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(messages, "MAX_REFUSALS", 3)
        for number in range(10):
            store.record_refusal("report", f"x{number}", "bad", f"{number}", HOSTILE)
        store.record_refusal("report", "x0", "bad", "0", HOSTILE)  # a known one still counts
        rows = store.refusals()
        assert [row.count for row in rows] == [2, 1, 1, 7]
        assert (rows[-1].reason, rows[-1].excerpt) == (messages.FURTHER, "")

    def test_one_host_with_ever_new_words_hides_nothing_of_the_others(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(messages, "MAX_OF_HOST", 3)
        for name in ("compute-1", "compute-2"):
            store.register_host(name, PrivateKey.generate().public, INCARNATION)
        for number in range(10):
            store.record_refusal("report", "compute-1", "bad", f"{number}", "")
            store.record_refusal("report", f"made up {number}", "bad", "", "")
        store.record_refusal("report", "compute-2", "bad", "", "")
        rows = store.refusals()
        assert [row.count for row in rows if row.host == "compute-1"] == [1, 1, 1, 7]
        assert [(r.host, r.count) for r in rows if r.reason == messages.FURTHER][1:] == [("", 7)]
        assert [row.reason for row in store.refusals(host="compute-2")] == ["bad"]
        assert len(rows) == 4 + 4 + 1

    def test_refusals_of_the_past_do_not_hide_those_of_now(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A host that was installed anew has one for each minute until a person sees to it."""
        monkeypatch.setattr(messages, "MAX_OF_HOST", 3)
        now = datetime.now(UTC)
        monkeypatch.setattr(store, "_clock", lambda: now)
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        for number in range(10):
            store.record_refusal("hello", "compute-1", "installed anew", f"{number}", "")
        totals = store.refusal_totals()
        now += timedelta(days=messages.KEPT_DAYS, seconds=1)
        for digest in ("one", "other", "other"):
            store.record_refusal("report", "compute-1", "no such order", digest, "")
        rows = store.refusals(host="compute-1")
        assert [row.digest for row in rows] == ["", "one", "other"]
        assert {**totals, "report": 3} == store.refusal_totals()

    def test_refused_messages_hide_no_drive_of_their_host(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """People hear of each by how often it was met, the first time for sure."""
        monkeypatch.setattr(messages, "MAX_OF_HOST", 4)
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        for number in range(10):
            store.record_refusal("hello", "compute-1", "installed anew", f"{number}", "")
        for slot in range(4):
            assert store.record_refusal("drive", "compute-1", f"{slot}", "", "").count == 1

    def test_a_refusal_is_kept_and_its_repetition_is_counted(self, store: Store) -> None:
        first = store.record_refusal("report", HOSTILE, "bad signature", "d" * 64, HOSTILE * 99)
        again = store.record_refusal("report", HOSTILE, "bad signature", "d" * 64, HOSTILE)
        store.record_refusal("report", "compute-1", "old generation", "e" * 64, "")
        assert (first.count, again.count, again.id) == (1, 2, first.id)
        assert len(again.excerpt) == 500
        assert [refusal.count for refusal in store.refusals()] == [2, 1]
        assert [refusal.reason for refusal in store.refusals(host="compute-1")] == [
            "old generation"
        ]

    # Hosts

    def test_a_host_is_registered_once(self, store: Store) -> None:
        key, other = PrivateKey.generate().public, PrivateKey.generate().public
        record = store.register_host("compute-1", key, INCARNATION)
        assert (record.key, record.sequence, record.hello) == (key, 0, None)
        assert store.register_host("compute-1", key, INCARNATION) == record
        with pytest.raises(ConflictError, match="replace it on purpose"):
            store.register_host("compute-1", other, INCARNATION)
        with pytest.raises(ConflictError, match="replace it on purpose"):
            store.register_host("compute-1", key, "incarnation-00000002")
        with pytest.raises(ConflictError, match="key of its own"):
            store.register_host("compute-2", key, INCARNATION)
        with pytest.raises(BadInputError, match="host name"):
            store.register_host("../x", other, INCARNATION)
        assert store.hosts() == [record]

    def test_a_replaced_host_starts_from_nothing(self, store: Store) -> None:
        key, other = PrivateKey.generate().public, PrivateKey.generate().public
        store.register_host("compute-1", key, INCARNATION)
        store.host_seen("compute-1", 9, hello(9))
        record = store.register_host("compute-1", other, "incarnation-00000002", replace=True)
        assert (record.key, record.incarnation) == (other, "incarnation-00000002")
        assert (record.sequence, record.hello, record.heard_at) == (0, None, None)
        assert store.remove_host("compute-1")
        assert not store.remove_host("compute-1")
        assert store.host("compute-1") is None

    def test_a_hello_is_after_the_steps_before_it_though_our_clock_was_set_back(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else it would speak of the guest before: what it says of a running one is passed over."""
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        store.register_host("compute-2", PrivateKey.generate().public, INCARNATION)
        entered = enrol(store).entered_at
        back = entered - timedelta(minutes=30)
        monkeypatch.setattr(store, "_clock", lambda: back)
        # Another host's hello says nothing of the slot.
        store.host_seen("compute-2", 1, dataclasses.replace(hello(1), host="compute-2"))
        with pytest.raises(ConflictError):
            store.host_seen("compute-1", 1, hello(1, "incarnation-00000002"))
        assert current(store).entered_at == entered
        seen = store.host_seen("compute-1", 1, hello(1))
        assert seen.heard_at == current(store).entered_at == back

    def test_a_hello_is_of_before_the_steps_after_it_though_our_clock_was_set_back(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else each drive that is given back would lack its ticket in a hello of before it."""
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        record = enrol(store)
        moment = record.entered_at
        monkeypatch.setattr(store, "_clock", lambda: moment)
        for number in (1, 2, 3):
            moment = record.entered_at - timedelta(minutes=30) + timedelta(minutes=number)
            heard = store.host_seen("compute-1", number, hello(number)).heard_at
        moment += timedelta(seconds=30)
        after = store.transition(current(store), Event.HELD, reason="a step")
        assert heard is not None
        assert heard < after.entered_at == moment

    def test_a_step_of_another_process_whose_clock_is_a_little_ahead_stays_as_it_is(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        record = enrol(store)
        monkeypatch.setattr(store, "_clock", lambda: record.entered_at - timedelta(seconds=50))
        store.host_seen("compute-1", 1, hello(1))
        assert current(store) == record

    def test_only_a_newer_hello_of_the_same_incarnation_counts(self, store: Store) -> None:
        store.register_host("compute-1", PrivateKey.generate().public, INCARNATION)
        seen = store.host_seen("compute-1", 2, hello(2))
        assert (seen.sequence, seen.hello) == (2, hello(2))
        assert seen.heard_at is not None
        for name, number, incarnation in (
            ("compute-1", 2, INCARNATION),
            ("compute-1", 1, INCARNATION),
            ("compute-1", 3, "incarnation-00000002"),
            ("compute-9", 3, INCARNATION),
        ):
            with pytest.raises(ConflictError, match="newer"):
                store.host_seen(name, number, hello(number, incarnation))
        assert store.host("compute-1") == seen

    def test_a_host_says_the_same_again_only_where_nothing_else_was_written(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = PrivateKey.generate().public
        store.register_host("compute-1", key, INCARNATION)
        record = enrol(store)
        slots = [(record.id, record.revision)]
        first = store.host_seen("compute-1", 2, hello(2))
        assert store.heard_again(hello(3), key, 2, slots)
        again = store.host("compute-1")
        assert again is not None
        assert (again.sequence, again.hello) == (3, hello(2))
        assert again.heard_at is not None
        assert first.heard_at is not None
        assert again.heard_at >= first.heard_at
        other = PrivateKey.generate().public
        for message, whose, before, those in (
            (hello(3), key, 3, slots),
            (hello(2), key, 3, slots),
            (hello(4), key, 2, slots),
            (hello(4), other, 3, slots),
            (hello(4, "incarnation-00000002"), key, 3, slots),
            (dataclasses.replace(hello(4), host="compute-9"), key, 3, []),
            (hello(4), key, 3, []),
            (hello(4), key, 3, [*slots, (record.id + 1, 1)]),
            (hello(4), key, 3, [(record.id, record.revision + 1)]),
        ):
            assert not store.heard_again(message, whose, before, those)
        monkeypatch.setattr(store, "_clock", lambda: record.entered_at - timedelta(seconds=1))
        assert not store.heard_again(hello(4), key, 3, slots)
        assert store.host("compute-1") == again

    # Profiles and policies

    def test_documents_are_approved_by_somebody_and_kept_by_version(self, store: Store) -> None:
        with pytest.raises(BadInputError, match="person"):
            store.put_profile(PROFILE, Initiator(" "))
        assert store.profile("model-x") is None
        first = store.put_profile(PROFILE, Initiator("Ada"))
        assert (first.content, first.version, first.approved_by) == (PROFILE, 1, "Ada")
        assert store.put_profile(PROFILE, Initiator("Bob")) == first
        changed = dataclasses.replace(PROFILE, firmware=("FW1", "FW2"))
        bob = Initiator("Bob", "ops", "req-7")
        second = store.put_profile(changed, bob, reason="the firmware of May")
        assert (second.content, second.version) == (changed, 2)
        assert (second.project, second.request) == ("ops", "req-7")
        assert second.reason == "the firmware of May"
        assert store.profile("model-x") == second
        assert [vars(one) for one in store.profiles()] == [{**vars(second), "damaged": ()}]
        assert store.policies() == []

    def test_pages_of_documents(self, store: Store) -> None:
        names = [f"model-{letter}" for letter in "abc"]
        for name in reversed(names):
            for firmware in ("FW1", "FW2"):
                named = dataclasses.replace(PROFILE, name=name, firmware=(firmware,))
                store.put_profile(named, Initiator("Ada"))
        store.put_policy(Policy(name="model-d"), Initiator("Ada"))
        page = store.profiles(limit=2)
        assert [(one.name, one.version) for one in page] == [(name, 2) for name in names[:2]]
        assert [one.name for one in store.profiles(limit=2, after=names[1])] == names[2:]
        assert [one.name for one in store.profiles()] == names

    def test_a_policy_and_a_profile_of_one_name_are_two(self, store: Store) -> None:
        policy = store.put_policy(Policy(name="model-x", allow_clear=True), Initiator("Ada"))
        store.put_profile(PROFILE, Initiator("Ada"))
        assert store.policy("model-x") == policy
        assert [vars(one) for one in store.policies()] == [{**vars(policy), "damaged": ()}]
        assert policy.content.allow_clear

    # Schema

    def test_eight_processes_may_make_the_database_at_once(self, bare_url: str) -> None:
        revisions = store_racers.run(store_racers.migrate, bare_url)
        assert len(set(revisions)) == 1
        store = Store.open(bare_url)
        assert len(store.hosts()) == store_racers.PROCESSES
        store.close()

    def test_migrations_make_what_the_models_say(self, store: Store, url: str) -> None:
        engine = make_engine(url)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, models.metadata) == []
        engine.dispose()

    def test_an_empty_database_is_named_and_migrating_twice_is_once(self, bare_url: str) -> None:
        store = Store.open(bare_url)
        with pytest.raises(UnavailableError, match="db upgrade"):
            store.require_schema()
        with pytest.raises(UnavailableError, match="db upgrade"):
            store.slots()
        assert store.migrate() == store.migrate()
        store.require_schema()
        enrol(store)
        store.migrate()
        assert len(store.slots()) == 1
        store.close()

    def test_a_newer_schema_is_refused_and_left_alone(self, bare_url: str) -> None:
        store = Store.open(bare_url)
        store.migrate()
        enrol(store)
        engine = make_engine(bare_url)
        with engine.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
        for refused in (store.migrate, store.require_schema):
            with pytest.raises(UnavailableError, match="9999 of a newer release"):
                refused()
        with engine.begin() as connection:
            found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        engine.dispose()
        store.close()
        assert found == "9999"

    # Several processes

    def test_eight_processes_lose_no_compare_and_set(self, store: Store, url: str) -> None:
        for number in range(store_racers.ROUNDS):
            store_racers.enrol(store, store_racers.slot(number))
        before = current(store, store_racers.slot(0))
        store_racers.run(store_racers.count_up, url)
        after = current(store, store_racers.slot(0))
        writes = store_racers.PROCESSES * store_racers.ROUNDS
        assert after.attempts == writes
        assert after.revision == before.revision + writes
        lines = [line.reason for line in store.history(after.slot) if line.event is None]
        assert len(lines) == len(set(lines)) == writes

        won = store_racers.run(store_racers.take_custody, url)
        assert sorted(n for numbers in won for n in numbers) == list(range(store_racers.ROUNDS))
        for number in range(store_racers.ROUNDS):
            record = current(store, store_racers.slot(number))
            taken = [e for e in store.history(record.slot) if e.event is Event.CUSTODY_TAKEN]
            assert (record.generation, len(taken)) == (1, 1)

    def test_eight_processes_write_one_chain(self, store: Store, url: str) -> None:
        for number in range(store_racers.PROCESSES):
            store_racers.enrol(store, store_racers.slot(number))
        assert store_racers.run(store_racers.certify, url) == [3] * store_racers.PROCESSES
        links = store.certificates()
        assert [link.number for link in links] == list(range(1, 3 * store_racers.PROCESSES + 1))
        assert [link.previous for link in links] == ["", *(link.digest for link in links[:-1])]

    # What people do with hosts, drives and many slots at once

    def test_a_maintenance_is_put_found_and_over(self, store: Store) -> None:
        certified(store)
        until, by = store._clock() + timedelta(hours=1), Initiator("ada")
        word = store.put_maintenance(
            Subject.of(SLOT), until=until, reason="x\0", by=by, behind=(0,)
        )
        assert (word.version, word.until, word.reason) == (1, until, "x\\x00")
        assert store.maintenances(SLOT.host) == store.maintenances() == [word]
        assert store.maintenance_page(limit=3, after=Subject("a\0", "")) == [word]
        assert store.history(SLOT)[-1].by == by
        with pytest.raises(StaleError):
            store.put_maintenance(Subject.of(SLOT), until=until, reason="x", by=by, behind=(0,))
        store.put_maintenance(Subject.of(SLOT), until=None, reason="x", by=by)
        assert store.maintenances() == []

    def test_a_drive_is_found_by_its_names(self, store: Store) -> None:
        record = erasing(store)
        paper = dataclasses.replace(next_certificate(store), firmware="FW1\0")
        store.transition(record, Event.CERTIFIED, certificate=paper)
        (line,) = store.drive_page(DriveQuery(firmware="FW1\0"), limit=3, after="\0")
        assert (line.digest, line.serial, line.dirty) == (DRIVE.digest, DRIVE.serial, False)
        assert store.drive_page(DriveQuery(serial="FW1"), limit=3) == []
        assert [one.host for one in store.drive_slots(line.digest, limit=2)] == [SLOT.host]
        assert [one.drive for one in store.drive_certificates(line.digest, limit=2)] == [
            DRIVE.digest
        ]

    def test_a_campaign_is_begun_once_and_one_works_on_it(self, store: Store) -> None:
        certified(store)
        by, later = Initiator("ada"), store._clock() + timedelta(days=1)
        query = CampaignQuery(model=DRIVE.model, certified_before=later)
        (place,) = store.campaign_places(query)
        assert place.identity_digest == DRIVE.digest
        words: dict[str, Any] = {"query": "{}", "reason": "r", "keep": 0.5, "by": by}
        begun = store.begin_campaign("c", **words, slots=[place[1:4]])
        assert store.begin_campaign("c", **words, slots=[]) == begun
        (one,), unread = store.campaign_slots("c", limit=2, open_only=True)
        assert not unread
        taken = dataclasses.replace(one, step=CampaignStep.ERASING, was_free=True)
        store.write_campaign_slot(one, taken)
        with pytest.raises(ConflictError):
            store.write_campaign_slot(one, taken)
        assert list(store.taken_from_the_pool("c").values()) == [1]
        assert store.taken_from_the_pool() == store.taken_from_the_pool("c")
        assert store.taken_from_the_pool("another") == {}
        assert store.campaign_counts("c") == {"erasing": 1}
        assert store.is_campaign_open("c")
        until = store.lease_campaign("c", 60)
        assert until is not None
        assert store.lease_campaign("c", 60) is None
        store.unlease_campaign("c", until - timedelta(seconds=1))  # who was too slow
        assert store.lease_campaign("c", 60) is None
        store.unlease_campaign("c", until)
        assert store.lease_campaign("c", 60) is not None
        paused = store.set_campaign("c", CampaignState.PAUSED, (1,), reason="x", by=by)
        assert (paused.version, store.open_campaigns()) == (2, ["c"])
        assert [act.by for act in store.campaign_acts("c")] == [by, by]
        assert store.campaign_list(limit=2) == [paused]
