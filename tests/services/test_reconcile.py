"""A slot's life on the real Placement, step by step and under a stand-in for Nova."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import pytest

from eraser.protocol.identity import Slot
from quarantine.cloud import custody
from quarantine.cloud.facts import CONSUMER_TYPE, Provider, View
from quarantine.cloud.placement import Placement
from quarantine.doors import new_uuid
from quarantine.errors import BadInputError, ConflictError, UnavailableError
from quarantine.operations.enrol import EnrolmentTerms, enrol
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Event, State
from quarantine.rules.action import ServiceLimits
from quarantine.rules.handover import Handover
from quarantine.service.reconciler import Reconciler, worst_case_detection
from tests.lab.services.faults import Fault, Kind
from tests.lab.services.nova_standin import NoValidHostError
from tests.lab.services.process import wait_until
from tests.services.pool import ADDRESS, EITHER, HauntedBy, Pool, with_limits

pytestmark = pytest.mark.services


@pytest.fixture(params=EITHER)
def placement(request: pytest.FixtureRequest) -> Any:
    """The simulated one, where nobody asks for the real one too."""
    return request.getfixturevalue(request.param)


CYCLE = [State.RELEASED, State.QUARANTINED, State.ERASING, State.CERTIFIED, State.AVAILABLE]


def test_an_enrolled_free_slot_is_reserved_first_and_erased_before_anyone_gets_it(
    pool: Pool,
) -> None:
    pool.enrol()
    assert not pool.on_offer
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    assert pool.record.generation == 1
    assert pool.dispatcher.sent == [pool.record.order_token]
    assert pool.view.locked
    assert [a.consumer for a in pool.view.allocations] == [pool.record.custody]
    pool.certify()
    pool.reconciler.look(pool.slot)
    assert pool.states() == CYCLE
    assert pool.on_offer
    assert pool.view.allocations == ()
    assert pool.record.custody is None


def test_a_slot_enrolled_while_a_tenant_has_it_is_never_touched(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    server = pool.nova.boot()
    record = enrol(pool.store, pool.placement, pool.slot, EnrolmentTerms("p", "q"))
    assert (record.state, record.consumer) == (State.IN_USE, server.uuid)
    pool.reconciler.sweep()
    assert pool.record.state is State.IN_USE
    assert pool.proxy.changes() == []
    assert pool.dispatcher.sent == []


def test_a_slot_is_not_enrolled_twice_nor_without_a_device(pool: Pool) -> None:
    with pytest.raises(BadInputError, match="device_spec"):
        enrol(pool.store, pool.placement, pool.slot, EnrolmentTerms("p", "q"))
    pool.enrol()
    with pytest.raises(ConflictError):
        enrol(pool.store, pool.placement, pool.slot, EnrolmentTerms("p", "q"))


def test_the_whole_cycle_from_tenant_to_tenant(pool: Pool) -> None:
    server = pool.make_used()
    assert pool.record.consumer == server.uuid
    pool.nova.delete(server)
    with pytest.raises(NoValidHostError):
        pool.nova.boot()
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    assert pool.record.generation == 2
    assert pool.record.consumer == server.uuid
    assert not pool.on_offer
    pool.certify()
    pool.reconciler.look(pool.slot)
    assert pool.states() == [*CYCLE, State.IN_USE, *CYCLE]
    pool.nova.boot()


@pytest.mark.parametrize("how", ["delete", "reclaimed", "local delete"])
def test_every_kind_of_delete_is_a_release(pool: Pool, how: str) -> None:
    server = pool.make_used()
    if how == "local delete":
        pool.nova.local_delete(server)
    else:
        pool.nova.delete(server, reclaim=how == "reclaimed")
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING


def test_a_release_is_seen_although_the_generation_stood_still(pool: Pool) -> None:
    server = pool.make_used()
    before = pool.view.provider.generation
    pool.nova.delete(server)
    assert pool.view.provider.generation == before == pool.record.provider_generation

    # A sweep by generations sees nothing to do; that alone would wait for ever.
    assert pool.slot not in [o.slot for o in pool.reconciler.sweep()]
    assert pool.record.state is State.IN_USE

    pool.new_reconciler().bell(pool.slot.host)
    assert pool.record.state is State.ERASING


def test_without_a_bell_the_rolling_read_sees_it(pool: Pool) -> None:
    server = pool.make_used()
    limits = with_limits(pool.limits, sweep_interval=0.1, list_interval=3600.0, in_use_reread=0.5)
    stop = threading.Event()
    loop = threading.Thread(target=pool.new_reconciler(limits).run_forever, args=[stop])
    loop.start()
    try:
        # Read in turn, and left alone, while the tenant has it.
        path = f"/resource_providers/{pool.record.provider}/allocations"
        wait_until(lambda: pool.proxy.requests.count(("GET", path)) > 5, "some reads in turn")
        assert pool.record.state is State.IN_USE
        pool.nova.delete(server)
        wait_until(lambda: pool.record.state is State.ERASING, "the release to be seen")
    finally:
        stop.set()
        loop.join()


def test_the_loop_tells_of_a_host_that_says_nothing_any_more(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """Also while Placement is away; and nothing is taken back for it."""
    pool.make_available()
    pool.proxy.inject(Fault(Kind.STATUS, status=500))
    reconciler = pool.new_reconciler(with_limits(pool.limits, sweep_interval=0.1))
    pool.clock.forward(pool.limits.silent_after + 1)
    stop = threading.Event()
    loop = threading.Thread(target=reconciler.run_forever, args=[stop])
    loop.start()
    try:
        wait_until(lambda: f" host {pool.slot.host}: " in caplog.text, "the alarm")
    finally:
        stop.set()
        loop.join()
    assert pool.record.state is State.AVAILABLE
    assert pool.on_offer


def test_the_loop_outlives_a_placement_that_comes_back_late(pool: Pool) -> None:
    pool.enrol()
    pool.proxy.inject(Fault(Kind.STATUS, status=500))
    limits = with_limits(pool.limits, sweep_interval=0.1)
    stop = threading.Event()
    loop = threading.Thread(target=pool.new_reconciler(limits).run_forever, args=[stop])
    loop.start()
    try:
        seen = len(pool.proxy.requests)
        wait_until(lambda: len(pool.proxy.requests) > seen + 5, "some failed rounds")
        assert pool.record.state is State.RELEASED
        pool.proxy.heal()
        wait_until(lambda: pool.record.state is State.ERASING, "the order after the outage")
    finally:
        stop.set()
        loop.join()


def test_a_bell_names_a_host_or_one_slot_and_nothing_else_is_read(pool: Pool) -> None:
    second = Slot(pool.slot.host, "0000:82:00.0")
    pool.nova.start_compute(pool.slot.host, [ADDRESS, second.address])
    for slot in (pool.slot, second):
        enrol(pool.store, pool.placement, slot, EnrolmentTerms("p", "q"))
    assert pool.reconciler.bell("another-host") == []
    outcomes = pool.reconciler.bell(pool.slot.host, second.address)
    assert [(o.slot, o.state, o.error) for o in outcomes] == [(second, State.ERASING, "")]
    assert pool.record.state is State.RELEASED
    assert len(pool.reconciler.bell(pool.slot.host)) == 2
    assert pool.record.state is State.ERASING


def test_a_claim_is_seen_by_the_sweep_and_a_quiet_slot_is_not_read(pool: Pool) -> None:
    pool.make_available()
    assert pool.slot not in [o.slot for o in pool.reconciler.sweep()]
    server = pool.nova.boot()
    assert pool.slot in [o.slot for o in pool.reconciler.sweep()]
    assert pool.record.state is State.IN_USE
    assert pool.record.consumer == server.uuid


def test_used_and_let_go_between_two_looks(pool: Pool) -> None:
    pool.make_available()
    pool.nova.fail_spawn()
    pool.reconciler.sweep()
    assert pool.record.state is State.ERASING
    assert pool.record.generation == 2
    assert pool.record.certificate is None


def test_a_migration_releases_the_source_without_a_delete(pool: Pool) -> None:
    server = pool.make_used()
    pool.nova.start_compute(f"{pool.slot.host}-b", [ADDRESS])
    migration = pool.nova.migrate(server)
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.IN_USE
    assert pool.record.consumer == migration.uuid
    pool.nova.confirm(migration)
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING


def test_a_reverted_migration_leaves_the_source_in_use(pool: Pool) -> None:
    server = pool.make_used()
    pool.nova.start_compute(f"{pool.slot.host}-b", [ADDRESS])
    pool.nova.revert(pool.nova.migrate(server))
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.IN_USE
    assert pool.record.consumer == server.uuid


@dataclass
class Told:
    """What Nova is made to say of two consumers."""

    answer: Handover

    def between(self, before: str, now: str) -> Handover:
        return self.answer


def test_a_cold_migration_and_its_revert_alarm_nobody_where_nova_knows_of_it(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    server = pool.make_used()
    pool.nova.start_compute(f"{pool.slot.host}-b", [ADDRESS])
    asked = Told(Handover.UNKNOWN)
    loop = Reconciler(
        pool.store,
        pool.placement,
        pool.dispatcher,
        pool.limits,
        pool.clock,
        tickets=pool.tickets,
        handovers=asked,
    )
    caplog.clear()
    moved = pool.nova.migrate(server)
    loop.look(pool.slot)
    assert pool.record.consumer == server.uuid
    assert "Nova is asked" in pool.record.detail
    asked.answer = Handover.MOVED
    loop.look(pool.slot)
    assert (pool.record.consumer, pool.record.detail) == (moved.uuid, "")
    pool.nova.revert(moved)
    loop.look(pool.slot)
    assert pool.record.consumer == server.uuid
    assert pool.record.state is State.IN_USE
    assert "ALARM" not in caplog.text


def test_an_operator_who_lowers_reserved_in_use_is_undone_and_named(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    server = pool.make_used()
    pool.put_reserved(0)
    pool.clock.forward(pool.limits.burn_grace + 1)
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.IN_USE
    assert pool.view.locked
    assert "ALARM" in caplog.text
    assert "lowered reserved" in caplog.text
    pool.nova.delete(server)
    assert not pool.on_offer


def test_nova_is_left_alone_between_its_claim_and_its_burn(pool: Pool) -> None:
    pool.make_available()
    server = pool.nova.claim()
    before = len(pool.proxy.changes())
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.IN_USE
    assert len(pool.proxy.changes()) == before
    pool.nova.burn(server)


def test_released_while_reserved_was_lowered_is_reserved_and_then_erased(pool: Pool) -> None:
    server = pool.make_used()
    pool.put_reserved(0)
    pool.nova.delete(server)
    assert pool.on_offer
    pool.reconciler.look(pool.slot)
    assert not pool.on_offer
    assert pool.record.state is State.ERASING


def test_custody_that_vanished_is_taken_again_as_a_new_case(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    first = pool.record
    pool.drop_custody()
    pool.put_reserved(0)
    assert pool.on_offer
    pool.reconciler.look(pool.slot)
    assert not pool.on_offer
    assert pool.record.state is State.ERASING
    assert pool.record.generation == first.generation + 1
    assert pool.record.order_token != first.order_token
    assert pool.view.custody(pool.record.custody) is not None


@pytest.mark.parametrize("night", [State.QUARANTINED, State.ERASING, State.CERTIFIED])
def test_a_record_restored_from_before_a_tenant_does_not_finish_the_old_case(
    pool: Pool, night: State
) -> None:
    """Its order, report and certificate were good, and somebody has used the drive since."""
    pool.enrol()
    pool.dispatcher.broken = night is State.QUARANTINED
    with contextlib.suppress(UnavailableError):
        pool.reconciler.look(pool.slot)
    pool.mend_broker()
    if night is State.CERTIFIED:
        pool.certify()
    assert pool.record.state is night
    old = pool.record
    pool.backup()

    pool.reconciler.look(pool.slot)
    if night is not State.CERTIFIED:
        pool.certify()
    pool.reconciler.look(pool.slot)
    server = pool.nova.boot()
    pool.reconciler.look(pool.slot)
    pool.nova.delete(server)
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    second = pool.view.allocations
    pool.restore()

    assert pool.record == old
    pool.new_reconciler().look(pool.slot)
    assert not pool.on_offer
    assert pool.view.allocations == second
    assert pool.record.order_token != old.order_token
    assert pool.record.generation > old.generation
    assert pool.record.state is (State.HELD if night is State.CERTIFIED else State.ERASING)


def test_a_drive_claimed_out_of_quarantine_is_held_with_a_new_case(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    generation = pool.record.generation
    pool.drop_custody()
    pool.put_reserved(0)
    server = pool.nova.boot()
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.HELD
    assert server.uuid in pool.record.reason
    assert pool.record.generation == generation + 1
    assert pool.record.order_token is None
    with pytest.raises(ConflictError):
        custody.give_back(pool.placement, pool.view, str(pool.record.custody))


def test_reserved_lowered_under_custody_is_put_back(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.put_reserved(0)
    pool.reconciler.look(pool.slot)
    assert pool.view.locked
    assert pool.record.state is State.ERASING


@dataclass
class Empty:
    """Placement of the wrong region, or a new database behind it."""

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        return []

    def offered(self, resource_class: str, traits: Collection[str] = ()) -> list[Provider]:
        return []

    def burning_traits(self) -> list[str]:
        return []

    def resource_classes(self) -> frozenset[str]:
        return frozenset()

    def by_slot(self, slot: Slot) -> Provider | None:
        return None

    def view(self, uuid: str, resource_class: str) -> View | None:
        return None

    def holders(self, uuid: str) -> None:
        return None


@pytest.mark.parametrize("what", ["used", "available", "erasing", "certified"])
def test_a_placement_that_answers_empty_changes_nothing_and_is_told_once(
    pool: Pool, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    if what == "used":
        pool.make_used()
    elif what == "available":
        pool.make_available()
    else:
        pool.enrol()
        pool.reconciler.look(pool.slot)
        if what == "certified":
            pool.certify()
    before, full = pool.record, pool.placement
    caplog.clear()
    loop = pool.new_reconciler()
    loop._placement = cast(Placement, Empty())
    for _ in range(20):
        pool.clock.forward(60)
        loop.sweep()
        loop.tend()
    assert pool.record == before
    (alarm,) = (r.getMessage() for r in caplog.records if "ALARM" in r.getMessage())
    assert "1 of 1 slots no more" in alarm
    if what == "erasing":
        pool.certify()
    loop._placement = full
    caplog.clear()
    loop.sweep()
    (over,) = (r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING)
    assert over.startswith("over: ")
    assert pool.record.state is (State.IN_USE if what == "used" else State.AVAILABLE)
    assert pool.record.generation == before.generation


def test_a_drive_that_is_away_for_one_boot_is_held_by_nothing(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """Alone of several, so that it is believed."""
    there = [Slot(pool.slot.host, f"0000:{n}:00.0") for n in range(10, 13)]
    addresses = [slot.address for slot in there]
    pool.make_available()
    pool.nova.start_compute(pool.slot.host, [ADDRESS, *addresses])
    for slot in there:
        enrol(pool.store, pool.placement, slot, EnrolmentTerms("p", "q"))
    pool.reconciler.sweep()
    old = pool.record
    caplog.clear()
    pool.nova.start_compute(pool.slot.host, addresses)
    for _ in range(3):
        pool.clock.forward(60)
        pool.reconciler.sweep()
    assert pool.record.state is State.AVAILABLE
    assert pool.record.detail.startswith("Placement shows no resource provider")
    # Born reserved under another provider, so it was out of our sight: erased first.
    pool.nova.start_compute(pool.slot.host, [ADDRESS, *addresses], born_reserved=True)
    pool.reconciler.sweep()
    assert pool.record.state is State.ERASING
    assert pool.record.detail == ""
    assert pool.record.provider != old.provider
    assert pool.record.generation == old.generation + 1
    assert "ALARM" not in caplog.text


def test_a_compute_service_that_stays_deleted_is_told_once_for_all_its_slots(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """A case under custody keeps its provider; the others are away, and nothing holds them."""
    other = f"{pool.slot.host}b"
    slots = [Slot(other, f"0000:{n}:00.0") for n in range(10, 16)]
    pool.nova.start_compute(other, [slot.address for slot in slots])
    for slot in slots:
        enrol(pool.store, pool.placement, slot, EnrolmentTerms("p", "q"))
    pool.make_available()
    pool.nova.start_compute(pool.slot.host, [])
    for _ in range(20):
        pool.clock.forward(60)
        pool.reconciler.sweep()
    (alarm,) = (r.getMessage() for r in caplog.records if "ALARM" in r.getMessage())
    assert alarm.startswith(
        f"ALARM slots-absent host {pool.slot.host}: Placement has shown 1 of its slots no"
    )
    assert pool.record.state is State.AVAILABLE


def test_a_drive_that_comes_back_under_another_provider_is_reserved_and_erased(
    pool: Pool,
) -> None:
    old = pool.make_available().provider
    pool.nova.start_compute(pool.slot.host, [])
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    assert pool.on_offer
    pool.reconciler.sweep()
    assert not pool.on_offer
    assert pool.record.state is State.ERASING
    assert pool.record.provider != old
    assert pool.record.generation == 2


def test_providers_whose_names_are_swapped_stand_for_each_other_s_drives(pool: Pool) -> None:
    """What nova-compute would give out as the second slot is the first one's provider now."""
    second = Slot(pool.slot.host, "0000:82:00.0")
    pool.make_available()
    pool.nova.start_compute(pool.slot.host, [ADDRESS, second.address])
    enrol(pool.store, pool.placement, second, EnrolmentTerms("p", "q"))
    pool.reconciler.sweep()
    clean, dirty = (pool.placement.by_slot(slot) for slot in (pool.slot, second))
    assert clean is not None
    assert dirty is not None
    for provider, name in ((clean, "between"), (dirty, clean.name), (clean, dirty.name)):
        path = f"/resource_providers/{provider.uuid}"
        body = {"name": name, "parent_provider_uuid": provider.parent}
        assert pool.raw("PUT", path, "1.39", body).status == 200
    assert {p.slot for p in pool.placement.offered(pool.resource_class)} == {second}
    pool.reconciler.sweep()
    assert pool.placement.offered(pool.resource_class) == []
    record = pool.store.slot(second)
    assert record is not None
    assert record.provider == clean.uuid


