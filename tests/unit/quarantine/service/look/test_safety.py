"""What is on offer without a right to it is reserved, whatever else is slow or broken."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cli.commands import service
from quarantine.cli.commands.service import serve
from quarantine.cloud.facts import Provider, View
from quarantine.conf import load
from quarantine.doors import MACHINE
from quarantine.errors import BadInputError, QuarantineError, UnavailableError
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.rules.holds import because
from quarantine.service.assembly import Assembly
from quarantine.service.safety import PASS, Safety
from quarantine.service.watch.lateness import Lateness
from tests.unit.quarantine.smallcloud import (
    LIFE,
    RC,
    Clock,
    Cloud,
    available,
    certified,
    drive_in,
    enrolled,
    open_store,
    slot_at,
)

LIMITS = ServiceLimits()
SLOT, OTHER = slot_at(1), slot_at(2)
AWAY = UnavailableError("Placement answered 503")
STRANGE = KeyError("reserved")


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(Clock())


@pytest.fixture
def store(tmp_path: Path, cloud: Cloud) -> Iterator[Store]:
    with open_store(tmp_path, cloud.clock) as store:
        yield store


def safety(store: Store, cloud: Cloud, lateness: Lateness | None = None) -> Safety:
    return Safety(store, cloud, LIMITS, lateness=lateness, monotonic=cloud.clock.monotonic)


def lower(cloud: Cloud, slot: Slot) -> None:
    cloud.burn(slot, reserved=False)


def used_and_let_go(store: Store, cloud: Cloud, slot: Slot) -> None:
    """A drive in use, its lock lowered, its server deleted: dirty and on offer."""
    enrolled(store, cloud, slot, server="server")
    lower(cloud, slot)
    cloud.delete(slot)


def held(store: Store, cloud: Cloud, slot: Slot) -> None:
    store.transition(enrolled(store, cloud, slot), Event.HELD, reason="x")
    lower(cloud, slot)


def stranger(store: Store, cloud: Cloud, slot: Slot) -> None:
    cloud.add(slot)


def released(store: Store, cloud: Cloud, slot: Slot) -> None:
    enrolled(store, cloud, slot)
    lower(cloud, slot)


def locked_away(store: Store, cloud: Cloud, slot: Slot) -> None:
    certified(store, cloud, slot)
    lower(cloud, slot)
    cloud.delete(slot)


def dirty_elsewhere(store: Store, cloud: Cloud, slot: Slot) -> None:
    available(store, cloud, slot)
    store.note_drive(drive_in(slot), Slot("other", slot.address), True, "seen elsewhere")


def certified_elsewhere(store: Store, cloud: Cloud, slot: Slot) -> None:
    """Clean, and by a newer certificate than the slot's: somebody used it there in between."""
    available(store, cloud, slot)
    certified(store, cloud, slot_at(4), drive=drive_in(slot))


def retired_elsewhere(store: Store, cloud: Cloud, slot: Slot) -> None:
    """And erased here since: it is clean, and nobody may have it."""
    record = enrolled(store, cloud, slot_at(4), drive=drive_in(slot))
    store.transition(record, Event.RETIRED, reason="it failed twice")
    giving_back(store, cloud, slot)


def without_host(store: Store, cloud: Cloud, slot: Slot) -> None:
    available(store, cloud, slot)
    store.remove_host(slot.host)


def another_provider(store: Store, cloud: Cloud, slot: Slot) -> None:
    record = available(store, cloud, slot)
    store.amend(record, SlotChanges(provider="rp-before"))


Scene = Callable[[Store, Cloud, Slot], None]
WRONG: list[Scene] = [
    used_and_let_go,
    held,
    stranger,
    released,
    locked_away,
    dirty_elsewhere,
    certified_elsewhere,
    retired_elsewhere,
    without_host,
    another_provider,
]


