"""A maintenance silences calls about silence and delay, until its end; and changes nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.report import Hello
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import View
from quarantine.doors import MACHINE
from quarantine.errors import (
    BadInputError,
    ConflictError,
    StaleError,
    UnknownError,
    UnreadableError,
)
from quarantine.operations import hosts, maintenance, slots
from quarantine.operations.maintenance import Initiator, Subject
from quarantine.operations.overview import capacity
from quarantine.operations.papers import keys
from quarantine.operations.plane import Plane
from quarantine.record.database import engine as door
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import State
from quarantine.rules.absence import Absence
from quarantine.rules.action import ActionKind, ServiceLimits, SlotContext
from quarantine.rules.alarmbook import ALARMS, Severity
from quarantine.rules.alarms import may_be_overdue
from quarantine.rules.decide import decide
from quarantine.rules.maintenance import Maintenances, words
from quarantine.service.watch.host_liveness import HostLiveness
from tests.lab.record import migrated_file
from tests.unit.quarantine.rules import test_decide as a
from tests.unit.quarantine.service.look.test_absence import LATER, cloud, listing
from tests.unit.quarantine.store_suite import enrol, erasing

START = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
ONE, TWO = Slot("cmp1", "0000:01:00.0"), Slot("cmp1", "0000:02:00.0")
HOST, SLOT = Subject("cmp1"), Subject.of(ONE)
ADA = Initiator("ada", "ops", "req-1")
LIFE = "incarnation-00001"


class Clock:
    now = START

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
    for number in range(1, 4):
        found.register_host(f"cmp{number}", PrivateKey.generate().public, LIFE)
    yield found
    found.close()


@pytest.fixture
def plane(tmp_path: Path, store: Store, clock: Clock) -> Plane:
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[placement]\ncloud = no-such-cloud\n[detection]\nlongest_maintenance = 7200\n"
        "[capacity]\nflavors = i1-45:1\n"
    )
    keys.create(Plane([file]))
    return Plane([file], replace(MACHINE, now=clock))


def begin(plane: Plane, subject: Subject = HOST, hours: float = 1.0, **named: Any) -> Any:
    until = plane.doors.now() + timedelta(hours=hours)
    words = {"reason": "fans", "by": ADA, **named}
    return maintenance.begin(plane, subject, until=until, **words)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    caplog.clear()
    return found


# Which alarms, and that no step changes.


def test_no_alarm_of_a_drive_in_wrong_hands_is_silenced() -> None:
    silenced = {code for code, kind in ALARMS.items() if kind.silenced}
    assert silenced == {
        AlarmCode.OVERDUE,
        AlarmCode.HOST_SILENT,
        AlarmCode.HOSTS_SILENT,
        AlarmCode.SLOTS_ABSENT,
    }
    assert {ALARMS[code].severity for code in silenced} == {Severity.WARNING}


LONG_AGO = timedelta(days=2)
CONTEXTS = (
    SlotContext(),
    SlotContext(unknown="a row"),
    SlotContext(lacks="dirty", recall="used"),
    SlotContext(unguarded="no hook", incarnation=LIFE),
    SlotContext(ghosts=("a ghost",)),
)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("alarm", ["", "something stands"])
@pytest.mark.parametrize("age", [timedelta(), LONG_AGO])
def test_no_step_of_a_slot_depends_on_it(
    state: State, context: SlotContext, alarm: str, age: timedelta
) -> None:
    """All that differs is the text of a delay, and what follows is what followed without it."""
    record = replace(a.RECORD, state=state, alarm=alarm, entered_at=a.NOW - age)
    for custody in (a.CUSTODY, None):
        record = replace(record, custody=custody)
        for view in VIEWS:
            loud, quiet = (
                decide(record, view, a.NOW, ServiceLimits(), replace(context, quiet=on))
                for on in (False, True)
            )
            if loud == quiet:
                continue
            assert loud.alarm is AlarmCode.OVERDUE
            told = replace(record, alarm=loud.reason)
            rest = decide(told, view, a.NOW, ServiceLimits(), context)
            if alarm:
                assert (quiet.act, quiet.changes.alarm) == (ActionKind.AMEND, "")
            else:
                assert quiet == rest


VIEWS = (
    *(None, a.EMPTY, a.LOCKED, a.FREE, a.HELD_BY_US, a.HALF, a.USED, a.LOWERED, a.STOLEN),
    *(a.view(a.ORPHAN), a.view(a.OURS, a.OTHER), a.view(uuid="another")),
)


def overdue() -> tuple[SlotRecord, View, datetime]:
    old = replace(a.RECORD, state=State.ERASING, entered_at=a.NOW - LONG_AGO)
    return old, a.HELD_BY_US, a.NOW


def test_a_delay_is_told_when_the_maintenance_is_over() -> None:
    record, view, now = overdue()
    limits, calm = ServiceLimits(), SlotContext()
    told = decide(record, view, now, limits, calm)
    assert told.alarm is AlarmCode.OVERDUE
    quiet = replace(calm, quiet=True)
    assert decide(record, view, now, limits, quiet).act is ActionKind.NOTHING
    known = replace(record, alarm=told.reason)
    silenced = decide(known, view, now, limits, quiet)
    assert (silenced.alarm, silenced.changes.alarm) == (None, "")
    assert silenced.reason == f"silenced by a maintenance: {told.reason}"
    # A stranger that is gone is over, maintenance or not.
    other = decide(replace(record, alarm="domain x runs"), view, now, limits, quiet)
    assert other.reason == "over: domain x runs"


def test_nobody_is_asked_for_a_maintenance_that_could_change_nothing() -> None:
    record, _view, now = overdue()
    assert may_be_overdue(record, now, 21600)
    assert not may_be_overdue(record, record.entered_at, 21600)
    for state in (State.IN_USE, State.AVAILABLE, State.HELD, State.RETIRED):
        assert not may_be_overdue(replace(record, state=state), now, 21600)


# Silence and absence.


def test_a_silent_host_is_told_of_after_its_maintenance(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    erasing(store, ONE)
    silence = HostLiveness(store, 420.0, 21600.0, clock)
    clock.forward(421)
    until = clock() + timedelta(hours=1)
    store.put_maintenance(HOST, until=until, reason="fans", by=ADA)
    assert silence.check() == frozenset()
    assert alarms(caplog) == []
    clock.forward(3600)
    assert silence.check() == {"cmp1"}
    (alarm,) = alarms(caplog)
    assert alarm.startswith("ALARM host-silent host cmp1")


def test_one_that_was_told_before_is_told_again_and_never_called_over(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    erasing(store, ONE)
    silence = HostLiveness(store, 420.0, 21600.0, clock)
    clock.forward(421)
    assert silence.check() == {"cmp1"}
    alarms(caplog)
    store.put_maintenance(HOST, until=clock() + timedelta(hours=1), reason="fans", by=ADA)
    assert silence.check() == frozenset()
    store.put_maintenance(HOST, until=None, reason="in", by=ADA)
    assert alarms(caplog) == []
    assert silence.check() == {"cmp1"}
    assert len(alarms(caplog)) == 1


def test_a_host_that_is_heard_while_it_is_silenced_is_called_over(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else would say so: what people were called for would stand until a restart."""
    erasing(store, ONE)
    silence = HostLiveness(store, 420.0, 21600.0, clock)
    clock.forward(421)
    assert silence.check() == {"cmp1"}
    store.put_maintenance(HOST, until=clock() + timedelta(hours=1), reason="fans", by=ADA)
    assert silence.check() == frozenset()
    alarms(caplog)
    store.host_seen("cmp1", 1, Hello("cmp1", LIFE, 1, "1", (), ()))
    for _ in range(2):
        assert silence.check() == frozenset()
    assert alarms(caplog) == ["over: host-silent host cmp1: it is heard again, or removed"]
    clock.forward(421)
    silence.check()
    clock.forward(3600)
    assert silence.check() == {"cmp1"}
    assert len(alarms(caplog)) == 1


