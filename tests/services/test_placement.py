"""The door to Placement, against the real API."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol.identity import Slot
from quarantine.cloud import custody
from quarantine.cloud.placement import Placement
from quarantine.doors import new_uuid
from quarantine.errors import (
    BadInputError,
    ConflictError,
    OwnSetupError,
    QuarantineError,
    UnavailableError,
)
from tests.lab.services.faults import Fault, FaultProxy, Kind
from tests.lab.services.placement import PlacementServer, write_clouds_yaml
from tests.services.pool import ADDRESS, Pool

pytestmark = pytest.mark.services


def test_a_slot_is_found_by_name_in_either_case_and_by_host(pool: Pool) -> None:
    second = "0000:82:0a.0"
    pool.nova.start_compute(pool.slot.host, [ADDRESS, second])
    for address in (ADDRESS, second):
        slot = Slot(pool.slot.host, address)
        found = pool.placement.by_slot(slot)
        assert found is not None
        assert found.slot == slot
    assert pool.placement.by_slot(Slot(pool.slot.host, "0000:83:00.0")) is None
    lower = f"{pool.slot.host}_0000:83:0b.0"
    pool.raw("POST", "/resource_providers", "1.20", {"name": lower})
    found = pool.placement.by_slot(Slot(pool.slot.host, "0000:83:0b.0"))
    assert found is not None
    assert found.name == lower
    by_host = {p.address for p in pool.placement.by_host(pool.slot.host)}
    assert by_host == {ADDRESS, second}
    assert pool.placement.by_host("nobody") == []


def test_one_time_use_lists_by_trait_and_offered_by_class(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    assert [p.slot for p in pool.placement.one_time_use(pool.slot.host)] == [pool.slot]
    assert [p.slot for p in pool.placement.offered(pool.resource_class)] == [pool.slot]
    pool.nova.start_compute(pool.slot.host, [ADDRESS], one_time_use=False)
    assert pool.placement.one_time_use(pool.slot.host) == []
    assert [p.slot for p in pool.placement.offered(pool.resource_class)] == [pool.slot]
    pool.nova.boot()
    assert pool.placement.offered(pool.resource_class) == []


def test_what_is_on_offer_of_any_class_is_found_by_its_trait(pool: Pool) -> None:
    second = "0000:82:00.0"
    pool.nova.start_compute(pool.slot.host, [ADDRESS, second], one_time_use=False)
    door = pool.placement
    assert {pool.resource_class, "VCPU"} <= door.resource_classes()
    traits = door.burning_traits()
    assert "HW_PCI_ONE_TIME_USE" in traits
    assert [p for p in door.offered(pool.resource_class, traits) if p.host == pool.slot.host] == []
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    assert [p.slot for p in door.offered(pool.resource_class, traits)] == [pool.slot]
    assert door.offered("CUSTOM_DELETED_BY_SOMEBODY", traits) == []


def test_nobody_offers_a_class_that_placement_does_not_know(pool: Pool) -> None:
    assert pool.placement.offered("CUSTOM_DELETED_BY_SOMEBODY") == []
    pool.proxy.inject(Fault(Kind.STATUS, status=400))
    with pytest.raises(BadInputError):
        pool.placement.offered("VCPU")


def test_either_trait_marks_a_one_time_use_device(pool: Pool) -> None:
    """``nova_patch`` uses a custom one where Placement lacks the standard one."""
    backported = "CUSTOM_HW_PCI_ONE_TIME_USE"
    second = "0000:82:00.0"
    pool.nova.start_compute(pool.slot.host, [ADDRESS, second])
    other = pool.placement.by_slot(Slot(pool.slot.host, second))
    assert other is not None
    assert pool.placement.burns(other.uuid)
    pool.raw("PUT", f"/traits/{backported}", "1.39")
    now = pool.placement.by_uuid(other.uuid)
    assert now is not None
    body = {"resource_provider_generation": now.generation, "traits": [backported]}
    pool.raw("PUT", f"/resource_providers/{other.uuid}/traits", "1.39", body)
    marked = {p.address for p in pool.placement.one_time_use(pool.slot.host)}
    assert marked == {ADDRESS, second}
    tree = pool.placement.tree(pool.slot.host)
    slots = {uuid for uuid, slot in tree.items() if slot is not None}
    assert {pool.placement.burning(near) for near in tree} == {frozenset(slots)}
    pool.raw(
        "PUT",
        f"/resource_providers/{other.uuid}/traits",
        "1.39",
        body | {"resource_provider_generation": now.generation + 1, "traits": []},
    )
    assert pool.placement.burning(other.uuid) == slots - {other.uuid}
    pool.raw(
        "PUT",
        f"/resource_providers/{other.uuid}/traits",
        "1.39",
        body | {"resource_provider_generation": now.generation + 2},
    )
    assert pool.placement.burns(other.uuid)
    with pytest.raises(ConflictError, match="it is gone; look again"):
        pool.placement.burns("00000000-0000-0000-0000-000000000000")


def test_a_delete_does_not_move_the_generation_a_reclaimed_one_does(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    server = pool.nova.boot()
    used = pool.view
    assert [a.consumer for a in used.allocations] == [server.uuid]
    assert pool.placement.users(pool.slot.host) == {server.uuid}
    assert pool.placement.users("nobody") == frozenset()
    pool.nova.delete(server)
    freed = pool.view
    assert freed.allocations == ()
    assert freed.provider.generation == used.provider.generation

    pool.put_reserved(0)
    server = pool.nova.boot()
    used = pool.view
    pool.nova.delete(server, reclaim=True)
    assert pool.view.allocations == ()
    assert pool.view.provider.generation > used.provider.generation


def test_a_view_is_read_again_when_the_provider_moves_under_it(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    provider = pool.placement.by_slot(pool.slot)
    assert provider is not None

    def reserve() -> None:
        path = f"/resource_providers/{provider.uuid}/inventories/{pool.resource_class}"
        generation = pool.raw("GET", f"/resource_providers/{provider.uuid}", "1.39").body
        body = {"total": 1, "max_unit": 1, "reserved": 1}
        body["resource_provider_generation"] = generation["generation"]
        pool.raw("PUT", path, "1.39", body)

    moving = Fault(Kind.CALL, "GET", "/resource_providers/.*/allocations", left=1, call=reserve)
    pool.proxy.inject(moving)
    view = pool.placement.view(provider.uuid, pool.resource_class)
    assert moving.hits == 1
    assert view is not None
    assert view.locked
    assert view.provider.generation == provider.generation + 1

    restless = Fault(Kind.CALL, "GET", "/resource_providers/.*/allocations", call=reserve)
    pool.proxy.inject(restless)
    with pytest.raises(UnavailableError, match="stand still"):
        pool.placement.view(provider.uuid, pool.resource_class)


def test_an_answer_that_placement_tore_is_read_again(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Placement reads a provider's generation before its allocations, in two transactions: seen
    where one look gave a slot back while another one read it."""
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    pool.nova.delete(pool.nova.boot())
    consumer = new_uuid()
    old = custody.take(pool.placement, pool.view, consumer)
    ask, torn = pool.placement._call, list[str]()

    def tear(method: str, path: str, body: Any = None) -> Any:
        if torn or not path.endswith(f"{old.provider.uuid}/allocations"):
            return ask(method, path, body)
        torn.append(path)
        custody.give_back(pool.placement, old, consumer)
        return {**ask(method, path, body), "resource_provider_generation": old.provider.generation}

    monkeypatch.setattr(pool.placement, "_call", tear)
    view = pool.placement.view(old.provider.uuid, pool.resource_class)
    assert torn
    assert view is not None
    assert (view.locked, view.allocations) == (False, ())