@pytest.mark.parametrize("scene", WRONG, ids=lambda each: each.__name__)
def test_what_has_no_right_is_reserved_and_told_once(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture, scene: Scene
) -> None:
    cloud.add(OTHER)
    cloud.burn(OTHER)
    enrolled(store, cloud, slot_at(3))
    scene(store, cloud, SLOT)
    assert cloud.on_offer(SLOT)
    passes = safety(store, cloud)
    assert passes.check().reserved == {SLOT}
    assert not cloud.on_offer(SLOT)
    assert passes.check().reserved == frozenset()
    assert caplog.text.count("ALARM") == 1
    notes = [row.reason for row in store.history(SLOT)]
    assert scene is stranger or any("on offer" in note for note in notes)


NEW: Final = "CUSTOM_NVME_NEW"
"""A resource class that no enrolled slot has."""

ELSEWHERE: Final = slot_at(1, "cmp2")


def test_a_stranger_of_a_class_that_no_enrolled_slot_has_is_reserved(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """A new family of flavors, on a host whose nova-compute has no patch."""
    enrolled(store, cloud, SLOT)
    cloud.add(OTHER, NEW)
    passes = safety(store, cloud)
    passes.check()  # asks which classes there are
    assert passes.check().reserved == {OTHER}
    assert not cloud.on_offer(OTHER)
    assert f"ALARM not-enrolled {OTHER}" in caplog.text
    assert passes.check().reserved == frozenset()
    cloud.add(slot_at(3), NEW)
    assert passes.check().reserved == {slot_at(3)}, "the class is known from then on"


def test_a_host_without_an_enrolled_slot_is_not_under_our_care(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor is one whose slots are all retired. What is enrolled later is taken then."""
    enrolled(store, cloud, SLOT)
    cloud.add(ELSEWHERE, NEW)
    passes = safety(store, cloud)
    passes.check()
    assert passes.check().reserved == frozenset()
    second = enrolled(store, cloud, slot_at(2, "cmp2"))
    retired = store.transition(second, Event.RETIRED, reason="pulled")
    assert passes.check().reserved == frozenset()
    assert "ALARM" not in caplog.text
    enrolled(store, cloud, slot_at(4, "cmp2"))
    assert retired.state is State.RETIRED
    assert passes.check().reserved == {ELSEWHERE}


def test_a_cloud_in_which_nothing_is_enrolled_is_asked_for_nothing(
    store: Store, cloud: Cloud
) -> None:
    cloud.add(SLOT)
    cloud.add(OTHER, NEW)
    found = safety(store, cloud).check()
    assert (found.reserved, found.left, cloud.asked) == (frozenset(), 0, [])


def test_what_is_no_one_time_use_device_is_somebody_elses(store: Store, cloud: Cloud) -> None:
    enrolled(store, cloud, SLOT)
    cloud.add(OTHER, "CUSTOM_GPU")
    cloud.seat(OTHER).burns = False
    passes = safety(store, cloud)
    assert [passes.check().reserved for _ in range(5)] == [frozenset()] * 5


def test_a_device_that_is_no_drive_is_somebody_elses(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """A card with a cleaner of its own, beside our drives: its host says what is a drive."""
    enrolled(store, cloud, SLOT)
    cloud.add(OTHER, "CUSTOM_GPU")
    cloud.add(slot_at(3), "CUSTOM_GPU")
    seen = SeenDrive(slot_at(3).address, "vfio-pci", None)
    store.host_seen("cmp1", 1, Hello("cmp1", LIFE, 1, "0.1.0", (seen,), ()))
    passes = safety(store, cloud)
    assert frozenset().union(*(passes.check().reserved for _ in range(5))) == {slot_at(3)}
    assert cloud.on_offer(OTHER)
    assert caplog.text.count("ALARM") == 1


def said_to_be_no_drive(store: Store, cloud: Cloud) -> None:
    enrolled(store, cloud, SLOT)
    cloud.add(OTHER, "CUSTOM_GPU")
    store.host_seen("cmp1", 1, Hello("cmp1", LIFE, 1, "0.1.0", (), ()))
    store.register_host("cmp2", PrivateKey.generate().public, LIFE)


def reserved_while(
    store: Store, cloud: Cloud, passes: Safety, seconds: float, heard: str
) -> frozenset[Slot]:
    """One pass each 30 s; meanwhile one host is ``heard``."""
    found = set[Slot]()
    for number in range(int(seconds) // 30):
        cloud.clock.forward(30)
        if heard:
            sequence = int(cloud.clock.monotonic()) * 10 + number
            store.host_seen(heard, sequence, Hello(heard, LIFE, sequence, "0.1.0", (), ()))
        found |= passes.check().reserved
    return frozenset(found)


def test_what_a_silent_host_said_long_ago_of_a_device_does_not_count(
    store: Store, cloud: Cloud
) -> None:
    """A drive may have come to that address since: whatever is there is kept from tenants."""
    said_to_be_no_drive(store, cloud)
    passes = safety(store, cloud)
    assert not reserved_while(store, cloud, passes, LIMITS.silent_after, "cmp2")
    assert reserved_while(store, cloud, passes, 150, "cmp2") == {OTHER}


def test_while_nobody_is_heard_nobody_falls_silent(store: Store, cloud: Cloud) -> None:
    """The broker is away, or our own worker: that says nothing of their devices. Nor when that is
    over, and the others speak first."""
    said_to_be_no_drive(store, cloud)
    passes = safety(store, cloud)
    assert not reserved_while(store, cloud, passes, 10 * LIMITS.silent_after, "")
    assert not reserved_while(store, cloud, passes, 60, "cmp2")
    assert not reserved_while(store, cloud, passes, 60, "cmp1")


def test_many_classes_are_asked_for_in_turn(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every one of them, and few in one pass: the bound must not grow with the cloud's classes."""
    enrolled(store, cloud, SLOT)
    others = {f"CUSTOM_{number}" for number in range(40)}
    every = others | {RC, NEW}
    monkeypatch.setattr(cloud, "resource_classes", lambda: frozenset(every))
    passes = safety(store, cloud)
    cloud.add(OTHER, NEW)
    asked: list[str] = []
    offered = cloud.offered

    def counted(resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        asked.append(resource_class)
        return offered(resource_class, traits)

    monkeypatch.setattr(cloud, "offered", counted)
    most = 0
    for _ in range(len(every)):
        before = len(asked)
        passes.check()
        most = max(most, len(asked) - before)
    assert not cloud.on_offer(OTHER)
    assert set(asked) == every
    assert most == 1 + 2 + 1, "the record's, two in turn, and the one that had a device"
    every.remove(NEW)
    for _ in range(len(every)):
        passes.check()
    asked.clear()
    for _ in range(len(every)):
        passes.check()
    assert NEW not in asked, "a class that Placement has no more is forgotten"


@pytest.mark.parametrize("what", ["traits", "classes"])
def test_classes_that_cannot_be_asked_for_stop_nothing_and_the_pass_is_not_good(
    store: Store, cloud: Cloud, what: str
) -> None:
    used_and_let_go(store, cloud, SLOT)
    cloud.add(OTHER, NEW)
    cloud.broken = {what: AWAY}
    passes = safety(store, cloud)
    found = passes.check()
    assert (found.reserved, found.left) == ({SLOT}, 1)
    cloud.broken.clear()
    passes.check()
    assert passes.check().reserved == {OTHER}


def test_a_placement_that_is_away_costs_one_answer_more(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    enrolled(store, cloud, SLOT)
    offered = cloud.offered

    def away(resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        found = offered(resource_class, traits)
        if traits:
            raise AWAY
        return found

    monkeypatch.setattr(cloud, "offered", away)
    passes = safety(store, cloud)
    assert passes.check().left == 0
    cloud.asked.clear()
    assert passes.check().left == 1
    assert cloud.asked == ["offered"] * 2, "the record's class, and one of two others"


def giving_back(store: Store, cloud: Cloud, slot: Slot) -> None:
    """Between Placement's answer and our next write."""
    record = certified(store, cloud, slot)
    store.amend(record, SlotChanges(custody_stage=Custody.RETURNING))
    lower(cloud, slot)
    cloud.delete(slot)


def offered(store: Store, cloud: Cloud, slot: Slot) -> None:
    available(store, cloud, slot)


@pytest.mark.parametrize("scene", [offered, giving_back], ids=lambda each: each.__name__)
def test_what_is_rightly_on_offer_stays_there(store: Store, cloud: Cloud, scene: Scene) -> None:
    scene(store, cloud, SLOT)
    assert safety(store, cloud).check().reserved == frozenset()
    assert cloud.on_offer(SLOT)


def test_without_tickets_an_unregistered_host_is_no_reason(store: Store, cloud: Cloud) -> None:
    without_host(store, cloud, SLOT)
    limits = replace(LIMITS, tickets=False)
    assert Safety(store, cloud, limits).check().reserved == frozenset()


def test_a_slot_that_is_given_back_during_the_pass_is_left_alone(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record is read before the slot goes on offer: it is read again before the write."""
    record = certified(store, cloud, SLOT)
    lower(cloud, SLOT)
    cloud.delete(SLOT)
    read = store.claims

    def claims(slot: Slot | None = None) -> object:
        before = read(slot)
        if slot is None:
            begun = store.amend(record, SlotChanges(custody_stage=Custody.RETURNING))
            store.transition(begun, Event.RETURNED)
        return before

    monkeypatch.setattr(store, "claims", claims)
    assert safety(store, cloud).check().reserved == frozenset()
    assert cloud.on_offer(SLOT)


def test_a_claim_during_the_pass_is_left_alone(store: Store, cloud: Cloud) -> None:
    """Nova's own window between claim and burn: the slot is no longer on offer."""
    used_and_let_go(store, cloud, SLOT)
    providers = cloud.offered("CUSTOM_NVME")
    cloud.claim(SLOT, "second")
    cloud.offered = lambda *_: providers  # type: ignore[method-assign]
    assert safety(store, cloud).check().reserved == frozenset()
    assert not cloud.seat(SLOT).reserved


def test_two_control_planes_reserve_it_once(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used_and_let_go(store, cloud, SLOT)
    put, second = cloud.put_reserved, safety(store, cloud)

    def after_the_other(view: object, *, full: bool) -> int:
        monkeypatch.setattr(cloud, "put_reserved", put)
        second.check()
        return put(view, full=full)  # type: ignore[arg-type]

    monkeypatch.setattr(cloud, "put_reserved", after_the_other)
    assert safety(store, cloud).check().reserved == frozenset()
    assert not cloud.on_offer(SLOT)
    assert caplog.text.count("ALARM") == 1


@pytest.mark.parametrize("error", [AWAY, STRANGE], ids=["away", "strange"])
def test_one_odd_slot_stops_no_other_and_the_pass_is_not_good(
    store: Store, cloud: Cloud, error: Exception
) -> None:
    used_and_let_go(store, cloud, SLOT)
    held(store, cloud, OTHER)
    cloud.broken = {f"rp-{SLOT}": error}
    passes = safety(store, cloud)
    found = passes.check()
    assert (found.reserved, found.left) == ({OTHER}, 1)
    cloud.broken.clear()
    assert passes.check().reserved == {SLOT}


def test_a_few_that_always_fail_block_nobody(store: Store, cloud: Cloud) -> None:
    for number in range(4):
        cloud.add(slot_at(number))
        cloud.broken[f"rp-{slot_at(number)}"] = AWAY
    enrolled(store, cloud, slot_at(8))
    cloud.add(slot_at(9))
    passes = safety(store, cloud)
    for _ in range(3):
        passes.check()
        cloud.clock.forward(1)
    assert not cloud.on_offer(slot_at(9))


def test_an_odd_class_hides_no_other(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    used_and_let_go(store, cloud, SLOT)
    odd = enrolled(store, cloud, OTHER)
    store.amend(odd, SlotChanges(resource_class="A: no class"))
    asked = cloud.offered

    def offered(resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        if resource_class.startswith("A"):
            raise BadInputError("Placement answered 400")
        return asked(resource_class, traits)

    monkeypatch.setattr(cloud, "offered", offered)
    found = safety(store, cloud).check()
    assert (found.reserved, found.left) == ({SLOT}, 1)


def unreadable(store: Store, slot: Slot, **values: str) -> None:
    with store._writing() as db:
        where = (models.slots.c.host == slot.host, models.slots.c.address == slot.address)
        db.execute(sa.update(models.slots).where(*where).values(**values))


@pytest.mark.parametrize("column", ["identity", "state"])
def test_a_row_that_cannot_be_read_has_no_right_and_stops_no_other(
    store: Store, cloud: Cloud, column: str, caplog: pytest.LogCaptureFixture
) -> None:
    available(store, cloud, SLOT)
    unreadable(store, SLOT, **{column: "sealed"})
    used_and_let_go(store, cloud, OTHER)
    assert safety(store, cloud).check().reserved == {SLOT, OTHER}
    assert not cloud.on_offer(SLOT)
    assert "cannot be read" in caplog.text


def test_the_lock_comes_before_the_line_of_history(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used_and_let_go(store, cloud, SLOT)

    def away(record: SlotRecord, changes: SlotChanges, *, note: str = "") -> SlotRecord:
        raise UnavailableError("the database takes no writes")

    monkeypatch.setattr(store, "amend", away)
    assert safety(store, cloud).check().reserved == {SLOT}
    assert not cloud.on_offer(SLOT)
    assert "ALARM" in caplog.text


def test_a_record_that_is_locked_by_somebody_else_keeps_no_drive_on_offer(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A transaction that stands still, of another process or of a person: who writes waits."""
    slots = [slot_at(number) for number in range(1, 5)]
    for slot in slots:
        used_and_let_go(store, cloud, slot)
    left: list[int] = []

    def locked(record: SlotRecord, changes: SlotChanges, *, note: str = "") -> SlotRecord:
        left.append(sum(cloud.on_offer(slot) for slot in slots))
        cloud.clock.forward(30)
        raise UnavailableError("the row is locked")

    monkeypatch.setattr(store, "amend", locked)
    assert safety(store, cloud).check().reserved == set(slots)
    assert left == [0], "all are reserved first, and one answer is enough"
    assert caplog.text.count("ALARM") == len(slots)


def test_a_record_that_is_slow_to_commit_keeps_no_pass_for_each_of_many_lines(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A database whose synchronous standby is away: each commit succeeds, after a minute."""
    slots = [slot_at(number) for number in range(1, 5)]
    for slot in slots:
        used_and_let_go(store, cloud, slot)
    amend, written = store.amend, []

    def slow(record: SlotRecord, changes: SlotChanges, *, note: str = "") -> SlotRecord:
        written.append(record.slot)
        cloud.clock.forward(60)
        return amend(record, changes, note=note)

    monkeypatch.setattr(store, "amend", slow)
    assert safety(store, cloud).check().reserved == set(slots)
    assert len(written) == 1
    assert caplog.text.count("ALARM") == len(slots)


def by_a_person(store: Store, record: SlotRecord) -> None:
    store.hold(record, because(HoldCode.BY_PERSON, "look at the bay"), by=Initiator("ada"))


def for_good(store: Store, record: SlotRecord) -> None:
    store.transition(record, Event.RETIRED, reason="smoke", by=Initiator("ada"))


def by_our_own_word(store: Store, record: SlotRecord) -> None:
    store.hold(record, because(HoldCode.TWO_PLACES, "seen elsewhere"))


@pytest.mark.parametrize(
    ("decide", "alarms"),
    [(by_a_person, 0), (for_good, 0), (by_our_own_word, 1)],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_a_drive_that_a_person_keeps_from_its_next_server_calls_nobody(
    store: Store,
    cloud: Cloud,
    caplog: pytest.LogCaptureFixture,
    decide: Callable[[Store, SlotRecord], None],
    alarms: int,
) -> None:
    """It was rightly on offer, and is so until somebody reserves it: here the pass is quicker than
    the look that follows the decision. Whoever offers it then does so without a right."""
    decide(store, available(store, cloud, SLOT))
    passes = safety(store, cloud)
    assert passes.check().reserved == {SLOT}
    assert caplog.text.count("ALARM on-offer") == alarms
    assert "on offer while" in store.history(SLOT)[-1].reason
    lower(cloud, SLOT)
    assert passes.check().reserved == {SLOT}
    assert caplog.text.count("ALARM on-offer") == alarms + 1


@pytest.mark.parametrize("looked", [False, True])
def test_what_was_seen_locked_since_a_person_held_it_or_was_in_use_then_is_an_alarm(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture, looked: bool
) -> None:
    record = available(store, cloud, SLOT) if looked else enrolled(store, cloud, SLOT)
    by_a_person(store, record)
    if looked:
        cloud.burn(SLOT)
        cloud.clock.forward(1)
        after = store.slot(SLOT)
        assert after is not None
        store.amend(after, SlotChanges(read_at=cloud.clock()))
    lower(cloud, SLOT)
    assert safety(store, cloud).check().reserved == {SLOT}
    assert caplog.text.count("ALARM on-offer") == 1


def test_a_ratio_that_somebody_raised_puts_a_held_drive_on_offer(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``openstack resource provider inventory set ... allocation_ratio=2``: the list shows it."""
    enrolled(store, cloud, SLOT, server="server")
    lower(cloud, SLOT)
    look = cloud.view

    def view(uuid: str, resource_class: str) -> View | None:
        seen = look(uuid, resource_class)
        assert seen is not None
        twice = tuple(replace(each, allocation_ratio=2.0) for each in seen.inventories)
        return replace(seen, inventories=twice)

    monkeypatch.setattr(cloud, "view", view)
    monkeypatch.setattr(cloud, "offered", lambda *_: [cloud.seat(SLOT).provider])
    assert safety(store, cloud).check().reserved == {SLOT}
    assert cloud.seat(SLOT).reserved


def test_placement_empty_once_reserves_nothing_and_the_next_pass_is_as_ever(
    store: Store, cloud: Cloud
) -> None:
    offered(store, cloud, OTHER)
    used_and_let_go(store, cloud, SLOT)
    passes = safety(store, cloud)
    cloud.empty = True
    assert passes.check().reserved == frozenset()
    cloud.empty = False
    assert passes.check().reserved == {SLOT}
    assert cloud.on_offer(OTHER)


def test_no_good_pass_within_the_bound_is_one_alarm(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    lateness = Lateness(cloud.clock.monotonic)
    passes = safety(store, cloud, lateness)
    lateness.expect(PASS, lambda: passes.bound)
    enrolled(store, cloud, SLOT)
    cloud.request_seconds = 0.1

    def an_hour() -> None:
        until = cloud.clock.seconds + 3600
        while cloud.clock.seconds < until:
            cloud.clock.forward(passes._pause(passes.run_once()))

    an_hour()
    # The record's class, and two more requests for what it does not know.
    assert passes.bound == pytest.approx(2 * (10 + 0.3) + 0.3 + 0.3)
    assert "ALARM" not in caplog.text
    cloud.broken = {"offered": AWAY}
    an_hour()
    assert caplog.text.count("ALARM late safety pass") == 1
    cloud.broken.clear()
    an_hour()
    assert caplog.text.count("over") == 1
    assert caplog.text.count("ALARM") == 1


def test_a_mistake_of_ours_ends_no_thread(store: Store, cloud: Cloud) -> None:
    enrolled(store, cloud, SLOT)
    passes = safety(store, cloud)
    cloud.broken = {"offered": STRANGE}
    passes.run_once()
    cloud.broken = {"offered": QuarantineError("x")}
    passes.run_once()
    cloud.broken.clear()
    cloud.add(OTHER)
    passes.run_once()
    assert not cloud.on_offer(OTHER)


@pytest.mark.parametrize("fails", [0, 1])
@pytest.mark.parametrize("moment", [0.0, 0.5, 3.0, 9.0, 11.5])
def test_nothing_stands_on_offer_for_longer_than_the_bound_says(
    store: Store, cloud: Cloud, fails: int, moment: float
) -> None:
    """Dirty at any moment of a pass or a pause, and with one pass that fails."""
    enrolled(store, cloud, SLOT, server="server")
    passes = safety(store, cloud)
    cloud.request_seconds = 0.5
    passes.run_once()
    bound = passes.bound
    cloud.clock.forward(moment)
    lower(cloud, SLOT)
    cloud.delete(SLOT)
    since = cloud.clock.seconds
    cloud.clock.forward(max(0.0, passes._pause(0.5) - moment))
    for _ in range(fails):
        cloud.broken = {"offered": AWAY}
        cloud.clock.forward(passes._pause(passes.run_once()))
        cloud.broken.clear()
    passes.run_once()
    assert not cloud.on_offer(SLOT)
    # What the reservation itself takes is measured from the next pass on.
    assert cloud.clock.seconds - since <= bound + 4 * 0.5
    assert State.IN_USE in {record.state for record in store.slots()}


def test_very_many_that_lost_their_locks_are_reserved_without_a_pause(
    store: Store, cloud: Cloud
) -> None:
    """A script lowered them all, or Placement was restored: each was bought while we paused."""
    slots = [Slot("cmp1", f"0000:{n:02x}:00.0") for n in range(1, 41)]
    for slot in slots:
        enrolled(store, cloud, slot)
        lower(cloud, slot)
    cloud.request_seconds = 0.3
    passes = safety(store, cloud)
    stop = Waits(cloud, lambda: not any(map(cloud.on_offer, slots)))
    passes.run_forever(stop)
    assert stop.waited[-1] > 0
    assert not any(stop.waited[:-1])
    assert len(stop.waited) > 2


class Waits(threading.Event):
    """Set once ``done``; who waits for it lets the time go by."""

    def __init__(self, cloud: Cloud, done: Callable[[], bool]) -> None:
        super().__init__()
        self.cloud, self.done, self.waited = cloud, done, list[float]()

    def is_set(self) -> bool:
        return self.done()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        self.cloud.clock.forward(timeout or 0.0)
        return self.done()


class Beside:
    """What a service runs beside its loop, which ends when each of it was begun."""

    def __init__(self) -> None:
        self.conf = load(())
        self.conf.set_override("worker", False, "run")
        self.doors, self.lateness = MACHINE, Lateness(time.monotonic)
        self.begun = [threading.Event() for _part in ("safety", "heads", "delays")]
        self.seen: bool | None = None
        self.reconciler = _Loop(self)
        self.safety, self.heads, self.delay_meter = (_Begun(event) for event in self.begun)

    def detection(self) -> tuple[int, float]:
        return 0, 1.0


@dataclass
class _Begun:
    event: threading.Event

    def run_forever(self, stop: threading.Event) -> None:
        self.event.set()


@dataclass
class _Loop:
    world: Beside

    def run_forever(self, stop: threading.Event) -> None:
        self.world.seen = all(event.wait(20) for event in self.world.begun)


def test_the_service_runs_the_pass_and_the_heads_beside_its_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nothing but the loop, which may be slow, looks at what is on offer."""
    monkeypatch.setattr(service, "set_up_logging", lambda *_: None)
    monkeypatch.setattr(service, "on_signals", lambda action: None)
    world = Beside()
    service.serve(cast(Assembly, world))
    assert world.seen


def test_what_watches_over_offers_runs_before_what_may_be_missing() -> None:
    """A service that cannot sign, for a file that is gone, still keeps dirty drives out of the pool
    until it ends, and each time that it is started again."""
    passes = threading.Event()

    class Parts:
        conf = SimpleNamespace(
            run=SimpleNamespace(
                log_level="INFO", log_format="line", audit_file="/dev/null/x", worker=False
            )
        )
        safety = SimpleNamespace(run_forever=lambda _stop: passes.set())

        @property
        def reconciler(self) -> object:
            assert passes.wait(10)
            raise BadInputError("order key: gone")

    with pytest.raises(BadInputError, match="gone"):
        serve(Parts())  # type: ignore[arg-type]
