"""Capacity that belongs to no namespace: what a report tells of it. Pure.

The drive's word for it is UNVMCAP (Base 2.0, figure 275), asked before the erase and after it.
Bytes throughout.
"""

from __future__ import annotations

from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import ControllerFacts, EraseReport, VerificationRecord

SMALLEST = 1 << 20
"""Less than this, in one piece, is nothing that anybody is given a namespace of."""
PIECE = 1 << 30
"""Many drives give whole units of it: a namespace may take one more than it shows."""
BLOCK = 4096
"""What a verification counts in."""


def told(facts: ControllerFacts | None) -> int:
    """UNVMCAP, as far as it is a figure."""
    if facts is None:
        return 0
    return figure(facts.unallocated_bytes, facts.total_bytes, facts)


def figure(free: int, total: int, facts: ControllerFacts | None) -> int:
    """UNVMCAP; 0 where it is more than there is in all, which is none.

    Unless TNVMCAP is none: a drive that manages namespaces has some capacity, and no less than the
    namespaces of ``facts`` show.
    """
    if free <= total:
        return free
    # Some drives give TNVMCAP as 0 or in another unit: then it cannot bound UNVMCAP.
    shown = 0 if facts is None else sum(map(_least, _namespaces(facts)))
    return min(free, _MOST) if manages(facts) and (not total or shown > total) else 0


_MOST = 1 << 60
"""Bytes that a drive may have; more is no figure either, and no command could ask for it."""


def least(facts: ControllerFacts) -> int:
    """What there is in all at least: what is told of, and what the namespaces show."""
    return told(facts) + sum(map(_least, _namespaces(facts)))


def manages(*looks: ControllerFacts | None) -> bool:
    """Whether the drive managed namespaces by any of the looks at it: what one hides, an other
    tells. Nobody can make one on a drive that does not."""
    return any(look is not None and bool(look.oacs & _MANAGES) for look in looks)


def unread(report: EraseReport) -> int:
    """What no temporary namespace had, of the most that the drive told or hid."""
    after = report.facts_after
    # Where the drive manages no namespaces, nobody can be given one of what it hides.
    hides = hidden(after) if manages(report.facts_before, after) else 0
    most = max(_before(report), told(after) + hides)
    return max(0, most - _read(report.verification))


def hidden(facts: ControllerFacts | None) -> int:
    """What there is in all (TNVMCAP) beyond what the namespaces show and what is told of."""
    if facts is None:
        return 0
    whole = sum(map(_whole, _namespaces(facts)))
    over = facts.total_bytes - told(facts) - whole
    return over if over >= SMALLEST else 0


def unsteady(report: EraseReport) -> int:
    """What the drive told of, or had in a namespace, before the erase and tells of no more, or of
    which it told afterwards alone where its layout is the same; and no temporary namespace had. 0
    for a drive that manages none."""
    after = report.facts_after
    if after is None or not manages(report.facts_before, after):
        return 0
    # A new namespace may take a piece more than it shows; what it says of that (NVMCAP), no report
    # has. It is printed, and holds nobody.
    before = _before(report, spare=PIECE)
    now, read = told(after), _read(report.verification)
    # Where the layout changed, more afterwards may be what a deleted namespace gave back.
    come = now - max(before, read) if _same_layout(report) else 0
    return max(0, before - max(now, read), come)


_MANAGES = 1 << 3
"""OACS bit 3: Namespace Management and Attachment."""


def _before(report: EraseReport, spare: int = 0) -> int:
    """What there was to be had by the look before the erase, with the layout that it left, each
    new namespace of which takes ``spare`` bytes more than it shows."""
    before, after = report.facts_before, report.facts_after
    if before is None or after is None:
        return 0
    if _same_layout(report):
        return told(before)
    if not manages(before, after):
        return 0
    # What stands unchanged takes what it took before; of a new one only what it shows is known.
    stood = {_size(each): each for each in _namespaces(before)}
    now = sum(
        _least(each) if _size(each) in stood else _whole(each) + spare
        for each in _namespaces(after)
    )
    over = least(before) - now
    return over if over >= SMALLEST else 0


def _same_layout(report: EraseReport) -> bool:
    before, after = report.facts_before, report.facts_after
    if before is None or after is None:
        return False
    return sorted(map(_size, _namespaces(before))) == sorted(map(_size, _namespaces(after)))


def _size(layout: NamespaceLayout) -> tuple[int, int, int]:
    return layout.nsid, layout.size, _least(layout)


def _least(layout: NamespaceLayout) -> int:
    """What one has of the drive at least: a thin one has less than it shows."""
    capacity = layout.blocks if layout.capacity is None else layout.capacity
    return min(layout.blocks, capacity) * layout.block_bytes


def _whole(layout: NamespaceLayout) -> int:
    """What one shows, with its metadata."""
    return layout.blocks * (layout.block_bytes + layout.metadata_bytes)


def _namespaces(facts: ControllerFacts) -> tuple[NamespaceLayout, ...]:
    return (*facts.namespaces, *facts.detached)


def _read(verification: VerificationRecord | None) -> int:
    read = () if verification is None else verification.namespaces
    return sum(each.blocks for each in read if each.temporary) * BLOCK
