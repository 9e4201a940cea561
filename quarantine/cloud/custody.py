"""The custody protocol: how a slot leaves Nova's pool under our name, and how it goes back.

Nova burns a one-time-use device by ``reserved = total`` and never lowers it. ``reserved`` alone is
forgotten when the provider is deleted, and one mistaken ``inventory set`` frees it. So our own
consumer takes an allocation in one transaction (``POST /reshaper`` swaps ``reserved`` for the
allocation), and ``reserved = total`` is put back on top. Placement refuses to delete a provider
with allocations, and either of the two locks keeps the drive out of the pool.

Each function is one write that was decided on one :class:`~quarantine.cloud.facts.View`. The
view's generation goes with the write, so a change in between is a ``ConflictError``: look again,
decide again. After an ``UnavailableError`` the write may have happened or not. A crash between the
two writes of :func:`take` leaves our allocation with reserved 0: :func:`ensure` completes it.
"""

from __future__ import annotations

import logging
from typing import Protocol

from quarantine.cloud.facts import View
from quarantine.errors import ConflictError, UnavailableError

LOG = logging.getLogger(__name__)


class CustodyPlacement(Protocol):
    """What custody needs of :class:`quarantine.cloud.placement.Placement`."""

    def view(self, uuid: str, resource_class: str) -> View | None:
        """One consistent look."""

    def put_reserved(self, view: View, *, full: bool) -> int:
        """Set ``reserved``."""

    def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
        """Swap ``reserved`` for an allocation, or take both away."""


def reserve(door: CustodyPlacement, view: View) -> None:
    """Take a slot out of the pool at once: ``reserved = total`` on every inventory record."""
    door.put_reserved(view, full=True)


def take(door: CustodyPlacement, view: View, consumer: str) -> View:
    """Our allocation instead of ``reserved``, then ``reserved = total`` on top; the view after.

    The slot must be locked and without any allocation in ``view``. Raises ``ConflictError``
    (nothing was changed) or ``UnavailableError``.
    """
    if not view.locked or view.allocations or not view.inventories:
        raise ConflictError(
            f"expected {view.provider.name} reserved and without allocations, found "
            f"{describe(view)}; look again"
        )
    door.reshape(view, consumer, hold=True)
    # Read anew: the reshape moved the generation that the second write needs.
    after = door.view(view.provider.uuid, view.resource_class)
    if after is None:
        raise UnavailableError(
            f"expected provider {view.provider.name} with our allocation, it is gone; look again"
        )
    return ensure(door, after, consumer)


def ensure(door: CustodyPlacement, view: View, consumer: str | None) -> View:
    """Put ``reserved = total`` back on top of our allocation where it is missing.

    Raises ``ConflictError`` where our allocation is not there, or goes while we write.
    """
    if view.custody(consumer) is None:
        raise ConflictError(
            f"expected our allocation on {view.provider.name}, found {describe(view)}; look again"
        )
    if view.locked:
        return view
    door.put_reserved(view, full=True)
    # Read anew, and not computed: our allocation may have been deleted by hand between the view and
    # the write, which does not move the generation.
    after = door.view(view.provider.uuid, view.resource_class)
    if after is None or not after.locked or after.custody(consumer) is None:
        raise ConflictError(f"{view.provider.name} changed while custody was completed; look again")
    return after


def returnable(view: View, consumer: str | None) -> bool:
    """Exactly what custody left there: our allocation alone, and reserved = total on top."""
    ours = view.custody(consumer)
    return (
        ours is not None
        # Found by its type alone it is of another case, which the record does not know.
        and ours.consumer == consumer
        and not view.foreign(consumer)
        and view.locked
        and bool(view.inventories)
    )


def give_back(door: CustodyPlacement, view: View, consumer: str) -> None:
    """Back to the pool: reserved 0 and our allocation gone, in one transaction.

    The caller has checked the certificate. Raises ``ConflictError`` when the view is not exactly
    our custody, and when Placement moved since the view (nothing was changed then).
    """
    if not returnable(view, consumer):
        raise ConflictError(
            f"expected our custody alone on {view.provider.name}, found {describe(view)}; "
            "look again"
        )
    door.reshape(view, consumer, hold=False)


def describe(view: View) -> str:
    """The view in a few words, for reasons and errors."""
    stock = ", ".join(f"{i.resource_class} {i.reserved}/{i.total}" for i in view.inventories)
    held = ", ".join(f"{a.consumer} ({a.consumer_type})" for a in view.allocations)
    return f"reserved [{stock or 'no inventory'}], allocations [{held or 'none'}]"