def test_a_held_slot_that_comes_back_free_is_reserved_and_stays_held(pool: Pool) -> None:
    pool.make_available()
    pool.store.transition(pool.record, Event.HELD, reason="to be looked at")
    pool.nova.start_compute(pool.slot.host, [])
    pool.reconciler.sweep()
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    pool.reconciler.sweep()
    assert not pool.on_offer
    assert pool.record.state is State.HELD
    pool.put_reserved(0)
    pool.reconciler.sweep()
    assert not pool.on_offer

    pool.store.transition(pool.record, Event.RELEASED_BY_OPERATOR, reason="seated again")
    pool.reconciler.sweep()
    assert pool.record.state is State.ERASING


def test_a_renamed_resource_class_is_reserved_and_erased(pool: Pool) -> None:
    pool.make_available()
    renamed = f"{pool.resource_class}_B"
    view = pool.view
    pool.raw("PUT", f"/resource_classes/{renamed}", "1.7")
    body = {
        "resource_provider_generation": view.provider.generation,
        "inventories": {renamed: {"total": 1, "max_unit": 1}},
    }
    path = f"/resource_providers/{view.provider.uuid}/inventories"
    assert pool.raw("PUT", path, "1.39", body).status == 200
    pool.reconciler.sweep()
    assert pool.record.state is State.ERASING
    assert pool.record.resource_class == renamed
    assert pool.placement.offered(renamed) == []


