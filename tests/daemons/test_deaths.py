"""Whatever is killed in between: nothing is lost, nothing is handed out that should not be."""

from __future__ import annotations

import contextlib
import time

from quarantine.record.states import Event, State
from tests.daemons.cloud import Cloud
from tests.lab.errors import LabError
from tests.lab.services.process import wait_until

OUT = frozenset(State) - {State.IN_USE, State.AVAILABLE}
"""Where a released slot may be while it is not clean."""


def test_the_control_plane_dies_while_nova_lets_go_and_while_a_drive_is_erased(
    cloud: Cloud,
) -> None:
    server = cloud.nova.boot(2, host="cmp1")
    slots = cloud.slots_of(server)
    cloud.wait(slots, State.IN_USE)
    cloud.kill_control()
    cloud.nova.delete(server)
    cloud.control.start()
    cloud.wait(slots, State.ERASING, State.VERIFYING, State.CERTIFIED)
    cloud.kill_control()
    cloud.control.start()
    cloud.wait(slots, State.AVAILABLE)
    for slot in slots:
        assert cloud.events(slot)[-1] is Event.RETURNED


def test_rabbitmq_dies_and_nova_lets_go_when_it_is_back(cloud: Cloud) -> None:
    server = cloud.nova.boot(1, host="cmp2")
    slots = cloud.slots_of(server)
    cloud.wait(slots, State.IN_USE)
    cloud.nova.rabbit.kill()
    time.sleep(1)
    assert cloud.record(slots[0]).state is State.IN_USE
    cloud.nova.rabbit.start()
    # A cast to a queue that nova-compute has not declared again is lost, and Nova never knows.
    before = cloud.nova.client.compute_reports()
    wait_until(
        lambda: all(at != before[h] for h, at in cloud.nova.client.compute_reports().items()),
        "every nova-compute to report again",
        180,
        0.5,
    )
    _delete_at_last(cloud, server.uuid)
    cloud.wait(slots, *OUT)
    cloud.wait(slots, State.AVAILABLE)


def test_nova_compute_dies_and_its_drive_waits_until_it_is_back(cloud: Cloud) -> None:
    """Leaks 7 and 8: the server is deleted while its host is down, and its guest may still run.

    nova-api lets go of the drive then, and nobody rings.
    """
    server = cloud.nova.boot(1, host="cmp1")
    (slot,) = cloud.slots_of(server)
    cloud.wait([slot], State.IN_USE)
    seen = len(cloud.history(slot))
    cloud.nova.computes["cmp1"].kill()
    states = cloud.nova.client.compute_states
    wait_until(lambda: states()["cmp1"] == "down", "nova-api to see that cmp1 is down", 120, 0.2)
    cloud.nova.delete(server)
    with cloud.rereading(5.0):
        cloud.wait([slot], State.QUARANTINED)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert Event.ORDERED not in cloud.events(slot, seen), "ordered while its host is down"
        time.sleep(0.2)
    waiting = cloud.record(slot).detail
    assert "cmp1" in waiting or "compute" in waiting, waiting
    cloud.nova.restart_compute("cmp1")
    cloud.wait([slot], State.AVAILABLE)
    assert Event.ORDERED in cloud.events(slot, seen)


def test_redis_dies_and_its_bells_with_it(cloud: Cloud) -> None:
    server = cloud.nova.boot(2, host="cmp1")
    slots = cloud.slots_of(server)
    cloud.wait(slots, State.IN_USE)
    cloud.redis.kill()
    cloud.nova.delete(server)
    cloud.redis.start()
    with cloud.rereading(5.0):
        # A bell that rang when it was back may have had all of it done by now.
        cloud.wait(slots, *OUT, State.AVAILABLE)
    cloud.wait(slots, State.AVAILABLE)


def test_a_soft_deleted_server_keeps_its_drive_until_it_is_reclaimed(cloud: Cloud) -> None:
    """Leak 13."""
    cloud.nova.delete_softly(softly=True)
    server = cloud.nova.boot(1, host="cmp2")
    (slot,) = cloud.slots_of(server)
    cloud.wait([slot], State.IN_USE)
    # On a host that Nova calls down there is no soft delete.
    cloud.nova.wait_up("cmp2")
    cloud.nova.client.delete(server.uuid)
    cloud.nova.client.wait(server.uuid, "SOFT_DELETED")
    assert cloud.record(slot).state is State.IN_USE
    cloud.nova.client.wait(server.uuid, "DELETED")
    cloud.wait([slot], *OUT)
    cloud.wait([slot], State.AVAILABLE)
    cloud.nova.delete_softly(softly=False)


def _delete_at_last(cloud: Cloud, uuid: str) -> None:
    """nova-api answers 500 as long as it has not found its bus again; a user asks once more."""
    end = time.monotonic() + 180
    while cloud.nova.client.server(uuid) is not None:
        assert time.monotonic() < end, "the server was not deleted"
        with contextlib.suppress(LabError):
            cloud.nova.client.delete(uuid)
        with contextlib.suppress(LabError):
            cloud.nova.client.wait(uuid, "DELETED", seconds=15)