def test_a_slot_alone_silences_no_host(store: Store, clock: Clock) -> None:
    erasing(store, ONE)
    silence = HostLiveness(store, 420.0, 21600.0, clock)
    clock.forward(421)
    store.put_maintenance(SLOT, until=clock() + timedelta(hours=1), reason="fans", by=ADA)
    assert silence.check() == {"cmp1"}


def test_absent_slots(caplog: pytest.LogCaptureFixture) -> None:
    away, teller = cloud(8, provider_generation=None), listing()
    hosts_of = {record.slot.host for record in away}
    quiet = Maintenances(
        {Subject(host): of(Subject(host), LATER + timedelta(hours=1)) for host in hosts_of}
    )
    teller.tell(Absence(80), away, LATER, quiet)
    assert alarms(caplog) == []
    teller.tell(Absence(80), away, LATER)
    assert len(alarms(caplog)) == len(hosts_of)
    teller.tell(Absence(80), away, LATER, quiet)
    assert alarms(caplog) == [], "nothing is over"
    teller.tell(Absence(80), away, LATER)
    assert len(alarms(caplog)) == len(hosts_of), "and told again"
    teller.tell(Absence(80), away, LATER, quiet)
    back = [replace(record, provider_generation=1) for record in away]
    alarms(caplog)
    for _ in range(2):
        teller.tell(Absence(80), back, LATER, quiet)
    over = alarms(caplog)
    assert len(over) == len(hosts_of)
    assert all(text.startswith("over: slots-absent host ") for text in over)


