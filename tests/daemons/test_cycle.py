"""The real Nova lets go of drives in every way it has; each drive comes back through an erase.

The turn at which a slot in use is read anyway is far longer than these tests wait: what they see in
time, nova-compute rang for.
"""

from __future__ import annotations

import time

import pytest

from eraser.protocol.identity import Slot
from quarantine.record.words.states import Event, State
from tests.daemons.cloud import Cloud
from tests.lab.errors import LabError
from tests.lab.services.nova_daemons import compute_has_patch
from tests.lab.services.process import wait_until

GONE = frozenset(State) - {State.IN_USE}


def test_nova_compute_runs_with_our_patch(cloud: Cloud) -> None:
    for host, compute in cloud.nova.computes.items():
        assert compute_has_patch(compute.pid), f"{host} was started without the patch"


def test_a_deleted_servers_drives_go_round_once_before_the_next_tenant(cloud: Cloud) -> None:
    server = cloud.nova.boot(2, host="cmp1")
    slots = cloud.slots_of(server)
    assert len(slots) == 2
    cloud.wait(slots, State.IN_USE)
    seen = [len(cloud.history(slot)) for slot in slots]

    eraser = cloud.erasers["cmp1"]
    eraser.pause()
    cloud.nova.delete(server)
    with pytest.raises(LabError, match="No valid host"):
        cloud.nova.boot(2, host="cmp1")
    eraser.resume()
    resumed = time.monotonic()
    cloud.wait(slots, *GONE)
    cloud.wait(slots, State.AVAILABLE)
    print(f"from the host's first word to the pool: {time.monotonic() - resumed:.1f} s")

    for slot, before in zip(slots, seen, strict=True):
        events = cloud.events(slot, before)
        wanted = [
            Event.RELEASE_SEEN,
            Event.CUSTODY_TAKEN,
            Event.ORDERED,
            Event.CERTIFIED,
            Event.RETURNED,
        ]
        assert [event for event in events if event in wanted] == wanted
    again = cloud.nova.boot(2, host="cmp1")
    assert set(cloud.slots_of(again)) == set(slots)
    cloud.wait(slots, State.IN_USE)
    cloud.nova.delete(again)


def test_a_build_that_fails_gives_back_a_drive_that_nobody_used(cloud: Cloud) -> None:
    before = {slot: len(cloud.history(slot)) for slot in cloud.slots}
    client = cloud.nova.client
    failed = client.boot(cloud.nova.flavor(1), host="cmp2", name="fail")
    client.wait(failed, "ERROR")

    def released() -> list[Slot]:
        return [s for s in cloud.slots if Event.RELEASE_SEEN in cloud.events(s, before[s])]

    wait_until(lambda: bool(released()), "nova-compute to ring for the failed build", 120)
    assert [slot.host for slot in released()] == ["cmp2"]
    client.delete(failed)
    client.wait(failed, "DELETED")


@pytest.mark.parametrize("verb", ["confirmResize", "revertResize"])
def test_a_migration_lets_go_of_the_drive_it_leaves(cloud: Cloud, verb: str) -> None:
    server = cloud.nova.boot(1, host="cmp1")
    old = cloud.slots_of(server)
    cloud.wait(old, State.IN_USE)
    client = cloud.nova.client
    client.action(server.uuid, "migrate")
    client.wait(server.uuid, "VERIFY_RESIZE")
    moved = cloud.nova.described(server.uuid)
    assert moved.host == "cmp2"
    new = cloud.slots_of(moved)
    cloud.wait(new, State.IN_USE)
    assert cloud.record(old[0]).state is State.IN_USE, "the migration still holds it"

    client.action(server.uuid, verb)
    client.wait(server.uuid, "ACTIVE")
    left, kept = (old, new) if verb == "confirmResize" else (new, old)
    cloud.wait(left, *GONE)
    cloud.wait(left, State.AVAILABLE)
    assert cloud.record(kept[0]).state is State.IN_USE
    cloud.nova.delete(server)


def test_a_resize_to_a_flavor_without_drives(cloud: Cloud) -> None:
    server = cloud.nova.boot(2, host="cmp2")
    slots = cloud.slots_of(server)
    cloud.wait(slots, State.IN_USE)
    client = cloud.nova.client
    client.action(server.uuid, "resize", {"flavorRef": cloud.nova.flavor(0)})
    client.wait(server.uuid, "VERIFY_RESIZE")
    client.action(server.uuid, "confirmResize")
    client.wait(server.uuid, "ACTIVE")
    cloud.wait(slots, *GONE)
    cloud.nova.delete(server)


def test_shelving_lets_go_without_any_delete(cloud: Cloud) -> None:
    server = cloud.nova.boot(1)
    slots = cloud.slots_of(server)
    cloud.wait(slots, State.IN_USE)
    cloud.nova.client.action(server.uuid, "shelve")
    cloud.nova.client.wait(server.uuid, "SHELVED_OFFLOADED")
    cloud.wait(slots, *GONE)
    cloud.wait(slots, State.AVAILABLE)
    cloud.nova.client.delete(server.uuid)
    cloud.nova.client.wait(server.uuid, "DELETED")


def test_without_a_bell_the_bound_holds(cloud: Cloud) -> None:
    server = cloud.nova.boot(1)
    slots = cloud.slots_of(server)
    cloud.wait(slots, State.IN_USE)
    bound = 5.0
    with cloud.without_bells(), cloud.rereading(bound):
        cloud.nova.delete(server)
        deleted = time.monotonic()
        cloud.wait(slots, *GONE)
        print(f"seen without a bell after {time.monotonic() - deleted:.1f} s of {bound:g}")
