"""Each pass has its time box: nobody waits for the slow, and nobody is left out for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from quarantine.errors import ConflictError, UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from quarantine.service.watch.lateness import Lateness
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    available,
    enrolled,
    open_store,
    slot_at,
)

LIMITS = ServiceLimits(sweep_interval=10, list_interval=30, in_use_reread=100)
LOOK = 9.0
"""Seconds that the longest look takes here, at most: a dozen requests."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with open_store(tmp_path, clock) as store:
        yield store


def loop_of(
    store: Store, cloud: Cloud, lateness: Lateness | None = None, *, broken: bool = True
) -> Reconciler:
    """Its cases stay open: no order goes out where the broker is ``broken``."""
    clock = cloud.clock
    dispatcher = NotingDispatcher(store, clock, broken=broken)
    return Reconciler(
        store,
        cloud,
        dispatcher,
        LIMITS,
        clock,
        tickets=NoTickets(),
        lateness=lateness,
        monotonic=clock.monotonic,
    )


def dozen(store: Store, clock: Clock) -> tuple[Cloud, list[Slot]]:
    """A cloud of twelve slots, enrolled."""
    cloud = Cloud(clock)
    slots = [slot_at(number) for number in range(12)]
    for slot in slots:
        enrolled(store, cloud, slot)
    return cloud, slots


def slow(cloud: Cloud) -> None:
    cloud.request_seconds = 0.6
    cloud.asked.clear()


Pass = Callable[[Reconciler], object]
PASSES: list[Pass] = [
    Reconciler.sweep,
    Reconciler.tend,
    Reconciler.reread,
    Reconciler.round,
]


@pytest.mark.parametrize("passes", PASSES, ids=lambda each: each.__name__)
def test_no_pass_takes_longer_than_a_round_and_the_next_one_goes_on(
    store: Store, clock: Clock, passes: Pass
) -> None:
    cloud = Cloud(clock)
    for number in range(12):
        enrolled(store, cloud, slot_at(number), server="server" if number % 2 else None)
    loop = loop_of(store, cloud)
    slow(cloud)
    loop.sweep()
    for _ in range(16):
        before = cloud.clock.seconds
        passes(loop)
        assert cloud.clock.seconds - before <= LIMITS.sweep_interval + LOOK
        cloud.clock.forward(max(0.0, before + LIMITS.sweep_interval - cloud.clock.seconds))
    asked = set(cloud.asked)
    kinds = {
        Reconciler.sweep: range(12),
        Reconciler.tend: range(12),
        Reconciler.reread: range(1, 12, 2),
        Reconciler.round: range(12),
    }
    assert {f"rp-{slot_at(number)}" for number in kinds[passes]} <= asked  # type: ignore[index]


def test_a_bell_for_a_host_has_its_time_and_says_whom_it_did_not_reach(
    store: Store, clock: Clock
) -> None:
    cloud, slots = dozen(store, clock)
    loop = loop_of(store, cloud, broken=False)
    slow(cloud)
    before = clock.seconds
    host = slots[0].host
    left = loop.ring(host)
    assert clock.seconds - before <= LIMITS.sweep_interval / 3 + LOOK
    assert 0 < len(left) < len([slot for slot in slots if slot.host == host])
    # Each is rung for by itself, by whoever passes bells on; the next bell begins with them too.
    for slot in left:
        assert loop.ring(slot.host, slot.address) == ()
    looked = {about for about in cloud.asked if about.startswith("rp-")}
    assert {f"rp-{slot}" for slot in slots if slot.host == host} <= looked
    # Where Placement is away nobody is rung for again: the rounds look.
    cloud.broken |= {f"rp-{slot}": UnavailableError("Placement answered 503") for slot in slots}
    assert loop.ring(host) == ()


def test_a_placement_that_hangs_ends_a_bell_and_other_errors_do_not(
    store: Store, clock: Clock
) -> None:
    """One answer that does not come takes longer than the time of the bell."""
    cloud, slots = dozen(store, clock)
    loop = loop_of(store, cloud)
    slow(cloud)
    host = slots[0].host
    names = [f"rp-{slot}" for slot in slots if slot.host == host]
    cloud.broken |= {name: ConflictError("expected a row, found an odd one") for name in names}
    assert loop.ring(host), "the rest is rung for again"
    # The first one answers yet.
    cloud.broken = {name: UnavailableError("Placement did not answer") for name in names[1:]}
    cloud.request_seconds = LIMITS.sweep_interval
    before = clock.seconds
    while loop.ring(host):
        assert clock.seconds - before <= LIMITS.request_timeout


@dataclass
class Hung(NotingDispatcher):
    """A broker whose machine is gone: each try takes all the time that it is waited for."""

    tries: int = 0

    def order(self, record: SlotRecord) -> SlotRecord:
        if self.broken:
            self.tries += 1
            self.clock.forward(5.0)
        return super().order(record)


def beside_a_broker(store: Store, clock: Clock) -> tuple[Reconciler, Hung, list[Slot]]:
    """A service at its defaults whose broker hangs, and ten slots that were just let go of."""
    cloud, broker = Cloud(clock), Hung(store, clock, broken=True)
    slots = [slot_at(number) for number in range(10)]
    for slot in slots:
        enrolled(store, cloud, slot)
    return (
        Reconciler(
            store,
            cloud,
            broker,
            ServiceLimits(),
            clock,
            tickets=NoTickets(),
            monotonic=clock.monotonic,
        ),
        broker,
        slots,
    )


