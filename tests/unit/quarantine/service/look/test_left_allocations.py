"""A slot in use by whom Nova has forgotten is told of, and nothing else is; over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.cloud.compute import Compute
from quarantine.record.alarms import AlarmCall
from quarantine.record.store import Store
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from quarantine.service.sweep.left_allocations import (
    AGAIN_SECONDS,
    AT_ONCE,
    AWAY_SECONDS,
    DOUBT_SECONDS,
    YOUNG_SECONDS,
    LeftAllocations,
)
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

HOST = "cmp1"
SLOT = slot_at(1, HOST)


@pytest.fixture
def nova() -> Iterator[NovaApiStandIn]:
    with NovaApiStandIn() as stand_in:
        stand_in.add_host(HOST, HOST)
        yield stand_in


class Site:
    """One control plane, and a Nova that can be asked."""

    def __init__(self, store: Store, clock: Clock, nova: NovaApiStandIn) -> None:
        self.store, self.clock, self.nova = store, clock, nova
        self.cloud = Cloud(clock)
        self.door = Compute.connect(CLOUD, timeout=5.0)
        self.restart()

    def restart(self) -> None:
        self.sweep = LeftAllocations(self.store, self.door, self.clock, self.clock.monotonic)

    def used_by(self, consumer: str, number: int = 1, seconds: float = YOUNG_SECONDS) -> None:
        enrolled(self.store, self.cloud, slot_at(number, HOST), server=consumer)
        self.clock.forward(seconds)

    def turn(self, after: float = 0.0) -> None:
        self.clock.forward(after)
        self.sweep.turn(self.store.slots())

    def asked_for(self) -> list[str]:
        paths = [path for path in self.nova.requests if path.startswith("/servers/")]
        return [path.rpartition("/")[2] for path in paths if not path.startswith("/servers/detail")]


@pytest.fixture
def site(tmp_path: Path, nova: NovaApiStandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    clouds = write_clouds_yaml(tmp_path / "clouds.yaml", "http://127.0.0.1:9", nova.url)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, clock, nova)


def calls(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [r.getMessage() for r in caplog.records]
    return [line for line in lines if AlarmCode.ALLOCATION_LEFT in line]


def test_a_migration_that_ended_and_holds_on_is_told_of_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.nova.add_migration("move", "server", source_compute=HOST, status="confirmed")
    site.used_by("move")
    site.turn()
    assert calls(caplog) == [], "it may have ended just now"
    site.turn(DOUBT_SECONDS)
    site.turn(DOUBT_SECONDS)
    (call,) = calls(caplog)
    assert call.startswith(f"ALARM allocation-left {SLOT}: in use by migration move of server")
    assert "which Nova calls confirmed" in call


def test_a_consumer_that_nova_never_knew_is_told_of_until_it_is_let_go(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.used_by("stranger")
    site.turn()
    site.turn(DOUBT_SECONDS)
    (call,) = calls(caplog)
    assert "Nova knows no such server and no such migration" in call
    site.sweep.turn([])
    assert calls(caplog)[1].startswith(f"over: allocation-left {SLOT}")


@pytest.mark.parametrize("status", ["finished", "migrating", "done"])
def test_what_nova_knows_is_left_alone(
    site: Site, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = "evacuation" if status == "done" else "migration"
    site.nova.add_migration("move", "x", source_compute=HOST, status=status, migration_type=kind)
    site.nova.add_server("server", HOST)
    site.used_by("move")
    site.used_by("server", 2)
    for _ in range(3):
        site.turn(DOUBT_SECONDS)
    assert calls(caplog) == []
    assert site.asked_for() == ["move", "server"], "each once in a while"
    site.turn(AGAIN_SECONDS)
    assert site.asked_for() == ["move", "server"] * 2


@pytest.mark.parametrize("status", ["finished", "confirmed"])
def test_whose_a_migration_is_that_we_saw_first_is_learned(site: Site, status: str) -> None:
    """Enrolled with it in the slot, or handed to it while Nova was away."""
    site.nova.add_migration("move", "server", source_compute=HOST, status=status)
    site.used_by("move")
    site.used_by("stranger", 2)
    assert site.store.server_behind("move") == "move"
    site.store.note_server("move", "project", "user")
    for _ in range(2):
        site.turn(DOUBT_SECONDS)
    assert site.store.server_behind("move") == "server"
    # What was known of the migration is so of its server, which alone is one.
    owner = site.store.server("server")
    assert (owner.project, owner.user) == ("project", "user") if owner else False
    assert [line.uuid for line in site.store.server_page(limit=9)] == ["server"]
    assert site.store.server_behind("stranger") == "stranger"


def test_a_slot_that_is_in_use_since_just_now_is_not_asked_about(site: Site) -> None:
    site.used_by("building", seconds=YOUNG_SECONDS - 60)
    site.turn()
    assert site.asked_for() == []


def test_a_nova_that_does_not_answer_says_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.used_by("stranger")
    site.turn()
    site.nova.status = 503
    site.turn(DOUBT_SECONDS)
    assert "cannot be asked" in caplog.text
    asked = len(site.nova.requests)
    site.turn(AWAY_SECONDS - 60)
    assert len(site.nova.requests) == asked, "each try may cost a timeout"
    assert calls(caplog) == []
    site.nova.status = 200
    site.turn(AWAY_SECONDS)
    assert len(calls(caplog)) == 1


def test_a_server_that_is_hidden_from_our_user_is_not_gone(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Or the remedy, to delete its allocation, would be that of a live server."""
    site.nova.add_server("server", HOST)
    site.used_by("server")
    site.nova.admin = False
    site.turn()
    site.turn(AWAY_SECONDS)
    site.turn(AWAY_SECONDS + DOUBT_SECONDS)
    assert calls(caplog) == []
    assert "needs the admin role" in caplog.text


