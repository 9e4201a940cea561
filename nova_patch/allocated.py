"""A claim takes the one-time-use devices that Placement allocated, and no others.

nova-compute's tracker calls a one-time-use device free as soon as its server is gone, while it is
dirty. It follows Placement where the PCI requests name their providers (``rp_uuids``), and takes
any free device where they do not: for a resize, a cold migration and an evacuation Nova makes the
requests anew from the flavor, their new ids are in no later mapping either (unshelve, live
migration), and a neutron port's requests never name one. A resize on its own host and a live
migration are given a dirty drive that way: Nova heals no allocations there, so Placement is not
asked. Elsewhere Placement refuses the allocation that Nova adds (409): the claim fails though a
clean drive was allocated to it, and a clean one is burned.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

from nova import objects
from nova.compute import resource_tracker
from nova.pci import stats

from .replacements import Replacement, unbroken
from .said import LOG

_allocated: contextvars.ContextVar[frozenset[str] | None] = contextvars.ContextVar(
    "nvme_quarantine_allocated", default=None
)
"""The providers that the server of the claim in hand has allocations on; ``None`` outside of the
claims that are told."""


def _wrap_claim(original: Callable[..., Any]) -> Callable[..., Any]:
    """A claim of ``ResourceTracker`` that says what was allocated to its server."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def claim(*args: Any, **kwargs: Any) -> Any:
        allocations = signature.bind(*args, **kwargs).arguments["allocations"]
        before = _allocated.set(frozenset(allocations or ()))
        try:
            return original(*args, **kwargs)
        finally:
            _allocated.reset(before)

    return claim


def _wrap_filter_pools(original: Callable[..., Any]) -> Callable[..., Any]:
    """``PciDeviceStats._filter_pools`` that offers a claim what was allocated to it.

    Both ask it: the test whether the claim is possible, and the claim. One without its drives fails
    in the test, before anything is taken, and Nova looks for another host. Claims that are not told
    of allocations (live migrations, neutron ports) have what their requests name.
    """

    @functools.wraps(original)
    def _filter_pools(
        self: Any, pools: list[dict[str, Any]], request: Any, numa_cells: Any, rp_uuids: list[str]
    ) -> Any:
        told = _allocated.get()
        allocated = rp_uuids if told is None else told
        kept = [pool for pool in pools if _may_take(pool, allocated)]
        # The pools of a host's record, which a test of a claim may be asked about, name no devices.
        dropped = [
            device.address
            for pool in pools
            if not _may_take(pool, allocated)
            for device in pool.get("devices", ())
        ]
        # Nova takes the first that fits; an alias with a class alone fits any device of its type. A
        # port's device is none of the flavor's: there Nova's own order stays.
        if request.source != objects.InstancePCIRequest.NEUTRON_PORT:
            kept.sort(key=lambda pool: pool.get("rp_uuid") not in allocated)
        found = original(self, kept, request, numa_cells, rp_uuids)
        for address in dropped:
            LOG.debug("%s is one-time-use and not allocated to this claim: dropped", address)
        if dropped and not found:
            LOG.info(
                "no device for request %s of a claim: %s free here, but not allocated to it",
                request.request_id,
                ", ".join(dropped),
            )
        return found

    return _filter_pools


def _may_take(pool: dict[str, Any], allocated: Collection[str]) -> bool:
    """Tags of ``device_spec`` are keys of the pool; the tracker adds the device's provider."""
    return pool.get("one_time_use") != "true" or pool.get("rp_uuid") in allocated


def replacements() -> list[Replacement]:
    """What every release needs. Raises ``PatchError`` where another patch was first."""
    wraps: list[tuple[Any, str, Callable[..., Any]]] = [
        (resource_tracker.ResourceTracker, "instance_claim", _wrap_claim),
        (resource_tracker.ResourceTracker, "_move_claim", _wrap_claim),
        (stats.PciDeviceStats, "_filter_pools", _wrap_filter_pools),
    ]
    return [Replacement(owner, name, wrap(unbroken(owner, name))) for owner, name, wrap in wraps]
