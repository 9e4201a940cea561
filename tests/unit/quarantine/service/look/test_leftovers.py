"""What ended while the service was stopped is said to be over, and what still is is not."""

from __future__ import annotations

import ast
import inspect
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from quarantine.record.alarms import AlarmCall
from quarantine.record.database import engine, models
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import LASTING, AlarmCode, HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import alarms
from quarantine.rules.action import ServiceLimits
from quarantine.rules.holds import because
from quarantine.service.reconciler import Reconciler
from quarantine.service.sweep.leftovers import (
    OF_WORKER,
    REMEMBERED,
    SETTLE_SECONDS,
    Leftovers,
)
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    enrolled,
    open_store,
    slot_at,
)

AFTER = 3600.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


def call(store: Store, code: AlarmCode, subject: str, at: datetime) -> None:
    store.note_alarms({}, [AlarmCall(code, subject, "text", at, at, 1)])


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_what_was_not_told_again_is_over_once(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    before = clock() - timedelta(days=1)
    call(store, AlarmCode.HOST_SILENT, "host cmp1", before)
    call(store, AlarmCode.HOST_SILENT, "host cmp2", before)
    call(store, AlarmCode.LATE, "sweep", before)
    call(store, AlarmCode.ON_OFFER, "cmp1/0000:01:00.0", before)
    leftovers = Leftovers(store, AFTER, clock, clock.monotonic)
    clock.forward(AFTER - 1)
    call(store, AlarmCode.HOST_SILENT, "host cmp2", clock())
    leftovers.end()
    clock.forward(2)
    leftovers.end()
    assert said(caplog) == []
    clock.forward(SETTLE_SECONDS)
    leftovers.end()
    text = "not told again in 1 h since the service was started"
    assert said(caplog) == [
        f"over: host-silent host cmp1: {text}",
        f"over: late sweep: {text}",
    ], "not what is told of a moment, nor what was told again"
    leftovers.end()
    assert said(caplog) == []


def test_what_stands_on_a_slot_is_not_over(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not told again after a restart: the record says that people know."""
    cloud = Cloud(clock)
    slots = [slot_at(number) for number in (1, 2)]
    for slot in slots:
        call(store, AlarmCode.RECORD_UNREADABLE, str(slot), clock() - timedelta(days=1))
    record, _other = (enrolled(store, cloud, slot, server="server") for slot in slots)
    store.amend(record, SlotChanges(alarm="its host's row cannot be read"))
    leftovers = Leftovers(store, AFTER, clock, clock.monotonic)
    clock.forward(AFTER + 1)
    leftovers.end()
    clock.forward(SETTLE_SECONDS)
    leftovers.end()
    (only,) = said(caplog)
    assert only.startswith(f"over: record-unreadable {slots[1]}: ")


def test_what_was_over_before_its_call_was_written_is_over(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Another thread writes it: the slot may have been released, or guarded again, by then."""
    cloud = Cloud(clock)
    held, left, wrong, retired = (slot_at(number) for number in range(1, 5))
    for slot in (held, left, wrong, retired):
        record = enrolled(store, cloud, slot)
        if slot in (held, left):
            record = store.hold(record, because(HoldCode.BY_PERSON, "x"))
        if slot == left:
            store.transition(record, Event.RELEASED_BY_OPERATOR, reason="x")
        if slot == wrong:
            store.amend(record, SlotChanges(alarm="its host lacks a defence"))
        if slot == retired:
            store.transition(record, Event.RETIRED, reason="x")
    before = clock() - timedelta(days=1)
    for slot in (held, left, wrong, retired):
        for code in (AlarmCode.HELD, AlarmCode.RETIRED, AlarmCode.UNGUARDED):
            call(store, code, str(slot), before)
    with engine.writing(store._engine) as db:
        db.execute(sa.update(models.alarms).values(over_at=None))  # as an earlier release wrote it
    leftovers = Leftovers(store, AFTER, clock, clock.monotonic)
    clock.forward(AFTER + 1)
    leftovers.end()
    clock.forward(SETTLE_SECONDS)
    leftovers.end()
    found = {tuple(text.split(": ")[1].split()) for text in said(caplog)}
    everything = {
        (str(code), str(slot))
        for code in (AlarmCode.HELD, AlarmCode.RETIRED, AlarmCode.UNGUARDED)
        for slot in (held, left, wrong, retired)
    }
    assert everything - found == {
        ("held", str(held)),
        ("unguarded", str(wrong)),
        ("retired", str(retired)),
    }


def test_a_call_that_is_written_after_its_end_does_not_stand(store: Store, clock: Clock) -> None:
    """A look whose slot is overdue at last takes its step: the call is written beside that."""
    cloud = Cloud(clock)
    past, present = (enrolled(store, cloud, slot_at(number)) for number in (1, 2))
    for record in (past, present):
        store.hold(record, because(HoldCode.OTHER, "x"), changes=SlotChanges(alarm="no step"))
    released = store.slot(past.slot)
    assert released is not None
    store.transition(released, Event.RELEASED_BY_OPERATOR, reason="x")
    codes = AlarmCode.HELD, AlarmCode.OVERDUE
    for record in (past, present):
        for code in codes:
            call(store, code, str(record.slot), clock())
    call(store, AlarmCode.HELD, "host cmp1", clock())
    call(store, AlarmCode.RECORD_UNREADABLE, str(past.slot), clock())
    standing = {(line.code, line.subject) for line in store.alarm_page(limit=9, is_over=False)}
    assert standing == {
        *((code, str(present.slot)) for code in codes),
        (AlarmCode.HELD, "host cmp1"),
        (AlarmCode.RECORD_UNREADABLE, str(past.slot)),
    }
    assert len(store.alarm_page(limit=9, is_over=True)) == len(codes)


def test_what_the_worker_remembers_is_the_workers_to_end(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be a service of its own, and does not tell again because the loop began anew."""
    call(store, AlarmCode.MESSAGE_TOO_LONG, "host cmp1", clock() - timedelta(days=1))
    call(store, AlarmCode.HOST_SILENT, "host cmp1", clock() - timedelta(days=1))
    loops = Leftovers(store, AFTER, clock, clock.monotonic)
    workers = Leftovers(store, AFTER, clock, clock.monotonic, codes=OF_WORKER)
    for leftovers, code in ((loops, "host-silent"), (workers, "message-too-long")):
        for _ in range(3):
            clock.forward(AFTER)
            leftovers.end()
        (only,) = said(caplog)
        assert only.startswith(f"over: {code} host cmp1: ")


def test_very_many_are_all_ended(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quarantine.service.sweep.leftovers._PAGE", 3)
    for number in range(8):
        call(store, AlarmCode.HOST_SILENT, f"host cmp{number}", clock() - timedelta(days=1))
    leftovers = Leftovers(store, AFTER, clock, clock.monotonic)
    clock.forward(AFTER + 1)
    leftovers.end()
    clock.forward(SETTLE_SECONDS)
    leftovers.end()
    assert len(said(caplog)) == 8


def test_the_loop_ends_them(store: Store, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    call(store, AlarmCode.LATE, "safety pass", clock() - timedelta(days=1))
    limits = ServiceLimits()
    loop = Reconciler(
        store,
        Cloud(clock),
        NotingDispatcher(store, clock),
        limits,
        clock,
        tickets=NoTickets(),
        monotonic=clock.monotonic,
    )
    loop.listen()
    assert said(caplog) == []
    for _ in range(2):
        clock.forward(limits.overdue_after + 3600)
        loop.listen()
    found = [text for text in said(caplog) if text.startswith("over: ")]
    assert [text[:23] for text in found] == ["over: late safety pass:"]


def test_each_alarm_that_lasts_stands_in_one_place() -> None:
    """On a slot's record or in a process; a row that cannot be read in either."""
    shared = REMEMBERED & LASTING
    assert shared == {AlarmCode.RECORD_UNREADABLE}
    codes = AlarmCode.__members__
    nodes = ast.walk(ast.parse(inspect.getsource(alarms.concern)))
    named = {node.attr for node in nodes if isinstance(node, ast.Attribute)} & codes.keys()
    assert named == {code.name for code in LASTING}


def test_what_stands_is_not_over_because_our_clock_was_set_back(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """This process called people, once, an hour before its own start by the clock of now."""
    set_back = timedelta(0)
    leftovers = Leftovers(store, AFTER, lambda: clock() - set_back, clock.monotonic)
    set_back = timedelta(hours=2)
    clock.forward(AFTER / 2)
    call(store, AlarmCode.HOST_SILENT, "host cmp1", clock() - set_back)
    for _ in range(3):
        clock.forward(AFTER)
        leftovers.end()
    assert said(caplog) == []
    (line,) = store.alarm_page(limit=2)
    assert line.over_at is None


def test_what_was_called_for_by_a_clock_that_was_ahead_is_over(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """It was set back before this process began: nobody would say so for as long as it runs."""
    call(store, AlarmCode.HOST_SILENT, "host cmp1", clock() + timedelta(days=3))
    call(store, AlarmCode.HOST_SILENT, "host cmp2", clock() + timedelta(seconds=30))
    leftovers = Leftovers(store, AFTER, clock, clock.monotonic)
    for _ in range(3):
        clock.forward(AFTER)
        leftovers.end()
    (only,) = said(caplog)
    assert only.startswith("over: host-silent host cmp1: "), (
        "the other one may be of another process"
    )