def test_a_drive_that_became_dirty_elsewhere_is_taken_out_of_the_pool(pool: Pool) -> None:
    pool.make_available()
    pool.store.note_drive(pool.identity, Slot("elsewhere", ADDRESS), True, "seen elsewhere")
    pool.reconciler.look(pool.slot)
    assert not pool.on_offer
    assert pool.record.state is State.ERASING


def test_a_drive_that_became_dirty_after_its_certificate_is_not_given_back(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    pool.store.note_drive(pool.identity, Slot("elsewhere", ADDRESS), True, "seen elsewhere")
    pool.reconciler.look(pool.slot)
    assert not pool.on_offer
    assert pool.record.state is State.HELD
    assert "seen elsewhere" in pool.record.reason


def test_a_lost_trait_does_not_blind_the_sweep(pool: Pool) -> None:
    pool.make_available()
    pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
    pool.nova.boot()
    pool.reconciler.sweep()
    assert pool.record.state is State.IN_USE


def test_a_slot_on_offer_that_nova_would_not_burn_is_held(pool: Pool) -> None:
    pool.make_available()
    pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
    pool.reconciler.sweep()
    assert pool.record.state is State.HELD
    assert "one_time_use" in pool.record.reason
    assert not pool.on_offer


def test_a_drive_that_nova_would_not_burn_is_not_given_back(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
    pool.certify()
    pool.reconciler.tend()
    assert not pool.on_offer
    assert pool.record.state is State.HELD
    assert "one_time_use" in pool.record.reason
    assert caplog.text.count("ALARM") == 1


def test_a_trait_that_goes_between_the_check_and_the_write_is_seen(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.certify()
    asked = pool.placement.burns

    def burns(uuid: str) -> bool:
        answer = asked(uuid)
        pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
        return answer

    monkeypatch.setattr(pool.placement, "burns", burns)
    pool.reconciler.look(pool.slot)
    assert not pool.on_offer
    assert pool.record.state is State.HELD


def test_a_device_that_nova_would_not_burn_is_not_enrolled(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
    with pytest.raises(BadInputError, match="one_time_use"):
        enrol(pool.store, pool.placement, pool.slot, EnrolmentTerms("p", "q"))
    assert pool.store.slots() == []
    assert pool.proxy.changes() == []


def test_a_free_slot_that_nobody_enrolled_is_reserved(
    pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    pool.make_available()
    stranger = Slot(f"{pool.slot.host}-new", ADDRESS)
    pool.nova.start_compute(stranger.host, [ADDRESS])
    pool.reconciler.sweep()
    offered = {p.slot for p in pool.placement.offered(pool.resource_class)}
    assert offered == {pool.slot}
    assert "not enrolled" in caplog.text
    sent = len(pool.proxy.changes())
    pool.reconciler.sweep()
    assert len(pool.proxy.changes()) == sent


def test_devices_of_other_classes_are_none_of_our_business(pool: Pool) -> None:
    pool.make_available()
    pool.nova.resource_class = f"{pool.resource_class}_GPU"
    pool.nova.start_compute(f"{pool.slot.host}-gpu", [ADDRESS])
    sent = len(pool.proxy.changes())
    pool.reconciler.sweep()
    assert len(pool.proxy.changes()) == sent


def test_an_overdue_order_is_sent_again_as_it_was(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    pool.clock.forward(pool.limits.resend_after / 2)
    pool.reconciler.look(pool.slot)
    assert len(pool.dispatcher.sent) == 1
    pool.clock.forward(pool.limits.resend_after)
    pool.reconciler.look(pool.slot)
    pool.reconciler.look(pool.slot)
    assert pool.dispatcher.sent == [pool.record.order_token] * 2
    pool.clock.forward(pool.limits.resend_after - 1)
    pool.store.amend(pool.record, SlotChanges(heard_at=pool.clock()))
    pool.clock.forward(2)
    pool.reconciler.look(pool.slot)
    assert len(pool.dispatcher.sent) == 2


def test_a_drive_that_its_host_finds_in_use_is_tried_again_later_and_not_for_ever(
    pool: Pool,
) -> None:
    pool.enrol()
    for attempt in range(1, pool.limits.max_attempts + 1):
        pool.reconciler.look(pool.slot)
        assert pool.record.state is State.ERASING
        assert len(pool.dispatcher.sent) == attempt
        pool.store.transition(pool.record, Event.POSTPONED, reason="in use by domain x")
        pool.reconciler.look(pool.slot)
        if attempt < pool.limits.max_attempts:
            assert pool.record.state is State.QUARANTINED
            assert len(pool.dispatcher.sent) == attempt
        pool.clock.forward(pool.limits.retry_in_use_after + 1)
    assert pool.record.state is State.HELD
    assert "in use by domain x" in pool.record.reason
    assert not pool.on_offer


def test_a_broker_that_is_down_costs_time_only(pool: Pool) -> None:
    pool.enrol()
    pool.dispatcher.broken = True
    outcomes = pool.reconciler.sweep()
    assert [o.error for o in outcomes if o.slot == pool.slot] == ["the broker does not answer"]
    assert pool.record.state is State.QUARANTINED
    pool.mend_broker()
    pool.reconciler.sweep()
    assert pool.record.state is State.ERASING


def test_one_broken_slot_stops_no_other(pool: Pool) -> None:
    second = Slot(pool.slot.host, "0000:82:00.0")
    pool.nova.start_compute(pool.slot.host, [ADDRESS, second.address])
    for slot in (pool.slot, second):
        enrol(pool.store, pool.placement, slot, EnrolmentTerms("p", "q"))
    pool.proxy.inject(Fault(Kind.STATUS, path=pool.record.provider, status=500))
    outcomes = {o.slot: o for o in pool.reconciler.sweep()}
    assert "500" in outcomes[pool.slot].error
    assert outcomes[second].state is State.ERASING
    assert pool.record.state is State.RELEASED


def test_a_store_that_was_lost_frees_nothing(pool: Pool) -> None:
    """A new store recognises our custody by its type and takes the case up again."""
    pool.enrol()
    pool.reconciler.look(pool.slot)
    old = pool.record.custody
    pool.store.close()
    pool.database = pool.database.replace("pool-", "again-")
    pool.store = type(pool.store).open(pool.database, clock=pool.clock)
    pool.store.migrate()
    pool.dispatcher.store = pool.store
    pool.reconciler = pool.new_reconciler()
    pool.enrol()
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    assert pool.record.custody == old
    assert [a.consumer_type for a in pool.view.allocations] == [CONSUMER_TYPE]


def test_a_store_from_a_backup_does_not_free_what_it_believes_available(pool: Pool) -> None:
    """The record says available, Placement has our custody: erased again, never handed out."""
    pool.make_available()
    view = pool.view
    pool.placement.put_reserved(view, full=True)
    custody.take(pool.placement, pool.view, new_uuid())
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    assert not pool.on_offer


def test_worst_case_detection_grows_with_the_slots() -> None:
    limits = ServiceLimits(sweep_interval=15, in_use_reread=240)
    assert worst_case_detection(limits, 4, 0.05) == pytest.approx(240 + 15 + 0.2)
    assert worst_case_detection(limits, 20_000, 0.05) == pytest.approx(3000 + 15 + 15)


def test_worst_case_detection_is_no_less_than_the_listing() -> None:
    """A claim that another process saw first is on the list of slots to read after a listing."""
    limits = ServiceLimits(sweep_interval=15, in_use_reread=30, list_interval=60)
    assert worst_case_detection(limits, 4, 0.05) == pytest.approx(60 + 15 + 0.2)


def test_a_certified_slot_goes_back_only_with_its_hosts_receipt(pool: Pool) -> None:
    pool.enrol()
    pool.reconciler.look(pool.slot)
    record = pool.certify(receipt=False)
    for _ in range(3):
        pool.reconciler.look(pool.slot)
    assert pool.tickets.sent == [record.ticket_token]
    assert pool.record.state is State.CERTIFIED
    assert not pool.on_offer
    pool.clock.forward(pool.limits.resend_after + 1)
    pool.reconciler.look(pool.slot)
    assert pool.tickets.sent == [record.ticket_token] * 2
    pool.take_ticket()
    pool.reconciler.look(pool.slot)
    assert pool.record.state is State.AVAILABLE
    assert pool.on_offer


def test_a_host_that_lost_its_state_has_its_drives_erased_again(pool: Pool) -> None:
    """On offer: reserved first. Certified: the new life has no report, so it takes no ticket."""
    pool.make_available()
    pool.greet("incarnation-00002")
    pool.reconciler.look(pool.slot)
    assert not pool.on_offer
    assert pool.record.state is State.ERASING
    assert pool.record.generation == 2
    pool.certify()  # of the life before
    pool.reconciler.look(pool.slot)
    assert pool.states()[-3:] == [State.CERTIFIED, State.QUARANTINED, State.ERASING]
    assert pool.record.generation == 3
    assert pool.view.locked
    assert [a.consumer for a in pool.view.allocations] == [pool.record.custody]


def test_what_is_on_offer_on_a_host_that_was_removed_is_taken_back(pool: Pool) -> None:
    """With the sweep, although nothing moved in Placement; and erased under the next one."""
    pool.make_available()
    pool.reconciler.sweep()
    assert pool.on_offer
    pool.store.remove_host(pool.slot.host)
    pool.reconciler.sweep()
    assert not pool.on_offer
    assert pool.record.generation == 2


def test_what_a_ghost_forbids_is_done_when_it_is_gone(pool: Pool) -> None:
    orphan_guests = HauntedBy(("server s runs here",))
    reconciler = pool.new_reconciler(orphan_guests=orphan_guests)
    pool.enrol()
    for _ in range(2):
        reconciler.look(pool.slot)
    assert pool.record.state is State.QUARANTINED
    assert pool.record.detail == "server s runs here"
    assert pool.dispatcher.sent == []
    orphan_guests.reasons = ()
    reconciler.look(pool.slot)
    assert pool.record.state is State.ERASING
    asked = orphan_guests.asked
    reconciler.look(pool.slot)
    assert orphan_guests.asked == asked  # nobody is asked while nothing is to be sent
    pool.clock.forward(pool.limits.resend_after + 1)
    orphan_guests.reasons = ("compute service down",)
    reconciler.look(pool.slot)
    assert len(pool.dispatcher.sent) == 1
    assert orphan_guests.asked == asked + 1
