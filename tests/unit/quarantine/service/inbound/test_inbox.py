"""What hosts say: believed when signed and fresh, refused and recorded otherwise, once only."""

from __future__ import annotations

import io
import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

from eraser.agent.hoststate import CONTROLLER_FILE, HostState, OrderRefusedError, keygen
from eraser.agent.runners import request_of
from eraser.protocol import codec
from eraser.protocol.condition import Condition, ExpectedCondition, FirmwareSlots
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    MAX_GENERATION,
    PROGRESS_TYPE,
    REPORT_TYPE,
    AcceptedOrder,
    EraseReport,
    Hello,
    Outcome,
    Progress,
    SeenDrive,
    Step,
    Verdict,
)
from eraser.protocol.ticket import (
    MAX_ALLOWANCES,
    RECEIPT_TYPE,
    TICKET_TYPE,
    AllowanceUsed,
    Defence,
    DefenceSeen,
    DefenceStanding,
    GateTestimony,
    LastOwner,
    Ticket,
    TicketReceipt,
    TicketSeen,
    TicketState,
)
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey, verify
from quarantine.cloud.custody import CustodyPlacement
from quarantine.doors import utc_now
from quarantine.errors import BadInputError, ConflictError, RefusedError, UnavailableError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CERTIFICATE_TYPE as TYPE
from quarantine.evidence.chain import ledger
from quarantine.evidence.sections import Issuer
from quarantine.logs import OneLine
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.facts import (
    HistoryRow,
    HostRecord,
    Initiator,
    SlotChanges,
    SlotRecord,
)
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from quarantine.rules.reports.check import Ruling
from quarantine.service.executor import Executor
from quarantine.service.inbound.messages import NOTES, Inbox
from quarantine.service.issue import drive_inventory
from quarantine.service.issue.dispatch import LEAD, Dispatcher
from quarantine.service.issue.registrar import Registrar
from quarantine.service.issue.tickets import Tickets
from tests.lab.record import migrated_file
from tests.unit.quarantine.testimony import (
    COUNTS,
    IDENTITY,
    PROFILE,
    REPORT,
    SLOT,
    VERIFICATION,
)

INCARNATION = "incarnation-00001"


@dataclass
class Posted:
    """A broker that can be away."""

    tokens: list[tuple[str, str]] = field(default_factory=list)
    away: bool = False

    def __call__(self, host: str, token: str) -> None:
        if self.away:
            raise UnavailableError("broker: away")
        self.tokens.append((host, token))


@dataclass
class Looks:
    """A reconciler that only notes what it was asked."""

    slots: list[Slot] = field(default_factory=list)
    bells: list[tuple[str, str | None]] = field(default_factory=list)
    broken: bool = False

    def look(self, slot: Slot) -> None:
        self.slots.append(slot)
        if self.broken:
            raise UnavailableError("placement: away")

    def ring(self, host: str, address: str | None = None) -> tuple[()]:
        self.bells.append((host, address))
        return ()


@dataclass
class Plane:
    """A control plane without Placement or broker, and two hosts' keys."""

    store: Store
    controller: PrivateKey
    host: PrivateKey
    other_host: PrivateKey
    posted: Posted
    looks: Looks
    inbox: Inbox
    dispatcher: Dispatcher
    posted_tickets: Posted
    tickets: Tickets
    directory: Path

    def record(self, slot: Slot = SLOT) -> SlotRecord:
        found = self.store.slot(slot)
        assert found is not None
        return found

    def enrol(
        self, slot: Slot = SLOT, identity: ControllerIdentity | None = IDENTITY
    ) -> SlotRecord:
        record = self.store.enrol(
            slot,
            provider=secrets.token_hex(16),
            resource_class="CUSTOM_NVME",
            in_use=False,
            profile=PROFILE.name,
            policy="purge",
        )
        if identity is not None:
            record = self.store.amend(record, SlotChanges(identity=identity))
        return self.store.transition(record, Event.CUSTODY_TAKEN)

    def ordered(self, slot: Slot = SLOT, identity: ControllerIdentity = IDENTITY) -> EraseOrder:
        self.dispatcher.order(self.enrol(slot, identity))
        return self.order(slot)

    def order(self, slot: Slot = SLOT) -> EraseOrder:
        token = self.record(slot).order_token
        assert token is not None
        payload = verify(token, self.controller.public, ORDER_TYPE, "order")
        return codec.load(EraseOrder, payload, "order")

    def answer(self, **changes: Any) -> EraseReport:
        order = self.order()
        report = replace(
            REPORT,
            order_id=order.order_id,
            nonce=order.nonce,
            generation=order.generation,
            incarnation=order.incarnation,
        )
        return replace(report, **changes)

    def signed(self, message: object, typ: str, key: PrivateKey | None = None) -> str:
        return (key or self.host).sign(codec.canonical(message), typ)

    def report(self, **changes: Any) -> str:
        return self.signed(self.answer(**changes), REPORT_TYPE)

    def progress(self, sequence: int, step: Step, fraction: float = 0.5) -> Progress:
        order = self.order()
        return Progress(
            order.order_id, SLOT, order.generation, INCARNATION, sequence, step, fraction, "text"
        )


def over(store: Store, controller: PrivateKey, host: PrivateKey, directory: Path) -> Plane:
    """A control plane over a record, with the key of one of its hosts."""
    posted, posted_tickets, looks = Posted(), Posted(), Looks()
    registrar = Registrar(store, controller, Issuer("Example Cloud"), directory)
    return Plane(
        store=store,
        controller=controller,
        host=host,
        other_host=PrivateKey.generate(),
        posted=posted,
        looks=looks,
        inbox=Inbox(store, Believed.both(controller.public), registrar, looks),
        dispatcher=Dispatcher(store, controller, posted),
        posted_tickets=posted_tickets,
        tickets=Tickets(store, controller, posted_tickets),
        directory=directory,
    )


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    store = Store.open(migrated_file(tmp_path / "record.db"))
    made = over(store, PrivateKey.generate(), PrivateKey.generate(), tmp_path / "certificates")
    store.register_host("cmp1", made.host.public, INCARNATION)
    store.register_host("cmp2", made.other_host.public, "incarnation-00002")
    store.put_profile(PROFILE, Initiator("a person"))
    yield made
    store.close()


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


def refused(plane: Plane, token: str) -> str:
    before = plane.record()
    certificates = len(plane.store.certificates())
    with pytest.raises(RefusedError) as caught:
        plane.inbox.report(token)
    assert plane.record() == before
    assert len(plane.store.certificates()) == certificates
    refusals = plane.store.refusals()
    assert refusals
    assert refusals[-1].kind == "report"
    return str(caught.value)


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


