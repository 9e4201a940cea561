"""The drives of one server: each with both certificates, and with every hole named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.report import REPORT_TYPE, EraseReport, Hello
from eraser.protocol.ticket import DomainSeen, GateTestimony, LastOwner
from quarantine import cli
from quarantine.evidence import certificate, serverdrives
from quarantine.evidence.serverdrives import Account
from quarantine.record.database import engine, models
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.record.words.texts import USED_AGAIN
from quarantine.service.inbound import messages
from quarantine.service.inbound.intake import URGENT, Lane
from tests.unit.quarantine.service.inbound.plane import INCARNATION, WORN, Plane, plane  # noqa: F401
from tests.unit.quarantine.service.inbound.test_intake import FakeLists
from tests.unit.quarantine.testimony import IDENTITY, SLOT

ANN = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
BOB = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"


@dataclass
class Life:
    """One slot's drive, from hand to hand. Every step is the store's own."""

    plane: Plane
    slot: Slot = SLOT

    def step(self, event: Event, reason: str = "", **changes: object) -> None:
        record = self.plane.record(self.slot)
        self.plane.store.transition(record, event, reason=reason, changes=SlotChanges(**changes))  # type: ignore[arg-type]

    def erased(self, **changes: object) -> None:
        """From custody to the report's answer."""
        if self.plane.record(self.slot).state is State.RELEASED:
            self.step(Event.CUSTODY_TAKEN)
        self.plane.dispatcher.order(self.plane.record(self.slot))
        report: EraseReport = replace(self.plane.answer(), **changes)  # type: ignore[arg-type]
        self.plane.inbox.report(self.plane.signed(report, REPORT_TYPE))

    def returned(self) -> None:
        self.step(Event.RETURNED, consumer=None)

    def used_by(self, server: str) -> None:
        self.step(Event.CLAIM_SEEN, consumer=server)

    def released(self, server: str) -> None:
        self.step(Event.RELEASE_SEEN, f"the allocation of {server} is gone")

    def account(self, server: str) -> Account:
        return serverdrives.account(self.plane.store, server, [self.plane.controller.public])


@pytest.fixture
def life(plane: Plane) -> Life:  # noqa: F811
    plane.enrol()
    made = Life(plane)
    made.erased()
    made.returned()
    return made


@pytest.mark.parametrize("event", [Event.RETURNED, Event.RELEASE_SEEN])
def test_what_another_release_called_otherwise_is_what_it_did(life: Life, event: Event) -> None:
    """Under which certificate the drive was handed out, and that a use is over, are states."""
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    found = life.account(ANN)
    with engine.writing(life.plane.store._engine) as db:
        changed = (
            sa.update(models.history)
            .where(models.history.c.event == event.value)
            .values(event="of_another_release")
        )
        assert db.execute(changed).rowcount
    assert life.account(ANN) == found


def test_both_certificates_of_a_deleted_server(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    first, second = life.plane.store.certificates()
    found = life.account(ANN)
    (use,) = found.drives
    assert use.before is not None
    assert (use.before.digest, [one.digest for one in use.after]) == (first.digest, [second.digest])
    assert (use.serial, use.slot) == (IDENTITY.serial, str(SLOT))
    assert use.known_from == "allocations seen in Placement"
    assert (found.complete, found.unknown, use.says) == (True, (), ())


def test_the_next_server_has_the_certificate_between_them(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    life.returned()
    life.used_by(BOB)
    (use,) = life.account(BOB).drives
    (ann,) = life.account(ANN).drives
    assert use.before == ann.after[0]
    assert use.after == ()
    assert use.says == ("after: none yet, the server has the drive",)
    assert not life.account(BOB).complete


def test_a_server_that_had_the_drive_twice_has_two_uses(life: Life) -> None:
    for _ in range(2):
        life.used_by(ANN)
        life.released(ANN)
        life.erased()
        life.returned()
    one, two = life.account(ANN).drives
    assert one.after[0] == two.before
    assert one.before != two.before
    life.used_by(ANN)
    life.released(ANN)
    uses = life.account(ANN).drives
    assert len(uses) == 3, "the third is released, and has the certificate of an earlier case"
    assert uses[2].before == two.after[0]
    assert uses[2].says == (f"after: none, the slot is released (the allocation of {ANN} is gone)",)


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("hello", "'{'", "its last hello cannot be read"),
        ("hello", "x'6162'", "its row cannot be read"),
        ("jwk", "'x'", "its row cannot be read"),
        ("heard_at", "'x'", "its row cannot be read"),
        ("sequence", "'x'", "its row cannot be read"),
        ("incarnation", "CAST(x'ff' AS TEXT)", "its row cannot be read"),
    ],
)
def test_a_host_that_cannot_be_read_is_a_hole_in_the_account(
    life: Life, column: str, value: str, says: str
) -> None:
    """What it said last may name a domain of the server in another slot."""
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    life.plane.store.host_seen("cmp1", 1, Hello("cmp1", INCARNATION, 1, "1", (), ()))
    assert life.account(ANN).complete
    with engine.writing(life.plane.store._engine) as db:
        damaged = f"UPDATE hosts SET {column} = {value} WHERE name = 'cmp1'"  # noqa: S608
        assert db.execute(sa.text(damaged)).rowcount == 1
    found = life.account(ANN)
    assert not found.complete
    assert found.unknown == (f"host cmp1: {says}; whether it names the server is not known",)