def test_a_cell_without_its_database_keeps_no_host_of_another_from_its_turn(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.used_by("stranger")
    site.turn()
    site.nova.refuses["/os-hypervisors/detail"] = 500
    site.turn(DOUBT_SECONDS)
    assert len(calls(caplog)) == 1


def test_a_cell_without_its_database_says_nothing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Nova leaves out what is there, with a 200; its compute services have no state then."""
    site.nova.services[0]["state"] = "UNKNOWN"
    site.used_by("move")
    for _ in range(3):
        site.turn(DOUBT_SECONDS)
    assert calls(caplog) == []


def test_many_have_their_turns(site: Site) -> None:
    names = [f"server-{number}" for number in range(2 * AT_ONCE + 1)]
    for number, name in enumerate(names, start=1):
        site.nova.add_server(name, HOST)
        site.used_by(name, number)
    site.turn()
    assert len(site.asked_for()) == AT_ONCE
    site.turn()
    site.turn()
    assert sorted(site.asked_for()) == sorted(names)


def test_after_a_restart_what_was_told_is_asked_first(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the process would say that it is over, because it was not told again in time."""
    names = [f"server-{number}" for number in range(2 * AT_ONCE)]
    for number, name in enumerate(names, start=2):
        site.nova.add_server(name, HOST)
        site.used_by(name, number)
    site.used_by("stranger")
    at = site.clock()
    call = AlarmCall(AlarmCode.ALLOCATION_LEFT, str(SLOT), "text", at, at, 1)
    site.store.note_alarms({}, [call])
    site.restart()
    site.turn()
    assert site.asked_for()[0] == "stranger"
    site.turn(DOUBT_SECONDS)
    assert len(calls(caplog)) == 1


def test_the_loop_asks(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.used_by("stranger")
    dispatcher = NotingDispatcher(site.store, site.clock)
    loop = Reconciler(
        site.store,
        site.cloud,
        dispatcher,
        ServiceLimits(),
        site.clock,
        tickets=NoTickets(),
        left_allocations=site.sweep,
        monotonic=site.clock.monotonic,
    )
    loop.round()
    site.clock.forward(DOUBT_SECONDS)
    loop.round()
    assert len(calls(caplog)) == 1
    record = site.store.slot(SLOT)
    assert record is not None
    assert record.state is State.IN_USE, "people decide"
