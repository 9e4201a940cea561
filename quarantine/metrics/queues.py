"""How much waits in Redis, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.transport.messaging import host_queue
from quarantine.doors import Monotonic

ORDERS: Final = "order"
"""What waits for hosts: orders and tickets."""


class CountsLists(Protocol):
    """What is asked of :class:`quarantine.service.inbound.lists.Lists`."""

    def full(self, keys: Sequence[str]) -> list[str]:
        """Those of ``keys`` that exist."""

    def lengths(self, keys: Sequence[str]) -> list[int]:
        """Entries of each list."""


@dataclass(frozen=True)
class QueueTotal:
    """All lists of one kind."""

    entries: int
    hosts: int
    """Lists that are not empty."""
    seconds: float
    """For how long the one that waits longest was not seen empty: no entry is older than that and
    one reading more."""


class Queues:
    """Remembers since when a list is not empty; for one thread at a time."""

    def __init__(self, lists: CountsLists, monotonic: Monotonic) -> None:
        self._lists = lists
        self._monotonic = monotonic
        self._since: dict[str, float] = {}

    def read(self, hosts: Iterable[str], ordered: Iterable[str]) -> dict[str, QueueTotal]:
        """By kind. ``ordered`` are the hosts that have an order out: the others' own queues are
        not asked for. Raises ``UnavailableError``."""
        names = sorted(hosts)
        kinds = {key(kind, host): kind.value for kind in MessageKind for host in names}
        # Only lists that exist are asked for their lengths: most hosts' are empty.
        full = self._lists.full(list(kinds))
        kinds |= {host_queue(host): ORDERS for host in ordered}
        asked = [*full, *(name for name, kind in kinds.items() if kind == ORDERS)]
        lengths = dict(zip(asked, self._lists.lengths(asked), strict=True))
        now = self._monotonic()
        # A list that was seen empty is forgotten here, and begins anew.
        waits = {name: self._since.get(name, now) for name, count in lengths.items() if count}
        self._since = waits
        found = {}
        for each in (*(kind.value for kind in MessageKind), ORDERS):
            its = [name for name in waits if kinds[name] == each]
            found[each] = QueueTotal(
                # A key that is no list has the length -1: it counts as a list that is not empty,
                # with no entries.
                entries=sum(max(lengths[name], 0) for name in its),
                hosts=len(its),
                seconds=max((now - waits[name] for name in its), default=0.0),
            )
        return found
