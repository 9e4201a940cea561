"""The custody protocol on the real Placement: two locks, and every way to lose a race."""

from __future__ import annotations

import pytest

from quarantine.cloud import custody
from quarantine.cloud.facts import CONSUMER_TYPE
from quarantine.doors import new_uuid
from quarantine.errors import ConflictError, UnavailableError
from tests.lab.services.faults import Fault, Kind
from tests.lab.services.nova_standin import NoValidHostError
from tests.services.pool import ADDRESS, Pool

pytestmark = pytest.mark.services


@pytest.fixture
def burned(pool: Pool) -> Pool:
    """A slot that a server used and let go: reserved, no allocation."""
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    pool.nova.delete(pool.nova.boot())
    return pool


def test_take_holds_with_both_locks_and_survives_a_restart_without_the_drive(burned: Pool) -> None:
    consumer = new_uuid()
    view = custody.take(burned.placement, burned.view, consumer)
    assert view.locked
    assert [(a.consumer, a.consumer_type) for a in view.allocations] == [(consumer, CONSUMER_TYPE)]
    assert burned.proxy.changes()[0][1] == "/reshaper"

    burned.nova.start_compute(burned.slot.host, [])
    burned.nova.start_compute(burned.slot.host, [ADDRESS])
    assert burned.view == view
    burned.put_reserved(0)
    assert not burned.on_offer
    with pytest.raises(NoValidHostError):
        burned.nova.boot()


def test_without_custody_the_burn_is_forgotten_by_the_same_restart(burned: Pool) -> None:
    burned.nova.start_compute(burned.slot.host, [])
    burned.nova.start_compute(burned.slot.host, [ADDRESS])
    assert burned.on_offer


def test_a_patched_nova_compute_brings_the_drive_back_reserved(burned: Pool) -> None:
    burned.nova.start_compute(burned.slot.host, [])
    burned.nova.start_compute(burned.slot.host, [ADDRESS], born_reserved=True)
    assert not burned.on_offer


def test_take_wants_a_reserved_slot_without_allocations(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    with pytest.raises(ConflictError):
        custody.take(pool.placement, pool.view, new_uuid())
    pool.nova.boot()
    with pytest.raises(ConflictError):
        custody.take(pool.placement, pool.view, new_uuid())
    assert pool.proxy.changes() == []


def test_take_on_an_old_look_changes_nothing(burned: Pool) -> None:
    old = burned.view
    burned.put_reserved(0)
    server = burned.nova.boot()
    with pytest.raises(ConflictError):
        custody.take(burned.placement, old, new_uuid())
    assert [a.consumer for a in burned.view.allocations] == [server.uuid]


def test_a_crash_between_the_two_requests_is_completed(burned: Pool) -> None:
    consumer = new_uuid()
    fault = burned.proxy.inject(Fault(Kind.CLOSE, "PUT", "/inventories"))
    with pytest.raises(UnavailableError):
        custody.take(burned.placement, burned.view, consumer)
    assert fault.hits == 1
    burned.proxy.heal()
    half = burned.view
    assert not half.locked
    assert not burned.on_offer
    # Found by its type alone: the store may have been lost.
    assert custody.ensure(burned.placement, half, None).locked
    assert burned.view.locked


def test_an_answer_that_was_lost_is_found_by_the_next_look(burned: Pool) -> None:
    burned.proxy.inject(Fault(Kind.CLOSE, "POST", "/reshaper", after=True))
    with pytest.raises(UnavailableError):
        custody.take(burned.placement, burned.view, "3f1b2c1e-0000-4000-8000-000000000001")
    assert burned.view.custody(None) is not None


def test_give_back_frees_in_one_step(burned: Pool) -> None:
    consumer = new_uuid()
    view = custody.take(burned.placement, burned.view, consumer)
    custody.give_back(burned.placement, view, consumer)
    assert burned.on_offer
    assert burned.view.allocations == ()
    burned.nova.boot()


@pytest.mark.parametrize("meddled", ["reserved lowered", "custody gone", "other custodian"])
def test_give_back_wants_exactly_our_custody(burned: Pool, meddled: str) -> None:
    consumer = new_uuid()
    custody.take(burned.placement, burned.view, consumer)
    if meddled == "reserved lowered":
        burned.put_reserved(0)
    elif meddled == "custody gone":
        burned.drop_custody()
    else:
        consumer = new_uuid()
    before = burned.view
    sent = len(burned.proxy.changes())
    with pytest.raises(ConflictError):
        custody.give_back(burned.placement, before, consumer)
    assert burned.view == before
    assert len(burned.proxy.changes()) == sent


def test_give_back_on_an_old_look_changes_nothing(burned: Pool) -> None:
    consumer = new_uuid()
    old = custody.take(burned.placement, burned.view, consumer)
    burned.drop_custody()
    burned.put_reserved(0)
    server = burned.nova.boot()
    with pytest.raises(ConflictError):
        custody.give_back(burned.placement, old, consumer)
    after = burned.view
    assert after.locked
    assert [a.consumer for a in after.allocations] == [server.uuid]


def test_give_back_after_our_allocation_was_replaced_at_the_same_generation(burned: Pool) -> None:
    """A bare DELETE leaves the provider's generation; the consumer's generation still guards."""
    consumer = new_uuid()
    old = custody.take(burned.placement, burned.view, consumer)
    burned.drop_custody()
    assert burned.view.provider.generation == old.provider.generation
    with pytest.raises(ConflictError):
        custody.give_back(burned.placement, old, consumer)
    assert burned.view.locked
