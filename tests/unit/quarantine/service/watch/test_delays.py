"""How late releases are seen: by Nova's word, for people alone. ``tests/nova/test_delays.py`` has
the real Nova's word."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from quarantine.cloud.compute import Compute
from quarantine.cloud.novafacts import InstanceAction
from quarantine.errors import UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Event
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from quarantine.service.watch import delays as measured
from quarantine.service.watch.delays import (
    GIVEN_UP_SECONDS,
    MOST,
    SETTLED_SECONDS,
    DelayMeter,
    Delays,
)
from tests.lab.record import migrated_file
from tests.lab.services.nova_api_standin import NovaApiStandIn
from tests.lab.services.placement import CLOUD, write_clouds_yaml
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    enrolled,
    open_store,
    slot_at,
)

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@dataclass
class World:
    """A record whose releases are seen when the test says so, and a Nova that knows more."""

    store: Store
    now: datetime = START
    deleted: dict[str, datetime] = field(default_factory=dict)
    actions: dict[str, InstanceAction] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    away: bool = False
    odd: str = ""
    """A server of which Nova says what nobody can read."""

    def deleted_at(self, server: str) -> datetime | None:
        self.asked.append(server)
        if self.away:
            raise UnavailableError("told to")
        if server == self.odd:
            raise KeyError("servers")
        return self.deleted.get(server)

    def last_action(self, server: str) -> InstanceAction | None:
        return self.actions.get(server)

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def released(self, server: str | None) -> None:
        """Of a slot of its own."""
        slot = Slot("cmp1", f"0000:{len(self.store.slots()) + 1:02x}:00.0")
        record = self.store.enrol(
            slot, provider=str(slot), resource_class="X", in_use=True, profile="p", policy="p"
        )
        record = self.store.amend(record, SlotChanges(consumer=server))
        detail = {"consumer": server} if server else {}
        self.store.transition(record, Event.RELEASE_SEEN, detail=detail)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    store = Store.open(migrated_file(tmp_path / "record.db"), clock=lambda: made.now)
    made = World(store)
    yield made
    store.close()


@pytest.fixture
def meter(world: World) -> DelayMeter:
    return DelayMeter(world.store, world, lambda: world.now)


def test_a_release_is_as_late_as_nova_says(world: World, meter: DelayMeter) -> None:
    meter.turn()
    world.deleted["gone"] = world.now
    world.later(7)
    world.released("gone")
    meter.turn()
    assert not world.asked, "Nova may not be done with it yet"
    world.later(SETTLED_SECONDS)
    for _ in range(2):
        meter.turn()
    assert world.asked == ["gone"], "once is enough"
    assert meter.delays.read() == Delays([0, 0, 0, 1, 1, 1, 1, 1, 1, 1], 1, 7.0)


def test_who_is_seen_before_nova_is_done_is_not_late(world: World, meter: DelayMeter) -> None:
    meter.turn()
    world.released("gone")
    world.deleted["gone"] = world.now + timedelta(seconds=3)
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert (meter.delays.count, meter.delays.seconds, meter.delays.within[0]) == (1, 0.0, 1)


@pytest.mark.parametrize("kind", ["shelve", "shelveOffload", "confirmResize", "revertResize"])
def test_a_server_that_is_still_there_let_go_by_its_last_action(
    world: World, meter: DelayMeter, kind: str
) -> None:
    meter.turn()
    world.actions["moved"] = InstanceAction(kind, START, START + timedelta(seconds=20))
    world.later(50)
    world.released("moved")
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert (meter.delays.count, meter.delays.seconds) == (1, 30.0)


@pytest.mark.parametrize("deleted", [False, True], ids=["", "deleted-since"])
def test_what_a_migration_held_was_let_go_of_by_its_server(
    world: World,
    meter: DelayMeter,
    deleted: bool,
) -> None:
    meter.turn()
    world.store.note_move("migration", "moved")
    if deleted:
        world.deleted["moved"] = START + timedelta(seconds=55)
    world.actions["moved"] = InstanceAction("confirmResize", START, START + timedelta(seconds=20))
    world.later(50)
    world.released("migration")
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert (meter.delays.count, meter.delays.seconds) == (1, 30.0)


@pytest.mark.parametrize(
    "action",
    [
        None,
        InstanceAction("evacuate", START, START),
        InstanceAction("shelve", None, START),
        InstanceAction("shelve", START, None),
        InstanceAction("shelve", START + timedelta(seconds=60), START + timedelta(seconds=61)),
    ],
    ids=["none", "another", "undated", "without an end", "of later"],
)
def test_what_nova_does_not_tell_is_not_made_up(
    world: World, meter: DelayMeter, action: InstanceAction | None
) -> None:
    meter.turn()
    if action is not None:
        world.actions["moved"] = action
    world.later(50)
    world.released("moved")
    world.released(None)
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert meter.delays.read() == Delays(unknown=2)


def test_what_was_seen_before_the_start_is_not_counted_again(
    world: World, meter: DelayMeter
) -> None:
    world.released("gone")
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert meter.delays.read() == Delays()


def test_a_nova_that_is_away_is_asked_again(world: World, meter: DelayMeter) -> None:
    meter.turn()
    for server in ("one", "two"):
        world.deleted[server] = world.now
        world.released(server)
    world.later(SETTLED_SECONDS)
    world.away = True
    with pytest.raises(UnavailableError):
        meter.turn()
    world.away = False
    meter.turn()
    assert world.asked == ["one", "one", "two"]
    assert (meter.delays.count, meter.delays.unknown) == (2, 0)


def test_a_release_that_nova_never_answers_for_keeps_no_other(
    world: World, meter: DelayMeter
) -> None:
    meter.turn()
    world.released("one")
    world.away = True
    world.later(GIVEN_UP_SECONDS)
    meter.turn()
    world.away = False
    world.deleted["two"] = world.now
    world.released("two")
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert (meter.delays.count, meter.delays.unknown) == (1, 1)


def test_a_release_that_is_asked_about_in_vain_keeps_no_other(
    world: World, meter: DelayMeter, caplog: pytest.LogCaptureFixture
) -> None:
    """By a mistake of ours, or an answer that nobody thought of."""
    meter.turn()
    world.odd = "odd"
    world.deleted["fine"] = world.now
    for server in ("odd", "fine"):
        world.released(server)
    world.later(SETTLED_SECONDS)
    for _ in range(3):
        meter.turn()
    assert world.asked == ["odd", "fine"]
    assert (meter.delays.count, meter.delays.unknown) == (1, 1)
    assert caplog.text.count("not measured how late") == 1


def test_a_release_of_a_clock_that_was_ahead_keeps_no_other(
    world: World, meter: DelayMeter
) -> None:
    meter.turn()
    world.later(365 * 86400)
    world.deleted["ahead"] = world.now
    world.released("ahead")
    world.later(-365 * 86400)
    world.deleted["fine"] = world.now
    world.released("fine")
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert world.asked == ["fine"]
    assert (meter.delays.count, meter.delays.unknown) == (1, 1)


def test_a_release_of_a_clock_that_is_a_little_ahead_is_waited_for(
    world: World, meter: DelayMeter
) -> None:
    meter.turn()
    world.later(SETTLED_SECONDS / 2)
    world.deleted["soon"] = world.now
    world.released("soon")
    world.later(-SETTLED_SECONDS / 2)
    meter.turn()
    assert meter.delays.read() == Delays()
    world.later(SETTLED_SECONDS * 1.5)
    meter.turn()
    assert (meter.delays.count, meter.delays.unknown) == (1, 0)


def test_of_very_many_at_once_nova_is_asked_about_the_newest(
    world: World, meter: DelayMeter
) -> None:
    meter.turn()
    for number in range(MOST + 3):
        world.released(f"server-{number}")
    world.later(SETTLED_SECONDS)
    meter.turn()
    assert world.asked == [f"server-{number}" for number in range(3, MOST + 3)]


def test_nothing_ends_it_but_its_end(
    world: World, meter: DelayMeter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "PASS_SECONDS", 0.0)
    turns: list[int] = []
    stop = threading.Event()

    def turn() -> None:
        turns.append(1)
        if len(turns) == 3:
            stop.set()
        raise (UnavailableError("told to") if len(turns) == 1 else ZeroDivisionError)

    monkeypatch.setattr(meter, "turn", turn)
    meter.run_forever(stop)
    assert len(turns) == 3


@pytest.fixture
def nova() -> Iterator[NovaApiStandIn]:
    with NovaApiStandIn() as stand_in:
        yield stand_in


def test_the_door_asks_nova_for_one_server(
    nova: NovaApiStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clouds = write_clouds_yaml(tmp_path / "clouds.yaml", "http://127.0.0.1:9", nova.url)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    door = Compute.connect(CLOUD, timeout=5.0)
    nova.add_server("other", "cmp1", deleted=True, status="DELETED")
    nova.add_server("there", "cmp1")
    nova.add_server("gone", "cmp1", deleted=True, status="DELETED", updated="2026-11-20T12:00:07Z")
    nova.add_server("soft", "cmp1", status="SOFT_DELETED", **{"OS-EXT-STS:vm_state": "soft-delete"})
    assert door.deleted_at("gone") == START + timedelta(seconds=7)
    assert [door.deleted_at(each) for each in ("there", "soft", "never")] == [None] * 3
    times = ("2026-11-20T12:00:01.000000", "2026-11-20T12:00:02.000000")
    nova.add_action("there", "create", "2026-11-20T11:00:00.000000", "2026-11-20T11:00:00.000000")
    nova.add_action("there", "shelve", *times)
    assert door.last_action("there") == InstanceAction(
        "shelve", START + timedelta(seconds=1), START + timedelta(seconds=2)
    )
    assert door.last_action("never") is None
    assert door.last_action("soft") is None


def test_the_history_of_a_release_says_whose_it_was(tmp_path: Path) -> None:
    cloud, slot = Cloud(Clock()), slot_at(1)
    with open_store(tmp_path, cloud.clock) as store:
        enrolled(store, cloud, slot, server="server")
        cloud.delete(slot)
        Reconciler(
            store,
            cloud,
            NotingDispatcher(store, cloud.clock),
            ServiceLimits(),
            cloud.clock,
            tickets=NoTickets(),
            monotonic=cloud.clock.monotonic,
        ).look(slot)
        (line,) = (one for one in store.history(slot) if one.event is Event.RELEASE_SEEN)
        assert line.detail["consumer"] == "server"
