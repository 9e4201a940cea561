"""How much of a drive belongs to no namespace: one account for the whole case, by the most that the
drive told (docs/decisions/unallocated.md).

Its last word is not believed alone: what it told of, or had in a namespace that the case deleted,
belongs to somebody.
"""

from __future__ import annotations

from eraser.case.entries import Allocating
from eraser.case.session import CaseSession
from eraser.case.state import CaseState
from eraser.controller.passthru import NAMESPACE_MANAGEMENT
from eraser.controller.spec import IdentifyNamespace
from eraser.drive.inspect import described, layout_of
from eraser.protocol import unallocated
from eraser.protocol.unallocated import PIECE, SMALLEST

_PAUSE = 1.0
"""Seconds between two looks."""
_LATE = 10
"""Looks at a drive that does not tell yet of what it got back."""


def told(desk: CaseSession) -> int:
    """UNVMCAP, bytes; 0 where it is more than there is in all. Raises :class:`DriveError`."""
    identify = desk.controller.identify()
    bytes_ = identify.unallocated_bytes
    return bytes_ if bytes_ <= identify.total_bytes else 0


def listed(desk: CaseSession) -> set[int]:
    """Some firmware lists those alone that are attached, in the list of all too."""
    controller = desk.controller
    return {*controller.allocated_namespaces(), *controller.active_namespaces()}


def account(desk: CaseSession) -> Allocating:
    """What there is to be had now: what the drive tells, and what it told of before, or had in a
    namespace of then, and has in none now.

    Waits for a drive that is late to tell of what it got back. Raises :class:`DriveError`.
    """
    state, controller = desk.state, desk.controller
    before = listed(desk) - state.made
    active = before & set(controller.active_namespaces())
    standing = described(controller, tuple(sorted(active)))
    standing += described(controller, tuple(sorted(before - active)), attached=False)
    least = sum(taken(namespace)[0] for _nsid, namespace in standing)
    most = sum(_most(state, *each) for each in standing)
    known = _known(state)
    late(desk, known - most - SMALLEST + 1)
    now = told(desk)
    total = max(now + least, known)
    return Allocating(tuple(sorted(before)), max(now, total - most), total)


def _most(state: CaseState, nsid: int, namespace: IdentifyNamespace) -> int:
    """What one takes at most; of one that stands since the inspection no more than then."""
    facts = None if state.inspected is None else state.inspected.facts
    found = () if facts is None else (*facts.namespaces, *facts.detached)
    now = layout_of(nsid, namespace)
    stands = any(each.nsid == nsid and not each.differences(now) for each in found)
    return taken(namespace)[0 if stands else 1]


def moved(state: CaseState) -> bool:
    """Whether this case made or deleted namespaces, so that there may be more than it tells."""
    return any(sent.opcode == NAMESPACE_MANAGEMENT for sent in state.sent)


def _known(state: CaseState) -> int:
    """Bytes in all, as the drive told before."""
    facts = None if state.inspected is None else state.inspected.facts
    counted = 0 if state.allocating is None else state.allocating.total
    return max(counted, 0 if facts is None else unallocated.least(facts))


def late(desk: CaseSession, wanted: int) -> bool:
    """Waits until the drive tells of so many bytes, where it does not; whether that came."""
    if told(desk) >= wanted:
        return False
    for _ in range(_LATE):
        desk.clock.sleep(_PAUSE)
        if told(desk) >= wanted:
            return True
    return False


def taken(namespace: IdentifyNamespace) -> tuple[int, int]:
    """What one takes of the drive's capacity, bytes: at least, and at most.

    Some drives count its metadata and some do not, and some give whole pieces: they say so
    (NVMCAP), of which no more is believed than a piece of the largest kind.
    """
    whole = namespace.size + namespace.blocks * namespace.metadata_bytes
    least = min(namespace.blocks, namespace.capacity) * namespace.block_bytes
    return least, max(whole, min(namespace.takes, whole + PIECE))
