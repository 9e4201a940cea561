"""What Nova's records say against an erase; and how they are asked for, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol.identity import Slot
from quarantine.cloud.compute import Compute
from quarantine.cloud.novafacts import ComputeService, Migration, Server
from quarantine.errors import UnavailableError
from quarantine.service.sweep.deleted_servers import DeletedServers
from quarantine.service.sweep.orphan_guests import (
    AWAY_SECONDS,
    KEEP_SECONDS,
    LEFT_OVER_SECONDS,
    HostFacts,
    OrphanGuestCheck,
    ghosts,
)
from tests.lab.services.nova_api_standin import NovaApiStandIn
from tests.lab.services.placement import CLOUD, write_clouds_yaml
from tests.unit.quarantine.testimony import RECORD

NODE, HOST = "cmp1.example", "cmp1"
ROOT, DRIVE, SECOND, VF = "root", "drive", "drive-2", "virtual-functions"
UP = ComputeService(HOST, True, False)
LAST = RECORD.consumer
SERVER = Server("server-1", NODE, "active", True, 1, "2026-11-20T12:00:00Z")
MOVE = Migration("migration-1", "server-1", "migration", "finished", HOST, "cmp2")
DRIVES = frozenset({DRIVE, SECOND})
QUIET = HostFacts(NODE, UP, (), (), DRIVES | {VF}, DRIVES, {}, {})
BOTH, CPUS, NONE = {ROOT: 9, DRIVE: 1}, {ROOT: 9}, dict[str, int]()
TWO = BOTH | {SECOND: 1}
NETWORK = CPUS | {"a port's bandwidth": 1000}


def server(held: dict[str, int], **changes: Any) -> HostFacts:
    return replace(QUIET, servers=(replace(SERVER, **changes),), held={"server-1": held})


def mixed(held: dict[str, int], others: int, **changes: Any) -> HostFacts:
    return replace(server(held, **changes), others={"server-1": others})


def move(
    held: dict[str, dict[str, int]], needs: dict[str, int | None] | None = None, **changes: Any
) -> HostFacts:
    moves = (replace(MOVE, **changes),)
    return replace(QUIET, migrations=moves, held=held, needs=needs or {})


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        (QUIET, ""),
        (replace(QUIET, service=None), "no compute service"),
        (replace(QUIET, service=ComputeService(HOST, False, False)), "is down"),
        (replace(QUIET, service=ComputeService(HOST, False, True)), "forced down"),
        # Servers hold what their flavor asks for.
        (server(BOTH), ""),
        (server(CPUS), "server-1"),
        (server(NONE), "server-1"),
        (server(CPUS, devices=0), ""),
        # Each device counts, and nothing that is no device.
        (server(TWO, devices=2), ""),
        (server(BOTH, devices=2), "1 of 2 devices"),
        (mixed({VF: 2}, 2, devices=2), ""),
        # A port's device is in no flavor, and Nova may track it in Placement.
        (server({VF: 1}, devices=1), "0 of 1 devices"),
        (server(BOTH | {VF: 1}, devices=2), "1 of 2 devices"),
        (mixed(BOTH | {VF: 1}, 1, devices=2), ""),
        (mixed({VF: 2}, 1, devices=2), "1 of 2 devices"),
        (move({"migration-1": {VF: 1}}, {"server-1": 1}), "0 of 1 devices"),
        (server(NETWORK), "0 of 1 devices"),
        # Of a flavor that Nova does not show nobody knows whether it asks for drives.
        (server(BOTH, devices=None), ""),
        (server(CPUS | {VF: 1}, devices=None), "no drive"),
        (server(CPUS, devices=None), "no drive"),
        (move({"migration-1": BOTH}, {"server-1": None}), ""),
        (move({"migration-1": CPUS}, {"server-1": None}), "no drive"),
        (server(NONE, devices=None), "server-1"),
        (server(NONE, vm_state="error"), "server-1"),
        (server(NONE, vm_state="error", launched=False), ""),
        (server(NONE, vm_state="building", launched=False), "server-1"),
        (server(BOTH, vm_state="soft-delete"), ""),
        (server(NONE, vm_state="soft-delete"), "server-1"),
        (
            replace(server(BOTH, vm_state="soft-delete", uuid=LAST), held={str(LAST): BOTH}),
            "restored",
        ),
        # While it moves, the migration holds for it on the old host.
        (replace(server(NONE), migrations=(MOVE,), held={"migration-1": BOTH}), ""),
        (replace(server(NONE), migrations=(MOVE,), held={"migration-1": CPUS}), "server-1"),
        (move({"migration-1": BOTH}), ""),
        (move({"server-1": BOTH}), ""),
        (move({}), "migration-1"),
        (move({"other": BOTH}), "migration-1"),
        # A move that keeps the flavor must hold as many as that asks for.
        (move({"migration-1": TWO}, {"server-1": 2}), ""),
        (move({"migration-1": BOTH, "server-1": {SECOND: 1}}, {"server-1": 2}), ""),
        (move({"migration-1": BOTH}, {"server-1": 2}), "1 of 2 devices"),
        # On its own host the server's are the new drives; a revert wants the migration's back.
        (move({"migration-1": BOTH, "server-1": {SECOND: 1}}, kind="resize", dest=HOST), ""),
        (move({"migration-1": CPUS, "server-1": BOTH}, kind="resize", dest=HOST), ""),
        (move({"server-1": BOTH}, kind="resize", dest=HOST), "migration-1"),
        (move({"server-1": BOTH}, kind="resize", dest=HOST, status="pre-migrating"), ""),
    ],
)
def test_what_speaks_against_an_erase(facts: HostFacts, word: str) -> None:
    found = ghosts(facts, LAST)
    assert bool(found) is bool(word)
    assert word in "; ".join(found)


@pytest.mark.parametrize(
    ("kind", "status", "unfinished"),
    [
        ("migration", "finished", True),  # waits for somebody to confirm
        ("migration", "confirmed", False),
        ("migration", "reverting", True),
        ("migration", "done", False),
        ("evacuation", "done", True),  # the old host has not cleaned up
        ("evacuation", "completed", False),
        ("live-migration", "running", True),
        ("live-migration", "error", False),
        ("resize", "a status of tomorrow", True),
    ],
)
def test_a_migration_is_unfinished_until_nova_says_otherwise(
    kind: str, status: str, unfinished: bool
) -> None:
    assert replace(MOVE, kind=kind, status=status).unfinished is unfinished


@dataclass
class Tree:
    """Placement's part."""

    holds: dict[str, dict[str, int]] = field(default_factory=dict)
    burn: frozenset[str] = DRIVES

    def tree(self, host: str) -> dict[str, Slot | None]:
        assert host == NODE
        slots = {
            name: Slot(NODE, f"0000:8{n}:00.0") for n, name in enumerate((DRIVE, SECOND, VF), 1)
        }
        return {ROOT: None, **slots}

    def users(self, host: str) -> frozenset[str]:
        assert host == NODE
        return frozenset(name for name, held in self.holds.items() if ROOT in held)

    def burning(self, near: str) -> frozenset[str]:
        assert near in self.tree(NODE)
        return self.burn

    def held(self, consumer: str) -> dict[str, int]:
        return self.holds.get(consumer, {})


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def nova() -> Iterator[NovaApiStandIn]:
    with NovaApiStandIn(page=2) as stand_in:
        stand_in.add_host(NODE, HOST)
        yield stand_in


