"""Where no gate tells of guests: a server that came and went between two lists leaves a generation.

Rounds as the service makes them, over simulated time. What moves a provider and is no use leaves
its drive on offer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quarantine.cloud.facts import Inventory, Provider, View, provider_name
from quarantine.errors import UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges
from quarantine.record.words.states import Custody, Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.rules.offermark import RESHAPED, Mark
from quarantine.service.brake import FEW, OFTEN, SHARE
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    available,
    certified,
    open_store,
    slot_at,
)

SLOT = slot_at(1)
NO_GATE = ServiceLimits(tickets=False)


class Site:
    """The loop of one control plane over simulated time."""

    def __init__(self, store: Store, cloud: Cloud) -> None:
        self.store, self.cloud, self.clock = store, cloud, cloud.clock
        self.restart()

    def restart(self, limits: ServiceLimits = NO_GATE) -> None:
        """Another process goes on."""
        self.loop = Reconciler(
            self.store,
            self.cloud,
            NotingDispatcher(self.store, self.clock),
            limits,
            self.clock,
            tickets=NoTickets(),
            monotonic=self.clock.monotonic,
        )

    def go_on(self, seconds: float = 2 * NO_GATE.list_interval) -> None:
        """Rounds, as :meth:`Reconciler.run_forever` makes them."""
        until = self.clock.seconds + seconds
        while self.clock.seconds < until:
            self.loop.round()
            self.clock.forward(NO_GATE.sweep_interval)

    def used(self, number: int = 1) -> None:
        """A server comes and goes, and Nova never burns its drive."""
        self.cloud.claim(slot_at(number), f"server-{number}")
        self.cloud.delete(slot_at(number))

    def state(self, number: int = 1) -> State:
        record = self.store.slot(slot_at(number))
        assert record is not None
        return record.state


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


def test_a_use_between_two_lists_that_nova_never_burned_is_erased(site: Site) -> None:
    certified(site.store, site.cloud, SLOT)
    site.go_on()
    assert site.state() is State.AVAILABLE
    site.used()
    site.go_on()
    assert site.cloud.seat(SLOT).reserved
    assert site.state() is State.ERASING


def test_a_slot_that_was_on_offer_before_there_were_marks_gets_one(site: Site) -> None:
    available(site.store, site.cloud, SLOT)
    site.go_on()
    assert site.state() is State.AVAILABLE
    site.used()
    site.go_on()
    assert site.state() is State.ERASING


def test_what_stands_still_is_asked_about_no_more(site: Site) -> None:
    certified(site.store, site.cloud, SLOT)
    site.go_on()
    site.cloud.asked.clear()
    site.go_on(3600)
    assert site.state() is State.AVAILABLE
    assert f"rp-{SLOT}" not in site.cloud.asked


def test_a_trait_that_was_set_is_no_use(site: Site) -> None:
    certified(site.store, site.cloud, SLOT)
    site.go_on()
    seat = site.cloud.seat(SLOT)
    seat.traits |= {"CUSTOM_RACK_7"}
    seat.moved()
    site.go_on()
    assert site.state() is State.AVAILABLE
    site.used()
    site.go_on()
    assert site.state() is State.ERASING, "and it hides none"


def test_a_trait_that_was_set_hides_no_use_of_the_same_minute(site: Site) -> None:
    certified(site.store, site.cloud, SLOT)
    site.go_on()
    seat = site.cloud.seat(SLOT)
    seat.traits |= {"CUSTOM_RACK_7"}
    seat.moved()
    site.used()
    site.go_on()
    assert site.state() is State.ERASING


def test_a_use_before_we_could_note_that_the_drive_is_back_is_seen(site: Site) -> None:
    record = certified(site.store, site.cloud, SLOT)
    view = site.cloud.view(record.provider, record.resource_class)
    assert view is not None
    mark = str(Mark.given_back(view, site.cloud.traits(record.provider)[1]))
    site.store.amend(record, SlotChanges(custody_stage=Custody.RETURNING, offered_as=mark))
    site.cloud.reshape(view, str(record.custody), hold=False)
    site.used()
    site.go_on()
    assert site.state() is State.ERASING


def test_where_a_gate_stands_the_host_tells_of_uses_and_nothing_is_asked(site: Site) -> None:
    available(site.store, site.cloud, SLOT)
    site.restart(ServiceLimits(tickets=True))
    site.used()
    asked: list[str] = []
    site.cloud.traits = asked.append  # type: ignore[method-assign, assignment]
    site.go_on()
    assert site.state() is State.AVAILABLE
    assert not asked
    record = site.store.slot(SLOT)
    assert record is not None
    assert record.offered_as is None


def test_many_at_once_are_erased_in_turn_and_one_alarm_rings(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    numbers = range(60)
    for number in numbers:
        certified(site.store, site.cloud, slot_at(number))
    site.go_on(600)
    for number in numbers:
        site.cloud.seat(slot_at(number)).moved()
    site.go_on(600)
    taken = [number for number in numbers if site.state(number) is not State.AVAILABLE]
    assert FEW < len(taken) <= 60 * SHARE
    assert len(alarms(caplog)) == 1
    for number in taken:
        record = site.store.slot(slot_at(number))
        assert record is not None
        site.store.transition(record, Event.HELD, reason="its case is over")
    site.go_on(600)
    later = [number for number in numbers if site.state(number) is not State.AVAILABLE]
    assert len(later) > len(taken)


HOST = range(3)


def heal(site: Site) -> None:
    """``_set_up_and_do_reshape`` of Nova: all inventories of a host, and each is set twice."""
    for number in HOST:
        site.cloud.seat(slot_at(number)).moved(2)


def two_servers(site: Site) -> None:
    """Each gets all drives of the host and goes, and Nova burns none."""
    for _ in range(2):
        for number in HOST:
            site.used(number)


@pytest.mark.parametrize("happens", [heal, two_servers])
def test_a_use_hides_behind_no_heal_of_novas(site: Site, happens: Callable[[Site], None]) -> None:
    """Placement shows the same after both: the honest drives of the first pay for the second."""
    for number in HOST:
        certified(site.store, site.cloud, slot_at(number))
    site.go_on()
    before = [site.cloud.seat(slot_at(number)).provider.generation for number in HOST]
    happens(site)
    after = [site.cloud.seat(slot_at(number)).provider.generation for number in HOST]
    assert [now - was for was, now in zip(before, after, strict=True)] == [2, 2, 2]
    site.go_on()
    assert [site.state(number) for number in HOST] == [State.ERASING] * 3


def test_nobody_waits_behind_those_that_stay_on_offer_for_now(site: Site) -> None:
    numbers = range(60)
    for number in numbers:
        certified(site.store, site.cloud, slot_at(number))
    site.go_on(600)
    for number in numbers:
        site.cloud.seat(slot_at(number)).moved()
    site.go_on(600)
    left = [number for number in numbers if site.state(number) is State.AVAILABLE]
    site.cloud.asked.clear()
    site.go_on(600)
    assert not {f"rp-{slot_at(number)}" for number in left} & set(site.cloud.asked)
    site.cloud.claim(slot_at(left[-1]), "server")
    site.go_on()
    assert site.state(left[-1]) is State.IN_USE, "whoever moves on is looked at"
    seat = site.cloud.seat(slot_at(left[0]))
    seat.provider = replace(seat.provider, name=provider_name(slot_at(99)))
    site.go_on()
    assert f"rp-{slot_at(left[0])}" in site.cloud.asked, "and whoever has another name"


def test_one_drive_is_not_worn_out(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    certified(site.store, site.cloud, SLOT)
    for _ in range(OFTEN):
        site.go_on()
        assert site.state() is State.AVAILABLE
        site.used()
        site.go_on()
        assert site.state() is State.ERASING
        back_on_offer(site)
    assert not alarms(caplog)
    site.used()
    site.go_on(600)
    assert site.state() is State.AVAILABLE
    assert [text for text in alarms(caplog) if "what writes to the provider?" in text]
    assert len(alarms(caplog)) == 1
    site.clock.forward(86400)
    site.go_on()
    assert site.state() is State.ERASING


def test_a_drive_that_could_not_be_reserved_was_not_erased(site: Site) -> None:
    certified(site.store, site.cloud, SLOT)
    site.go_on()
    site.used()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site.cloud, "put_reserved", refused)
        site.go_on(OFTEN * 60)
    assert site.state() is State.AVAILABLE
    site.go_on()
    assert site.state() is State.ERASING


def refused(view: View, *, full: bool) -> int:
    """Placement reads, and cannot write."""
    raise UnavailableError("503")


def test_who_makes_no_sweeps_learns_that_drives_are_done(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    numbers = range(FEW + 2)
    for number in numbers:
        certified(site.store, site.cloud, slot_at(number))
    site.go_on(600)
    site.restart()
    for number in numbers:
        site.used(number)
        site.loop.bell(slot_at(number).host, slot_at(number).address)
        assert site.state(number) is State.ERASING
        record = site.store.slot(slot_at(number))
        assert record is not None
        site.store.transition(record, Event.HELD, reason="its case is over")
        site.clock.forward(86400)
    assert not alarms(caplog)


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Those of the brake: the silence of a host that is not played here rings too."""
    return [each.message for each in caplog.records if each.message.startswith("ALARM moved-")]