def test_a_report_of_an_earlier_case_is_refused(plane: Plane) -> None:
    plane.ordered()
    old = plane.report()
    record = plane.store.transition(plane.record(), Event.HELD, reason="a test")
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="a test")
    record = plane.store.transition(record, Event.CUSTODY_TAKEN)
    assert "no order" in refused(plane, old)
    plane.dispatcher.order(record)
    assert "generation" in refused(plane, old)
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY


def test_a_report_signed_before_the_host_lost_its_state_is_refused(plane: Plane) -> None:
    plane.ordered()
    old = plane.report()
    plane.store.register_host("cmp1", plane.host.public, "incarnation-00007", replace=True)
    assert "incarnation" in refused(plane, old)


WORN = {"fit": False, "reasons": ("health: expected at most 100 %",)}


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


def test_progress_is_shown_and_moves_to_verifying(plane: Plane) -> None:
    plane.ordered()

    def send(sequence: int, step: Step, fraction: float = 0.5) -> SlotRecord:
        progress = plane.progress(sequence, step, fraction)
        plane.inbox.progress(plane.signed(progress, PROGRESS_TYPE))
        return plane.record()

    assert (send(1, Step.ERASE).step, plane.record().fraction) == (Step.ERASE, 0.5)
    assert plane.record().state is State.ERASING
    assert send(2, Step.VERIFY).state is State.VERIFYING
    assert send(1, Step.ERASE).step is Step.VERIFY  # overtaken
    assert send(3, Step.VERIFY, 7.0).fraction == 1.0
    plane.inbox.report(plane.report())
    assert send(4, Step.VERIFY).state is State.CERTIFIED
    assert plane.store.refusals() == []


def test_progress_of_another_key_is_refused(plane: Plane) -> None:
    plane.ordered()
    token = plane.signed(plane.progress(1, Step.VERIFY), PROGRESS_TYPE, plane.other_host)
    with pytest.raises(RefusedError):
        plane.inbox.progress(token)
    assert plane.record().state is State.ERASING
    assert [refusal.kind for refusal in plane.store.refusals()] == ["progress"]


def hello(plane: Plane, sequence: int, drives: dict[str, ControllerIdentity | None]) -> None:
    seen = tuple(SeenDrive(address, "nvme", identity) for address, identity in drives.items())
    message = Hello("cmp1", INCARNATION, sequence, "0.1.0", seen, ())
    plane.inbox.hello(plane.signed(message, HELLO_TYPE))


def test_a_slot_learns_its_drive_from_the_hello_and_is_looked_at(plane: Plane) -> None:
    waiting = plane.dispatcher.order(plane.enrol(identity=None))
    assert waiting.state is State.QUARANTINED
    assert "hello" in waiting.detail
    assert plane.posted.tokens == []
    hello(plane, 1, {SLOT.address: IDENTITY})
    assert plane.record().identity == IDENTITY
    assert plane.looks.slots == [SLOT]
    assert plane.dispatcher.order(plane.record()).state is State.ERASING