@pytest.fixture
def door(nova: NovaApiStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compute:
    clouds = write_clouds_yaml(tmp_path / "clouds.yaml", "http://127.0.0.1:9", nova.url)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    return Compute.connect(CLOUD, timeout=5.0)


def haunted(
    door: Compute, tree: Tree | None = None, clock: Clock | None = None
) -> OrphanGuestCheck:
    return OrphanGuestCheck(door, tree or Tree(), clock or Clock(), drive_aliases={"nvme"})


SLOT = replace(RECORD, slot=Slot(NODE, "0000:81:00.0"), provider=DRIVE)
BESIDE = replace(RECORD, slot=Slot(NODE, "0000:82:00.0"), provider=SECOND)
LONG = 86400.0
"""For so long a slot has been what it was."""


def test_a_host_in_order_has_no_ghosts(nova: NovaApiStandIn, door: Compute) -> None:
    # The pattern matches this one too, and its nova-compute is down.
    nova.add_host("cmp1.example.org", "another")["state"] = "down"
    nova.hypervisors.reverse()
    # Another node of the same service.
    nova.add_server("beside", "cmp1-b", **{"OS-EXT-SRV-ATTR:host": HOST})
    for number in range(5):  # more than a page
        nova.add_server(f"s{number}", NODE)
    nova.add_server("elsewhere", "cmp2")
    nova.add_server("offloaded", NODE, **{"OS-EXT-SRV-ATTR:host": None})
    nova.add_migration("m", "s0", source_compute=HOST, dest_compute="cmp2", status="confirmed")
    tree = Tree({f"s{number}": BOTH | {"elsewhere": 1} for number in range(5)})
    assert haunted(door, tree).of(SLOT, LONG) == ()


def test_each_kind_of_ghost_is_found_through_the_door(nova: NovaApiStandIn, door: Compute) -> None:
    nova.services[0]["forced_down"] = True
    lost = ["lost-a", "lost-b", "lost-c"]
    for name in lost:
        nova.add_server(name, NODE)
    soft = {"OS-EXT-STS:vm_state": "soft-delete", "status": "SOFT_DELETED"}
    nova.add_server(str(LAST), NODE, **soft)
    nova.add_server("gone", NODE, deleted=True)
    for name in ("x", "y"):
        nova.add_server(name, "cmp2")
    nova.add_migration("m-in", "x", dest_compute=HOST, status="migrating")
    nova.add_migration("m-out", "y", source_compute=HOST, status="finished")
    held = {"lost-c": {"a provider of another host": 1}}
    found = haunted(door, Tree(held)).of(SLOT, LONG)
    for word in ("forced down", *lost, "restored", "m-in", "m-out"):
        assert sum(word in text for text in found) == 1, word
    assert len(found) == 7


def test_a_server_deleted_for_good_while_its_host_was_down_is_no_soft_deleted_one(
    nova: NovaApiStandIn, door: Compute
) -> None:
    """Seen on Nova 34: a local delete leaves vm_state as it was; so does the row, till archived."""
    left = {"OS-EXT-STS:vm_state": "soft-delete", "status": "DELETED", "deleted": True}
    nova.add_server(str(LAST), NODE, **left)
    assert haunted(door).of(SLOT, LONG) == ()


def test_an_evacuation_counts_where_it_came_from_while_the_server_lives(
    nova: NovaApiStandIn, door: Compute
) -> None:
    nova.add_server("s", "cmp2")
    row = nova.add_migration(
        "m", "s", migration_type="evacuation", status="done", source_compute=HOST
    )
    assert "evacuation m" in haunted(door).of(SLOT, LONG)[0]
    row |= {"source_compute": "cmp2", "dest_compute": HOST}
    assert haunted(door).of(SLOT, LONG) == ()
    row |= {"source_compute": HOST, "dest_compute": "cmp2"}
    nova.servers[0]["deleted"] = True
    assert haunted(door).of(SLOT, LONG) == ()


@pytest.mark.parametrize("kind", ["migration", "live-migration", "resize"])
def test_what_is_left_of_a_deleted_servers_migration_forbids_nothing(
    nova: NovaApiStandIn, door: Compute, kind: str
) -> None:
    """Nova leaves such rows for ever where a nova-compute died, and nobody can end them."""
    nova.add_server("s", "cmp2")
    nova.add_migration("m", "s", migration_type=kind, status="pre-migrating", dest_compute=HOST)
    assert kind in haunted(door).of(SLOT, LONG)[0]
    nova.servers[0]["deleted"] = True
    assert haunted(door).of(SLOT, LONG) == ()


def test_a_live_migration_of_a_server_without_devices_forbids_nothing(
    nova: NovaApiStandIn, door: Compute
) -> None:
    """Its flavor stays the same, so there was never a drive; a resize comes from another one."""
    nova.add_server("s", "cmp2", flavor={"vcpus": 1, "extra_specs": {}})
    row = nova.add_migration(
        "m", "s", migration_type="live-migration", status="preparing", dest_compute=HOST
    )
    assert haunted(door).of(SLOT, LONG) == ()
    row["migration_type"] = "resize"
    assert "resize m" in haunted(door).of(SLOT, LONG)[0]
    row["migration_type"] = "live-migration"
    nova.servers[0]["flavor"] = {"vcpus": 1}  # extra specs are not shown to us
    assert "live-migration m" in haunted(door).of(SLOT, LONG)[0]


@pytest.mark.parametrize(
    "answer", [{}, {"hypervisors": [{}]}, {"hypervisors": None}, {"hypervisors": [{"service": 1}]}]
)
def test_an_answer_that_is_not_understood_is_a_reason_to_wait(
    door: Compute, answer: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a mistake of ours that only the log would know of."""
    monkeypatch.setattr(Compute, "_call", lambda *_: answer)
    assert "refuses" in haunted(door).of(SLOT, LONG)[0]


def test_a_host_that_nova_does_not_know_is_haunted(nova: NovaApiStandIn, door: Compute) -> None:
    nova.services.clear()
    assert "no compute service" in haunted(door).of(SLOT, LONG)[0]
    nova.hypervisors.clear()
    assert "no compute service" in haunted(door).of(SLOT, LONG)[0]


def test_another_service_of_the_host_speaks_not_for_its_nova_compute(
    nova: NovaApiStandIn, door: Compute
) -> None:
    nova.services[0]["state"] = "down"
    # Where one machine is all of a cloud, Nova lists its other services beside nova-compute.
    nova.services.insert(0, nova.services[0] | {"binary": "nova-conductor", "state": "up"})
    assert "is down" in haunted(door).of(SLOT, LONG)[0]


def test_a_cell_that_is_down_is_no_good_word(nova: NovaApiStandIn, door: Compute) -> None:
    # 2.69: what is in a cell that is down has hardly a member.
    nova.services[0].clear()
    nova.services[0].update({"binary": "nova-compute", "host": HOST, "status": "UNKNOWN"})
    assert "is down" in haunted(door).of(SLOT, LONG)[0]


@pytest.mark.parametrize("asked", [1, 2])
def test_a_cell_that_goes_down_between_two_questions_is_no_good_word(
    nova: NovaApiStandIn, door: Compute, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its servers are left out of the list with a 200, before or after Nova was asked for it."""
    nova.add_server("ghost", NODE)
    times = 0

    def services(host: str) -> list[ComputeService]:
        nonlocal times
        times += 1
        if times == asked:
            nova.servers.clear()
            return [replace(UP, up=False)]
        return [UP]

    monkeypatch.setattr(door, "compute_services", services)
    assert "is down" in haunted(door).of(SLOT, LONG)[0]


@pytest.mark.parametrize("came", [False, True], ids=["", "it-moved-here"])
@pytest.mark.parametrize("which", ["servers", "migrations"])
def test_a_cell_that_is_down_for_one_list_alone_is_no_good_word(
    nova: NovaApiStandIn,
    door: Compute,
    which: str,
    came: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each list asks all cells for itself: its compute service is up before and after it."""
    moving = which == "migrations"
    if came:
        nova.add_migration("old", "ghost", dest_compute=HOST, status="completed")
    nova.add_server("ghost", "cmp2" if moving else NODE)
    if moving:
        nova.add_migration("m", "ghost", source_compute=HOST, status="migrating")
    tree, clock = Tree({"m" if moving else "ghost": CPUS}), Clock()
    check, answer, asked = haunted(door, tree, clock), getattr(door, which), [False]

    def once_empty(host: str) -> Any:
        rows = [] if not asked[0] else answer(host)
        asked[0] = True
        return rows

    monkeypatch.setattr(door, which, once_empty)
    assert "lists are without it" in check.of(SLOT, LONG)[0]
    clock.now += KEEP_SECONDS
    assert "Placement has" in check.of(SLOT, LONG)[0]


def test_what_is_left_over_or_begins_is_no_sign_of_a_cell_that_is_down(
    nova: NovaApiStandIn, door: Compute
) -> None:
    begins = {"OS-EXT-STS:vm_state": "building", "OS-SRV-USG:launched_at": None}
    nowhere = {"OS-EXT-SRV-ATTR:host": None, "OS-EXT-SRV-ATTR:hypervisor_hostname": None}
    nova.add_server("scheduled", NODE, **begins, **nowhere)
    nova.add_server("claimed", NODE, **begins, **{"OS-EXT-SRV-ATTR:host": None})
    nova.add_server("gone", NODE, deleted=True)
    nova.add_server("evacuated", "cmp2")
    names = ("scheduled", "claimed", "gone", "evacuated", "a migration of once")
    clock = Clock()
    check = haunted(door, Tree({name: CPUS for name in names}), clock)
    assert check.of(SLOT, LONG) == ()
    first = len(nova.requests)
    clock.now += KEEP_SECONDS
    assert check.of(SLOT, LONG) == ()
    again = nova.requests[first:]
    assert not any("gone" in path or "once" in path for path in again), "asked for ever"
    # Who was none an hour ago may be one that is listed nowhere today.
    clock.now += LEFT_OVER_SECONDS
    first = len(nova.requests)
    assert check.of(SLOT, LONG) == ()
    assert any("gone" in path for path in nova.requests[first:])


def test_what_a_cell_says_that_is_away_is_not_remembered(
    nova: NovaApiStandIn, door: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server is a 404 there that is marked as deleted, and its guest may run on."""
    nova.add_server("hidden", NODE, deleted=True)
    clock = Clock()
    check = haunted(door, Tree({"hidden": CPUS}), clock)
    answer, row = door.compute_services, nova.services[0]
    asked = [0]

    def down_after_the_lists(host: str) -> Any:
        asked[0] += 1
        row["state"] = "up" if asked[0] == 1 else "down"
        return answer(host)

    monkeypatch.setattr(door, "compute_services", down_after_the_lists)
    assert "is down" in check.of(SLOT, LONG)[0]
    monkeypatch.setattr(door, "compute_services", answer)
    row["state"] = "up"
    clock.now += KEEP_SECONDS
    first = len(nova.requests)
    check.of(SLOT, LONG)
    assert any("hidden" in path for path in nova.requests[first:])


def test_a_server_of_two_drives_that_holds_one_is_a_ghost_for_the_other(
    nova: NovaApiStandIn, door: Compute
) -> None:
    flavor = {"vcpus": 1, "extra_specs": {"pci_passthrough:alias": "nvme:1, other:1"}}
    nova.add_server("s", NODE, flavor=flavor)
    assert "1 of 2 devices" in haunted(door, Tree({"s": BOTH})).of(SLOT, LONG)[0]
    assert haunted(door, Tree({"s": TWO})).of(SLOT, LONG) == ()


def test_a_ports_device_does_not_stand_for_a_drive(nova: NovaApiStandIn, door: Compute) -> None:
    nova.add_server("s", NODE)
    tree = Tree({"s": CPUS | {VF: 1}})
    assert "0 of 1 devices" in haunted(door, tree).of(SLOT, LONG)[0]
    # By another alias the flavor may ask for that.
    nova.servers[0]["flavor"] = {"extra_specs": {"pci_passthrough:alias": "other"}}
    assert haunted(door, tree).of(SLOT, LONG) == ()


def test_a_drive_that_lost_its_trait_is_held_by_its_server(
    nova: NovaApiStandIn, door: Compute
) -> None:
    nova.add_server("s", NODE)
    tree = Tree({"s": BOTH}, burn=frozenset())
    check = OrphanGuestCheck(door, tree, Clock(), enrolled=lambda host: {DRIVE} if host else ())
    assert check.of(BESIDE, LONG) == ()


@pytest.mark.parametrize("kind", ["migration", "live-migration", "evacuation"])
def test_a_move_that_has_lost_one_of_two_drives_is_a_ghost(
    nova: NovaApiStandIn, door: Compute, kind: str
) -> None:
    nova.add_server("s", "cmp2", flavor={"extra_specs": {"pci_passthrough:alias": "nvme:2"}})
    status = "done" if kind == "evacuation" else "running"
    row = nova.add_migration("m", "s", migration_type=kind, status=status, source_compute=HOST)
    assert "1 of 2 devices" in haunted(door, Tree({"m": BOTH})).of(SLOT, LONG)[0]
    assert haunted(door, Tree({"m": TWO})).of(SLOT, LONG) == ()
    # From another flavor, which Nova does not show.
    row |= {"migration_type": "resize", "status": "running"}
    assert haunted(door, Tree({"m": BOTH})).of(SLOT, LONG) == ()


def test_many_slots_of_a_host_cost_one_round(nova: NovaApiStandIn, door: Compute) -> None:
    clock = Clock()
    orphan_guests = haunted(door, clock=clock)
    for _ in range(24):
        assert orphan_guests.of(SLOT, LONG) == ()
    once = len(nova.requests)
    assert once <= 7
    clock.now += KEEP_SECONDS
    orphan_guests.of(SLOT, LONG)
    assert len(nova.requests) == 2 * once


def test_what_was_asked_before_a_release_says_nothing_of_the_drive(
    nova: NovaApiStandIn, door: Compute
) -> None:
    """A slot beside it made us ask. Then an allocation is deleted by hand; its server runs on."""
    nova.add_server("s", NODE)
    tree, clock = Tree({"s": BOTH}), Clock()
    check = haunted(door, tree, clock)
    assert check.of(BESIDE, LONG) == ()
    tree.holds.clear()
    clock.now += 1
    assert "server s is on" in check.of(SLOT, LONG)[0]
    asked = len(nova.requests)
    assert "server s is on" in check.of(BESIDE, LONG)[0]
    assert len(nova.requests) == asked, "and for the one beside it that is the newest word too"


def test_what_was_asked_before_a_server_came_says_nothing_of_its_drive(
    nova: NovaApiStandIn, door: Compute
) -> None:
    clock = Clock()
    check = haunted(door, Tree(), clock)
    assert check.of(BESIDE, LONG) == ()
    nova.add_server("s", NODE)
    clock.now += 2
    assert check.of(SLOT, 3.0) == ()
    assert "server s is on" in check.of(SLOT, 1.0)[0]


def test_a_server_that_is_hidden_from_our_user_is_not_gone(
    nova: NovaApiStandIn, door: Compute, caplog: pytest.LogCaptureFixture
) -> None:
    """What a policy does not show is no leftover of a deleted server."""
    nova.add_server("s", "cmp2")
    nova.add_migration("m", "s", source_compute=HOST, status="migrating")
    nova.admin = False
    assert "refuses" in haunted(door).of(SLOT, LONG)[0]
    assert "needs the admin role" in caplog.text


def test_an_evacuation_without_its_hosts_counts(nova: NovaApiStandIn, door: Compute) -> None:
    """Who may not see hosts is still shown the rows of the host that he asked for."""
    nova.add_server("s", "cmp2")
    row = nova.add_migration(
        "m", "s", migration_type="evacuation", status="done", source_compute=HOST
    )

    class HostHidden(Compute):
        def migrations(self, host: str) -> list[Migration]:
            return [replace(each, source=None, dest=None) for each in super().migrations(host)]

    hidden = HostHidden(door._connection)
    assert "evacuation m" in haunted(hidden).of(SLOT, LONG)[0]
    row["status"] = "completed"
    assert haunted(hidden).of(SLOT, LONG) == ()


HYPERVISORS = "/os-hypervisors/detail"


def test_a_cell_without_its_database_stops_no_erase_of_another_cell(
    nova: NovaApiStandIn, door: Compute
) -> None:
    """Nova walks all cells for a hypervisor's name, and any of them makes it a 500."""
    nova.add_host("new.example", "new")
    clock = Clock()
    check = haunted(door, clock=clock)
    assert check.of(SLOT, LONG) == ()
    nova.refuses[HYPERVISORS] = 500
    unknown = replace(SLOT, slot=Slot("new.example", "0000:81:00.0"))
    clock.now += KEEP_SECONDS
    assert "does not answer" in check.of(unknown, LONG)[0], "of that one Nova has said nothing yet"
    assert check.of(SLOT, LONG) == ()
    asked = sum(HYPERVISORS in path for path in nova.requests)
    clock.now += KEEP_SECONDS
    assert check.of(SLOT, LONG) == ()
    assert sum(HYPERVISORS in path for path in nova.requests) == asked, "each may cost a timeout"
    # What was remembered must still be up.
    nova.services[0]["state"] = "down"
    clock.now += KEEP_SECONDS
    assert "is down" in check.of(SLOT, LONG)[0]


def test_a_node_that_moved_to_another_service_is_asked_for_there(
    nova: NovaApiStandIn, door: Compute
) -> None:
    clock = Clock()
    check = haunted(door, clock=clock)
    assert check.of(SLOT, LONG) == ()
    nova.hypervisors.clear()
    nova.add_host(NODE, "cmp1-new")["state"] = "down"
    clock.now += KEEP_SECONDS
    assert "is down" in check.of(SLOT, LONG)[0]
    nova.hypervisors.clear()
    clock.now += KEEP_SECONDS
    assert "no compute service" in check.of(SLOT, LONG)[0]
    nova.refuses[HYPERVISORS] = 500
    clock.now += KEEP_SECONDS
    assert "does not answer" in check.of(SLOT, LONG)[0], "the service that it had is forgotten"


@pytest.mark.parametrize(("status", "word"), [(503, "does not answer"), (403, "refuses")])
def test_a_nova_that_does_not_answer_is_a_reason_to_wait(
    nova: NovaApiStandIn, door: Compute, status: int, word: str
) -> None:
    clock = Clock()
    orphan_guests = haunted(door, clock=clock)
    nova.status = status
    (reason,) = orphan_guests.of(SLOT, LONG)
    assert word in reason
    asked = len(nova.requests)
    clock.now += 1
    assert orphan_guests.of(SLOT, LONG) == (reason,)
    assert len(nova.requests) == asked
    nova.status = 200
    clock.now += AWAY_SECONDS
    assert orphan_guests.of(SLOT, LONG) == ()


def test_deleted_servers_are_told_once_by_novas_clock(nova: NovaApiStandIn, door: Compute) -> None:
    clock = Clock()
    deleted_servers = DeletedServers(door, 30.0, clock)

    def deleted(name: str, second: int) -> None:
        nova.add_server(name, NODE, deleted=True, updated=f"2099-01-01T00:00:{second:02}Z")

    deleted("a", 1)
    assert deleted_servers.poll() == {"a"}
    deleted("b", 1)
    assert deleted_servers.poll() == frozenset()  # not yet asked again
    clock.now += 30
    assert deleted_servers.poll() == {"b"}
    deleted("c", 5)
    clock.now += 30
    assert deleted_servers.poll() == frozenset()  # a page holds two, and shows the same two again
    clock.now += 30
    assert deleted_servers.poll() == {"c"}
    assert "changes-since=2099-01-01T00%3A00%3A02Z" in nova.requests[-1]
    clock.now += 30
    assert deleted_servers.poll() == frozenset()
    assert "changes-since=2099-01-01T00%3A00%3A05Z" in nova.requests[-1]


def test_a_failed_question_for_deletes_loses_nothing(nova: NovaApiStandIn, door: Compute) -> None:
    clock = Clock()
    deleted_servers = DeletedServers(door, 30.0, clock)
    nova.add_server("a", NODE, deleted=True, updated="2099-01-01T00:00:01Z")
    nova.status = 500
    with pytest.raises(UnavailableError):
        deleted_servers.poll()
    nova.status = 200
    clock.now += 31
    assert deleted_servers.poll() == frozenset()
    clock.now += 4 * 30
    assert deleted_servers.poll() == {"a"}