def back_on_offer(site: Site) -> None:
    """As after a certificate."""
    record = site.store.slot(SLOT)
    assert record is not None
    last = site.store.last_certificate()
    site.store.transition(
        record,
        Event.CERTIFIED,
        certificate=new_certificate(record.generation, last.digest if last else ""),
    )
    site.go_on()


def new_certificate(number: int, previous: str) -> NewCertificate:
    return NewCertificate(f"token-{number}", f"digest-{number}", previous)


STOCK = Inventory("CUSTOM_NVME", 1, 1, 1, 1, 1, 1.0)
VIEW = View(Provider("rp", "cmp1_0000:81:00.0", 7), "CUSTOM_NVME", (STOCK,), ())
FREE = replace(VIEW, inventories=(STOCK.with_reserved(0),))


def at(view: View, generation: int) -> View:
    return replace(view, provider=replace(view.provider, generation=generation))


def test_a_mark_says_what_giving_back_will_leave() -> None:
    mark = Mark.given_back(VIEW, ["A", "B"])
    assert mark == Mark.of(at(FREE, 7 + RESHAPED), ["B", "A"])
    assert Mark.read(str(mark)) == mark
    assert len(str(replace(mark, generation=2**31))) <= 64


@pytest.mark.parametrize("text", [None, "", "7 a", "x a b", "² a b", "7 a b c"])
def test_what_is_no_mark_is_none(text: str | None) -> None:
    assert Mark.read(text) is None


WIDE = replace(FREE, inventories=(replace(STOCK, reserved=0, max_unit=2),))


@pytest.mark.parametrize(
    ("now", "traits", "explained"),
    [
        (at(FREE, 7), "A", True),
        (at(FREE, 8), "A", False),
        (at(FREE, 8), "AB", True),
        (at(WIDE, 8), "A", True),
        (at(WIDE, 8), "AB", True),
        (at(WIDE, 9), "AB", True),
        (at(WIDE, 9), "A", False),
        (at(WIDE, 10), "AB", False),
        (at(FREE, 6), "A", False),
        (at(FREE, 6), "AB", False),
    ],
)
def test_inventories_and_traits_explain_one_write_each(
    now: View, traits: str, explained: bool
) -> None:
    why = Mark.of(FREE, "A").unexplained(Mark.of(now, traits))
    assert (why == "") is explained
    if why:
        assert f"from generation 7 to {now.provider.generation}" in why
