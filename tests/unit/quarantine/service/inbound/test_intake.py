"""What the intake does with lists that are long, strange or met a busy record; whose turn it is."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.inbound import BOUNDS, MessageKind, key
from eraser.protocol.policy import Method
from eraser.protocol.report import REPORT_TYPE, NamespaceId, StatusCount
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding
from eraser.protocol.transport import messaging
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cli.commands import service
from quarantine.errors import BadInputError, ConflictError, RefusedError, UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Event, State
from quarantine.service.assembly import Assembly
from quarantine.service.inbound import intake, oldqueue
from quarantine.service.inbound.intake import (
    BELLS,
    HOSTS_SECONDS,
    LANES,
    LONGEST,
    REST,
    RETRY_SECONDS,
    SLICE_SECONDS,
    URGENT,
    Lane,
)
from tests.unit.quarantine.service.inbound.plane import (
    ALL_WELL,
    UNHOOKED,
    Plane,
    on_offer,
    plane,
    told,
)
from tests.unit.quarantine.smallcloud import Clock, open_store
from tests.unit.quarantine.testimony import (
    BLOCK,
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    NAMESPACE,
    REPORT,
    SLOT,
    VERIFICATION,
    command,
)

__all__ = ["plane"]

HOSTS = ("a", "b", "c")


@dataclass
class FakeLists:
    """The lists in memory."""

    lists: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    strange: set[str] = field(default_factory=set)
    away: bool = False

    def push(self, kind: MessageKind, host: str, *entries: str) -> None:
        self.lists[key(kind, host)] += [entry.encode() for entry in entries]

    def full(self, keys: Sequence[str]) -> list[str]:
        if self.away:
            raise UnavailableError("away")
        return [each for each in keys if self.lists.get(each) or each in self.strange]

    def length(self, key: str) -> int:
        return -1 if key in self.strange else len(self.lists[key])

    def head(self, key: str) -> bytes | None:
        return next(iter(self.lists[key]), None)

    def tail(self, key: str) -> bytes | None:
        return next(reversed(self.lists[key]), None)

    def remove(self, key: str, entry: bytes) -> None:
        self.lists[key].remove(entry)

    def cut(self, key: str, keep: int, *, oldest: bool) -> None:
        entries = self.lists[key]
        self.lists[key] = entries[:keep] if oldest else entries[-keep:]

    def drop(self, key: str) -> None:
        self.strange.discard(key)


@dataclass
class FakeInbox:
    """Notes what it was given; raises what it is told to, and takes as long as it is told to."""

    errors: dict[str, Exception] = field(default_factory=dict)
    wait: float = 0.0
    costs: float = 0.0
    now: float = 0.0
    heard: list[tuple[Any, ...]] = field(default_factory=list)
    unreached: list[Slot] = field(default_factory=list)
    leaves: list[Slot] = field(default_factory=list)
    """What the next look does not reach."""
    later: Any = None
    is_away: bool = False

    def _take(self, what: str, *given: Any) -> None:
        self.now += self.costs
        self.heard.append((what, *given))
        if error := self.errors.get(given[0]):
            raise error

    def report(self, token: str, sender: str) -> None:
        self._take("report", token)

    def receipt(self, token: str, sender: str) -> None:
        self._take("receipt", token)

    def hello(self, token: str, sender: str) -> None:
        self._take("hello", token)
        if token == "changed":
            self.later(Slot(sender, "0000:01:00.0"), first=False)

    def look(self, slot: Slot) -> None:
        self._take("look", slot)

    def progress(self, token: str, sender: str) -> None:
        self._take("progress", token)

    def bell(self, host: str, address: str | None = None) -> float:
        self._take("bell", host, address)
        self.unreached += self.leaves
        self.leaves = []
        return self.wait


class World:
    """A lane over fakes."""

    def __init__(self, kinds: Sequence[MessageKind], hosts: Sequence[str] = HOSTS) -> None:
        self.inbox, self.lists = FakeInbox(), FakeLists()
        self.hosts = list(hosts)
        self.lane = Lane(
            kinds, self.inbox, self.lists, lambda: self.hosts, clock=lambda: self.inbox.now
        )

    def turn(self, seconds: float = 0.0) -> list[tuple[Any, ...]]:
        """What one turn handed over."""
        self.inbox.now += seconds
        self.inbox.heard.clear()
        self.lane.turn()
        return list(self.inbox.heard)

    def left(self, kind: MessageKind, host: str) -> list[str]:
        return [entry.decode() for entry in self.lists.lists[key(kind, host)]]


@pytest.fixture
def urgent() -> World:
    return World(URGENT)


@pytest.fixture
def rest() -> World:
    """One lane for all that is not urgent."""
    return World((*BELLS, *REST))


def many_namespaces(count: int) -> str:
    """The report of a drive with so many namespaces, as a host sends it: each formatted in all
    ways, twice each because every first try failed with a long message, and put back one by one."""
    ids = range(1, count + 1)
    failed = replace(command(0x80, 0x200), message="x" * 400, argv=("nvme", "format", "y" * 100))
    put_back = replace(command(0x15, 0), argv=("nvme", "attach-ns", "y" * 100), sent="01" * 64)
    formats = [method for method in Method if not method.is_sanitize]
    facts = replace(
        FACTS,
        namespaces=tuple(replace(NAMESPACE, nsid=nsid) for nsid in ids),
        dlfeat=tuple(1 for _ in ids),
        ids=tuple(NamespaceId(nsid, "ab" * 16, "cd" * 8) for nsid in ids),
    )
    spent = tuple(StatusCount(0x281 + n, 10**9) for n in range(16))
    counts = tuple(replace(COUNTS, nsid=nsid, statuses=spent, unreadable=10**9) for nsid in ids)
    report = replace(
        REPORT,
        reasons=tuple(f"profile: expected namespace {nsid}, found none" for nsid in ids),
        facts_before=facts,
        facts_after=facts,
        commands=(failed,) * (2 * len(formats) * count) + (put_back,) * (3 * count),
        methods=(CRYPTO, BLOCK, *(replace(FORMAT, method=m) for m in formats for _ in ids)),
        verification=replace(VERIFICATION, namespaces=counts),
    )
    return PrivateKey.generate().sign(codec.canonical(report), REPORT_TYPE)


def test_no_honest_report_comes_near_the_bound() -> None:
    """A P4510 may have 128 namespaces, more than any other drive that we have a portrait of."""
    most = LONGEST[MessageKind.REPORT]
    assert len(many_namespaces(24)) < most / 8
    assert len(many_namespaces(128)) < most / 2


def test_a_report_that_is_too_long_delays_nobodys(
    urgent: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        urgent.lists.push(MessageKind.REPORT, "a", "x" * (LONGEST[MessageKind.REPORT] + 1), "a1")
        urgent.lists.push(MessageKind.REPORT, "b", "b0")
        assert urgent.turn() == [("report", "b0")]
        assert urgent.turn() == [("report", "a1")]
    assert caplog.text.count("ALARM message-too-long host a: ") == 3
    assert caplog.text.count("over: message-too-long host a: ") == 3


def assembled_of(**parts: Any) -> Assembly:
    """The real assembly of a process, some parts of which are made already."""
    made = Assembly()
    vars(made).update(parts)
    return made


def test_what_one_lane_can_read_ends_no_alarm_of_another(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People are called for the host, once, and it is over when nothing of it is too long."""
    inbox, lists, stops = FakeInbox(), FakeLists(), list[Callable[[], None]]()
    store = SimpleNamespace(host_names=lambda: ["a"], note_pass=lambda *_: None)
    monkeypatch.setattr(service, "on_signals", stops.append)
    made = assembled_of(inbox=inbox, lists=lists, store=store)
    worker = threading.Thread(target=service._take_messages, args=(lambda: made, None))
    worker.start()

    def says(kind: MessageKind, text: str) -> None:
        lists.push(kind, "a", text)
        deadline = time.monotonic() + 20
        while lists.lists[key(kind, "a")] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not lists.lists[key(kind, "a")]

    try:
        for kind in (MessageKind.REPORT, MessageKind.HELLO):
            says(kind, "x" * (LONGEST[kind] + 1))
        says(MessageKind.HELLO, "short")
        assert caplog.text.count("ALARM message-too-long host a: ") == 1
        assert "over: " not in caplog.text
        says(MessageKind.REPORT, "short")
        assert caplog.text.count("over: message-too-long host a: ") == 1
    finally:
        stops[0]()
        worker.join(20)


