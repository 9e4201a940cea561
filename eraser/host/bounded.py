"""Looks that may never come back, done by a child that can be left behind."""

from __future__ import annotations

import json
import mmap
import os
import select
import time
from collections.abc import Callable
from typing import Any

from eraser.host.forked_child import alone, end

_PART = 1 << 16
_ENDS = 1.0
"""Seconds in which a child that was killed is gone, unless it is stuck for good."""


class StuckError(Exception):
    """The child did not come to its end. ``at`` is the last number that it named."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


def done_alone(work: Callable[[Callable[[int], None]], Any], seconds: float) -> Any:
    """What ``work`` returns (as JSON can say it), done by a child within ``seconds``.

    ``work`` is given a function to name where it is. Not where threads run. Raises
    :class:`StuckError`, also for a child that died, and ``OSError`` where there can be no child.
    """
    place = mmap.mmap(-1, 8)
    ours, theirs = os.pipe()
    try:
        child = os.fork()
    except OSError:
        os.close(ours)
        os.close(theirs)
        raise
    if not child:
        try:
            alone(theirs)
            found = work(lambda at: place.__setitem__(slice(8), at.to_bytes(8, "little")))
            with os.fdopen(theirs, "w") as pipe:
                json.dump(found, pipe)
        finally:
            os._exit(0)
    os.close(theirs)
    try:
        said = _until_end(ours, time.monotonic() + seconds)
        try:
            return json.loads(said)
        except ValueError:  # nothing at all, or what it had said when it died
            raise StuckError(int.from_bytes(place[:], "little")) from None
    finally:
        os.close(ours)
        end(child, _ENDS)


def _until_end(pipe: int, deadline: float) -> bytes:
    """All that is written into a pipe until it is closed; nothing where that takes too long."""
    said, poll = b"", select.poll()
    poll.register(pipe, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        part = os.read(pipe, _PART)
        if not part:
            return said
        said += part
    return b""
