"""A silent host is named within minutes where something waits for it, once, and when it is over."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from eraser.protocol.report import Hello
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotRecord, Subject
from quarantine.record.words.states import Event, State
from quarantine.service.watch.host_liveness import HostLiveness, words
from tests.lab.record import migrated_file
from tests.unit.quarantine.store_suite import certified, enrol, erasing
from tests.unit.quarantine.testimony import IDENTITY, NOW, RECORD

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
    found = Store.open(migrated_file(tmp_path / "record.db"), clock=clock)
    for number in range(1, 5):
        found.register_host(f"cmp{number}", PrivateKey.generate().public, LIFE)
    yield found
    found.close()


IDENTITIES = {number: replace(IDENTITY, serial=f"S{number}") for number in (9, 17)}
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
    silence = HostLiveness(store, SILENT, OVERDUE, clock)
    clock.forward(SILENT)
    assert silence.check() == frozenset()
    speak(store, 2, 3, 4)
    clock.forward(1)
    assert silence.check() == silence.check() == {"cmp1"}
    (alarm,) = said(caplog)
    assert alarm.startswith(
        "ALARM host-silent host cmp1: silent for 7 min: its orders (0000:01:00.0) are unheard "
        "since 2026-11-20 12:00 UTC"
    )
    speak(store, 1)
    assert silence.check() == frozenset()
    assert said(caplog) == ["over: host-silent host cmp1: it is heard again, or removed"]
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
    silence = HostLiveness(store, SILENT, OVERDUE, clock)
    clock.forward(-86400)
    assert silence.check() == frozenset()
    for _ in range(8):
        clock.forward(60)
        speak(store, 2, 3, 4)
        named = silence.check()
    assert named == {"cmp1"}
    (alarm,) = said(caplog)
    assert "host cmp1: silent for 8 min" in alarm


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
    silence = HostLiveness(store, SILENT, OVERDUE, clock)
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
    silence = HostLiveness(store, SILENT, OVERDUE, clock)
    for _ in range(60):
        clock.forward(SILENT)
        silence.check()
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM hosts-silent hosts: 4 of 4 are silent for more than 7 min")
    speak(store, 1, 2, 3, 4)
    silence.check()
    assert said(caplog) == ["over: hosts-silent hosts: most are heard again"]


@pytest.fixture
def cloud(store: Store) -> Store:
    """20 hosts."""
    for number in range(5, 21):
        store.register_host(f"cmp{number}", PrivateKey.generate().public, LIFE)
    return store


ALL = range(1, 21)


def test_many_silent_hosts_are_counted_and_those_that_something_waits_for_named_first(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (17, 9):
        erasing(cloud, Slot(f"cmp{number}", "0000:01:00.0"), IDENTITIES[number])
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    clock.forward(60)
    speak(cloud, *ALL[7:])
    clock.forward(SILENT - 30)
    speak(cloud, *ALL[10:16], *ALL[17:])
    clock.forward(40)
    assert silence.check() == frozenset()
    assert silence.check() == frozenset()
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM hosts-silent hosts: 11 of 20 are silent for more than 7 min: ")
    unheard = "(its orders (0000:01:00.0) are unheard since 2026-11-20 12:00 UTC)"
    assert alarm.endswith(
        f"First: cmp17 {unheard}, cmp9 {unheard}, cmp1, cmp2, cmp3 and 6 more: see 'host list'"
    )


def test_who_falls_silent_after_many_did_is_named(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A rack is away for days; another host dies meanwhile."""
    erasing(cloud, Slot("cmp20", "0000:01:00.0"))
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    for _ in range(10):
        clock.forward(60)
        speak(cloud, *ALL[5:])
        silence.check()
    assert len(said(caplog)) == 1
    for _ in range(8):
        clock.forward(60)
        speak(cloud, *ALL[5:19])
        named = silence.check()
    assert named == {"cmp20"}
    (alarm,) = said(caplog)
    assert alarm.startswith(
        "ALARM host-silent host cmp20: silent for 8 min: its orders (0000:01:00.0)"
    )
    speak(cloud, 20)
    assert silence.check() == frozenset()
    assert said(caplog) == ["over: host-silent host cmp20: it is heard again, or removed"]


