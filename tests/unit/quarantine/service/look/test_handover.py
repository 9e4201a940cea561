"""Whether a drive that another consumer holds was moved: Nova is asked before a person is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from quarantine.cloud.compute import Compute
from quarantine.cloud.novafacts import Migration, Server
from quarantine.errors import BadInputError, UnavailableError
from quarantine.rules.handover import Handover
from quarantine.service.handovers import AWAY_SECONDS, Handovers
from tests.lab.services.nova_api_standin import NovaApiStandIn
from tests.lab.services.placement import CLOUD, write_clouds_yaml

GRACE = 300.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def nova() -> Iterator[NovaApiStandIn]:
    with NovaApiStandIn(page=2) as stand_in:
        yield stand_in


@pytest.fixture
def door(nova: NovaApiStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compute:
    clouds = write_clouds_yaml(tmp_path / "clouds.yaml", "http://127.0.0.1:9", nova.url)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    return Compute.connect(CLOUD, timeout=5.0)


def test_a_migration_and_its_revert_are_moves_and_nothing_else_is(
    nova: NovaApiStandIn, door: Compute
) -> None:
    for number in range(3):  # more than a page
        nova.add_migration(f"old-{number}", "server")
    nova.add_migration("move", "server", status="reverted")
    nova.add_migration("other-move", "other")
    handovers = Handovers(door, GRACE)
    assert handovers.between("server", "move") is Handover.MOVED
    assert handovers.between("move", "server") is Handover.MOVED
    assert handovers.between("server", "other") is Handover.STRANGE
    assert handovers.between("server", "other-move") is Handover.STRANGE


@pytest.mark.parametrize("status", ["confirmed", "reverted", "error", "failed", "cancelled"])
def test_a_migration_that_ended_a_while_ago_explains_no_guest(
    nova: NovaApiStandIn, door: Compute, status: str
) -> None:
    """Nova writes UTC without saying so (``doc/api_samples/os-migrations`` of Nova 34)."""
    row = nova.add_migration("move", "server", updated_at="2026-01-29T11:42:02.000000")
    ended = datetime(2026, 1, 29, 11, 42, 2, tzinfo=UTC)
    late = Handovers(door, GRACE, clock=lambda: ended + timedelta(seconds=GRACE + 1))
    soon = Handovers(door, GRACE, clock=lambda: ended + timedelta(seconds=GRACE - 1))
    assert late.between("server", "move") is Handover.MOVED, "it has not ended"
    row["status"] = status
    assert late.between("server", "move") is Handover.OVER
    assert soon.between("server", "move") is Handover.MOVED
    for silent in (None, "", "yesterday"):
        row["updated_at"] = silent
        assert late.between("server", "move") is Handover.MOVED, "Nova does not say when"


@pytest.mark.parametrize("before", ["server", "move"])
def test_a_cell_without_its_database_is_no_strange_consumer(
    nova: NovaApiStandIn, door: Compute, before: str
) -> None:
    """Its migrations are left out with a 200; of the server Nova shows this (2.69)."""
    now = "move" if before == "server" else "server"
    minimal = {"id": "server", "status": "UNKNOWN", "tenant_id": "t", "deleted": False}
    nova.servers.append(minimal)
    clock = Clock()
    handovers = Handovers(door, GRACE, clock)
    assert handovers.between(before, now) is Handover.UNKNOWN
    assert handovers.between("other", "other-move") is Handover.STRANGE, "and others have answers"
    clock.now += GRACE
    assert handovers.between(before, now) is Handover.STRANGE, "then a person is asked"
    nova.servers.clear()
    nova.add_server("server", "cmp1")
    nova.add_migration("move", "server")
    assert handovers.between(before, now) is Handover.MOVED


def test_a_cell_that_comes_back_between_two_questions_is_asked_again(
    nova: NovaApiStandIn, door: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    nova.add_server("server", "cmp1")
    nova.add_migration("move", "server")
    asked: list[str] = []

    def late(server: str) -> list[Migration]:
        asked.append(server)
        return Compute.migrations_of(door, server) if len(asked) > 2 else []

    monkeypatch.setattr(door, "migrations_of", late)
    assert Handovers(door, GRACE).between("server", "move") is Handover.MOVED


def test_a_nova_that_is_away_calls_nobody_before_it_lasts(
    nova: NovaApiStandIn, door: Compute
) -> None:
    clock = Clock()
    handovers = Handovers(door, GRACE, clock)
    nova.add_migration("move", "server")
    nova.status = 503
    assert handovers.between("server", "move") is Handover.UNKNOWN
    asked = len(nova.requests)
    clock.now += AWAY_SECONDS - 1
    assert handovers.between("server", "move") is Handover.UNKNOWN
    assert len(nova.requests) == asked
    clock.now += GRACE
    assert handovers.between("server", "move") is Handover.STRANGE, "then a person is asked"
    nova.status = 200
    clock.now += AWAY_SECONDS
    assert handovers.between("server", "move") is Handover.MOVED
    nova.status = 503
    assert handovers.between("server", "move") is Handover.UNKNOWN, "anew"


def test_a_question_that_alone_is_never_answered_comes_before_people() -> None:
    """The answers to others say nothing of it."""

    class Nova:
        def migrations_of(self, server: str) -> list[Migration]:
            if server in ("bad", "ghost"):
                raise UnavailableError("Nova answers 500 for this server alone")
            return []

        def server(self, server: str) -> Server | None:
            return None

    clock = Clock()
    handovers = Handovers(Nova(), GRACE, clock)
    for _ in range(20):
        clock.now += 30
        assert handovers.between("fine", "other") is Handover.STRANGE
        last = handovers.between("bad", "ghost")
    assert last is Handover.STRANGE


def test_a_question_that_nova_refuses_keeps_no_other_from_its_answer() -> None:
    """A host may name a guest by any text."""

    class Nova:
        def migrations_of(self, server: str) -> list[Migration]:
            if len(server) > 255:
                raise BadInputError("Nova answered 400")
            return [Migration("move", "server", "migration", "finished", None, None)]

        def server(self, server: str) -> Server | None:
            return None

    handovers = Handovers(Nova(), GRACE, Clock())
    assert handovers.between("x" * 300, "other") is Handover.UNKNOWN
    assert handovers.between("server", "move") is Handover.MOVED


def test_what_nova_did_not_answer_long_ago_says_nothing_of_now(
    nova: NovaApiStandIn, door: Compute
) -> None:
    clock = Clock()
    handovers = Handovers(door, GRACE, clock)
    nova.status = 503
    assert handovers.between("server", "move") is Handover.UNKNOWN
    clock.now += 2 * 86400
    assert handovers.between("server", "move") is Handover.UNKNOWN
