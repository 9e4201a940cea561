"""A report is believed when it is signed and fresh, and counts once; others are on record."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.condition import Condition, ExpectedCondition, FirmwareSlots
from eraser.protocol.identity import Slot
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.report import HELLO_TYPE, REPORT_TYPE, Hello, Outcome, Verdict
from eraser.protocol.ticket import RECEIPT_TYPE, LastOwner, TicketState
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey, verify
from quarantine.errors import RefusedError, UnavailableError, UnfinishedError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CERTIFICATE_TYPE as TYPE
from quarantine.evidence.chain import ledger
from quarantine.logs import OneLine
from quarantine.record.database import models
from quarantine.record.words.facts import Initiator, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from quarantine.rules.reports.check import Ruling
from tests.unit.quarantine.service.inbound.plane import (
    INCARNATION,
    WORN,
    Plane,
    certified,
    receipt_of,
    refused,
)
from tests.unit.quarantine.testimony import COUNTS, IDENTITY, PROFILE, REPORT, SLOT, VERIFICATION


def test_an_honest_report_becomes_a_certificate_and_a_look(plane: Plane) -> None:
    order = plane.ordered()
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    record = plane.record()
    assert record.state is State.CERTIFIED
    assert plane.looks.slots == [SLOT]
    stored = plane.store.last_certificate()
    assert stored is not None
    assert stored.digest == record.certificate
    assert stored.order_id == order.order_id
    raw = (plane.directory / f"{stored.digest}.json").read_bytes()
    assert (plane.directory / f"{stored.digest}.html").stat().st_size > 1000
    audit = ledger.audit([("file", raw)], [plane.controller.public])
    assert audit.intact
    assert audit.last == stored.digest
    # What it took is on record too; the host said more of it than our own clock saw.
    (took,) = plane.store.last_durations(IDENTITY.model, 2)
    assert (took.number, took.erase) == (stored.number, 0)


def test_a_placement_that_hangs_has_half_of_what_reports_take(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of reports come while it does, and drives wait for their certificates."""
    now, takes = [0.0], 0.3

    def hangs(slot: Slot) -> None:
        plane.looks.slots.append(slot)
        now[0] += takes
        raise UnavailableError("placement: no answer")

    monkeypatch.setattr(plane.looks, "look", hangs)
    plane.inbox.monotonic = lambda: now[0]
    for _ in range(2):
        plane.inbox.look(SLOT)
    assert len(plane.looks.slots) == 2, "one that is busy is asked again"
    plane.looks.slots.clear()
    now[0], takes = 0.0, 30.0
    for _ in range(100):
        plane.inbox.look(SLOT)
    assert now == [30.0]
    now[0] += 29
    plane.inbox.look(SLOT)
    assert len(plane.looks.slots) == 1
    now[0] += 1
    plane.inbox.look(SLOT)
    assert len(plane.looks.slots) == 2


def test_a_report_of_an_order_that_an_earlier_release_signed_is_held_for_nothing(
    plane: Plane,
) -> None:
    """It knew of no second reading: none was asked for, and none was made."""
    older = codec.plain(plane.ordered())
    del older["policy"]["verification"]["reread"]
    token = plane.signed(older, ORDER_TYPE, plane.controller)
    plane.store.amend(plane.record(), SlotChanges(order_token=token))
    once = replace(VERIFICATION, namespaces=(replace(COUNTS, reread=0),))
    decision = plane.inbox.report(plane.report(verification=once))
    assert decision.ruling is Ruling.CERTIFY, decision.reasons


def test_a_report_without_the_second_reading_that_was_asked_for_holds(plane: Plane) -> None:
    plane.ordered()
    once = replace(VERIFICATION, namespaces=(replace(COUNTS, reread=0),))
    decision = plane.inbox.report(plane.report(verification=once))
    assert decision.ruling is Ruling.HOLD
    assert "read again after another controller reset" in decision.reason


