"""A silent host is named within minutes where something waits for it, once, and when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eraser.wire.identity import Slot
from eraser.wire.report import Hello
from eraser.wire.signing import PrivateKey
from quarantine.record.facts import SlotRecord
from quarantine.record.states import Event, State
from quarantine.record.store import Store
from quarantine.silence import Silence, words
from tests.unit.quarantine.store_suite import certified, enrol, erasing
from tests.unit.quarantine.testimony import NOW, RECORD

LIFE = "incarnation-00001"


class Clock:
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    found = Store.open(f"sqlite:///{tmp_path}/record.db", clock=clock)
    found.migrate()
    for number in range(1, 5):
        found.register_host(f"cmp{number}", PrivateKey.generate().public, LIFE)
    yield found
    found.close()


SILENT, OVERDUE = 420.0, 21600.0
ONE, TWO = Slot("cmp1", "0000:01:00.0"), Slot("cmp1", "0000:02:00.0")


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    caplog.clear()
    return found


def speak(store: Store, *numbers: int) -> None:
    for number in numbers:
        name = f"cmp{number}"
        host = store.host(name)
        assert host is not None
        sequence = host.sequence + 1
        store.host_seen(name, sequence, Hello(name, LIFE, sequence, "0.1.0", (), ()))


def test_a_silent_host_with_an_order_is_named_within_minutes_and_once(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    erasing(store, ONE)
    silence = Silence(store, SILENT, OVERDUE, clock)
    clock.forward(SILENT)
    assert silence.check() == frozenset()
    speak(store, 2, 3, 4)
    clock.forward(1)
    assert silence.check() == silence.check() == {"cmp1"}
    (alarm,) = said(caplog)
    assert alarm.startswith(
        "ALARM host cmp1 is silent for 7 min: its orders (0000:01:00.0) are unheard since "
        "2026-11-20 12:00 UTC"
    )
    speak(store, 1)
    assert silence.check() == frozenset()
    assert said(caplog) == ["over: host cmp1 is heard again, or removed"]
    clock.forward(SILENT - 1)
    assert silence.check() == frozenset()
    speak(store, 2, 3, 4)
    clock.forward(2)
    assert silence.check() == {"cmp1"}, "anew"
    store.remove_host("cmp1")
    clock.forward(-86400)
    assert silence.check() == frozenset()


def test_a_host_that_is_silent_since_our_clock_was_set_back_is_named(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    erasing(store, ONE)
    silence = Silence(store, SILENT, OVERDUE, clock)
    clock.forward(-86400)
    assert silence.check() == frozenset()
    for _ in range(8):
        clock.forward(60)
        speak(store, 2, 3, 4)
        named = silence.check()
    assert named == {"cmp1"}
    (alarm,) = said(caplog)
    assert "cmp1 is silent for 8 min" in alarm


@pytest.mark.parametrize("what", ["on offer", "waiting", "nothing", "in use"])
def test_who_waits_for_a_silent_host(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """A host on which nothing waits is named when it is overdue."""
    if what == "on offer":
        record = certified(store, ONE)
        store.transition(record, Event.RETURNED)
    elif what == "waiting":
        certified(store, ONE)
    elif what == "in use":
        enrol(store, ONE, in_use=True)
    silence = Silence(store, SILENT, OVERDUE, clock)
    clock.forward(SILENT + 1)
    speak(store, 2, 3, 4)
    soon = {"on offer": "1 of its drives stay on offer", "waiting": "1 of its drives wait for it"}
    assert bool(silence.check()) is (what in soon)
    clock.forward(OVERDUE)
    speak(store, 2, 3, 4)
    assert silence.check() == {"cmp1"}
    (alarm,) = said(caplog)
    assert soon.get(what, "nothing waits for it") in alarm


def test_very_many_silent_hosts_are_one_alarm(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker is away."""
    erasing(store, ONE)
    silence = Silence(store, SILENT, OVERDUE, clock)
    for _ in range(60):
        clock.forward(SILENT)
        silence.check()
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM 4 of 4 hosts are silent for more than 7 min")
    speak(store, 1, 2, 3, 4)
    silence.check()
    assert said(caplog) == ["over: most hosts are heard again"]


def test_while_the_control_plane_was_stopped_nobody_could_be_heard(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    erasing(store, ONE)
    clock.forward(86400)
    silence = Silence(store, SILENT, OVERDUE, clock)
    assert silence.check() == frozenset()
    assert said(caplog) == []


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.ERASING, "host silent 10 min, order unheard since 2026-11-20 12:00 UTC"),
        (State.AVAILABLE, "host silent 10 min"),
        (State.CERTIFIED, "host silent 10 min"),
        (State.IN_USE, ""),
        (State.HELD, ""),
    ],
)
def test_what_slots_and_show_say_of_a_silent_host(state: State, expected: str) -> None:
    record: SlotRecord = replace(RECORD, state=state)
    now = NOW + timedelta(minutes=10)
    assert words(record, NOW, now, SILENT) == expected
    assert words(record, None, now, SILENT) == ""
    assert words(record, now, now, SILENT) == ""
