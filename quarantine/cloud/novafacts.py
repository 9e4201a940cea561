"""What Nova's API says of a compute host, its servers and migrations: facts without I/O.

Members are named as in the compute API reference and Nova's own samples (``doc/api_samples`` and
``nova/tests/functional/api_sample_tests`` of Nova 34). Nova leaves members out for what is in a
cell that is down: what is not there is unknown, never fine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

SOFT_DELETED: Final = "soft-delete"
"""``nova/objects/fields.py``, InstanceState: deleted, and may be restored until it is reclaimed."""

UNKNOWN: Final = "unknown"
"""The vm_state of a server of which Nova shows none: its cell is down."""

BUILDING: Final = "building"
"""No guest of it has run yet, unless it is built anew."""

_ENDED: Final = frozenset({"confirmed", "reverted", "error", "failed", "completed", "cancelled"})
"""Of ``migration_get_in_progress_by_host_and_node`` (``nova/db/main/api.py``), without ``done``:
that is an evacuated server whose old host has not cleaned up yet."""

_SWITCHED: Final = frozenset({"finished", "confirming", "reverting"})
"""The server is what it shall become, and Nova keeps what it was (``nova/compute/manager.py``)."""

_ALIAS: Final = "pci_passthrough:alias"


@dataclass(frozen=True)
class ComputeService:
    """A nova-compute. ``up`` only where Nova says so and nobody has forced it down."""

    host: str
    up: bool
    forced_down: bool


@dataclass(frozen=True)
class Server:
    """A server as an administrator sees it."""

    uuid: str
    node: str | None
    """Hypervisor host name."""
    vm_state: str
    launched: bool
    """A guest of it has run at some time."""
    devices: int | None
    """How many PCI devices its flavor asks for; None where the extra specs are not shown."""
    updated: str
    """ISO 8601, Nova's clock."""
    aliases: Mapping[str, int] = field(default_factory=dict)
    """``devices`` by the alias that asks for them."""

    @property
    def readable(self) -> bool:
        """Its cell answered; where it did not, Nova shows hardly a member (2.69)."""
        return self.vm_state != UNKNOWN


@dataclass(frozen=True)
class Migration:
    """A migration, resize or evacuation."""

    uuid: str
    server: str
    kind: str
    status: str
    source: str | None
    dest: str | None
    changed: datetime | None = None
    """Nova's clock: of an ended one, when it ended. None where Nova does not say."""

    @property
    def unfinished(self) -> bool:
        """Something of it may still be on one of its two hosts."""
        return self.status not in _ENDED and (self.status != "done" or self.evacuated)

    @property
    def may_return(self) -> bool:
        """Resized on its own host, and neither confirmed nor reverted: its old devices are the
        migration's, its new ones the server's."""
        return self.source is not None and self.source == self.dest and self.status in _SWITCHED

    @property
    def evacuated(self) -> bool:
        """Rebuilt elsewhere while its old host, which may still run it, has not cleaned up."""
        return self.kind == "evacuation" and self.status == "done"


@dataclass(frozen=True)
class InstanceAction:
    """What was done to a server, or is being done. Times are Nova's, with whole seconds."""

    kind: str
    """As ``nova/compute/instance_actions.py`` calls it."""
    started: datetime | None
    changed: datetime | None
    """When the last of its events began or ended: of an ended action, when it ended."""


def compute_service(row: Mapping[str, Any]) -> ComputeService:
    """A row of ``GET /os-services`` (2.11: ``forced_down``)."""
    forced = bool(row.get("forced_down"))
    return ComputeService(str(row["host"]), row.get("state") == "up" and not forced, forced)


def server(row: Mapping[str, Any]) -> Server:
    """A row of ``GET /servers/detail`` (2.47: the flavor is in it)."""
    flavor = row.get("flavor")
    specs = flavor.get("extra_specs") if isinstance(flavor, Mapping) else None
    aliases = _aliases(str((specs or {}).get(_ALIAS, "")))
    node = row.get("OS-EXT-SRV-ATTR:hypervisor_hostname")
    return Server(
        uuid=str(row["id"]),
        node=None if node is None else str(node),
        vm_state=str(row.get("OS-EXT-STS:vm_state", UNKNOWN)),
        # A row that does not say it counts as launched: its guest may have run.
        launched=row.get("OS-SRV-USG:launched_at", "unknown") is not None,
        devices=None if specs is None else sum(aliases.values()),
        updated=str(row.get("updated", "")),
        aliases=aliases,
    )


def _aliases(text: str) -> dict[str, int]:
    """``name:count``, several with commas (``_translate_alias_to_requests`` of nova/pci)."""
    found: dict[str, int] = {}
    for each in text.split(","):
        name, _, count = (word.strip() for word in each.partition(":"))
        if each.strip():
            # Without a count Nova asks for one device. Of a word that is no number one is expected
            # too: with none, a server that lost its allocation would lack nothing.
            found[name] = found.get(name, 0) + (int(count) if count.isdecimal() else 1)
    return found


def migration(row: Mapping[str, Any]) -> Migration:
    """A row of ``GET /os-migrations`` (2.59: ``uuid``, which is its consumer in Placement)."""
    source, dest = row.get("source_compute"), row.get("dest_compute")
    return Migration(
        uuid=str(row["uuid"]),
        server=str(row["instance_uuid"]),
        kind=str(row.get("migration_type", "")),
        status=str(row["status"]),
        source=None if source is None else str(source),
        dest=None if dest is None else str(dest),
        changed=_moment(row.get("updated_at")),
    )


def action(row: Mapping[str, Any]) -> InstanceAction:
    """A row of ``GET /servers/{id}/os-instance-actions`` (2.58: ``updated_at``)."""
    started, changed = _moment(row.get("start_time")), _moment(row.get("updated_at"))
    return InstanceAction(str(row["action"]), started, changed)


def changed(row: Mapping[str, Any]) -> datetime | None:
    """When a row of ``GET /servers/detail`` was last changed: of a deleted one, when it went."""
    return _moment(row.get("updated"))


def _moment(text: object) -> datetime | None:
    """Nova writes UTC, and in the lists of migrations without saying so."""
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at.replace(tzinfo=at.tzinfo or UTC)