def test_an_erase_that_is_repeated_before_the_return_is_no_second_use(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    life.step(Event.RECALLED, "its host lost its state")
    life.erased()
    (use,) = life.account(ANN).drives
    assert len(use.after) == 2
    assert use.before is not None
    assert use.before.number == 1


def test_a_drive_that_is_held_after_its_erase(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased(fit=False, reasons=("health: worn",))
    assert life.plane.record().state is State.HELD
    (use,) = life.account(ANN).drives
    assert use.after[0].withheld
    assert "not handed out" in use.says[0]
    life.step(Event.RELEASED_BY_OPERATOR, "a test")
    life.erased()
    (use,) = life.account(ANN).drives
    assert [one.withheld for one in use.after] == [True, False]
    assert use.says == ()


def test_a_drive_without_an_erase_says_so(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.step(Event.HELD, "somebody pulled it")
    (use,) = life.account(ANN).drives
    assert use.after == ()
    assert use.says == ("after: none, the slot is held (somebody pulled it)",)


def test_a_drive_that_was_in_use_at_enrolment_has_no_certificate_from_before(
    plane: Plane,  # noqa: F811
) -> None:
    plane.enrol()
    life = Life(plane)
    record = plane.record()
    plane.store.amend(record, SlotChanges(consumer=ANN))
    life.erased()
    found = life.account(ANN)
    (use,) = found.drives
    assert use.before is None
    assert "in use when it was enrolled" in use.says[0]
    assert not found.complete


def test_a_drive_of_another_slot_was_not_handed_out_here(life: Life) -> None:
    """ANN had it there under its certificate; nobody saw how it came to BOB's slot."""
    life.used_by(ANN)
    moved = Life(life.plane, Slot("cmp1", "0000:09:00.0"))
    life.plane.enrol(moved.slot)
    moved.step(Event.HELD, "a test")
    moved.step(Event.RELEASED_BY_OPERATOR, "a test")
    moved.used_by(BOB)
    (use,) = life.account(BOB).drives
    assert use.before is None
    assert use.says[0] == (
        f"before: unknown: the drive's certificate 1 is of {SLOT}; how it came to the server in "
        f"{moved.slot}, no certificate tells"
    )
    (use,) = life.account(ANN).drives
    assert use.before is not None


def test_a_server_that_took_a_dirty_drive_was_handed_it_under_no_certificate(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.used_by(BOB)
    dirty = (
        "unknown: since its certificate 1 the drive was let go, or another server had it, before "
        "this one"
    )
    (use,) = life.account(BOB).drives
    assert (use.before, use.says[0]) == (None, f"before: {dirty}")
    life.released(BOB)
    life.erased()
    (use,) = life.account(BOB).drives
    assert (use.before, use.says) == (None, (f"before: {dirty}",))
    assert not life.account(BOB).complete


def test_a_server_that_followed_another_without_an_erase_has_no_certificate_from_before(
    life: Life,
) -> None:
    life.used_by(ANN)
    migration = f"held by {ANN} now, by a migration before: a migration, by Nova's word"
    life.plane.store.amend(life.plane.record(), SlotChanges(), note=migration)
    (use,) = life.account(ANN).drives
    assert use.before is not None
    note = f"held by {BOB} now, by {ANN} before: {USED_AGAIN}"
    life.plane.store.amend(life.plane.record(), SlotChanges(consumer=BOB), note=note)
    (use,) = life.account(BOB).drives
    assert use.before is None
    assert use.says[0].startswith("before: unknown: since its certificate 1 ")


def test_a_server_that_took_a_withheld_drive_was_handed_it_under_no_certificate(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased(fit=False, reasons=("health: worn",))
    life.step(Event.RELEASED_BY_OPERATOR, "a test")
    life.used_by(BOB)
    (use,) = life.account(BOB).drives
    assert use.before is None
    assert use.says[0] == (
        "before: unknown: under its certificate 2, the last from before, the drive was not handed "
        "out"
    )


def test_the_gates_word_finds_a_server_that_placement_never_named(life: Life) -> None:
    life.used_by(BOB)
    life.released(BOB)
    life.erased(last_owner=LastOwner(ANN, "i-1", "then", "now"))
    (use,) = life.account(ANN).drives
    assert use.known_from == f"the host's gate; Placement named {BOB}"
    assert life.account(BOB).drives == (use,)
    # A host may name whomever it likes: neither answer is whole.
    for server in (ANN, BOB):
        assert not life.account(server).complete
        assert "one of the two had it" in life.account(server).unknown[0]


def test_a_drive_that_another_took_the_place_of_is_a_named_hole(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.step(Event.HELD, "another drive is in the slot")
    life.step(Event.RELEASED_BY_OPERATOR, "a test", identity=None, consumer=None)
    found = life.account(ANN)
    assert (found.drives, found.complete) == ((), False)
    (line,) = found.unknown
    assert f"the allocation of {ANN} is gone" in line
    assert "which drive that was" in line


def test_a_domain_that_no_allocation_explains_is_named(life: Life) -> None:
    gate = GateTestimony((), (DomainSeen(ANN, "i-1", ("0000:09:00.0",), True, True),), (), ())
    life.plane.store.host_seen("cmp1", 1, Hello("cmp1", INCARNATION, 1, "1", (), (), gate=gate))
    (line,) = life.account(ANN).unknown
    assert line.startswith("cmp1/0000:09:00.0: its host names the server's domain")


def test_nothing_on_record_is_no_clean_bill(life: Life) -> None:
    found = life.account(ANN)
    assert (found.drives, found.complete) == ((), False)
    assert "between two looks" in found.unknown[0]


def test_a_certificate_that_does_not_verify_is_a_hole(life: Life) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    found = serverdrives.account(life.plane.store, ANN, [life.plane.host.public])
    assert found.drives == ()
    assert "signature" in found.unknown[0]


def test_a_damaged_testimony_hides_no_other_certificate(
    life: Life, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    one, two = life.plane.store.certificates()
    with life.plane.store._writing() as db:
        row = sa.update(models.testimonies).where(models.testimonies.c.certificate == one.digest)
        db.execute(row.values(host_key="{"))
    (tmp_path / "controller.pem").write_bytes(life.plane.controller.pem())
    conf = tmp_path / "conf"
    conf.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
    )
    words = ["certificate", "for-server", ANN, "--directory", str(tmp_path / "out")]
    code = cli.main(["--config-file", str(conf), *words])
    assert code == 7
    assert f"not exported: testimony of certificate {one.digest}" in capsys.readouterr().err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    ends = ("json", "html", "order.jws", "report.jws", "host.jwk")
    assert names == {f"{two.digest}.{end}" for end in ends}


@pytest.mark.parametrize(
    ("column", "value"), [("reason", "CAST(x'ff' AS TEXT)"), ("detail", "'['")]
)
def test_a_damaged_line_holds_up_no_other_report_of_its_host(
    life: Life, column: str, value: str
) -> None:
    """It makes no certificate: whose the drive was stood in that line. Its slot is held."""
    life.used_by(ANN)
    life.released(ANN)
    with engine.writing(life.plane.store._engine) as db:
        newest = "(SELECT max(seq) FROM history WHERE event = 'claim_seen')"
        said = f"UPDATE history SET {column} = {value} WHERE seq = {newest}"  # noqa: S608
        assert db.execute(sa.text(said)).rowcount == 1
    before = len(life.plane.store.certificates())
    life.step(Event.CUSTODY_TAKEN)
    life.plane.dispatcher.order(life.plane.record())
    lists = FakeLists()
    report = life.plane.signed(life.plane.answer(), REPORT_TYPE)
    lists.push(MessageKind.REPORT, SLOT.host, report, "of another slot")
    lane = Lane(URGENT, life.plane.inbox, lists, lambda: [SLOT.host], lambda: 0.0)
    for _ in range(3):
        lane.turn()
    assert lists.lists[key(MessageKind.REPORT, SLOT.host)] == []
    assert len(life.plane.store.certificates()) == before
    record = life.plane.record()
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.RECORD_DAMAGED)
    assert "found a damaged row" in record.reason
    assert "release it when" in record.reason


def test_a_worn_drive_whose_past_is_damaged_is_held_for_both(life: Life) -> None:
    """Its certificate would say whose it was; so it has none of this erase."""
    life.used_by(ANN)
    life.released(ANN)
    with engine.writing(life.plane.store._engine) as db:
        db.execute(sa.text("UPDATE history SET detail = '[' WHERE event = 'claim_seen'"))
    before = len(life.plane.store.certificates())
    life.erased(**WORN)
    record = life.plane.record()
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.UNFIT)
    assert WORN["reasons"][0] in record.reason
    assert "release it when" in record.reason
    assert len(life.plane.store.certificates()) == before


@dataclass
class Faulty:
    """A part of the judgement that fails a number of times, then does what it did."""

    right: Callable[..., Any]
    times: int
    met: int = 0

    def __call__(self, *parts: object, **named: object) -> object:
        self.met += 1
        if self.met <= self.times:
            raise ZeroDivisionError("the tenant's secret")
        return self.right(*parts, **named)


@pytest.mark.parametrize("part", [(messages, "check"), (certificate, "build")])
def test_a_mistake_of_ours_in_judging_a_report_holds_its_slot(
    life: Life, monkeypatch: pytest.MonkeyPatch, part: tuple[Any, str], caplog: Any
) -> None:
    """The host says it once. Dropped, its slot would stay in erasing, and nobody would know why."""
    life.step(Event.CLAIM_SEEN, consumer=ANN)
    life.released(ANN)
    life.step(Event.CUSTODY_TAKEN)
    life.plane.dispatcher.order(life.plane.record())
    place, name = part
    monkeypatch.setattr(place, name, Faulty(getattr(place, name), 99))
    lists = FakeLists()
    report = life.plane.signed(life.plane.answer(), REPORT_TYPE)
    lists.push(MessageKind.REPORT, SLOT.host, report, report)
    lane = Lane(URGENT, life.plane.inbox, lists, lambda: [SLOT.host], lambda: 0.0)
    for _ in range(3):
        lane.turn()
    assert lists.lists[key(MessageKind.REPORT, SLOT.host)] == []
    record = life.plane.record()
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.UNJUDGED)
    assert "ZeroDivisionError" in record.reason
    assert "secret" not in record.reason, "what a mistake says goes to the log alone"
    assert caplog.text.count("the tenant's secret") >= 1
    assert caplog.text.count(f"ALARM held {SLOT}") == 1


def test_a_mistake_that_passes_by_holds_nothing(life: Life, monkeypatch: Any) -> None:
    life.used_by(ANN)
    life.released(ANN)
    monkeypatch.setattr(messages, "check", Faulty(messages.check, 1))
    life.erased()
    assert life.plane.record().state is State.CERTIFIED


@pytest.mark.parametrize("event", [Event.POSTPONED, Event.HELD])
def test_a_mistake_over_a_report_that_answers_no_order_holds_nothing(
    life: Life, monkeypatch: Any, event: Event
) -> None:
    """A postponed order's report may still come; what a person decided meanwhile stands."""
    life.used_by(ANN)
    life.released(ANN)
    life.step(Event.CUSTODY_TAKEN)
    life.plane.dispatcher.order(life.plane.record())
    report = life.plane.signed(life.plane.answer(), REPORT_TYPE)
    life.step(event, "meanwhile")
    if event is Event.POSTPONED:
        life.plane.dispatcher.order(life.plane.record())
        life.step(Event.POSTPONED, "again")
    before = life.plane.record()
    monkeypatch.setattr(messages, "check", Faulty(messages.check, 99))
    monkeypatch.setattr(messages.Inbox, "_order", Faulty(messages.Inbox._order, 99))
    with pytest.raises(ZeroDivisionError):
        life.plane.inbox.report(report)
    assert life.plane.record() == before


@pytest.mark.parametrize("which", ["min", "max"])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("created_at", "'garbage'"),
        ("server", "CAST(x'ff' AS TEXT)"),
        ("token", "CAST(x'ff' AS TEXT)"),
        ("generation", "'x'"),
        ("host", "'-'"),
        ("number", "'x'"),
    ],
)
@pytest.mark.parametrize("forgotten", [True, False])
def test_a_damaged_certificate_holds_its_drive_and_stops_no_other_report(
    life: Life, which: str, column: str, value: str, forgotten: bool
) -> None:
    """An older one of the drive, or the end of the chain, which need not be of this drive."""
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    life.returned()
    life.used_by(BOB)
    life.released(BOB)
    newest = f"(SELECT {which}(number) FROM certificates)"  # noqa: S608
    said = f"UPDATE certificates SET {column} = {value} WHERE number = {newest}"  # noqa: S608
    with engine.writing(life.plane.store._engine) as db:
        db.execute(sa.text(said))
        if forgotten:
            db.execute(sa.text("UPDATE drives SET certificate = NULL"))
    life.step(Event.CUSTODY_TAKEN)
    life.plane.dispatcher.order(life.plane.record())
    lists = FakeLists()
    report = life.plane.signed(life.plane.answer(), REPORT_TYPE)
    lists.push(MessageKind.REPORT, SLOT.host, report, "of another slot")
    lane = Lane(URGENT, life.plane.inbox, lists, lambda: [SLOT.host], lambda: 0.0)
    for _ in range(3):
        lane.turn()
    assert lists.lists[key(MessageKind.REPORT, SLOT.host)] == []
    record = life.plane.record()
    held = record.state is State.HELD and record.hold_code == HoldCode.RECORD_DAMAGED
    assert held or record.state is State.CERTIFIED