def test_the_case_of_a_report_that_is_too_long_is_not_lost(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays open, with its order good; ended by a person, it begins anew."""
    lists = FakeLists()
    lane = Lane(URGENT, plane.inbox, lists, lambda: ("cmp1",))

    def say(**changes: object) -> None:
        lists.push(MessageKind.REPORT, "cmp1", plane.report(**changes))
        lane.turn()

    first = plane.ordered()
    say(commands=REPORT.commands * 6000)
    assert (plane.record().state, plane.store.nonce(first.nonce)) == (State.ERASING, None)
    assert "ALARM message-too-long host cmp1: " in caplog.text
    plane.dispatcher.order(plane.record())
    assert plane.order() == first
    say(commands=REPORT.commands * 6000)
    assert plane.record().state is State.ERASING
    record = plane.store.transition(
        plane.record(), Event.HELD, reason="a person", changes=SlotChanges(new_case=True)
    )
    record = plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="again")
    plane.dispatcher.order(plane.store.transition(record, Event.CUSTODY_TAKEN))
    say()
    assert plane.record().state is State.CERTIFIED


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.PROGRESS, MessageKind.BELL])
def test_what_is_longer_than_any_honest_word_is_not_read(
    rest: World, kind: MessageKind, caplog: pytest.LogCaptureFixture
) -> None:
    """Reading it takes seconds, in each turn anew, and the other hosts wait meanwhile."""
    for _ in range(5):
        rest.lists.push(kind, "a", "x" * ((400 << 10) + 1))
        rest.lists.push(kind, "b", "0000:01:00.0")
        assert [heard[1] for heard in rest.turn()] in (["b"], ["0000:01:00.0"])
        assert rest.left(kind, "a") == []
    assert caplog.text.count("ALARM message-too-long host a: ") == 1
    rest.lists.push(kind, "a", "0000:01:00.0")
    assert len(rest.turn()) == 1
    rest.lists.push(kind, "a", "x" * (400 << 10))
    rest.turn()
    assert caplog.text.count("ALARM message-too-long host a: ") == 2


def test_a_host_s_long_messages_are_over_when_none_of_its_kinds_has_one(
    rest: World, caplog: pytest.LogCaptureFixture
) -> None:
    rest.lists.push(MessageKind.HELLO, "a", "x" * ((400 << 10) + 1))
    rest.lists.push(MessageKind.PROGRESS, "a", "x" * ((400 << 10) + 1))
    rest.turn()
    for kind in (MessageKind.HELLO, MessageKind.PROGRESS):
        assert "over: message-too-long" not in caplog.text
        rest.lists.push(kind, "a", "short")
        rest.turn()
    assert caplog.text.count("ALARM message-too-long host a: ") == 1
    assert caplog.text.count("over: message-too-long host a: ") == 1


def test_each_host_has_its_turn_whatever_the_others_pushed(urgent: World) -> None:
    urgent.lists.push(MessageKind.REPORT, "a", *(f"a{n}" for n in range(500)))
    urgent.lists.push(MessageKind.REPORT, "b", "b0", "b1")
    urgent.lists.push(MessageKind.REPORT, "c", "c0")
    assert urgent.turn() == [("report", "a0"), ("report", "b0"), ("report", "c0")]
    assert urgent.turn() == [("report", "a1"), ("report", "b1")]


def test_a_turn_that_ended_in_its_slice_goes_on_with_the_next_host(urgent: World) -> None:
    for host in HOSTS:
        urgent.lists.push(MessageKind.REPORT, host, f"{host}0", f"{host}1")
    urgent.inbox.costs = SLICE_SECONDS * 2
    taken = [token for _ in range(6) for _, token in urgent.turn()]
    assert taken == ["a0", "b0", "c0", "a1", "b1", "c1"]


def test_bells_come_before_hellos_and_hellos_before_progress(rest: World) -> None:
    for kind in (MessageKind.PROGRESS, MessageKind.HELLO):
        rest.lists.push(kind, "a", "token")
    rest.lists.push(MessageKind.BELL, "c", "0000:01:00.0", "")
    assert [what[0] for what in rest.turn()] == ["bell", "hello", "progress"]
    assert rest.turn() == [("bell", "c", None)]


def test_slow_hellos_leave_each_turn_to_the_bells(rest: World) -> None:
    rest.inbox.costs = SLICE_SECONDS * 2
    for host in HOSTS:
        rest.lists.push(MessageKind.HELLO, host, "token")
    rest.turn()
    rest.lists.push(MessageKind.BELL, "b", "")
    assert rest.turn()[0] == ("bell", "b", None)


class TakesLong(FakeInbox):
    """Whatever is of the slow kind lasts until one of the other kind was heard."""

    def __init__(self, slow: MessageKind, other: MessageKind) -> None:
        super().__init__()
        self.slow, self.other = slow, other
        self.began, self.heard_other = threading.Event(), threading.Event()

    def _take(self, what: str, *given: Any) -> None:
        if what == self.slow:
            self.began.set()
            self.heard_other.wait(20)
        elif what == self.other:
            self.heard_other.set()


@pytest.mark.parametrize(
    ("slow", "other"),
    [
        (MessageKind.BELL, MessageKind.HELLO),
        (MessageKind.BELL, MessageKind.REPORT),
        (MessageKind.HELLO, MessageKind.REPORT),
        (MessageKind.PROGRESS, MessageKind.RECEIPT),
    ],
)
def test_what_takes_long_keeps_no_other_lane_waiting(slow: MessageKind, other: MessageKind) -> None:
    """A host may ring all the time, and a bell's look at a slow Placement lasts."""
    inbox, lists, stop = TakesLong(slow, other), FakeLists(), threading.Event()
    lists.push(slow, "a", "one")
    threads = [
        threading.Thread(
            target=intake.run, args=(Lane(kinds, inbox, lists, lambda: HOSTS), stop, name)
        )
        for name, kinds in LANES.items()
    ]
    for thread in threads:
        thread.start()
    began = inbox.began.wait(20)
    lists.push(other, "b", "two")
    heard = inbox.heard_other.wait(10)
    inbox.heard_other.set()
    stop.set()
    for thread in threads:
        thread.join()
    assert (began, heard) == (True, True)


@pytest.mark.parametrize("number", [2, 3])
def test_a_worker_that_cannot_start_a_lane_ends(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Half alive it would take reports and no bells, and nobody would start it anew."""
    monkeypatch.setattr(service, "on_signals", lambda _stop: None)
    started, start = list[threading.Thread](), threading.Thread.start

    def starts(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == number:
            raise RuntimeError("can't start new thread")
        start(thread)

    store = SimpleNamespace(host_names=lambda: HOSTS, note_pass=lambda *_: None)
    parts = {"inbox": FakeInbox(), "lists": FakeLists(), "store": store}
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", starts)
        with pytest.raises(RuntimeError, match="can't start"):
            service._take_messages(lambda: assembled_of(**parts), None)
    for thread in started[:-1]:
        thread.join(20)
        assert not thread.is_alive()


def test_what_hellos_want_looked_at_keeps_no_hello_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rack comes back, and each of its hosts is in doubt: hundreds of looks at a slow Placement,
    behind which no host would be heard for longer than one may be silent."""
    lists, stops = FakeLists(), list[Callable[[], None]]()
    monkeypatch.setattr(service, "on_signals", stops.append)
    slow, heard = threading.Event(), threading.Event()

    class LooksLong(FakeInbox):
        def _take(self, what: str, *given: Any) -> None:
            if what == "look":
                slow.set()
                heard.wait(20)
            elif given[0] == "quiet":
                heard.set()

    def assembled() -> Any:
        store = SimpleNamespace(host_names=lambda: HOSTS, note_pass=lambda *_: None)
        return assembled_of(inbox=LooksLong(), lists=lists, store=store)

    lists.push(MessageKind.HELLO, "a", "changed")
    worker = threading.Thread(target=service._take_messages, args=(assembled, None))
    worker.start()
    try:
        assert slow.wait(10)
        lists.push(MessageKind.HELLO, "b", "quiet")
        assert heard.wait(10)
    finally:
        heard.set()
        stops[0]()
        worker.join(20)


def test_what_hellos_want_looked_at_waits_once_and_leaves_each_turn_to_the_bells() -> None:
    bells = World(BELLS)
    bells.inbox.costs = SLICE_SECONDS * 2
    one, other = (Slot("a", f"0000:0{n}:00.0") for n in (1, 2))
    for slot in (one, other, one):
        bells.lane.wanted.add(slot, first=False)
    bells.lists.push(MessageKind.BELL, "b", "", "")
    assert bells.turn() == [("look", one), ("bell", "b", None)]
    assert bells.turn() == [("look", other), ("bell", "b", None)]
    assert bells.turn() == []
    for slot, first in ((one, False), (other, False), (other, True), (other, False)):
        bells.lane.wanted.add(slot, first=first)
    bells.inbox.is_away = True
    assert bells.turn() == []
    bells.inbox.is_away = False
    assert bells.turn() + bells.turn() + bells.turn() == [("look", other), ("look", one)]


def test_what_keeps_a_drive_off_offer_is_looked_at_before_what_is_in_doubt(plane: Plane) -> None:
    on_offer(plane)
    wanted = list[tuple[Slot, bool]]()
    plane.inbox.later = lambda slot, *, first: wanted.append((slot, first))
    unknown = DefenceSeen(Defence.PATCH, DefenceStanding.UNKNOWN, "just started")
    others = [seen for seen in ALL_WELL.defences if seen.defence is not Defence.PATCH]
    told(plane, 1, replace(ALL_WELL, defences=(*others, unknown)))
    told(plane, 2, UNHOOKED)
    assert wanted == [(SLOT, False), (SLOT, True)]
    assert plane.looks.slots == []


def test_each_kind_has_one_lane() -> None:
    assert sorted(kind for kinds in LANES.values() for kind in kinds) == sorted(MessageKind)


def test_the_newest_hello_alone_is_taken(rest: World) -> None:
    rest.lists.push(MessageKind.HELLO, "a", "old", "new")
    assert rest.turn() == [("hello", "new")]
    assert rest.left(MessageKind.HELLO, "a") == []


def test_a_list_that_is_too_long_is_cut(urgent: World, rest: World) -> None:
    keep = BOUNDS[MessageKind.PROGRESS].keep
    rest.lists.push(MessageKind.PROGRESS, "a", *map(str, range(60_000)))
    assert rest.turn() == [("progress", str(60_000 - keep))], "the newest are what people want"
    keep = BOUNDS[MessageKind.REPORT].keep
    urgent.lists.push(MessageKind.REPORT, "a", *map(str, range(60_000)))
    assert urgent.turn() == [("report", "0")], "a report that came first was not asked for again"
    assert len(urgent.left(MessageKind.REPORT, "a")) == keep - 1


@pytest.mark.parametrize("error", [ConflictError("busy"), UnavailableError("away")])
def test_a_report_that_met_a_busy_record_stays_and_others_go_on(
    urgent: World, error: Exception
) -> None:
    urgent.lists.push(MessageKind.REPORT, "a", "a0", "a1")
    urgent.lists.push(MessageKind.RECEIPT, "a", "r0")
    urgent.lists.push(MessageKind.REPORT, "b", "b0", "b1")
    urgent.inbox.errors["a0"] = error
    assert urgent.turn() == [("report", "a0"), ("report", "b0"), ("receipt", "r0")]
    assert urgent.turn() == [("report", "b1")]
    urgent.inbox.errors.clear()
    assert urgent.turn(RETRY_SECONDS) == [("report", "a0")]


@pytest.mark.parametrize("kind", [MessageKind.HELLO, MessageKind.PROGRESS, MessageKind.BELL])
def test_what_is_said_again_anyway_is_dropped(rest: World, kind: MessageKind) -> None:
    rest.lists.push(kind, "a", "a")
    rest.inbox.errors["a"] = UnavailableError("away")
    assert len(rest.turn()) == 1
    assert rest.left(kind, "a") == []


@pytest.mark.parametrize("error", [RefusedError("no"), BadInputError("no"), KeyError("ours")])
def test_a_message_that_is_refused_or_meets_a_mistake_of_ours_is_finished(
    urgent: World, error: Exception
) -> None:
    urgent.lists.push(MessageKind.REPORT, "a", "a0", "a1")
    urgent.inbox.errors["a0"] = error
    assert urgent.turn() == [("report", "a0")]
    assert urgent.left(MessageKind.REPORT, "a") == ["a1"]


def test_a_message_is_there_until_it_was_worked_on(urgent: World) -> None:
    class KilledError(BaseException):
        pass

    urgent.lists.push(MessageKind.REPORT, "a", "a0")
    urgent.inbox.errors["a0"] = KilledError()  # type: ignore[assignment]
    with pytest.raises(KilledError):
        urgent.turn()
    assert urgent.left(MessageKind.REPORT, "a") == ["a0"]


def test_a_key_that_is_no_list_hurts_its_host_alone(
    urgent: World, caplog: pytest.LogCaptureFixture
) -> None:
    urgent.lists.strange.add(key(MessageKind.REPORT, "a"))
    urgent.lists.push(MessageKind.REPORT, "b", "b0")
    assert urgent.turn() == [("report", "b0")]
    assert "ALARM queue-odd host a: " in caplog.text
    assert urgent.lists.strange == set()


def test_only_registered_hosts_are_heard(urgent: World) -> None:
    urgent.lists.push(MessageKind.REPORT, "d", "d0")
    assert urgent.turn() == []
    urgent.hosts.append("d")
    assert urgent.turn() == []
    assert urgent.turn(HOSTS_SECONDS) == [("report", "d0")]


def test_slots_that_a_bell_s_look_did_not_reach_take_turns_with_others_bells(rest: World) -> None:
    left = [Slot("a", f"0000:0{number}:00.0") for number in range(1, 4)]
    rest.inbox.leaves = list(left)
    rest.inbox.costs = 5.0
    rest.lists.push(MessageKind.BELL, "a", "")
    assert rest.turn() == [("bell", "a", None)]
    rest.inbox.costs = 0.3
    for slot in left:
        rest.lists.push(MessageKind.BELL, "b", "")
        assert rest.turn() == [("bell", "a", slot.address), ("bell", "b", None)]
    assert rest.turn() == []


def test_a_bell_that_rang_just_now_is_rung_once_more_when_it_is_due(rest: World) -> None:
    rest.lists.push(MessageKind.BELL, "a", "0000:01:00.0")
    rest.inbox.wait = 0.7
    assert rest.turn() == [("bell", "a", "0000:01:00.0")]
    rest.inbox.wait = 0.0
    assert rest.turn(0.6) == []
    assert rest.turn(0.2) == [("bell", "a", "0000:01:00.0")]
    assert rest.turn(1.0) == []


def test_a_host_rings_for_itself_whatever_it_says(rest: World) -> None:
    """The host is the list's, not the entry's."""
    rest.lists.push(MessageKind.BELL, "a", json.dumps({"host": "b"}))
    assert rest.turn() == [("bell", "a", '{"host": "b"}')]


def test_a_broker_that_is_away_and_a_mistake_of_ours_end_no_lane(
    urgent: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    steps = iter([UnavailableError("away"), KeyError("ours"), None])

    def turn() -> bool:
        step = next(steps, stop)
        if step is stop:
            stop.set()
        elif isinstance(step, Exception):
            raise step
        return True

    monkeypatch.setattr(intake, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(urgent.lane, "turn", turn)
    reached: list[bool] = []
    with monkeypatch.context() as patched:
        patched.setattr(Lane, "asks", True)
        intake.run(urgent.lane, stop, "reports", lambda: reached.append(True))
    assert len(reached) == 2, "not by the turns that failed"
    assert "trying until it is back" in caplog.text
    assert caplog.text.count("Traceback") == 1


def test_a_turn_that_needed_no_broker_reached_none(urgent: World) -> None:
    """No host is registered: nobody's lists were looked at."""
    urgent.hosts = []
    urgent.turn()
    assert not urgent.lane.asks
    urgent.hosts = ["a"]
    urgent.turn(intake.HOSTS_SECONDS)
    assert urgent.lane.asks


def test_that_the_broker_was_reached_is_on_record_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_words: object) -> None:
        raise next(errors)

    errors = iter([UnavailableError("not now"), KeyError("ours")])
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        reached = intake.Reached(store, clock.monotonic)
        reached()
        (first,) = store.passes()
        assert (first.name, first.within) == ("broker", 3 * intake.REACHED_SECONDS)
        clock.forward(intake.REACHED_SECONDS - 1)
        reached()
        assert store.passes() == [first]
        clock.forward(1)
        reached()
        (again,) = store.passes()
        assert again.at > first.at
        clock.forward(intake.REACHED_SECONDS)
        caplog.set_level("INFO")
        monkeypatch.setattr(Store, "note_pass", fails)
        reached()
        assert "not on record" in caplog.text
        clock.forward(intake.REACHED_SECONDS)
        reached()
    assert caplog.text.count("Traceback") == 1, "and the lane goes on"


# Hosts that were not upgraded yet


def old(task: str, *arguments: Any, **embedded: Any) -> bytes:
    follow = {"callbacks": None, "errbacks": None, "chain": None, "chord": None} | embedded
    body = base64.b64encode(json.dumps([arguments, {}, follow]).encode()).decode()
    return json.dumps({"headers": {"task": task}, "body": body}).encode()


@pytest.mark.parametrize(
    ("hint", "heard"),
    [
        ({"host": "cmp1"}, [("bell", "cmp1", None)]),
        ({"host": "cmp1", "address": 7}, [("bell", "cmp1", None)]),
        ({"server": "a-uuid"}, []),
        ({"server": "u", "host": "h"}, [("bell", "h", None)]),
        ({}, []),
        ({"host": 1}, []),
    ],
)
def test_an_old_bell_for_a_server_is_read_and_dropped(
    rest: World, hint: dict[str, Any], heard: list[tuple[Any, ...]]
) -> None:
    rest.lists.lists[oldqueue.NAME] = [old("quarantine.bell", hint)]
    assert rest.turn() == heard
    assert rest.lists.lists[oldqueue.NAME] == []


def test_messages_on_the_old_queue_are_taken_oldest_first(rest: World) -> None:
    rest.lists.lists[oldqueue.NAME] = [
        old("quarantine.bell", {"host": "x"}),
        old("quarantine.ticket_receipt", "t1"),
        old("quarantine.report", "t0"),
    ]
    assert [rest.turn()[0] for _ in range(3)] == [
        ("report", "t0"),
        ("receipt", "t1"),
        ("bell", "x", None),
    ]


def test_a_report_on_the_old_queue_is_tried_again(rest: World) -> None:
    rest.lists.lists[oldqueue.NAME] = [old("quarantine.report", "t0")]
    rest.inbox.errors["t0"] = UnavailableError("away")
    rest.lists.push(MessageKind.HELLO, "a", "hello")
    assert [what[0] for what in rest.turn()] == ["report", "hello"]
    assert rest.turn() == []
    assert rest.turn(RETRY_SECONDS) == [("report", "t0")]


SIGNATURE = [{"task": "eraser.order", "args": ["x"], "options": {"queue": "eraser.b"}}]


@pytest.mark.parametrize(
    "entry",
    [
        *(
            old("quarantine.bell", {"host": "a"}, **{name: SIGNATURE})
            for name in ("callbacks", "errbacks", "chain", "chord")
        ),
        old("eraser.order", "token"),
        old("quarantine.report"),
        old("quarantine.report", "one", "two"),
        old("quarantine.report", {"host": "a"}),
        old("quarantine.bell", "a"),
        b"not json",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({"headers": {"task": "quarantine.report"}, "body": "!"}).encode(),
    ],
)
def test_what_asks_for_more_or_is_no_message_is_dropped(
    rest: World, entry: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    rest.lists.lists[oldqueue.NAME] = [entry]
    assert rest.turn() == []
    assert rest.lists.lists[oldqueue.NAME] == []
    assert "ALARM" in caplog.text


def test_an_old_queue_that_is_no_list_keeps_nothing(rest: World) -> None:
    rest.lists.strange.add(oldqueue.NAME)
    rest.lists.push(MessageKind.HELLO, "a", "hello")
    assert rest.turn() == [("hello", "hello")]


# What goes the other way


def test_orders_are_data_on_the_hosts_own_list() -> None:
    settings = messaging.settings("redis://x", messaging.host_queue("cmp1"))
    assert settings["accept_content"] == ["json"]
    assert settings["worker_enable_remote_control"] is False
    assert settings["worker_prefetch_multiplier"] == 1
    assert settings["worker_cancel_long_running_tasks_on_connection_loss"] is False
    assert settings["broker_transport_options"]["ack_emulation"] is False
    assert settings["broker_transport_options"]["priority_steps"] == [0]
    assert messaging.queue_of("eraser.cmp1").exchange.name == ""
