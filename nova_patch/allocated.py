"""A move takes the one-time-use devices that Placement allocated, and no others.

For a resize, a cold migration and an evacuation Nova makes the PCI requests anew from the flavor
and loses what the scheduler chose; nova-compute then takes any device that its tracker calls free.
A one-time-use device is free to the tracker as soon as its server is gone, while it is dirty. A
resize on its own host is given such a drive: Nova heals no allocations there, so Placement is not
asked. On another host Placement refuses the allocation that Nova adds (409), and the move fails
though a clean drive was allocated to it, and a clean one is burned.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

from nova.compute import resource_tracker
from nova.pci import stats

from .plug import Replacement, unbroken

_allocated: contextvars.ContextVar[frozenset[str] | None] = contextvars.ContextVar(
    "nvme_quarantine_allocated", default=None
)
"""The providers that the move in hand has allocations on; ``None`` outside of a move's claim."""


def _wrap_move_claim(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ResourceTracker._move_claim`` that says what was allocated to the server that moves."""

    @functools.wraps(original)
    def _move_claim(
        self: Any,
        context: Any,
        instance: Any,
        new_flavor: Any,
        nodename: str,
        migration: Any,
        allocations: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        before = _allocated.set(frozenset(allocations or ()))
        try:
            return original(
                self,
                context,
                instance,
                new_flavor,
                nodename,
                migration,
                allocations,
                *args,
                **kwargs,
            )
        finally:
            _allocated.reset(before)

    return _move_claim


def _wrap_filter_pools(original: Callable[..., Any]) -> Callable[..., Any]:
    """``PciDeviceStats._filter_pools`` that offers a move what was allocated to it.

    Both ask it: the test whether the claim is possible, and the claim. One without its drives fails
    in the test, before anything is taken, and Nova looks for another host.
    """

    @functools.wraps(original)
    def _filter_pools(self: Any, pools: list[dict[str, Any]], *args: Any, **kwargs: Any) -> Any:
        allocated = _allocated.get()
        if allocated is not None:
            pools = [pool for pool in pools if _may_take(pool, allocated)]
        return original(self, pools, *args, **kwargs)

    return _filter_pools


def _may_take(pool: dict[str, Any], allocated: frozenset[str]) -> bool:
    """Tags of ``device_spec`` are keys of the pool; the tracker adds the device's provider."""
    return pool.get("one_time_use") != "true" or pool.get("rp_uuid") in allocated


def replacements() -> list[Replacement]:
    """What every release needs. Raises ``PatchError`` where another patch was first."""
    wraps: list[tuple[Any, str, Callable[..., Any]]] = [
        (resource_tracker.ResourceTracker, "_move_claim", _wrap_move_claim),
        (stats.PciDeviceStats, "_filter_pools", _wrap_filter_pools),
    ]
    return [Replacement(owner, name, wrap(unbroken(owner, name))) for owner, name, wrap in wraps]
