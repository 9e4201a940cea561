"""A one-time-use device that a failed migration left behind is free once Placement says so.

nova-compute keeps the devices of each server that a migration in ``error`` names, for as long as
the row is there: also on a host that the server has left for good, with an evacuation or with a
resize that failed on its new host (``ComputeManager._finish_resize`` lets go of the former host in
Placement then). The device is claimed for Nova, so it is reserved again after each return: erased
every few minutes, and never sold.

On one host too: a resize that failed there leaves the server with both drives, and Nova refuses its
next hard reboot (``Instance.get_pci_devices``: the former one is of a request that is gone).

Nova also forgets too much. While a resize is reverted the server's row names the host that it
leaves, and the migration is ``reverted`` already (``ResourceTracker.drop_move_claim_at_dest``): a
look in these seconds frees the drive to which the server comes back, and its next hard reboot is
without it. So what Placement calls the server's, or its migration's, is kept.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nova import objects
from nova.compute import resource_tracker
from nova.pci import manager

from .replacements import Replacement, unbroken
from .said import LOG, once

ERROR = "error"
"""Of a migration that failed; ``nova/db/main/api.py``,
``migration_get_in_progress_and_error_by_host_and_node``, has these beside those that go on."""

_asked: contextvars.ContextVar[_Asked | None] = contextvars.ContextVar(
    "nvme_quarantine_asked", default=None
)
"""``None`` outside of the look."""


@dataclass(frozen=True)
class _Asked:
    """Who knows more than the look was told."""

    client: Any
    context: Any

    def holds(self, server: str, provider: str) -> bool:
        """Whether the server, or a migration of it, has an allocation there.

        By the provider: one answer has all its holders, so an allocation that goes from a migration
        back to its server is not missed between two, and a provider that is gone (Nova's note of it
        is older than this start) is an error and no "nobody".
        """
        found = self.client.get_allocations_for_resource_provider(self.context, provider)
        consumers = set(found.allocations)
        if not consumers or server in consumers:
            return bool(consumers)
        # All of them: Nova's own list is without those that are reverted.
        every = objects.MigrationList.get_by_filters(self.context, {"instance_uuid": server})
        return any(each.uuid in consumers for each in every)

    def wanted(self, server: str) -> set[str | None]:
        """The requests of the server's row, whose devices Nova gives to the guest.

        The look's own copy may have those of the migration (``Instance.apply_migration_context``).
        """
        found = objects.InstancePCIRequests.get_by_instance_uuid(self.context, server)
        return {each.request_id for each in found.requests}


@dataclass(frozen=True, eq=False)
class _Left:
    """A device that Nova's tracker has as a server's, which may not need it on this host."""

    owners: dict[str, list[Any]]
    server: str
    dev: Any

    @property
    def instance_uuid(self) -> str:
        """As a migration's, for Nova."""
        return self.server

    @property
    def provider(self) -> str:
        """Nova notes it as it first reports the device; without it nothing is known."""
        uuid: str = self.dev.extra_info.get("rp_uuid", "")
        return uuid


def _wrap_look(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ResourceTracker._update_available_resource`` that says whom to ask."""

    @functools.wraps(original)
    def _update_available_resource(self: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        before = _asked.set(_Asked(self.reportclient, context))
        try:
            return original(self, context, *args, **kwargs)
        finally:
            _asked.reset(before)

    return _update_available_resource


def _wrap_clean_usage(original: Callable[..., None]) -> Callable[..., None]:
    """``PciDevTracker.clean_usage`` that also frees what failed migrations alone keep here.

    Only what neither the server nor a migration of it has an allocation on: a server of which Nova
    has lost sight keeps its drive. Where Placement does not answer, all stays as it is.
    """

    @functools.wraps(original)
    def clean_usage(self: Any, instances: Any, migrations: Any) -> None:
        asked = _asked.get()
        if asked is None:
            original(self, instances, migrations)
            return
        here = {instance.uuid for instance in instances}
        moving = {each.instance_uuid for each in migrations if each.status != ERROR}
        stayed = {each.instance_uuid for each in migrations if _is_on_one_host(each)}
        known = [
            _Left(owners, server, dev)
            for owners in (self.claims, self.allocations)
            for server, devices in owners.items()
            if server not in moving and (server not in here or server in stayed)
            for dev in devices
            if _is_one_time_use(self, dev)
        ]
        known = [each for each in known if each.provider]
        free = _not_held(known, here, asked)
        for each in free:
            _let_go(self, each)
        # Nova reads the server alone of these.
        kept = [each for each in known if each not in free]
        original(self, instances, [*migrations, *kept])

    return clean_usage


def _not_held(left: list[_Left], here: set[str], asked: _Asked) -> list[_Left]:
    """None after the first question that fails: Nova's lock is held, an answer may take long."""
    try:
        # A server that is here keeps what its guest would be started with, whatever was lost.
        wanted = {each.server: asked.wanted(each.server) for each in left if each.server in here}
        spare = [each for each in left if each.dev.request_id not in wanted.get(each.server, ())]
        return [each for each in spare if not asked.holds(each.server, each.provider)]
    except Exception as error:
        once("who holds what was left behind is not known: %s: %s", type(error).__name__, error)
        return []


def _let_go(tracker: Any, left: _Left) -> None:
    devices = left.owners[left.server]
    LOG.info("%s was left behind by %s: free", left.dev.address, left.server)
    devices.remove(left.dev)
    if not devices:
        del left.owners[left.server]
    tracker._free_device(left.dev)


def _is_on_one_host(migration: Any) -> bool:
    source = (migration.source_compute, migration.source_node)
    return source == (migration.dest_compute, migration.dest_node)


def _is_one_time_use(tracker: Any, dev: Any) -> bool:
    spec = tracker.dev_filter.get_devspec(dev)
    return spec is not None and spec.get_tags().get("one_time_use") == "true"


def replacements() -> list[Replacement]:
    """What every release needs. Raises ``PatchError`` where another patch was first."""
    wraps: list[tuple[Any, str, Callable[..., Any]]] = [
        (resource_tracker.ResourceTracker, "_update_available_resource", _wrap_look),
        (manager.PciDevTracker, "clean_usage", _wrap_clean_usage),
    ]
    return [Replacement(owner, name, wrap(unbroken(owner, name))) for owner, name, wrap in wraps]
