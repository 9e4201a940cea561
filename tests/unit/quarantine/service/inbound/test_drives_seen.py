"""What a hello says of drives: learned, or held where it contradicts the record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.agent.runners import request_of
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import HELLO_TYPE, AcceptedOrder, Hello, Outcome, SeenDrive, Verdict
from eraser.protocol.ticket import AllowanceUsed
from quarantine.errors import BadInputError, RefusedError
from quarantine.record.words.facts import HistoryRow, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from quarantine.rules.reports.check import Ruling
from quarantine.service.issue import drive_inventory
from tests.unit.quarantine.service.inbound.plane import (
    ALL_WELL,
    INCARNATION,
    Plane,
    hello,
    on_offer,
    refused,
    told,
)
from tests.unit.quarantine.testimony import IDENTITY, SLOT


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
        # It may have taken the first one before it was set back, and takes one per generation.
        assert (after.stuck, after.generation) == (0, first.generation + 1)
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


def beside(plane: Plane, now: list[float]) -> Plane:
    """Another worker of the control plane, on the same record; both go by the same clock."""
    plane.inbox = replace(plane.inbox, monotonic=lambda: now[0])
    return replace(plane, inbox=replace(plane.inbox))


def test_a_hello_that_two_workers_take_is_no_second_machine(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Both read a host's list before one of them removes the entry."""
    now = [0.0]
    other = beside(plane, now)
    plane.enrol()
    drives = {SLOT.address: IDENTITY}
    for number in range(1, 6):
        hello(plane, number, drives)
        hello(other, number, drives)
        now[0] += 60.0
    assert "ALARM" not in caplog.text


def test_a_machine_that_counts_in_step_with_its_copy_is_told(plane: Plane) -> None:
    now = [0.0]
    other = beside(plane, now)
    plane.enrol()
    for number in (1, 2):
        hello(plane, number, {SLOT.address: IDENTITY})
        hello(other, number, {})
        now[0] += 60.0
    hello(plane, 3, {SLOT.address: IDENTITY})
    with pytest.raises(RefusedError, match="two machines"):
        hello(other, 3, {})


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


def test_a_host_that_names_a_tenants_drive_in_ever_new_places_speaks_for_itself(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own refusals count it, and people hear of it more and more seldom."""
    elsewhere = Slot("cmp2", "0000:05:00.0")
    record = plane.store.enrol(
        elsewhere, provider="p", resource_class="C", in_use=True, profile="x", policy="purge"
    )
    plane.store.amend(record, SlotChanges(identity=IDENTITY))
    for number in range(1, 9):
        hello(plane, number, {f"0000:{number:02x}:00.0": IDENTITY})
    assert plane.record(elsewhere).state is State.IN_USE
    assert {(each.host, each.count) for each in plane.store.refusals()} == {("cmp1", 8)}
    assert caplog.text.count("ALARM") == 4, "at the first, second, fourth and eighth time"


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


def test_a_host_that_claims_too_many_still_holds_its_own_slot(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is for other hosts' slots: of a drive in two places one at least is out of use."""
    monkeypatch.setattr(drive_inventory, "ACCUSATIONS", 0)
    elsewhere = Slot("cmp2", "0000:05:00.0")
    plane.enrol(elsewhere)
    plane.enrol()
    hello(plane, 1, {SLOT.address: IDENTITY})
    assert plane.record(elsewhere).state is State.QUARANTINED
    assert plane.record().state is State.HELD
    assert str(elsewhere) in plane.record().reason


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
