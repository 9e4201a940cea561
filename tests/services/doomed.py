"""A control plane that is killed (SIGKILL to itself) at a named point of one look at one slot.

Usage: ``python -m tests.services.doomed DATABASE SLOT POINT`` with ``OS_CLIENT_CONFIG_FILE`` set.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import View
from quarantine.cloud.placement import Placement
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler

POINTS = (
    "before custody",
    "after custody",
    "between the locks",
    "after the locks",
    "before the return",
    "after the return",
    "at dispatch",
)


def _die(*_: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


class _Dispatcher:
    def order(self, record: SlotRecord) -> SlotRecord:
        _die()
        return record


class _Tickets:
    def send(self, record: SlotRecord) -> SlotRecord:
        raise AssertionError("expected a ticket that was taken before")


def _doom(placement: Placement, point: str) -> None:
    reshape, put = placement.reshape, placement.put_reserved

    def dying_reshape(view: View, consumer: str, *, hold: bool) -> None:
        mine = ("before custody", "after custody") if hold else _RETURN
        if point == mine[0]:
            _die()
        reshape(view, consumer, hold=hold)
        if point == mine[1]:
            _die()

    def dying_put(view: View, *, full: bool) -> int:
        if point == "between the locks":
            _die()
        generation = put(view, full=full)
        if point == "after the locks":
            _die()
        return generation

    replaced: dict[str, Callable[..., Any]] = {"reshape": dying_reshape, "put_reserved": dying_put}
    for name, function in replaced.items():
        setattr(placement, name, function)


_RETURN = ("before the return", "after the return")


def main(argv: list[str]) -> int:
    """Look once; a return means that the point was not reached."""
    database, slot, point = argv
    if point not in POINTS:
        raise SystemExit(f"expected one of {POINTS}")
    placement = Placement.connect("lab", timeout=20)
    _doom(placement, point)
    store = Store.open(database)
    tickets = _Tickets()
    Reconciler(store, placement, _Dispatcher(), ServiceLimits(), tickets=tickets).look(
        Slot.parse(slot)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
