"""Looks that may never come back, done by a child that can be left behind."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable
from typing import Any

from eraser.host.children import Processes

_ENDS = 1.0
"""Seconds in which a child that was killed is gone, unless it is stuck for good."""


class StuckError(Exception):
    """The child did not come to its end. ``at`` is the last number that it named."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def done_alone(
    processes: Processes, work: Callable[[Callable[[int], None]], Any], seconds: float
) -> Any:
    """What ``work`` returns (as JSON can say it), done by a child within ``seconds``.

    ``work`` is given a function to name where it is. Not where threads run. Raises
    :class:`StuckError`, also for a child that died, and ``OSError`` where there can be no child.
    """
    # Shared memory: it tells where the child was, also when the child can say nothing any more.
    place = mmap.mmap(-1, 8)

    def said() -> bytes:
        found = work(lambda at: place.__setitem__(slice(8), at.to_bytes(8, "little")))
        return json.dumps(found).encode()

    [found] = processes.alone([said], seconds, grace=_ENDS)
    try:
        return json.loads(found or b"")
    except ValueError:  # nothing at all, or what it had said when it died
        raise StuckError(int.from_bytes(place[:], "little")) from None
