"""A one-time-use device that somebody holds in Placement: its provider stays, and Nova goes on.

Nova works on a host's providers all together: what Placement refuses for one stops the rest. Three
things of a drive that is burned, or in the custody of those who erase it, are refused for good:

- its provider is deleted when the drive is gone (``ResourceProviderSyncFailed``);
- its resource class is renamed (``InventoryInUse``: nova-compute does not start);
- an allocation that was lost is added again beside ``reserved = total`` (``ReshapeFailed``).

Each then fails every periodic, every start of nova-compute, and every start and end of any server
on that host, with drives or without, until somebody deletes the allocation. One dead drive must not
take its host with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.compute import pci_placement_translator as translator
from nova.scheduler.client import report

from .born_reserved import ONE_TIME_USE
from .replacements import Replacement, unbroken
from .said import once


def _wrap_view(original: Callable[..., None]) -> Callable[..., None]:
    """``PlacementView.update_provider_tree`` of Nova 32 and later that keeps what is held as
    Placement has it.

    Nova does the same for devices that ``device_spec`` lost under a server: a provider without
    devices in the view takes its class, total and traits from what is allocated on it.
    """

    @functools.wraps(original)
    def update_provider_tree(
        self: Any, provider_tree: Any, allocations: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        used = self.get_usage_per_rc_and_rp(allocations)
        for uuid in provider_tree.get_provider_uuids_in_tree(self.root_rp_name):
            if used.get(uuid) and _is_one_time_use(provider_tree, uuid):
                _keep(self, provider_tree.data(uuid).name, sorted(used[uuid]))
        original(self, provider_tree, allocations, *args, **kwargs)

    return update_provider_tree


def _keep(view: Any, name: str, classes: list[str]) -> None:
    provider = view.rps.get(name)
    if provider is None:
        view._ensure_rp(name)
        once("%s is absent and held in Placement: its provider stays", name)
    # Functions in the place of their parent are other devices: in its class they would be on offer
    # beside it, so Nova refuses to start.
    elif provider.parent_dev and provider.resource_class not in (None, *classes):
        once(
            "%s is held in Placement as %s: it becomes %s once it is let go",
            name,
            classes[0],
            provider.resource_class,
        )
        provider.resource_class = classes[0]


def _wrap_allocations(original: Callable[..., bool]) -> Callable[..., bool]:
    """``PciResourceProvider.update_allocations`` that adds none where there is no room for it.

    A one-time-use device of a server is reserved as long as the server has it, so Placement refuses
    to add what was lost. It stays reserved without it, and is nobody else's. Of a server that is
    resized on its host the former drive is its migration's, and Nova leaves it so.
    """

    @functools.wraps(original)
    def update_allocations(
        self: Any, allocations: dict[str, Any], provider_tree: Any, same_host_instances: list[str]
    ) -> bool:
        if self.is_otu and provider_tree.exists(self.name):
            data = provider_tree.data(self.name)
            holders = {c for c, has in allocations.items() if data.uuid in has["allocations"]}
            reserved = any(record.get("reserved") for record in data.inventory.values())
            known = allocations.keys() - holders - set(same_host_instances)
            lost = [consumer for consumer in self._get_allocations() if consumer in known]
            if lost and (reserved or holders):
                once(
                    "%s is used by %s, whose allocation of it was lost: it stays reserved without",
                    self.name,
                    ", ".join(lost),
                )
                return False
        return original(self, allocations, provider_tree, same_host_instances)

    return update_allocations


def _wrap_delete(original: Callable[..., None]) -> Callable[..., None]:
    """``SchedulerReportClient._delete_provider`` that leaves a held one-time-use device alone.

    For one that was taken into custody just now, and for Nova 29. Nova has logged Placement's
    refusal by then; its cache keeps the provider, so that the next round sees it held.
    """

    @functools.wraps(original)
    def _delete_provider(self: Any, rp_uuid: str, *args: Any, **kwargs: Any) -> None:
        try:
            original(self, rp_uuid, *args, **kwargs)
        except exception.ResourceProviderInUse:
            if not _is_one_time_use(self._provider_tree, rp_uuid):
                raise

    return _delete_provider


def _is_one_time_use(tree: Any, rp_uuid: str) -> bool:
    try:
        return not ONE_TIME_USE.isdisjoint(tree.data(rp_uuid).traits)
    except ValueError:
        return False


def replacements() -> list[Replacement]:
    """What every release needs. Raises ``PatchError`` where another patch was first."""
    wraps: list[tuple[Any, str, Callable[..., Any]]] = [
        (translator.PciResourceProvider, "update_allocations", _wrap_allocations),
        (report.SchedulerReportClient, "_delete_provider", _wrap_delete),
    ]
    # Nova 29 does not know what is allocated when it draws its view.
    if hasattr(translator.PlacementView, "get_usage_per_rc_and_rp"):
        wraps.append((translator.PlacementView, "update_provider_tree", _wrap_view))
    return [Replacement(owner, name, wrap(unbroken(owner, name))) for owner, name, wrap in wraps]