def test_it_names_who_approved_what_the_result_was_held_against(plane: Plane) -> None:
    """The very version that the order was made with, whatever was approved since."""
    order = plane.ordered()
    plane.store.put_policy(order.policy, Initiator("A. Approver"))
    plane.store.put_policy(replace(order.policy, allow_clear=True), Initiator("B. Later"))
    plane.store.put_profile(replace(PROFILE, firmware=("OTHER",)), Initiator("B. Later"))
    plane.inbox.report(plane.report())
    stored = plane.store.last_certificate()
    assert stored is not None
    signed = certificate.verify(stored.token, [plane.controller.public], "x")
    made = signed.certificate.validation
    assert made is not None
    assert (made.policy.approved_by, made.policy.version) == ("A. Approver", 1)
    assert (made.profile.approved_by, made.profile.version) == ("a person", 1)
    assert made.policy.digest == codec.digest(order.policy)
    assert made.policy.approved_at


def test_certificates_form_a_chain_over_slots(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    second = Slot("cmp1", "0000:02:00.0")
    identity = replace(IDENTITY, serial="PHLJ0000002")
    order = plane.ordered(second, identity)
    report = replace(
        plane.answer(),
        slot=second,
        identity=identity,
        order_id=order.order_id,
        nonce=order.nonce,
        generation=order.generation,
    )
    plane.inbox.report(plane.signed(report, REPORT_TYPE))
    documents = [(path.name, path.read_bytes()) for path in plane.directory.glob("*.json")]
    audit = ledger.audit(documents, [plane.controller.public])
    assert audit.intact
    assert audit.count == 2


def test_a_redelivered_report_is_accepted_exactly_once(plane: Plane) -> None:
    plane.ordered()
    token = plane.report()
    for _ in range(3):
        assert plane.inbox.report(token).ruling is Ruling.CERTIFY
    assert len(plane.store.certificates()) == 1
    assert [row.event for row in plane.store.history(SLOT)].count(Event.CERTIFIED) == 1
    assert plane.store.refusals() == []
    assert plane.looks.slots == [SLOT], "a host that starts says again what it ever said"
    # The case went on meanwhile: still the same answer.
    plane.store.transition(plane.record(), Event.RETURNED)
    assert plane.inbox.report(token).ruling is Ruling.CERTIFY
    assert plane.record().state is State.AVAILABLE


def test_a_crash_before_the_transaction_loses_nothing(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.ordered()
    token = plane.report()

    def dies(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("quarantine.record.slots.certificates.append", dies)
        with pytest.raises(KeyboardInterrupt):
            plane.inbox.report(token)
    assert plane.record().state is State.ERASING
    assert plane.store.nonce(plane.order().nonce) is None
    assert plane.inbox.report(token).ruling is Ruling.CERTIFY
    assert plane.record().state is State.CERTIFIED


def test_a_full_disk_does_not_lose_the_certificate(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    plane.directory.write_text("a file where the directory should be")
    plane.ordered()
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    assert plane.record().state is State.CERTIFIED
    assert "certificate export" in caplog.text


def test_placement_away_does_not_lose_the_certificate(plane: Plane) -> None:
    plane.ordered()
    plane.looks.broken = True
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    assert plane.record().state is State.CERTIFIED


def test_a_lost_race_is_decided_again(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    plane.ordered()
    real, races = plane.store.transition, []

    def races_once(record: SlotRecord, event: Event, **kwargs: Any) -> SlotRecord:
        if event is Event.CERTIFIED and not races:
            races.append(plane.store.amend(plane.record(), SlotChanges(detail="quicker")))
        return real(record, event, **kwargs)

    monkeypatch.setattr(plane.store, "transition", races_once)
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    assert races
    assert len(plane.store.certificates()) == 1


SPOILED: dict[str, tuple[Callable[[Plane], str], str]] = {
    "another host's key": (
        lambda p: p.signed(p.answer(), REPORT_TYPE, p.other_host),
        "signature",
    ),
    "the controller's key": (
        lambda p: p.signed(p.answer(), REPORT_TYPE, p.controller),
        "signature",
    ),
    "another type": (lambda p: p.signed(p.answer(), HELLO_TYPE), "type"),
    "a cut signature": (lambda p: p.report()[:-4], "report"),
    "no JWS": (lambda p: "{}", "three parts"),
    "an unknown host": (lambda p: p.report(slot=Slot("cmp9", SLOT.address)), "registered"),
    "a foreign host's slot": (
        lambda p: p.signed(p.answer(slot=Slot("cmp2", SLOT.address)), REPORT_TYPE),
        "signature",
    ),
    "a slot that nobody enrolled": (
        lambda p: p.report(slot=Slot("cmp1", "0000:09:00.0")),
        "enrolled",
    ),
    "another incarnation": (lambda p: p.report(incarnation="incarnation-00009"), "incarnation"),
    "an old generation": (lambda p: p.report(generation=p.order().generation - 1), "generation"),
    "a new generation": (lambda p: p.report(generation=p.order().generation + 1), "generation"),
    "another nonce": (lambda p: p.report(nonce="nonce-00000000009"), "nonce"),
    "another order": (lambda p: p.report(order_id="order-0000000009"), "order id"),
    "an unknown member": (
        lambda p: p.signed({**codec.plain(p.answer()), "extra": 1}, REPORT_TYPE),
        "extra",
    ),
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_spoiled_report_is_refused_and_recorded(plane: Plane, case: str) -> None:
    plane.ordered()
    spoil, words = SPOILED[case]
    assert words in refused(plane, spoil(plane))


def test_a_used_nonce_is_refused(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report(verdict=Verdict.UNKNOWN, fit=False))
    assert plane.record().state is State.HELD
    assert "nonce is used" in refused(plane, plane.report())


def test_a_report_that_a_new_case_overtook_is_no_lie(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """A person held the slot in mid-erase and released it before its host had ended."""
    caplog.set_level("INFO")
    plane.ordered()
    old = plane.report()
    record = plane.store.transition(plane.record(), Event.HELD, reason="a test")
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="a test")
    record = plane.store.transition(record, Event.CUSTODY_TAKEN)
    overtaken(plane, old)
    plane.dispatcher.order(record)
    overtaken(plane, old)
    assert plane.store.refusals() == []
    assert "ALARM" not in caplog.text
    assert "too late" in caplog.text
    ahead = plane.report(generation=plane.record().generation + 1)
    assert "generation" in refused(plane, ahead)
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY


def overtaken(plane: Plane, token: str) -> None:
    before = plane.record()
    assert plane.inbox.report(token).unchanged
    assert plane.record() == before
    assert plane.store.certificates() == []
    assert plane.looks.slots == []


def test_a_report_signed_before_the_host_lost_its_state_is_refused(plane: Plane) -> None:
    plane.ordered()
    old = plane.report()
    plane.store.register_host("cmp1", plane.host.public, "incarnation-00007", replace=True)
    assert "incarnation" in refused(plane, old)


def test_a_drive_that_is_erased_and_unfit_is_held_with_a_certificate(plane: Plane) -> None:
    plane.ordered()
    token = plane.report(**WORN, health=replace(REPORT.health, percentage_used=101))
    assert plane.inbox.report(token).ruling is Ruling.HOLD
    record, stored = plane.record(), plane.store.last_certificate()
    assert (record.state, record.certificate, record.ticket_token) == (State.HELD, None, None)
    assert stored is not None
    drive = plane.store.drive(IDENTITY.digest)
    assert drive is not None
    assert (drive.dirty, drive.certificate) == (True, None)
    signed = certificate.verify(stored.token, [plane.controller.public], "x")
    assert signed.certificate.withheld == ("erased, but not fit to be handed out", *WORN["reasons"])
    assert (plane.directory / f"{stored.digest}.html").exists()
    assert plane.inbox.report(token).ruling is Ruling.HOLD  # redelivered
    assert len(plane.store.certificates()) == 1
    # The next case hangs its certificate on this one.
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="a test")
    record = plane.store.transition(record, Event.CUSTODY_TAKEN)
    plane.dispatcher.order(record)
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    again = plane.store.last_certificate()
    assert again is not None
    assert again.previous == stored.digest
    assert plane.record().certificate == again.digest


def test_a_report_of_an_erase_that_a_person_held_is_noted_once(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """The host did as it was told. Another report on that order is refused as ever."""
    plane.ordered()
    token = plane.report()
    why = holds.because(HoldCode.BY_PERSON, "look at the bay first")
    held = plane.store.hold(plane.record(), why)
    for _ in range(2):
        plane.inbox.report(token)
    record = plane.record()
    assert (record.state, record.reason) == (State.HELD, "look at the bay first")
    assert plane.store.certificates() == []
    notes = [row for row in plane.store.history(SLOT) if row.revision > held.revision]
    assert [row.reason for row in notes] == [
        "its host ended the erase that was under way (completed, erased); released, the drive is "
        "erased again"
    ]
    assert not plane.store.refusals()
    assert "ALARM" not in caplog.text
    with pytest.raises(RefusedError, match="the nonce is used"):
        plane.inbox.report(plane.report(finished_at="2026-11-20T12:34:56Z"))
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="looked at")
    plane.dispatcher.order(plane.store.transition(record, Event.CUSTODY_TAKEN))
    with pytest.raises(RefusedError):
        plane.inbox.report(plane.report(nonce=held.nonce))
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY


def test_what_was_loaded_into_a_drive_since_its_certificate_holds_it(plane: Plane) -> None:
    """By identity, until a person approves the revision; a hold's certificate is no witness."""

    def images(*held: str) -> str:
        found = Condition(firmware=FirmwareSlots(1, 0, held))
        return plane.report(facts_after=replace(REPORT.facts_after, condition=found))

    def again() -> None:
        record = plane.store.transition(plane.record(), Event.RELEASED_BY_OPERATOR, reason="a test")
        plane.dispatcher.order(plane.store.transition(record, Event.CUSTODY_TAKEN))

    plane.ordered()
    assert plane.inbox.report(images("VDV10131", "OLDER")).ruling is Ruling.CERTIFY
    stored = plane.store.last_certificate()
    assert stored is not None
    assert certificate.installed(stored.token, "x") == ("VDV10131", "OLDER")
    plane.store.transition(plane.record(), Event.HELD, reason="a test")
    for _ in range(2):
        again()
        decision = plane.inbox.report(images("VDV10131", "EVIL"))
        assert "found 'EVIL': somebody loaded it" in decision.reason
        assert plane.record().state is State.HELD
        held = plane.store.last_certificate()
        assert held is not None
        signed = certificate.verify(held.token, [plane.controller.public], "x")
        assert "'EVIL'" in signed.certificate.withheld[0]
    known = replace(PROFILE, condition=ExpectedCondition(slot_firmware=("EVIL",)))
    plane.store.put_profile(known, Initiator("a person"))
    again()
    assert plane.inbox.report(images("VDV10131", "EVIL")).ruling is Ruling.CERTIFY


@pytest.mark.parametrize("damage", [False, True], ids=["newer", "damaged"])
def test_a_drive_is_not_lost_to_the_certificate_that_it_has(plane: Plane, damage: bool) -> None:
    """One of a newer release is read, as after a step back; one that cannot be read holds."""
    plane.ordered()
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    stored = plane.store.last_certificate()
    assert stored is not None
    payload = codec.parse(verify(stored.token, plane.controller.public, TYPE, "x"), "x")
    payload["drive"] |= {"firmware_slots": ["VDV10131"], "of_a_newer_release": 1}
    newer = plane.controller.sign(codec.canonical(payload), TYPE)
    digest = certificate.said_digest(newer)
    values = {"token": "x.y.z"} if damage else {"token": newer, "digest": digest}
    with plane.store._writing() as db:
        # A row of theirs names the digest, and SQLite would not have it changed.
        db.execute(sa.delete(models.testimonies))
        db.execute(sa.update(models.certificates).values(values))
        if not damage:
            db.execute(sa.update(models.drives).values(certificate=digest))
    record = plane.store.transition(plane.record(), Event.HELD, reason="a test")
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="a test")
    plane.dispatcher.order(plane.store.transition(record, Event.CUSTODY_TAKEN))
    decision = plane.inbox.report(plane.report())
    assert decision.ruling is (Ruling.HOLD if damage else Ruling.CERTIFY)
    assert ("certificate of the record's" in decision.reason) is damage


@pytest.mark.parametrize("verdict", [Verdict.ERASED, Verdict.NOT_ERASED])
def test_what_the_policys_table_retires_is_retired(plane: Plane, verdict: Verdict) -> None:
    plane.ordered()
    dying = replace(REPORT.health, critical_warning=8)
    token = plane.report(fit=False, verdict=verdict, reasons=("health",), health=dying)
    assert plane.inbox.report(token).ruling is Ruling.HOLD
    record = plane.record()
    assert record.state is State.RETIRED
    assert "media read only" in record.reason
    assert ("destroy it" in record.reason) is (verdict is not Verdict.ERASED)
    assert len(plane.store.certificates()) == (verdict is Verdict.ERASED)
    events = [row.event for row in plane.store.history(SLOT)]
    assert events[-2:] == [Event.HELD, Event.RETIRED]
    drive = plane.store.drive(IDENTITY.digest)
    assert drive is not None
    assert (drive.dirty, drive.retired) == (True, True)
    assert plane.inbox.report(token).ruling is Ruling.HOLD  # redelivered


def test_no_words_of_a_host_push_aside_that_its_drive_is_to_be_destroyed(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Lists and alarms show the first 300 characters, and the record keeps 4,000."""
    plane.ordered()
    words = "x" * 4000
    token = plane.report(fit=False, verdict=Verdict.NOT_ERASED, reasons=(words,), retire=(words,))
    assert plane.inbox.report(token).ruling is Ruling.HOLD
    assert plane.record().state is State.RETIRED
    assert "not proved to be erased: destroy it" in plane.record().reason[:300]
    called = [one.getMessage() for one in caplog.records if "ALARM retired" in one.getMessage()]
    assert ["destroy it" in one[:300] for one in called] == [True]


@pytest.mark.parametrize("erased", [True, False])
def test_people_hear_of_a_hold_whose_commit_was_not_answered(
    plane: Plane,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    erased: bool,
) -> None:
    """The report comes again, finds it done, and would say nothing."""
    plane.ordered()
    token = plane.report(**(WORN if erased else {"commands": ()}))
    real = plane.store.hold

    def unanswered(*words: Any, **more: Any) -> None:
        real(*words, **more)
        raise UnfinishedError("the database went away at the commit")

    with monkeypatch.context() as patched:
        patched.setattr(plane.store, "hold", unanswered)
        with pytest.raises(UnfinishedError):
            plane.inbox.report(token)
    assert plane.inbox.report(token).ruling is Ruling.HOLD
    assert plane.record().state is State.HELD
    assert len(plane.store.certificates()) == erased
    assert caplog.text.count(f"ALARM held {SLOT}: held: ") == 1


def test_people_hear_of_a_dying_drive_that_is_held_and_could_not_be_retired(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plane.ordered()
    real = plane.store.transition

    def away(record: SlotRecord, event: Event, **more: Any) -> SlotRecord:
        if event is Event.RETIRED:
            raise UnavailableError("the database is away")
        return real(record, event, **more)

    monkeypatch.setattr(plane.store, "transition", away)
    dying = replace(REPORT.health, critical_warning=8)
    token = plane.report(fit=False, reasons=("health",), health=dying)
    assert plane.inbox.report(token).ruling is Ruling.HOLD
    assert plane.inbox.report(token).ruling is Ruling.HOLD  # redelivered
    assert plane.record().state is State.HELD
    assert caplog.text.count(f"ALARM held {SLOT}: held: ") == 1


@pytest.mark.parametrize("fit", [True, False])
def test_the_files_of_a_certificate_whose_commit_was_not_answered_are_written(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, fit: bool
) -> None:
    """The report comes again, as it does where the worker was killed behind the commit."""
    plane.ordered()
    token = plane.report(**({} if fit else WORN))
    real = plane.store.transition

    def unanswered(*words: Any, **more: Any) -> None:
        real(*words, **more)
        raise UnfinishedError("the database went away at the commit")

    with monkeypatch.context() as patched:
        patched.setattr(plane.store, "transition", unanswered)
        with pytest.raises(UnfinishedError):
            plane.inbox.report(token)
    (stored,) = plane.store.certificates()
    assert not list(plane.directory.glob("*"))
    plane.inbox.report(token)
    names = {path.name.removeprefix(stored.digest) for path in plane.directory.iterdir()}
    assert names == {".json", ".html", ".order.jws", ".report.jws", ".host.jwk"}


def test_whom_the_gate_named_finds_the_certificate(plane: Plane) -> None:
    plane.ordered()
    owner = LastOwner("44444444-4444-4444-8444-44444444444A", "i-1", "then", "now")
    plane.inbox.report(plane.report(last_owner=owner))
    (found,) = plane.store.certificates(server=owner.domain.lower())
    assert (found.owner, found.server) == (owner.domain.lower(), None)
    plane2 = replace(owner, domain="no uuid")
    assert plane.store.certificates(server=plane2.domain) == []


def test_a_contradictory_report_holds(plane: Plane) -> None:
    plane.ordered()
    token = plane.report(commands=())
    assert plane.inbox.report(token).ruling is Ruling.HOLD
    record = plane.record()
    assert record.state is State.HELD
    assert "as sent" in record.reason
    assert plane.inbox.report(token).ruling is Ruling.HOLD  # redelivered: nothing new
    assert [row.event for row in plane.store.history(SLOT)].count(Event.HELD) == 1


def test_in_use_postpones_and_the_same_order_is_good_again(plane: Plane) -> None:
    first = plane.ordered()
    in_use = plane.report(
        outcome=Outcome.IN_USE,
        verdict=Verdict.UNKNOWN,
        fit=False,
        methods=(),
        reasons=("domain i-1 is defined",),
    )
    assert plane.inbox.report(in_use).ruling is Ruling.POSTPONE
    assert plane.record().state is State.QUARANTINED
    assert "domain i-1" in plane.record().reason
    assert plane.inbox.report(in_use).ruling is Ruling.POSTPONE  # redelivered
    assert plane.store.refusals() == []
    plane.dispatcher.order(plane.record())
    assert plane.order() == first
    assert plane.record().attempts == 2
    # Redelivered now, it says nothing about this try: the host may be erasing.
    assert plane.inbox.report(in_use).ruling is Ruling.POSTPONE
    assert plane.record().state is State.ERASING
    assert [row.event for row in plane.store.history(SLOT)].count(Event.POSTPONED) == 1
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY


def test_a_late_answer_to_an_order_called_overdue_counts(plane: Plane) -> None:
    plane.ordered()
    plane.store.transition(plane.record(), Event.POSTPONED, reason="overdue")
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    assert plane.record().state is State.CERTIFIED


def test_what_a_report_reads_does_not_grow_with_the_life_of_its_drive(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that calls each ticket void has its drive certified again and again, and its reports
    are long: a worker that reads them all is ended by the kernel, and comes back to the same."""

    def whole(**asked: object) -> list[object]:
        raise AssertionError(f"all certificates are read: {asked}")

    monkeypatch.setattr(plane.store, "certificates", whole)
    for life in range(3):
        if life:
            plane.store.transition(plane.record(), Event.RECALLED, reason="its ticket is void")
            plane.dispatcher.order(plane.record())
        else:
            plane.ordered()
        assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY
    newest, last = plane.store.newest_of(drive=IDENTITY.digest), plane.store.last_certificate()
    assert newest == last == plane.store.newest_of(slot=SLOT)
    assert plane.store.newest_of(drive="nobody's") is None


def test_senders_that_nobody_knows_are_one_subject_of_alarms(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever can push a message can make up a name in it, each time another one."""
    for number in range(64):
        made_up = Hello(f"nobody{number}", INCARNATION, 1, "1", (), ())
        with pytest.raises(RefusedError, match="registered"):
            plane.inbox.hello(plane.signed(made_up, HELLO_TYPE))
    subjects = [str(one.args[1]) for one in caplog.records if str(one.msg).startswith("ALARM")]
    assert subjects == ["unknown senders"] * 7


def test_what_is_logged_of_a_message_has_the_id_of_its_case(plane: Plane) -> None:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(OneLine("%(message)s"))
    ticket = certified(plane)
    token = plane.report()
    void = plane.signed(receipt_of(ticket, TicketState.VOID, "vanished"), RECEIPT_TYPE)
    logger = logging.getLogger("quarantine")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        plane.inbox.report(token)
        plane.inbox.receipt(void)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    lines = said.getvalue().splitlines()
    assert len(lines) >= 2
    assert [line for line in lines if not line.startswith(f"[{ticket.order_id}] ")] == []


def test_a_report_to_an_order_of_a_key_that_is_named_no_more_is_on_record(plane: Plane) -> None:
    """Rotated in mid-erase, without the former key being named: the order is void, which operators
    read where refusals are. It was in the log alone."""
    plane.ordered()
    told = plane.report()
    plane.inbox.believed = Believed.both(PrivateKey.generate().public)
    with pytest.raises(RefusedError, match="its drive is erased again"):
        plane.inbox.report(told)
    (refusal,) = plane.store.refusals()
    assert "stored order" in refusal.reason
    assert plane.record().state is State.ERASING