def test_a_put_keeps_the_whole_record_and_a_stale_one_is_a_conflict(pool: Pool) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    stale = pool.view
    path = f"/resource_providers/{stale.provider.uuid}/inventories/{pool.resource_class}"
    body = {
        "resource_provider_generation": stale.provider.generation,
        "total": 4,
        "reserved": 1,
        "min_unit": 2,
        "max_unit": 3,
        "step_size": 2,
        "allocation_ratio": 1.5,
    }
    assert pool.raw("PUT", path, "1.39", body).status == 200
    with pytest.raises(ConflictError):
        pool.placement.put_reserved(stale, full=True)
    view = pool.view
    assert pool.placement.put_reserved(view, full=True) == view.provider.generation + 1
    after = pool.view.inventory
    assert after is not None
    assert (after.total, after.reserved) == (4, 4)
    assert (after.min_unit, after.max_unit, after.step_size) == (2, 3, 2)
    assert after.allocation_ratio == 1.5


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(Kind.STATUS, status=409), ConflictError),
        (Fault(Kind.STATUS, status=500), UnavailableError),
        (Fault(Kind.STATUS, status=503), UnavailableError),
        (Fault(Kind.STATUS, status=429), UnavailableError),
        (Fault(Kind.STATUS, status=403), OwnSetupError),
        (Fault(Kind.STATUS, status=400), BadInputError),
        (Fault(Kind.CLOSE), UnavailableError),
    ],
    ids=["409", "500", "503", "429", "403", "400", "closed"],
)
def test_wrong_answers_are_named(pool: Pool, fault: Fault, error: type[QuarantineError]) -> None:
    pool.nova.start_compute(pool.slot.host, [ADDRESS])
    view = pool.view
    pool.proxy.inject(fault)
    with pytest.raises(error) as caught:
        pool.placement.put_reserved(view, full=True)
    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    pool.proxy.heal()
    assert not pool.view.locked


def test_no_answer_ends_by_the_time_limit(pool: Pool) -> None:
    hasty = Placement.connect("lab", timeout=1.0)
    pool.proxy.inject(Fault(Kind.HANG))
    with pytest.raises(UnavailableError):
        hasty.one_time_use()


def test_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        clouds = write_clouds_yaml(tmp_path / "nobody.yaml", url)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
        placement = Placement.connect("lab", timeout=5)
        with pytest.raises(UnavailableError):
            placement.one_time_use()


def test_it_may_come_up_after_us(
    placement_server: PlacementServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultProxy(placement_server.port) as proxy:
        clouds = write_clouds_yaml(tmp_path / "late.yaml", proxy.url)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
        proxy.inject(Fault(Kind.CLOSE))
        placement = Placement.connect("lab", timeout=5)
        with pytest.raises(UnavailableError):
            placement.one_time_use()
        proxy.heal()
        placement.one_time_use()


def test_a_cloud_that_is_not_configured_is_bad_input(pool: Pool) -> None:
    with pytest.raises(BadInputError, match="elsewhere"):
        Placement.connect("elsewhere")
