"""A few slots that always fail, and a whole Placement that is away: nobody waits for ever."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import Allocation, Inventory, Provider, View, provider_name
from quarantine.errors import UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from quarantine.service.sweep.stray_offers import hold_unburnable
from tests.lab.record import migrated_file

RC = "CUSTOM_NVME"
BROKEN = 3
"""As many as end a pass when they come one after the other."""
SERVERS = 8


@dataclass
class Cloud:
    """A Placement of servers with one drive each, some of which cannot be read."""

    errors: dict[str, Exception] = field(default_factory=dict)
    free: bool = False
    """Whether the servers have let go of their drives."""
    asked: list[str] = field(default_factory=list)
    offers: list[Provider] = field(default_factory=list)

    def _ask(self, uuid: str) -> None:
        self.asked.append(uuid)
        if uuid in self.errors:
            raise self.errors[uuid]

    def view(self, uuid: str, resource_class: str) -> View | None:
        self._ask(uuid)
        stock = Inventory(RC, 1, 1, 1, 1, 1, 1.0)
        held = Allocation(f"server-{uuid}", {RC: 1}, 1, "unknown", "p", "u")
        provider = Provider(uuid, provider_name(slot(int(uuid))), 5)
        return View(provider, resource_class, (stock,), () if self.free else (held,))

    def holders(self, uuid: str) -> tuple[int, frozenset[str]] | None:
        self._ask(uuid)
        return 5, frozenset() if self.free else frozenset({f"server-{uuid}"})

    def burns(self, uuid: str) -> bool:
        return False

    def traits(self, uuid: str) -> tuple[int, frozenset[str]]:
        return 5, frozenset()

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        return []

    def offered(self, resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        return [] if traits else self.offers

    def burning_traits(self) -> list[str]:
        return []

    def resource_classes(self) -> frozenset[str]:
        return frozenset()

    def by_slot(self, slot: Slot) -> Provider | None:
        return None

    def put_reserved(self, view: View, *, full: bool) -> int:
        raise UnavailableError("Placement takes no writes")

    def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
        raise UnavailableError("Placement takes no writes")


class NoDispatcher:
    """Is never asked here."""

    def order(self, record: SlotRecord) -> SlotRecord:
        raise AssertionError("expected no order without custody")


class NoTickets:
    """Is never asked here either."""

    def send(self, record: SlotRecord) -> SlotRecord:
        raise AssertionError("expected no ticket without a certificate")


def slot(number: int) -> Slot:
    return Slot("cmp1", f"0000:{number:02x}:00.0")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(migrated_file(tmp_path / "record.db"))
    yield store
    store.close()


def fill(store: Store, *, in_use: bool) -> None:
    for number in range(SERVERS):
        store.enrol(
            slot(number),
            provider=str(number),
            resource_class=RC,
            in_use=in_use,
            profile="p",
            policy="q",
            consumer=f"server-{number}" if in_use else None,
        )


AWAY = UnavailableError("expected the provider to stand still")
STRANGE = KeyError("resource_provider_generation")


def test_open_cases_behind_a_few_that_always_fail_are_served(store: Store) -> None:
    fill(store, in_use=False)
    cloud = Cloud({str(n): AWAY for n in range(BROKEN)})
    reconciler = Reconciler(store, cloud, NoDispatcher(), ServiceLimits(), tickets=NoTickets())
    for _ in range(2):
        reconciler.tend()
    # They were claimed meanwhile: looked at, they say so.
    states = [record.state for record in store.slots()]
    assert states[BROKEN:] == [State.IN_USE] * (SERVERS - BROKEN)


@pytest.mark.parametrize("error", [AWAY, STRANGE], ids=["away", "strange"])
def test_releases_behind_a_few_that_always_fail_are_seen(store: Store, error: Exception) -> None:
    fill(store, in_use=True)
    cloud = Cloud()
    reconciler = Reconciler(
        store, cloud, NoDispatcher(), ServiceLimits(in_use_reread=1e-6), tickets=NoTickets()
    )
    reconciler.sweep()
    cloud.errors = {str(n): error for n in range(BROKEN)}
    cloud.free = True
    for _ in range(4):
        reconciler.reread()
    states = [record.state for record in store.slots()]
    assert states == [State.IN_USE] * BROKEN + [State.RELEASED] * (SERVERS - BROKEN)


def test_a_placement_that_is_away_is_asked_little_and_served_at_once_when_back(
    store: Store,
) -> None:
    fill(store, in_use=False)
    cloud = Cloud({str(n): AWAY for n in range(SERVERS)})
    reconciler = Reconciler(store, cloud, NoDispatcher(), ServiceLimits(), tickets=NoTickets())
    for turns in range(1, 5):
        reconciler.tend()
        assert len(cloud.asked) == turns * BROKEN
    cloud.errors.clear()
    reconciler.tend()
    assert all(record.state is State.IN_USE for record in store.slots())


@pytest.mark.parametrize("error", [AWAY, STRANGE], ids=["away", "strange"])
def test_what_is_odd_about_an_offer_ends_no_sweep(store: Store, error: Exception) -> None:
    fill(store, in_use=False)
    stranger, unburned = SERVERS, 0
    cloud = Cloud({str(n): error for n in (stranger, unburned)})
    cloud.offers = [Provider(str(stranger), provider_name(slot(stranger)), 1)]
    record = store.slot(slot(unburned))
    assert record is not None
    hold_unburnable(store, cloud, record)
    assert store.slot(slot(unburned)) == record
    Reconciler(store, cloud, NoDispatcher(), ServiceLimits(), tickets=NoTickets()).sweep()
    assert [r.state for r in store.slots()][1:] == [State.IN_USE] * (SERVERS - 1)


@dataclass
class Gone:
    """Nova's deleted servers, once."""

    servers: frozenset[str]

    def poll(self) -> frozenset[str]:
        told, self.servers = self.servers, frozenset()
        return told


def test_slots_of_deleted_servers_are_looked_at_and_no_others(store: Store) -> None:
    fill(store, in_use=True)
    cloud = Cloud(free=True)
    gone = Gone(frozenset({"server-3", "a server without a drive"}))
    reconciler = Reconciler(
        store, cloud, NoDispatcher(), ServiceLimits(), tickets=NoTickets(), deleted_servers=gone
    )
    reconciler.follow_deletes()
    assert [r.slot for r in store.slots(states=[State.RELEASED])] == [slot(3)]
    asked = len(cloud.asked)
    reconciler.follow_deletes()
    assert len(cloud.asked) == asked