def test_an_order_says_of_a_slow_model_what_its_certificates_say(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [("cmp2", 700.0), ("cmp3", 800.0), ("cmp3", 90000.0)]
    monkeypatch.setattr(plane.store, "last_erases", lambda *_: slow)
    order = plane.ordered()
    assert order.stuck == 0, "a host of a former release says nothing, and takes the order"
    message = Hello("cmp1", INCARNATION, 1, "0.1.0", (), (), reads_stuck=True)
    plane.inbox.hello(plane.signed(message, HELLO_TYPE))
    other = plane.ordered(Slot("cmp1", "0000:42:00.0"), replace(IDENTITY, serial="S2"))
    assert other.stuck == 1400
    assert request_of(other).stuck == 1400
    assert plane.order() == order, "an order that is out stays as it is"


@pytest.mark.parametrize("counts", [False, True], ids=["former release", "counts looks"])
def test_a_case_that_came_back_in_use_is_asked_for_by_another_look(
    plane: Plane, counts: bool
) -> None:
    """Or whoever repeats on the broker what we sent once would have the drive erased."""
    message = Hello("cmp1", INCARNATION, 1, "0.2.0", (), (), counts_looks=counts)
    plane.inbox.hello(plane.signed(message, HELLO_TYPE))
    first = plane.ordered()
    plane.dispatcher.order(plane.record())  # not heard of: the same bytes once more
    assert len(set(plane.posted.tokens)) == 1
    for came_back in (1, 2):
        in_use = plane.report(
            outcome=Outcome.IN_USE,
            verdict=Verdict.UNKNOWN,
            fit=False,
            methods=(),
            reasons=(f"in use, try {came_back}",),
        )
        assert plane.inbox.report(in_use).ruling is Ruling.POSTPONE
        plane.dispatcher.order(plane.record())
        assert plane.order() == replace(first, look=came_back + 1 if counts else 0)
    assert len(set(plane.posted.tokens)) == (3 if counts else 1)
    assert first.look == counts
    assert plane.inbox.report(plane.report()).ruling is Ruling.CERTIFY


@pytest.mark.parametrize("taken", [False, True], ids=["never taken", "taken"])
def test_a_host_set_back_to_a_former_release_gets_an_order_that_it_can_read(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    monkeypatch.setattr(plane.store, "last_erases", lambda *_: [("cmp2", 700.0), ("cmp3", 800.0)])
    new = Hello("cmp1", INCARNATION, 1, "0.2.0", (), (), reads_stuck=True)
    plane.inbox.hello(plane.signed(new, HELLO_TYPE))
    first = plane.ordered()
    assert first.stuck > 0
    accepted = AcceptedOrder(SLOT.address, first.order_id, first.generation)
    back = Hello("cmp1", INCARNATION, 2, "0.1.0", (), (), accepted=(accepted,) if taken else ())
    plane.inbox.hello(plane.signed(back, HELLO_TYPE))
    plane.dispatcher.order(plane.record())
    after = plane.order()
    if taken:
        assert after == first, "it has the case: nothing is begun twice"
    else:
        assert (after.stuck, after.generation) == (0, first.generation)
        assert after.order_id != first.order_id


@pytest.mark.parametrize(
    ("drive", "word"),
    [
        (SeenDrive(SLOT.address, "nvme", IDENTITY, group=("0000:84:00.0",)), "0000:84:00.0"),
        (SeenDrive(SLOT.address, "nvme", IDENTITY, system=True), "runs from"),
    ],
)
def test_what_enrolment_would_have_refused_is_held_at_the_first_hello(
    plane: Plane, drive: SeenDrive, word: str
) -> None:
    """A slot may be enrolled before its host has said anything of it."""
    plane.enrol(identity=None)
    message = Hello("cmp1", INCARNATION, 1, "0.1.0", (drive,), ())
    plane.inbox.hello(plane.signed(message, HELLO_TYPE))
    record = plane.record()
    assert (record.state, record.identity) == (State.HELD, None)
    assert word in record.reason


def test_a_slot_enrolled_after_the_hello_learns_its_drive_too(plane: Plane) -> None:
    hello(plane, 1, {SLOT.address: IDENTITY})
    assert plane.dispatcher.order(plane.enrol(identity=None)).state is State.ERASING
    assert plane.order().identity == IDENTITY


@pytest.mark.parametrize("sequence", [0, 1])
def test_an_old_hello_changes_nothing(plane: Plane, sequence: int) -> None:
    hello(plane, 1, {})
    plane.enrol(identity=None)
    hello(plane, sequence, {SLOT.address: IDENTITY})
    assert plane.record().identity is None


def test_a_host_that_goes_on_from_its_past_is_no_silent_one(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Its state directory was restored from a backup, or another machine has a copy of it: for as
    long as that is old nothing is heard of it, and its log shows nothing wrong."""
    now = [0.0]
    plane.inbox = replace(plane.inbox, monotonic=lambda: now[0])
    hello(plane, 500, {})
    for number in (7, 8, 9, 10, 499, 3, 500):
        hello(plane, number, {})
    assert "ALARM" not in caplog.text, "a broker that was restored delivers a backlog again"
    for number in (20, 21):
        hello(plane, number, {})
        now[0] += 60.0
        hello(plane, 501 + number, {})  # the other machine's
    with pytest.raises(RefusedError, match="a backup's, or two machines"):
        hello(plane, 22, {})
    assert caplog.text.count("ALARM message-refused host cmp1") == 1


def test_a_host_that_was_installed_anew_does_not_hide_all_other_alarms(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so each minute, until somebody registers it again."""
    plane.ordered()
    for number in range(100):
        message = Hello("cmp1", "incarnation-00009", number, "1", (), ())
        with pytest.raises(RefusedError):
            plane.inbox.hello(plane.signed(message, HELLO_TYPE))
    assert caplog.text.count("ALARM") == 7
    assert "ALARM message-refused host cmp1: hello refused (64 times)" in caplog.text
    with pytest.raises(RefusedError):
        plane.inbox.report(plane.report(nonce="another-nonce-0000"))
    assert caplog.text.count("ALARM") == 8
    with pytest.raises(RefusedError):
        plane.inbox.hello(
            plane.signed(
                Hello("cmp2", "incarnation-00009", 1, "1", (), ()), HELLO_TYPE, plane.other_host
            )
        )
    assert caplog.text.count("ALARM") == 9


def test_a_hello_of_another_incarnation_is_refused(plane: Plane) -> None:
    message = Hello("cmp1", "incarnation-00009", 1, "0.1.0", (), ())
    with pytest.raises(RefusedError, match="register it again"):
        plane.inbox.hello(plane.signed(message, HELLO_TYPE))
    assert [refusal.kind for refusal in plane.store.refusals()] == ["hello"]


def test_a_changed_drive_holds_the_slot_naming_both(plane: Plane) -> None:
    plane.ordered()
    hello(plane, 1, {SLOT.address: replace(IDENTITY, serial="SWAPPED")})
    record = plane.record()
    assert record.state is State.HELD
    assert IDENTITY.serial in record.reason
    assert "SWAPPED" in record.reason
    assert "waits for a report" in refused(plane, plane.report())


def test_a_changed_drive_is_learned_once_a_person_accepted_it(plane: Plane) -> None:
    other = replace(IDENTITY, serial="SWAPPED")
    plane.ordered()
    hello(plane, 1, {SLOT.address: other})
    record = plane.store.amend(plane.record(), SlotChanges(identity=None))
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="exchanged")
    record = plane.store.transition(record, Event.CUSTODY_TAKEN)
    assert plane.dispatcher.order(record).state is State.ERASING
    assert plane.order().identity == other


def told_since(plane: Plane, held: SlotRecord) -> list[HistoryRow]:
    """What a held slot's history has since, while it is held as it was."""
    record = plane.record()
    for name in ("state", "reason", "hold_code", "entered_at", "identity", "generation"):
        assert getattr(record, name) == getattr(held, name), name
    return [row for row in plane.store.history(SLOT) if row.revision > held.revision]


@pytest.mark.parametrize("code", [HoldCode.BY_PERSON, HoldCode.LOCKED])
def test_another_drive_in_a_held_slot_stands_in_its_history_once(
    plane: Plane, code: HoldCode, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is called: whoever holds a slot may do so to change its drive."""
    other, third = replace(IDENTITY, serial="SWAPPED"), replace(IDENTITY, serial="AGAIN")
    plane.ordered()
    held = plane.store.hold(plane.record(), holds.because(code, "odd"))
    for number, drive in enumerate((other, other, IDENTITY, other, third, third), 1):
        hello(plane, number, {SLOT.address: drive})
    first, second = told_since(plane, held)
    assert (first.became, first.hold_code) == (None, HoldCode.ANOTHER_DRIVE)
    assert IDENTITY.serial in first.reason
    assert "SWAPPED" in first.reason
    assert "AGAIN" in second.reason
    assert "ALARM" not in caplog.text
    plane.store.transition(plane.record(), Event.RELEASED_BY_OPERATOR, reason="settled")
    hello(plane, 7, {SLOT.address: third})
    record = plane.record()
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.ANOTHER_DRIVE)
    assert "AGAIN" in record.reason


def test_a_second_hold_tells_of_the_same_drive_again(plane: Plane) -> None:
    """Its reader would have to look for it behind the end of the first one."""
    other = {SLOT.address: replace(IDENTITY, serial="SWAPPED")}
    plane.ordered()
    why = holds.because(HoldCode.BY_PERSON, "odd")
    held = plane.store.hold(plane.record(), why)
    hello(plane, 1, other)
    assert len(told_since(plane, held)) == 1
    record = plane.store.transition(plane.record(), Event.RELEASED_BY_OPERATOR, reason="settled")
    held = plane.store.hold(record, why)
    hello(plane, 2, other)
    assert len(told_since(plane, held)) == 1


def test_what_a_slot_is_held_for_is_not_told_again(plane: Plane) -> None:
    plane.ordered()
    hello(plane, 1, {SLOT.address: replace(IDENTITY, serial="SWAPPED")})
    held = plane.record()
    assert held.hold_code == HoldCode.ANOTHER_DRIVE
    hello(plane, 2, {SLOT.address: replace(IDENTITY, serial="SWAPPED")})
    assert told_since(plane, held) == []


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({SLOT.address: replace(IDENTITY, serial=" ")}, HoldCode.NO_SERIAL),
        ({SLOT.address: IDENTITY, "0000:02:00.0": IDENTITY}, HoldCode.SERIAL_TWICE),
    ],
)
def test_what_cannot_be_told_apart_in_a_held_slot_stands_in_its_history(
    plane: Plane, named: dict[str, ControllerIdentity], code: HoldCode
) -> None:
    plane.ordered()
    held = plane.store.hold(plane.record(), holds.because(HoldCode.BY_PERSON, "odd"))
    for number in (1, 2):
        hello(plane, number, named)
    assert [row.hold_code for row in told_since(plane, held)] == [code]


def test_a_host_that_names_ever_new_drives_does_not_fill_the_history_of_a_held_slot(
    plane: Plane,
) -> None:
    plane.ordered()
    held = plane.store.hold(plane.record(), holds.because(HoldCode.BY_PERSON, "odd"))
    for number in range(1, 2 * drive_inventory.TOLD + 1):
        hello(plane, number, {SLOT.address: replace(IDENTITY, serial=f"made up {number}")})
    assert len(told_since(plane, held)) == drive_inventory.TOLD


def test_a_tenants_slot_is_left_alone_with_an_alarm(plane: Plane) -> None:
    record = plane.store.enrol(
        SLOT, provider="p", resource_class="C", in_use=True, profile="x", policy="purge"
    )
    plane.store.amend(record, SlotChanges(identity=IDENTITY))
    hello(plane, 1, {SLOT.address: replace(IDENTITY, serial="SWAPPED")})
    assert plane.record().state is State.IN_USE
    assert [refusal.kind for refusal in plane.store.refusals()] == ["drive"]


def test_an_unreadable_drive_is_no_change(plane: Plane) -> None:
    plane.ordered()
    hello(plane, 1, {SLOT.address: None})
    assert plane.record().state is State.ERASING


def test_one_drive_in_two_slots_holds_both(plane: Plane) -> None:
    second = Slot("cmp1", "0000:02:00.0")
    plane.enrol(identity=None)
    plane.enrol(second, identity=None)
    hello(plane, 1, {SLOT.address: IDENTITY, second.address: IDENTITY})
    assert plane.record().state is State.HELD
    assert plane.record(second).state is State.HELD
    assert "two drives of this host" in plane.record().reason


def test_one_drive_on_two_hosts_holds_both(plane: Plane) -> None:
    elsewhere = Slot("cmp2", "0000:05:00.0")
    plane.enrol(elsewhere)
    plane.enrol(identity=None)
    hello(plane, 1, {SLOT.address: IDENTITY})
    assert plane.record().state is State.HELD
    assert str(elsewhere) in plane.record().reason
    assert plane.record(elsewhere).state is State.HELD
    assert str(SLOT) in plane.record(elsewhere).reason


def test_a_known_drive_seen_where_nobody_enrolled_holds_its_slot(plane: Plane) -> None:
    elsewhere = Slot("cmp2", "0000:05:00.0")
    plane.enrol(elsewhere)
    hello(plane, 1, {"0000:07:00.0": IDENTITY})
    assert plane.record(elsewhere).state is State.HELD
    drive = plane.store.drive(IDENTITY.digest)
    assert drive is not None
    assert drive.slot == Slot("cmp1", "0000:07:00.0")


def test_one_lying_host_does_not_hold_every_drive_of_the_cloud(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive_inventory, "ACCUSATIONS", 2)
    victims = {
        Slot("cmp2", f"0000:{n:02x}:00.0"): replace(IDENTITY, serial=f"{n}") for n in range(6)
    }
    for slot, identity in victims.items():
        plane.enrol(slot, identity)
    # All at once, and then one by one, at a place that costs the liar nothing.
    hello(plane, 1, {f"0000:{n:02x}:00.0": i for n, i in enumerate(victims.values())})
    for number, identity in enumerate(victims.values()):
        hello(plane, 2 + number, {"0000:07:00.0": identity})
    states = [plane.record(slot).state for slot in victims]
    assert states.count(State.HELD) == 2
    (refusal,) = plane.store.refusals()
    assert (refusal.host, refusal.kind) == ("cmp1", "drive")
    # Of its own slots its word holds as many as it likes.
    mine = [
        plane.enrol(Slot("cmp1", f"0000:1{n}:00.0"), replace(IDENTITY, serial=f"m{n}"))
        for n in range(4)
    ]
    hello(plane, 20, {record.slot.address: IDENTITY for record in mine})
    assert all(plane.record(record.slot).state is State.HELD for record in mine)


def test_one_lying_host_does_not_fill_the_record_with_drives(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(drive_inventory, "NOTED", 6)
    for number in range(5):
        made_up = {
            f"0000:{n + 1:02x}:00.0": replace(IDENTITY, serial=f"{number}-{n}") for n in range(4)
        }
        hello(plane, number + 1, made_up)
    assert len(plane.store.drives()) == 6
    (refusal,) = plane.store.refusals()
    assert (refusal.host, refusal.kind) == ("cmp1", "drive")
    assert refusal.count == 4
    assert caplog.text.count("ALARM") == 3, "at the first, second and fourth time"
    # Of a drive that is known it still tells where it is, and what is enrolled is learned.
    elsewhere = Slot("cmp2", "0000:05:00.0")
    plane.enrol(elsewhere)
    plane.enrol(SLOT, identity=None)
    other = replace(IDENTITY, serial="another")
    hello(plane, 9, {"0000:07:00.0": IDENTITY, SLOT.address: other})
    assert plane.record(elsewhere).state is State.HELD
    assert plane.record(SLOT).identity == other


def test_a_retired_drive_is_held_wherever_it_turns_up(plane: Plane) -> None:
    old = Slot("cmp2", "0000:05:00.0")
    plane.store.transition(plane.enrol(old), Event.RETIRED, reason="worn")
    plane.enrol(identity=None)
    hello(plane, 1, {SLOT.address: IDENTITY})
    assert plane.record().state is State.HELD
    assert "retired" in plane.record().reason


def test_an_empty_serial_is_held(plane: Plane) -> None:
    plane.enrol(identity=None)
    hello(plane, 1, {SLOT.address: replace(IDENTITY, serial="  ")})
    assert plane.record().state is State.HELD


def test_a_hello_that_names_the_case_is_a_word_about_the_order(plane: Plane) -> None:
    order = plane.ordered()
    assert plane.record().heard_at is None
    message = Hello("cmp1", INCARNATION, 1, "0.1.0", (), (order.order_id,))
    plane.inbox.hello(plane.signed(message, HELLO_TYPE))
    assert plane.record().heard_at is not None


def test_a_bell_makes_us_look_and_nothing_else(plane: Plane) -> None:
    plane.inbox.bell("cmp1", "0000:01:00.0")
    plane.inbox.bell("cmp1")
    assert plane.looks.bells == [("cmp1", "0000:01:00.0"), ("cmp1", None)]
    for host, address in (("../x", None), ("cmp1", "nonsense")):
        with pytest.raises(BadInputError):
            plane.inbox.bell(host, address)


def test_an_order_says_what_people_approved_and_is_stored_before_it_is_sent(plane: Plane) -> None:
    record = plane.enrol()
    plane.posted.away = True
    with pytest.raises(UnavailableError):
        plane.dispatcher.order(record)
    stored = plane.record()
    assert (stored.state, stored.attempts) == (State.QUARANTINED, 0)
    assert stored.order_token is not None
    plane.posted.away = False
    plane.dispatcher.order(stored)
    assert plane.posted.tokens == [("cmp1", stored.order_token)]
    order = plane.order()
    assert (order.profile, order.identity, order.generation) == (PROFILE, IDENTITY, 1)
    assert order.incarnation == INCARNATION


def test_an_order_is_repeated_as_it_stands(plane: Plane) -> None:
    plane.ordered()
    record = plane.dispatcher.order(plane.record())
    assert record.state is State.ERASING
    assert record.attempts == 1
    assert len({token for _host, token in plane.posted.tokens}) == 1
    assert len(plane.posted.tokens) == 2


def test_a_host_that_lost_its_state_gets_a_new_order(plane: Plane) -> None:
    first = plane.ordered()
    plane.store.register_host("cmp1", plane.host.public, "incarnation-00007", replace=True)
    plane.dispatcher.order(plane.record())
    second = plane.order()
    assert second.incarnation == "incarnation-00007"
    assert second.nonce != first.nonce
    assert second.generation == first.generation


def host_of(plane: Plane, directory: Path) -> HostState:
    """A real host's memory of orders, under the key and incarnation that are registered."""
    keygen(directory, "cmp1")
    (directory / CONTROLLER_FILE).write_bytes(codec.canonical(plane.controller.public.jwk()))
    state = HostState(directory)
    plane.store.register_host("cmp1", state.key.public, state.card.incarnation, replace=True)
    return state


def greet(plane: Plane, state: HostState) -> None:
    accepted = tuple(
        AcceptedOrder(o.slot.address, o.order_id, o.generation) for o in state.orders()
    )
    message = Hello(
        "cmp1",
        state.card.incarnation,
        state.next_sequence("hello"),
        "0.1.0",
        (SeenDrive(SLOT.address, "nvme", IDENTITY),),
        (),
        accepted,
    )
    plane.inbox.hello(state.key.sign(codec.canonical(message), HELLO_TYPE))


def test_after_a_lost_record_orders_go_on_above_what_the_host_accepted(
    plane: Plane, tmp_path: Path
) -> None:
    state = host_of(plane, tmp_path / "host")
    plane.ordered()
    of_old = replace(plane.order(), order_id="order-that-we-forgot", generation=7)
    state.accept(plane.controller.sign(codec.canonical(of_old), ORDER_TYPE))
    lost = plane.dispatcher.order(plane.record())
    assert lost.order_token is not None
    with pytest.raises(OrderRefusedError, match="above 7"):
        state.accept(lost.order_token)
    greet(plane, state)
    again = plane.dispatcher.order(plane.record())
    assert again.order_token is not None
    assert state.accept(again.order_token).generation == again.generation == 8
    assert "restored" in plane.store.history(SLOT)[-1].reason
    # Its own order is no reason to go on: the same one comes again.
    greet(plane, state)
    assert plane.dispatcher.order(plane.record()).order_token == again.order_token


def test_an_order_that_another_look_gave_meanwhile_is_no_lost_record(
    plane: Plane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = host_of(plane, tmp_path / "host")
    before = plane.enrol()
    greet(plane, state)
    given = plane.dispatcher.order(before)
    assert given.order_token is not None
    state.accept(given.order_token)
    greet(plane, state)
    with pytest.raises(ConflictError):
        plane.dispatcher.order(before)
    assert "ALARM" not in caplog.text
    assert plane.dispatcher.order(plane.record()).order_token == given.order_token


def test_after_a_new_signing_key_the_host_takes_orders_again(plane: Plane, tmp_path: Path) -> None:
    state = host_of(plane, tmp_path / "host")
    plane.ordered()
    old = plane.record().order_token
    assert old is not None
    state.accept(old)
    new = PrivateKey.generate()
    (state.directory / CONTROLLER_FILE).write_bytes(codec.canonical(new.public.jwk()))
    state = HostState(state.directory)
    greet(plane, state)
    dispatcher = Dispatcher(plane.store, new, plane.posted)
    for _ in range(2):
        dispatcher.order(plane.record())
    token = plane.record().order_token
    assert token is not None
    assert state.accept(token).order_id == plane.record().order_id


@pytest.mark.parametrize(
    "change",
    [
        {"sequence": 2**70},
        {"sequence": -1},
        {"drives": (SeenDrive("0000:01:00.0", "nvme", IDENTITY),) * 2},
        {"drives": tuple(SeenDrive(f"0000:{n:02x}:00.0", "", None) for n in range(256)) * 2},
    ],
)
def test_a_hello_beyond_all_reason_is_refused(plane: Plane, change: dict[str, Any]) -> None:
    plain = {
        **codec.plain(Hello("cmp1", INCARNATION, 1, "0.1.0", (), ())),
        **codec.plain(change),
    }
    with pytest.raises(RefusedError):
        plane.inbox.hello(plane.signed(plain, HELLO_TYPE))
    assert [refusal.kind for refusal in plane.store.refusals()] == ["hello"]


@pytest.mark.parametrize("address", ["0000:0A:00.0", "../../x", ""])
def test_a_hello_of_a_place_that_is_none_is_refused(plane: Plane, address: str) -> None:
    plain = codec.plain(Hello("cmp1", INCARNATION, 1, "0.1.0", (), ()))
    plain["drives"] = [{"address": address, "driver": "nvme", "identity": codec.plain(IDENTITY)}]
    with pytest.raises(RefusedError, match="PCI address"):
        plane.inbox.hello(plane.signed(plain, HELLO_TYPE))


@pytest.mark.parametrize("lacks", ["host", "profile", "policy"])
def test_an_order_waits_for_what_people_must_do(plane: Plane, lacks: str) -> None:
    record = plane.enrol()
    if lacks == "host":
        plane.store.remove_host("cmp1")
    else:
        field_name: dict[str, Any] = {lacks: "unheard-of"}
        record = plane.store.amend(record, SlotChanges(**field_name))
    after = plane.dispatcher.order(record)
    assert after.state is State.QUARANTINED
    assert lacks in after.detail
    assert plane.posted.tokens == []
    assert plane.dispatcher.order(after) == after  # said once


def test_no_order_is_given_outside_a_case(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    with pytest.raises(ConflictError):
        plane.dispatcher.order(plane.record())


def certified(plane: Plane) -> Ticket:
    """A certified slot whose ticket was sent; the ticket as its host got it."""
    plane.ordered()
    plane.inbox.report(plane.report())
    plane.tickets.send(plane.record())
    host, token = plane.posted_tickets.tokens[-1]
    assert host == SLOT.host
    payload = verify(token, plane.controller.public, TICKET_TYPE, "ticket")
    return codec.load(Ticket, payload, "ticket")


def receipt_of(ticket: Ticket, state: TicketState, reason: str = "") -> TicketReceipt:
    return TicketReceipt(
        order_id=ticket.order_id,
        slot=ticket.slot,
        generation=ticket.generation,
        incarnation=ticket.incarnation,
        state=state,
        reason=reason,
        counters=ticket.counters,
    )


def test_the_ticket_is_stored_with_the_certificate_and_sent_as_it_stands(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    stored = plane.record()
    assert stored.ticket_incarnation == INCARNATION
    assert (stored.ticket_at, stored.ticket_ready) == (None, False)
    for _ in range(2):
        plane.tickets.send(plane.record())
    sent = {token for _host, token in plane.posted_tickets.tokens}
    assert sent == {stored.ticket_token}
    assert plane.record().ticket_at is not None
    assert plane.posted.tokens != plane.posted_tickets.tokens


def test_what_a_slot_waits_for_is_written_once_however_long_it_is(plane: Plane) -> None:
    plane.enrol()
    executor = Executor(plane.store, cast(CustodyPlacement, None), plane.dispatcher, plane.tickets)
    ghosts = "; ".join(f"server {number} holds no device in Placement" for number in range(200))
    first = executor.wait(plane.record(), ghosts)
    assert first.detail.startswith("server 0 ")
    assert executor.wait(first, ghosts).revision == first.revision


def test_only_an_order_that_is_out_is_tried_again_after_a_while(plane: Plane) -> None:
    """Its host was removed: nothing is sent, and a slot whose order is not out has nothing to say
    of when."""
    plane.ordered()
    executor = Executor(plane.store, cast(CustodyPlacement, None), plane.dispatcher, plane.tickets)
    plane.store.remove_host(SLOT.host)
    sent = len(plane.posted.tokens)
    first = executor.send(plane.record())
    again = executor.send(first)
    assert again.ordered_at is not None
    assert first.ordered_at is not None
    assert again.ordered_at > first.ordered_at
    assert "to be registered" in again.detail
    back = plane.store.transition(again, Event.POSTPONED, reason="overdue")
    waits = executor.send(back)
    assert executor.send(waits) == waits
    assert waits.ordered_at == again.ordered_at
    assert len(plane.posted.tokens) == sent


def test_no_receipt_of_another_ticket_counts_for_a_new_one(plane: Plane) -> None:
    """As a control plane of before may leave it, which knows nothing of these columns."""
    plane.ordered()
    stale = SlotChanges(ticket_at=utc_now(), ticket_ready=True)
    plane.store.amend(plane.record(), stale)
    plane.inbox.report(plane.report())
    assert (plane.record().ticket_at, plane.record().ticket_ready) == (None, False)


def test_a_certified_drive_whose_ticket_is_no_good_is_erased_again(plane: Plane) -> None:
    """As after a change of the signing key: nobody could ever send it."""
    generation = plane.ordered().generation
    plane.inbox.report(plane.report())
    replaced = Tickets(plane.store, PrivateKey.generate(), plane.posted_tickets)
    executor = Executor(plane.store, cast(CustodyPlacement, None), plane.dispatcher, replaced)
    after = executor.send_ticket(plane.record())
    assert (after.state, after.generation) == (State.QUARANTINED, generation + 1)
    assert (after.ticket_token, after.certificate, after.order_token) == (None, None, None)
    assert "stored ticket" in after.reason
    assert plane.posted_tickets.tokens == []


def test_a_ticket_that_the_broker_does_not_take_is_not_called_sent(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    plane.posted_tickets.away = True
    with pytest.raises(UnavailableError):
        plane.tickets.send(plane.record())
    assert plane.record().ticket_at is None


def test_a_valid_receipt_makes_the_slot_ready_once(plane: Plane) -> None:
    ticket = certified(plane)
    plane.looks.slots.clear()
    token = plane.signed(receipt_of(ticket, TicketState.VALID), RECEIPT_TYPE)
    for _ in range(3):
        plane.inbox.receipt(token)
    assert plane.record().ticket_ready
    assert plane.looks.slots
    notes = [row.reason for row in plane.store.history(SLOT) if row.event is None]
    assert notes == ["the host has a valid ticket for the drive"]


@pytest.mark.parametrize("state", [TicketState.VOID, TicketState.USED])
def test_a_host_that_would_let_nobody_start_holds_the_slot(
    plane: Plane, state: TicketState
) -> None:
    ticket = certified(plane)
    said = receipt_of(ticket, state, "the drive vanished")
    plane.inbox.receipt(plane.signed(said, RECEIPT_TYPE))
    record = plane.record()
    assert record.state is State.HELD
    assert "the drive vanished" in record.reason
    assert record.generation == ticket.generation + 1
    assert record.ticket_token is None
    # The same host changes its mind: nothing revives the case.
    valid = receipt_of(ticket, TicketState.VALID)
    plane.inbox.receipt(plane.signed(valid, RECEIPT_TYPE))
    assert plane.record() == record


@pytest.mark.parametrize("what", ["key", "type", "incarnation", "order", "slot"])
def test_a_receipt_of_somebody_else_changes_nothing(plane: Plane, what: str) -> None:
    ticket = certified(plane)
    receipt, key, typ = receipt_of(ticket, TicketState.VALID), plane.host, RECEIPT_TYPE
    if what == "key":
        key = plane.other_host
    elif what == "type":
        typ = REPORT_TYPE
    elif what == "incarnation":
        receipt = replace(receipt, incarnation="incarnation-00000")
    elif what == "order":
        receipt = replace(receipt, order_id="order-0000000099")
    else:
        receipt = replace(receipt, slot=Slot(SLOT.host, "0000:7f:00.0"))
    before = plane.record()
    with pytest.raises(RefusedError):
        plane.inbox.receipt(plane.signed(receipt, typ, key))
    assert plane.record() == before
    assert len(plane.store.refusals()) == 1


def told(plane: Plane, sequence: int, gate: GateTestimony) -> None:
    """A hello with this word of the last gate."""
    drives = (SeenDrive(SLOT.address, "nvme", IDENTITY),)
    hello = Hello("cmp1", INCARNATION, sequence, "0.1.0", drives, (), (), gate)
    plane.inbox.hello(plane.signed(hello, HELLO_TYPE))


ALL_WELL = GateTestimony(
    tuple(DefenceSeen(name, DefenceStanding.PRESENT, "") for name in Defence), (), (), ()
)
UNHOOKED = replace(
    ALL_WELL,
    defences=(DefenceSeen(Defence.HOOK, DefenceStanding.ABSENT, "gone"), *ALL_WELL.defences[1:]),
)


def on_offer(plane: Plane) -> None:
    ticket = certified(plane)
    valid = receipt_of(ticket, TicketState.VALID)
    plane.inbox.receipt(plane.signed(valid, RECEIPT_TYPE))
    plane.store.transition(plane.record(), Event.RETURNED)
    plane.looks.slots.clear()


def test_a_hello_that_a_defence_is_gone_has_the_slots_on_offer_looked_at(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    on_offer(plane)
    told(plane, 1, ALL_WELL)
    assert plane.looks.slots == []
    assert "ALARM" not in caplog.text
    for sequence in (2, 3):
        told(plane, sequence, UNHOOKED)
    # Looked at until it is settled, told once.
    assert plane.looks.slots == [SLOT, SLOT]
    assert caplog.text.count("ALARM gate-news host cmp1: hook is absent: gone") == 1


def test_a_guest_let_in_by_a_persons_word_is_in_the_slots_history_once(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    on_offer(plane)
    used = AllowanceUsed(SLOT.address, "uuid-1", "ada", "3 a.m.", "2026-11-20T03:00:00Z")
    for sequence in (1, 2, 1):
        told(plane, sequence, replace(ALL_WELL, allowances=(used,)))
    notes = [row.reason for row in plane.store.history(SLOT) if "ada" in row.reason]
    assert len(notes) == 1
    assert "3 a.m." in notes[0]
    assert caplog.text.count("ALARM gate-news host cmp1: '0000:01:00.0': ada let") == 1


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


def test_a_host_that_says_another_allowance_with_each_hello_fills_no_history(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line is a write in the lane of all hosts' hellos, and a certificate reads them all."""
    on_offer(plane)

    def say(number: int) -> int:
        used = [
            AllowanceUsed(SLOT.address, "u", "ada", "again", f"{number}/{each}")
            for each in range(MAX_ALLOWANCES)
        ]
        told(plane, number, replace(ALL_WELL, allowances=tuple(used)))
        return len(plane.store.history(SLOT))

    before = len(plane.store.history(SLOT))
    lines = [say(number) - before for number in range(1, 6)]
    assert lines == [NOTES] * 5
    assert caplog.text.count("ALARM gate-news host cmp1: ") == 5
    plane.store.hold(plane.record(), holds.because(HoldCode.BY_PERSON, "tried"))
    assert say(6) - before == 2 * NOTES + 1, "another state has lines of its own"


def test_more_allowances_than_a_host_remembers_are_no_hello() -> None:
    used = AllowanceUsed(SLOT.address, "u", "ada", "r", "2026-11-20T03:00:00Z")
    with pytest.raises(ValueError, match="at most 32 allowances"):
        replace(ALL_WELL, allowances=(used,) * (MAX_ALLOWANCES + 1))


def test_many_guests_let_in_at_once_are_one_alarm(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """A host whose guests were all let in past the gate calls people once."""
    on_offer(plane)
    used = [
        AllowanceUsed(
            f"0000:{bus:02x}:00.0", "uuid-1", "ada", f"reason {bus}", "2026-11-20T03:00:00Z"
        )
        for bus in range(1, 9)
    ]
    told(plane, 1, replace(ALL_WELL, allowances=tuple(used)))
    assert caplog.text.count("ALARM gate-news host cmp1: ") == 1
    assert "reason 3; and 5 more" in caplog.text
    assert "reason 4" not in caplog.text
    assert any("reason 1" in row.reason for row in plane.store.history(SLOT))


@pytest.mark.parametrize("lead", [LEAD, LEAD + 1, MAX_GENERATION])
def test_no_host_uses_up_the_generations_of_its_slot(
    plane: Plane, tmp_path: Path, lead: int
) -> None:
    """They never get smaller: what one lie made of them is there when the host is honest again."""
    began = plane.enrol()
    lie = AcceptedOrder(SLOT.address, "made-up", min(began.generation + lead, MAX_GENERATION))
    seen = (SeenDrive(SLOT.address, "nvme", IDENTITY),)
    hello = Hello("cmp1", INCARNATION, 1, "0.1.0", seen, (), (lie,))
    plane.inbox.hello(plane.signed(hello, HELLO_TYPE))
    after = plane.dispatcher.order(plane.record())
    believed = lead <= LEAD
    assert (after.generation > lie.generation) == believed
    assert (after.state is State.ERASING) == believed
    assert believed or f"accepted generation {lie.generation}" in after.detail
    state = host_of(plane, tmp_path / "host")  # installed anew, and registered with --replace
    greet(plane, state)
    state.accept(plane.dispatcher.order(plane.record()).order_token or "")
    greet(plane, state)
    assert plane.record().state is State.ERASING


def test_addresses_that_a_host_makes_up_are_no_subjects_of_alarms(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """One host would fill the list of alarms with them, and the other hosts' would make way."""
    on_offer(plane)
    used = [
        AllowanceUsed(address, "uuid-1", "ada", "3 a.m.", f"2026-11-20T03:00:{number:02}Z")
        for number, address in enumerate(
            [
                "x\nALARM on-offer cmp2",
                "0000:77:00.0",
                "0000:AA:00.0",
                *(f"y{n}" for n in range(20)),
            ]
        )
    ]
    told(plane, 1, replace(ALL_WELL, allowances=tuple(used)))
    subjects = [str(one.args[1]) for one in caplog.records if str(one.msg).startswith("ALARM")]
    assert subjects == ["host cmp1"]
    assert "\nALARM on-offer" not in caplog.text


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


def test_a_hello_that_says_the_same_again_is_not_compared_with_every_drive(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    take = drive_inventory.take

    def counted(store: Store, message: Hello, clock: Any) -> drive_inventory.InventoryChange:
        compared.append(message.sequence)
        return take(store, message, clock)

    monkeypatch.setattr(drive_inventory, "take", counted)
    plane.enrol(identity=None)
    for sequence in range(1, 5):
        hello(plane, sequence, {SLOT.address: IDENTITY})
    assert compared == [1, 2], "the first one taught us the drive"
    heard = plane.store.host("cmp1")
    assert heard is not None
    assert heard.sequence == 4
    hello(plane, 5, {SLOT.address: replace(IDENTITY, serial="another")})
    assert compared == [1, 2, 5]
    assert plane.record().state is State.HELD


def test_a_hello_that_met_another_writer_is_compared_again(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_given: object, **_named: object) -> None:
        raise ConflictError("somebody else")

    plane.enrol()
    hello(plane, 1, {SLOT.address: IDENTITY})
    with monkeypatch.context() as patch:
        patch.setattr(plane.store, "transition", busy)
        hello(plane, 2, {SLOT.address: replace(IDENTITY, serial="another")})
    assert plane.record().state is not State.HELD
    hello(plane, 3, {SLOT.address: replace(IDENTITY, serial="another")})
    assert plane.record().state is State.HELD


def at_rest(plane: Plane) -> None:
    """A slot on offer to which nothing happened for an hour; its host names the ticket."""
    on_offer(plane)
    with plane.store._writing() as db:
        db.execute(models.slots.update().values(entered_at=utc_now() - timedelta(hours=1)))


def all_well(plane: Plane, **changes: Any) -> GateTestimony:
    record = plane.record()
    case = record.order_id or "", record.generation
    ticket = TicketSeen(record.slot.address, *case, TicketState.VALID, "")
    return replace(ALL_WELL, tickets=(ticket,), **changes)


@pytest.fixture
def read(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the hellos that were held against the record."""
    found: list[int] = []
    seen = plane.store.host_seen

    def noted(name: str, sequence: int, message: Hello) -> HostRecord:
        found.append(sequence)
        return seen(name, sequence, message)

    monkeypatch.setattr(plane.store, "host_seen", noted)
    return found


def heard(plane: Plane) -> HostRecord:
    found = plane.store.host("cmp1")
    assert found is not None
    return found


def test_a_hello_of_which_nothing_followed_is_noted_when_it_comes_again(
    plane: Plane, read: list[int]
) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    first = heard(plane)
    for sequence in (2, 3, 4):
        told(plane, sequence, all_well(plane))
    assert read == [1]
    last = heard(plane)
    assert last.sequence == 4
    assert last.heard_at is not None
    assert first.heard_at is not None
    assert last.heard_at > first.heard_at
    assert plane.looks.slots == []


def test_a_defence_that_goes_after_many_same_hellos_is_heard(
    plane: Plane, read: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    at_rest(plane)
    for sequence in (1, 2, 3):
        told(plane, sequence, all_well(plane))
    for sequence in (4, 5):
        told(plane, sequence, all_well(plane, defences=UNHOOKED.defences))
    assert read == [1, 4, 5]
    assert plane.looks.slots == [SLOT, SLOT], "looked at until it is settled"
    assert caplog.text.count("ALARM gate-news host cmp1: hook is absent: gone") == 1
    told(plane, 6, all_well(plane))
    assert read == [1, 4, 5, 6]


@pytest.mark.parametrize("sequence", [1, 2, 3])
def test_a_hello_that_comes_again_late_changes_nothing(plane: Plane, sequence: int) -> None:
    at_rest(plane)
    for number in (1, 2, 3):
        told(plane, number, all_well(plane))
    before = heard(plane)
    told(plane, sequence, all_well(plane))
    assert heard(plane) == before


def test_a_slot_that_somebody_wrote_to_is_held_against_the_next_hello(
    plane: Plane, read: list[int]
) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    plane.store.amend(plane.record(), SlotChanges(detail="a word"))
    told(plane, 2, all_well(plane))
    told(plane, 3, all_well(plane))
    assert read == [1, 2]
    other = replace(SLOT, address="0000:02:00.0")
    plane.enrol(other, None)
    told(plane, 4, all_well(plane))
    assert read == [1, 2, 4]


def test_a_slot_whose_step_is_to_come_is_held_against_the_next_hello(
    plane: Plane, read: list[int]
) -> None:
    """Our clock was set back."""
    at_rest(plane)
    told(plane, 1, all_well(plane))
    with plane.store._writing() as db:
        db.execute(models.slots.update().values(entered_at=utc_now() + timedelta(hours=1)))
    told(plane, 2, all_well(plane))
    assert read == [1, 2]
    assert plane.record().entered_at <= utc_now()


def test_what_another_worker_heard_in_between_is_not_passed_over(
    plane: Plane, read: list[int]
) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    beside = replace(plane, inbox=replace(plane.inbox))
    told(beside, 2, all_well(plane, defences=UNHOOKED.defences))
    told(plane, 3, all_well(plane))
    assert read == [1, 2, 3]
    kept = heard(plane).hello
    assert kept is not None
    assert kept.gate == all_well(plane)


def test_a_host_that_was_registered_anew_or_removed_says_nothing_again(plane: Plane) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    plane.store.register_host("cmp1", plane.host.public, "incarnation-00009", replace=True)
    with pytest.raises(RefusedError):
        told(plane, 2, all_well(plane))
    plane.store.register_host("cmp1", PrivateKey.generate().public, INCARNATION, replace=True)
    with pytest.raises(RefusedError):
        told(plane, 3, all_well(plane))
    plane.store.remove_host("cmp1")
    with pytest.raises(RefusedError):
        told(plane, 4, all_well(plane))
    assert len(plane.store.refusals()) == 3


def test_the_same_hello_with_anothers_signature_is_refused(plane: Plane) -> None:
    at_rest(plane)
    told(plane, 1, all_well(plane))
    with pytest.raises(RefusedError):
        told(replace(plane, host=plane.other_host), 2, all_well(plane))
    assert heard(plane).sequence == 1


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
