"""Guests of which a host says that they run with a drive that Placement has for another server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eraser.protocol.report import Hello
from eraser.protocol.ticket import MAX_DOMAINS, DomainSeen, GateTestimony
from quarantine.cloud.novafacts import Migration, Server
from quarantine.record.store import Store
from quarantine.rules.action import ServiceLimits
from quarantine.service.handovers import Handovers
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    LIFE,
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    enrolled,
    open_store,
    slot_at,
)

SLOT = slot_at(1)


@dataclass
class Nova:
    """Knows of no migration; each question takes 20 ms."""

    clock: Clock
    asked: list[str] = field(default_factory=list)

    def migrations_of(self, server: str) -> list[Migration]:
        self.asked.append(server)
        self.clock.forward(0.02)
        return []

    def server(self, server: str) -> Server | None:
        self.clock.forward(0.02)
        return None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


@pytest.mark.parametrize(
    "names",
    [[str(uuid.UUID(int=number)) for number in range(MAX_DOMAINS)], ["x" * 100_000]],
    ids=["many", "long"],
)
def test_a_host_that_names_no_guest_of_nova_s_keeps_neither_nova_nor_us_busy(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture, names: list[str]
) -> None:
    """All others' hellos wait for that look (promise 7)."""
    cloud, nova = Cloud(clock), Nova(clock)
    enrolled(store, cloud, SLOT, server="server")
    clock.forward(300)
    guests = tuple(DomainSeen(name, "x", (SLOT.address,), True, True) for name in names)
    gate = GateTestimony((), guests, (), ())
    store.host_seen("cmp1", 1, Hello("cmp1", LIFE, 1, "0.1.0", (), (), gate=gate))
    loop = Reconciler(
        store,
        cloud,
        NotingDispatcher(store, clock),
        ServiceLimits(),
        clock,
        tickets=NoTickets(),
        handovers=Handovers(nova, 300.0, clock.monotonic),
        monotonic=clock.monotonic,
    )
    began = clock.seconds
    loop.look(SLOT)
    assert clock.seconds - began < 1
    assert nova.asked == []
    assert caplog.text.count("ALARM") == 1
    assert " 'x" in caplog.text