def test_many_more_that_fall_silent_later_are_one_more_alarm(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    for _ in range(10):
        clock.forward(60)
        speak(cloud, *ALL[5:])
        silence.check()
    said(caplog)
    for _ in range(60):
        clock.forward(60)
        silence.check()
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM hosts-silent hosts: 20 of 20 are silent")


def test_who_was_not_late_yet_when_many_were_is_told_of(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A rack of nine dies at once, each a while after its last hello, and stays away."""
    erasing(cloud, Slot("cmp9", "0000:01:00.0"), IDENTITIES[9])
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    speak(cloud, *ALL)
    clock.forward(30)
    speak(cloud, *ALL[5:])
    for seconds in (SILENT - 29, SILENT - 30, SILENT, SILENT):
        speak(cloud, *ALL[9:])
        clock.forward(seconds)
        silence.check()
    first, *others = said(caplog)
    assert first.startswith("ALARM hosts-silent hosts: 5 of 20 are silent")
    (second,) = others
    assert second.startswith("ALARM hosts-silent hosts: 9 of 20 are silent")
    assert "First: cmp9 (its orders" in second


def test_one_more_beside_those_that_were_named_long_ago_is_named(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Three hosts are off for weeks: the fourth is not the broker."""
    for number in (17, 9):
        erasing(cloud, Slot(f"cmp{number}", "0000:01:00.0"), IDENTITIES[number])
    erasing(cloud, ONE)
    erasing(cloud, Slot("cmp2", "0000:01:00.0"), replace(IDENTITY, serial="S2"))
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    quiet = {1, 9, 17}
    for _ in range(4):
        clock.forward(SILENT)
        speak(cloud, *(set(ALL) - quiet))
        silence.check()
    assert len(said(caplog)) == 3
    for _ in range(2):
        clock.forward(SILENT - 1)
        speak(cloud, *(set(ALL) - quiet - {2}))
        named = silence.check()
    assert named == {"cmp1", "cmp2", "cmp9", "cmp17"}
    (alarm,) = said(caplog)
    assert alarm.startswith(
        "ALARM host-silent host cmp2: silent for 14 min: its orders (0000:01:00.0)"
    )


def test_what_is_left_of_many_silent_hosts_is_named_at_once(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    clock.forward(SILENT + 1)
    assert silence.check() == frozenset()
    said(caplog)
    speak(cloud, *ALL[2:])
    assert silence.check() == silence.check() == {"cmp1", "cmp2"}
    assert said(caplog) == [
        "over: hosts-silent hosts: most are heard again",
        "ALARM hosts-silent hosts: 2 are still silent, of those that were together: cmp1, cmp2",
    ]
    speak(cloud, *ALL[1:])
    assert silence.check() == {"cmp1"}
    assert not said(caplog), "of one of them alone nobody was called"
    speak(cloud, *ALL)
    assert silence.check() == frozenset()
    left = "those that were left are heard again, or removed"
    assert said(caplog) == [f"over: hosts-silent hosts: {left}"]
    erasing(cloud, ONE)
    clock.forward(SILENT + 1)
    speak(cloud, *ALL[1:])
    silence.check()
    speak(cloud, 1)
    silence.check()
    called, over = said(caplog)
    assert called.startswith("ALARM host-silent host cmp1: ")
    assert over.startswith("over: host-silent host cmp1: ")


def test_many_silent_hosts_are_told_once_though_our_clock_is_set_back(
    cloud: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    silence = HostLiveness(cloud, SILENT, OVERDUE, clock)
    clock.forward(SILENT + 1)
    silence.check()
    said(caplog)
    clock.forward(-86400)
    for _ in range(20):
        silence.check()
        clock.forward(60)
    assert [text[:20] for text in said(caplog)] == ["over: hosts-silent h", "ALARM hosts-silent h"]


def test_while_the_control_plane_was_stopped_nobody_could_be_heard(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    erasing(store, ONE)
    clock.forward(86400)
    silence = HostLiveness(store, SILENT, OVERDUE, clock)
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


def test_many_silent_hosts_in_maintenance_are_not_heard_again(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    silence = HostLiveness(store, SILENT, OVERDUE, clock)
    clock.forward(SILENT + 1)
    silence.check()
    assert len(said(caplog)) == 1
    until = clock() + timedelta(hours=1)
    for number in range(1, 5):
        subject = Subject(f"cmp{number}")
        store.put_maintenance(subject, until=until, reason="network", by=Initiator("ada"))
    silence.check()
    assert said(caplog) == ["over: hosts-silent hosts: most are in maintenance, or heard again"]
    clock.forward(3601)
    silence.check()
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM hosts-silent hosts: 4 of 4 are silent")
