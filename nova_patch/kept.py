"""A one-time-use device that is held while it is absent: its provider stays, and Nova goes on.

nova-compute deletes the provider of a device that is gone. Where Placement still has an allocation
on it, the custody of a drive that is to be erased, it answers 409, and Nova gives up all of what it
was about to tell (``ResourceProviderSyncFailed``): in each periodic, each start and each end of any
server on that host, with drives or without, until somebody deletes the allocation. One dead drive
must not take its host with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nova import exception
from nova.scheduler.client import report

from .born_reserved import ONE_TIME_USE
from .plug import Replacement, unbroken


def wrap(original: Callable[..., None]) -> Callable[..., None]:
    """``SchedulerReportClient._delete_provider`` that leaves a held one-time-use device alone.

    Nova has logged Placement's refusal by then; its cache keeps the provider, so that the next
    round tries again.
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
    client = report.SchedulerReportClient
    return [Replacement(client, "_delete_provider", wrap(unbroken(client, "_delete_provider")))]
