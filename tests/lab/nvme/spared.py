"""The parts of the media that an erase with the fault SPARE forgets. Pure."""

from __future__ import annotations

from tests.lab.nvme.faults import Spared
from tests.lab.nvme.fill import CHUNK
from tests.lab.nvme.state import DriveState

EDGE = 64 << 10
"""Bytes at the first or last address that are spared: more than the probes of an eraser cover."""


def ranges(state: DriveState, what: Spared) -> list[tuple[int, int]]:
    """Start and end of each, in whole chunks, in order."""
    attached = sorted(state.attached, key=lambda namespace: namespace.base)
    detached = [namespace for namespace in state.namespaces if not namespace.attached]
    if what is Spared.DETACHED:
        found = [(one.base, one.base + one.size) for one in detached]
    elif what is Spared.UNALLOCATED:
        found = state.gaps()
    elif not attached:
        found = []
    elif what is Spared.FIRST:
        found = [(attached[0].base, attached[0].base + EDGE)]
    elif what is Spared.LAST:
        end = attached[-1].base + attached[-1].size
        found = [(end - EDGE, end)]
    else:
        found = [(attached[-1].base, attached[-1].base + attached[-1].size)]
    return sorted((at // CHUNK * CHUNK, -(-to // CHUNK) * CHUNK) for at, to in found)


def outside(state: DriveState, what: Spared, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of [start, end) that the erase does reach."""
    found = []
    for at, to in ranges(state, what):
        if at > start:
            found.append((start, min(at, end)))
        start = max(start, to)
    return [*found, (start, end)] if start < end else found