def of(subject: Subject, until: datetime | None) -> maintenance.Maintenance:
    return maintenance.Maintenance(subject, 1, START, until, "fans", ADA)


def test_words() -> None:
    found = Maintenances.of([of(HOST, START), of(SLOT, START + timedelta(minutes=5))])
    assert words(*found.of_slot(ONE)) == (
        "in maintenance until 2026-11-24 12:05 UTC: fans; "
        "host in maintenance until 2026-11-24 12:00 UTC: fans"
    )
    assert words(*found.of_slot(TWO)) == "host in maintenance until 2026-11-24 12:00 UTC: fans"
    assert words(*found.of_slot(Slot("cmp2", ONE.address)), None) == ""


# The record.


def test_it_ends_by_itself_and_its_words_stay(store: Store, clock: Clock) -> None:
    until = START + timedelta(hours=1)
    first = store.put_maintenance(HOST, until=until, reason="fans\0", by=ADA)
    assert (first.version, first.reason, first.by) == (1, "fans\\x00", ADA)
    assert store.maintenances() == [first] == [store.maintenance(HOST)]
    clock.forward(3599)
    assert store.maintenances("cmp1") == [first]
    assert store.maintenances("cmp2") == []
    assert store.maintenances_on(["cmp1", "cmp\0"]) == [first]
    assert store.maintenances_on(["cmp2"]) == store.maintenances_on([]) == []
    clock.forward(1)
    assert store.maintenances() == []
    assert store.maintenance(HOST) is None
    again = store.put_maintenance(HOST, until=until + timedelta(hours=1), reason="x", by=ADA)
    assert again.version == 2
    ended = store.put_maintenance(HOST, until=None, reason="y", by=ADA)
    assert store.maintenances() == []
    assert store.maintenance_history(HOST, limit=10) == [first, again, ended]
    assert store.maintenance_history(HOST, limit=1, after=1) == [again]
    assert store.newest_maintenances(HOST, 2) == [ended, again]


def test_a_damaged_word_ends_no_list_of_what_was_said(store: Store) -> None:
    until = START + timedelta(hours=1)
    said = [store.put_maintenance(HOST, until=until, reason=str(n), by=ADA) for n in range(4)]
    with door.writing(store._engine) as db:
        db.execute(sa.text("UPDATE maintenances SET at = 'noon' WHERE version = 2"))
    assert store.maintenance_history(HOST, limit=2) == [said[0], said[2]]
    assert store.maintenance_history(HOST, limit=2, after=3) == [said[3]]
    assert store.newest_maintenances(HOST, 4) == [said[3], said[2], said[0]]


def test_an_earlier_end_of_a_longer_one_counts(store: Store, clock: Clock) -> None:
    """The last word counts, not the latest end."""
    for minutes in (60, 10):
        until = START + timedelta(minutes=minutes)
        store.put_maintenance(HOST, until=until, reason="x", by=ADA)
    clock.forward(601)
    assert store.maintenances() == []
    assert store.maintenance(HOST) is None


def test_a_word_is_about_what_was_looked_at(store: Store, clock: Clock) -> None:
    put: Callable[..., maintenance.Maintenance] = store.put_maintenance
    until = START + timedelta(hours=1)
    first = put(HOST, until=until, reason="x", by=ADA, behind=(0,))
    for behind in ((0,), (2,), (-1,)):
        with pytest.raises(StaleError):
            put(HOST, until=until, reason="y", by=ADA, behind=behind)
    assert put(HOST, until=until, reason="z", by=ADA, behind=(first.version,)).version == 2
    clock.forward(3601)
    with pytest.raises(StaleError):
        put(HOST, until=until, reason="late", by=ADA, behind=(2,))
    later = clock() + timedelta(hours=1)
    assert put(HOST, until=later, reason="anew", by=ADA, behind=(0,)).version == 3


def test_of_two_at_once_one_is_told_to_look_again(store: Store) -> None:
    def put(number: int) -> int:
        until = START + timedelta(hours=1)
        try:
            word = store.put_maintenance(HOST, until=until, reason=f"{number}", by=ADA, behind=(0,))
        except ConflictError:
            return 0
        return word.version

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(put, range(8))) == [0] * 7 + [1]


