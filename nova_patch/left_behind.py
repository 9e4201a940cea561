"""A one-time-use device that a failed migration left behind is free once Placement says so.

nova-compute keeps the devices of each server that a migration in ``error`` names, for as long as
the row is there: also on a host that the server has left for good, with an evacuation or with a
resize that failed on its new host (``ComputeManager._finish_resize`` lets go of the former host in
Placement then). The device is claimed for Nova, so it is reserved again after each return: erased
every few minutes, and never sold.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterable
from typing import Any

from nova.compute import resource_tracker
from nova.pci import manager

from .replacements import Replacement, unbroken
from .said import LOG

ERROR = "error"
"""Of a migration that failed; ``nova/db/main/api.py``,
``migration_get_in_progress_and_error_by_host_and_node``, has these beside those that go on."""

_Holds = Callable[[str], Iterable[str]]

_ask: contextvars.ContextVar[_Holds | None] = contextvars.ContextVar(
    "nvme_quarantine_ask", default=None
)
"""The providers that a consumer has allocations on in Placement; ``None`` outside of the look."""


def _wrap_look(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ResourceTracker._update_available_resource`` that says where to ask for allocations."""

    @functools.wraps(original)
    def _update_available_resource(self: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        def holds(consumer: str) -> Iterable[str]:
            found: dict[str, Any] = self.reportclient.get_allocs_for_consumer(context, consumer)
            return found["allocations"]

        before = _ask.set(holds)
        try:
            return original(self, context, *args, **kwargs)
        finally:
            _ask.reset(before)

    return _update_available_resource


def _wrap_clean_usage(original: Callable[..., None]) -> Callable[..., None]:
    """``PciDevTracker.clean_usage`` that also frees what failed migrations alone keep here.

    Only what neither the server nor such a migration has an allocation on: a server of which Nova
    has lost sight keeps its drive. Where Placement does not answer, all stays as it is.
    """

    @functools.wraps(original)
    def clean_usage(self: Any, instances: Any, migrations: Any) -> None:
        original(self, instances, migrations)
        ask = _ask.get()
        if ask is None:
            return
        needed = {instance.uuid for instance in instances}
        needed |= {each.instance_uuid for each in migrations if each.status != ERROR}
        for owners in (self.claims, self.allocations):
            for server in [uuid for uuid in owners if uuid not in needed]:
                failed = [each.uuid for each in migrations if each.instance_uuid == server]
                _let_go(self, owners, server, [server, *failed], ask)

    return clean_usage


def _let_go(
    tracker: Any, owners: dict[str, list[Any]], server: str, consumers: list[str], ask: _Holds
) -> None:
    devices = [dev for dev in owners[server] if _is_one_time_use(tracker, dev)]
    if not devices:
        return
    try:
        held = {provider for consumer in consumers for provider in ask(consumer)}
    except Exception as error:
        LOG.debug("asked for the allocations of %s: %s", server, error)
        return
    for dev in devices:
        # Nova notes the provider as it first reports the device; without it nothing is known.
        if dev.extra_info.get("rp_uuid", "") in {"", *held}:
            continue
        LOG.info("%s was left behind by %s with a migration that failed: free", dev.address, server)
        owners[server].remove(dev)
        tracker._free_device(dev)
    if not owners[server]:
        del owners[server]


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