def rounds(loop: Reconciler, clock: Clock, number: int) -> None:
    for _ in range(number):
        began = clock.seconds
        loop.round()
        assert clock.seconds - began <= ServiceLimits().sweep_interval
        clock.forward(began + ServiceLimits().sweep_interval - clock.seconds)


def test_a_broker_that_hangs_keeps_no_slot_from_custody(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    loop, broker, _slots = beside_a_broker(store, clock)
    rounds(loop, clock, 2)
    found = {record.state for record in store.slots()}
    assert found == {State.QUARANTINED}
    assert broker.tries == 2, "once in a round"
    assert caplog.text.count("WARNING") == 2
    broker.broken = False
    rounds(loop, clock, 1)
    assert {record.state for record in store.slots()} == {State.ERASING}


def test_a_broker_that_hangs_is_no_placement_that_is_away(store: Store, clock: Clock) -> None:
    """Whom a bell did not reach is rung for again."""
    loop, broker, slots = beside_a_broker(store, clock)
    left = loop.ring(slots[0].host)
    assert set(left) < set(slots)
    for slot in left:
        loop.ring(slot.host, slot.address)
    assert {record.state for record in store.slots()} == {State.QUARANTINED}
    assert broker.tries == 1


def test_what_moved_while_it_was_on_offer_comes_before_open_cases(
    store: Store, clock: Clock
) -> None:
    cloud = Cloud(clock)
    for number in range(5):
        enrolled(store, cloud, slot_at(number))
    offered = [slot_at(number) for number in range(5, 10)]
    for slot in offered:
        available(store, cloud, slot)
        cloud.claim(slot, f"server-{slot}")
    loop = loop_of(store, cloud)
    slow(cloud)
    loop.sweep()
    looked = [about for about in cloud.asked if about.startswith("rp-")]
    assert looked[0] == f"rp-{offered[0]}"
    assert len(store.slots(states=[State.IN_USE])) < len(offered), "the box was over before"
    for _ in range(10):
        loop.tend()
    assert len(store.slots(states=[State.IN_USE])) == len(offered)


def test_open_cases_take_turns(store: Store, clock: Clock) -> None:
    cloud = Cloud(clock)
    slots = [slot_at(number) for number in range(8)]
    for slot in slots:
        enrolled(store, cloud, slot)
    loop = loop_of(store, cloud)
    slow(cloud)
    for _ in range(16):
        loop.tend()
    counts = [cloud.asked.count(f"rp-{slot}") for slot in slots]
    assert min(counts) > 0
    # The first look of a case costs more than the later ones.
    assert max(counts) - min(counts) <= 15


def test_a_slot_on_offer_that_nova_would_not_burn_is_held_behind_many_that_are_absent(
    store: Store, clock: Clock
) -> None:
    cloud = Cloud(clock)
    slots = [slot_at(n) for n in range(8)]
    for slot in slots:
        available(store, cloud, slot)
    for slot in slots[:-1]:
        del cloud.seats[f"rp-{slot}"]
    cloud.seat(slots[-1]).burns = False
    slow(cloud)
    loop = loop_of(store, cloud)
    for _ in slots:
        loop.sweep()
    (held,) = store.slots(states=[State.HELD])
    assert held.slot == slots[-1]


@pytest.mark.parametrize(
    "error",
    [UnavailableError("Placement answered 503"), ZeroDivisionError("a mistake of ours")],
    ids=["foreseen", "unforeseen"],
)
def test_a_sweep_that_never_goes_through_is_one_alarm_whatever_else_does(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """A listing that is too long for its time, after a restart: all else of Placement answers."""
    cloud = Cloud(clock)
    enrolled(store, cloud, slot_at(1), server="server")
    loop = loop_of(store, cloud)
    cloud.broken["list"] = error
    for _ in range(60):
        loop.round()
        clock.forward(LIMITS.sweep_interval)
    words = [record.getMessage() for record in caplog.records if "good sweep" in record.message]
    assert [text[:16] for text in words] == ["ALARM late sweep"]
    caplog.clear()
    cloud.broken.clear()
    for _ in range(30):
        loop.round()
        clock.forward(LIMITS.sweep_interval)
    words = [record.getMessage() for record in caplog.records if "late sweep" in record.message]
    assert words == ["over: late sweep: there was a good one again"]


@pytest.mark.parametrize("broken", ["one slot", "the listing", ""])
def test_how_late_a_release_without_a_bell_would_be_seen(
    store: Store, clock: Clock, broken: str
) -> None:
    cloud = Cloud(clock)
    slots = [slot_at(number) for number in range(6)]
    for number, slot in enumerate(slots):
        enrolled(store, cloud, slot, server=f"server-{number}")
    lateness = Lateness(clock.monotonic)
    loop = loop_of(store, cloud, lateness)
    if broken:
        about = f"rp-{slots[3]}" if broken == "one slot" else "list"
        cloud.broken[about] = UnavailableError("Placement answered 503")
    worst = 0.0
    for _ in range(40):
        loop.round()
        clock.forward(LIMITS.sweep_interval)
        age, bound = lateness.ages()["reading"]
        worst = max(worst, age)
    assert LIMITS.in_use_reread <= bound < LIMITS.in_use_reread + 2 * LIMITS.sweep_interval
    if broken:
        assert worst == 40 * LIMITS.sweep_interval, "since the start"
    else:
        assert 0 < worst <= bound