def test_a_slots_word_is_in_its_history(store: Store) -> None:
    enrol(store, ONE)
    before = store.slot(ONE)
    store.put_maintenance(SLOT, until=START + timedelta(hours=1), reason="fans", by=ADA)
    store.put_maintenance(SLOT, until=None, reason="in", by=ADA)
    *_, begun, ended = store.history(ONE)
    assert (begun.event, begun.reason) == (None, "in maintenance until 2026-11-24 13:00 UTC: fans")
    assert (ended.reason, ended.by, begun.by) == ("maintenance ended: in", ADA, ADA)
    after = store.slot(ONE)
    assert before is not None
    assert after is not None
    assert replace(after, revision=before.revision) == before, "nothing else is written"


def test_pages_go_through_all(store: Store, clock: Clock) -> None:
    subjects = sorted(
        (
            Subject(f"cmp{host}", address)
            for host in (1, 2)
            for address in ("", ONE.address, TWO.address)
        ),
        key=lambda one: (one.host, one.address),
    )
    for one in subjects:
        store.put_maintenance(one, until=START + timedelta(hours=1), reason="x", by=ADA)
    found: list[Subject] = []
    while page := store.maintenance_page(limit=2, after=found[-1] if found else None):
        found += [one.subject for one in page]
    assert found == subjects


# The operations.


@pytest.mark.parametrize("hours", [0, -1, 2.1, 1e6])
def test_an_end_is_to_come_and_not_too_far_away(plane: Plane, hours: float) -> None:
    with pytest.raises(BadInputError):
        begin(plane, hours=hours)


@pytest.mark.parametrize(
    "subject", [Subject("nowhere"), Subject("cmp1", TWO.address), Subject("\ud800")]
)
def test_nobody_knows_it(plane: Plane, store: Store, subject: Subject) -> None:
    enrol(store, ONE)
    with pytest.raises(UnknownError):
        begin(plane, subject)
    with pytest.raises(UnknownError):
        maintenance.end(plane, subject, reason="x", by=ADA)
    with pytest.raises(UnknownError):
        maintenance.show(plane, subject)


@pytest.mark.parametrize("said", [{"reason": " "}, {"by": Initiator(" ")}])
def test_who_and_why_is_said(plane: Plane, said: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        begin(plane, **said)


def test_a_host_that_is_not_registered_and_has_slots(plane: Plane, store: Store) -> None:
    enrol(store, Slot("gone", ONE.address))
    assert begin(plane, Subject("gone")).version == 1


def test_people_see_it(plane: Plane, store: Store, clock: Clock) -> None:
    enrol(store, ONE)
    enrol(store, TWO)
    begin(plane)
    begin(plane, SLOT, reason="cage")
    whole = "host in maintenance until 2026-11-24 13:00 UTC: fans"
    mine = f"in maintenance until 2026-11-24 13:00 UTC: cage; {whole}"
    assert slots.show(plane, ONE).maintenance == mine
    assert [one.maintenance for one in slots.find(plane)] == [mine, whole]
    assert whole in list(slots.find(plane))[1].remarks
    assert [one.maintenance for one in hosts.find(plane)] == [whole, "", ""]
    assert hosts.show(plane, "cmp1").maintenance == whole
    everywhere, here = capacity.show(plane, flavor="i1-45")
    for one in (everywhere, here):
        assert "Host in maintenance until 2026-11-24 13:00 UTC: fans." in one.says
        assert "1 of the slots is in maintenance" in one.says
    clock.forward(3600)
    assert slots.show(plane, ONE).maintenance == ""
    assert "maintenance" not in capacity.show(plane)[0].says


@pytest.mark.parametrize("damage", ["at = 'noon'", "until = 'noon'"])
def test_a_word_that_cannot_be_read_silences_nothing_and_another_one_follows_it(
    store: Store, damage: str
) -> None:
    until = START + timedelta(hours=1)
    store.put_maintenance(HOST, until=until, reason="fans", by=ADA)
    with door.writing(store._engine) as db:
        db.execute(sa.text(f"UPDATE maintenances SET {damage}"))  # noqa: S608
    assert store.maintenance(HOST) is None
    again = store.put_maintenance(HOST, until=until, reason="fans", by=ADA, behind=(0,))
    assert again.version == 2
    assert store.maintenance(HOST) == again
    assert store.maintenances() == [again]


def test_no_word_follows_one_whose_place_cannot_be_told(store: Store) -> None:
    until = START + timedelta(hours=1)
    store.put_maintenance(HOST, until=until, reason="fans", by=ADA)
    with door.writing(store._engine) as db:
        db.execute(sa.text("UPDATE maintenances SET version = 'x'"))
    with pytest.raises(UnreadableError, match="maintenance of host"):
        store.put_maintenance(HOST, until=until, reason="fans", by=ADA)
