"""Nova's part: servers come, move and go; nova-compute starts; nova-api tells of it.

The requests to Placement are those of :class:`tests.lab.services.nova_standin.NovaStandIn`, which
is held against a recording of the real Nova; here are their times, the guests, and what goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

from eraser.protocol.identity import Slot
from tests.lab.services.nova_api_standin import NovaApiStandIn
from tests.lab.services.nova_standin import (
    OTU_TRAIT,
    BootFailedError,
    Migration,
    NoValidHostError,
    NovaStandIn,
    Server,
)
from tests.lab.services.placement_http import Answer
from tests.site import doors
from tests.site.hosts import Host
from tests.site.placement import Placement
from tests.site.world import EPOCH, World

RESOURCE_CLASS: Final = "CUSTOM_NVME_I1"
_PRUNE_SECONDS: Final = 3600.0


class Api(NovaApiStandIn):
    """nova-api without a server: a service for :class:`tests.site.line.Proxy`."""

    def __init__(self) -> None:
        self.hypervisors = []
        self.services = []
        self.servers = []
        self.migrations = []
        self.actions = {}
        self.requests = []
        self.status = 200
        self.refuses = {}
        self.admin = True
        self._page = 1000
        self.url = ""

    def __call__(self, method: str, path: str, version: str, body: Any) -> Answer:
        """One request."""
        self.requests.clear()
        return Answer(*self._answer(path))


@dataclass(frozen=True)
class Life:
    """What a server will go through: seconds from its claim to each thing."""

    drives: int = 1
    seconds: float = 600.0
    """From its start to its delete."""
    burns: bool = True
    """False: Nova claims and never burns."""
    move: str = ""
    """``confirm`` or ``revert``: it is migrated in the middle of its life."""


@dataclass
class Nova(NovaStandIn):
    """The cloud's Nova. The callbacks tell the observer what happens."""

    world: World
    placement: Placement
    hosts: dict[str, Host]
    chance: Random
    patched: bool
    bells: bool
    claimed: Callable[[Server, bool], None] = lambda server, burns: None
    refused: Callable[[str, str], None] = lambda server, why: None
    api: Api = field(default_factory=Api)
    running: dict[str, Server] = field(default_factory=dict)
    lacking: set[Slot] = field(default_factory=set)
    """Slots whose ``device_spec`` lost one_time_use."""
    open: bool = True
    """False: nobody orders servers any more."""

    def __post_init__(self) -> None:
        super().__init__("", RESOURCE_CLASS, doors.of(self.world, "servers").uuid)
        self._http = self.placement  # type: ignore[assignment]
        self._rows: dict[str, dict[str, Any]] = {}
        self.world.every(_PRUNE_SECONDS, self._prune)

    # Hosts.

    def begin(self, host: Host) -> None:
        """A compute host joins."""
        self.api.add_host(host.name)

    def compute_starts(self, host: Host) -> None:
        """nova-compute starts and reports the drives that are there."""
        host.restarted = self.world.now
        self.start_compute(host.name, sorted(host.drives), born_reserved=self.patched)
        for slot in self.lacking:
            if slot.host == host.name:
                self.drop_trait(slot)
        host.hello()

    def service_up(self, host: Host, up: bool) -> None:
        """What nova-api says of its nova-compute."""
        for row in self.api.services:
            if row["host"] == host.name:
                row["state"] = "up" if up else "down"

    def drop_trait(self, slot: Slot) -> None:
        """nova-compute was told that this device is not one-time-use."""
        self.lacking.add(slot)
        provider = self.placement.named(f"{slot.host}_{slot.address.upper()}")
        if provider is not None and OTU_TRAIT in provider.traits:
            self._put_traits(provider.uuid, sorted(provider.traits - {OTU_TRAIT}))

    def restore_trait(self, slot: Slot) -> None:
        """And that it is."""
        self.lacking.discard(slot)
        provider = self.placement.named(f"{slot.host}_{slot.address.upper()}")
        if provider is not None and OTU_TRAIT not in provider.traits:
            self._put_traits(provider.uuid, sorted(provider.traits | {OTU_TRAIT}))

    # Servers.

    def order(self, life: Life) -> None:
        """A tenant asks for a server."""
        if not self.open:
            return
        try:
            server = self.claim(life.drives)
        except (NoValidHostError, BootFailedError) as error:
            self.world.say(f"no server with {life.drives} drives: {type(error).__name__}")
            return
        self.world.say(f"server {server.uuid[:8]} claims {server.host} {server.addresses}")
        self.running[server.uuid] = server
        self._rows[server.uuid] = self.api.add_server(
            server.uuid,
            server.host,
            updated=self._stamp(),
            **{"OS-EXT-STS:vm_state": "building", "OS-SRV-USG:launched_at": None},
        )
        self.claimed(server, life.burns)
        self.world.at(self.chance.uniform(0.5, 4.0), lambda: self._build(server, life))

    def _build(self, server: Server, life: Life) -> None:
        if life.burns:
            try:
                self.burn(server)
            except BootFailedError:
                self._end(server, "error")
                return
        self.world.at(self.chance.uniform(0.5, 8.0), lambda: self._start(server, life))

    def _burn_one(self, provider: str) -> bool:
        # ``_handle_one_time_use`` asks the device's own spec, which is what the trait says.
        found = self.placement.providers.get(provider)
        if found is None or OTU_TRAIT not in found.traits:
            return found is not None
        return super()._burn_one(provider)

    def _start(self, server: Server, life: Life) -> None:
        if not self._spawn(server):
            self._end(server, "error")
            return
        self._rows[server.uuid]["OS-EXT-STS:vm_state"] = "active"
        self._rows[server.uuid]["OS-SRV-USG:launched_at"] = "2026-11-20T11:00:00.000000"
        if life.move:
            self.world.at(life.seconds / 3, lambda: self._migrate(server, life))
        else:
            self.world.at(life.seconds, lambda: self.end(server))

    def _spawn(self, server: Server) -> bool:
        host = self.hosts[server.host]
        why = host.start_guest(server.uuid, server.addresses)
        if why:
            self.world.say(f"server {server.uuid[:8]} does not start: {why}")
            self.refused(server.uuid, why)
            return False
        return True

    def end(self, server: Server) -> None:
        """The tenant deletes it; a host that is off does so when it is back."""
        host = self.hosts[server.host]
        if not host.up:
            self.world.at(30.0, lambda: self.end(server))
            return
        host.stop_guest(server.uuid)
        self.world.at(self.chance.uniform(0.2, 3.0), lambda: self._end(server, "deleted"))

    def _end(self, server: Server, state: str) -> None:
        self.world.say(f"server {server.uuid[:8]} lets go of {server.host} {server.addresses}")
        self.running.pop(server.uuid, None)
        self.delete(server)
        row = self._rows[server.uuid]
        row["updated"] = self._stamp()
        row["OS-EXT-STS:vm_state"] = state
        row["deleted"] = state == "deleted"
        if state == "error":
            self.world.at(120.0, lambda: row.update(deleted=True, updated=self._stamp()))
        self._ring(server)

    def _migrate(self, server: Server, life: Life) -> None:
        host = self.hosts[server.host]
        try:
            if not host.up:
                raise NoValidHostError("off")
            migration = self.migrate(server)
        except (NoValidHostError, BootFailedError):
            # The conductor rolls back; nothing of it is kept here but the server where it is.
            self._undo_move(server)
            self.world.at(life.seconds / 2, lambda: self.end(server))
            return
        target = migration.target
        self.claimed(target, True)
        self.world.say(f"server {server.uuid[:8]} moves to {target.host} {target.addresses}")
        row = self.api.add_migration(
            migration.source.uuid,
            server.uuid,
            source_compute=server.host,
            dest_compute=target.host,
            status="finished",
        )
        host.stop_guest(server.uuid)
        started = self._spawn(target)
        self._place(server.uuid, target)
        how = life.move if started else "revert"
        self.world.at(life.seconds / 3, lambda: self._settle(migration, row, how, life))

    def _undo_move(self, server: Server) -> None:
        """``replace_allocation_with_migration`` rolled back: the source is the server's again."""
        if server.uuid in self.placement.consumers:
            return
        for name, consumer in list(self.placement.consumers.items()):
            held = set(consumer.allocations) & set(server.providers)
            if held and name not in self.running:
                self._move(name, server.uuid)
                return

    def _settle(self, migration: Migration, row: dict[str, Any], how: str, life: Life) -> None:
        source, target = migration.source, migration.target
        if not (self.hosts[source.host].up and self.hosts[target.host].up):
            self.world.at(30.0, lambda: self._settle(migration, row, how, life))
            return
        if how == "confirm":
            self.confirm(migration)
            row["status"], server, left = "confirmed", target, source
        else:
            self.hosts[target.host].stop_guest(target.uuid)
            server, left = self.revert(migration), target
            row["status"] = "reverted"
            self._place(server.uuid, server)
            self._spawn(server)
        self.world.say(f"server {server.uuid[:8]} {how}: lets go of {left.host} {left.addresses}")
        self._ring(left)
        self.world.at(life.seconds / 3, lambda: self.end(server))

    def _place(self, uuid: str, server: Server) -> None:
        self.running[uuid] = server
        self._rows[uuid]["OS-EXT-SRV-ATTR:host"] = server.host
        self._rows[uuid]["OS-EXT-SRV-ATTR:hypervisor_hostname"] = server.host

    def host_back(self, host: Host) -> None:
        """After a boot: its guests are started again (``resume_guests_state_on_host_boot``)."""
        for server in list(self.running.values()):
            row = self._rows[server.uuid]
            if server.host == host.name and row["OS-EXT-STS:vm_state"] == "active":
                self._spawn(server)

    def _ring(self, server: Server) -> None:
        host = self.hosts[server.host]
        if self.bells and host.up and not host.cut:
            for address in server.addresses:
                host.ring(address)

    def _candidates(self, drives: int) -> list[dict[str, Any]]:
        found = super()._candidates(drives)
        self.chance.shuffle(found)
        return found

    def _stamp(self) -> str:
        moment = EPOCH + timedelta(seconds=self.world.now)
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

    def _prune(self) -> None:
        """Rows of servers that are gone for long: nobody asks for them."""
        old = EPOCH + timedelta(seconds=self.world.now - _PRUNE_SECONDS)
        limit = old.isoformat(timespec="seconds").replace("+00:00", "Z")
        kept = [row for row in self.api.servers if not row["deleted"] or row["updated"] > limit]
        self.api.servers[:] = kept
        # Nova keeps a server's migrations for as long as the server.
        servers = {row["id"] for row in kept}
        self.api.migrations[:] = [m for m in self.api.migrations if m["instance_uuid"] in servers]


def slots_of(server: Server) -> list[Slot]:
    """Its drives' places."""
    return [Slot(server.host, address) for address in server.addresses]
