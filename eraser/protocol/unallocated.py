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
    """UNVMCAP; 0 where it is more than there is in all, which is no figure."""
    if facts is None or facts.unallocated_bytes > facts.total_bytes:
        return 0
    return facts.unallocated_bytes


def least(facts: ControllerFacts) -> int:
    """What there is in all at least: what is told of, and what the namespaces show."""
    return told(facts) + sum(
        min(each.blocks, each.blocks if each.capacity is None else each.capacity) * each.block_bytes
        for each in _namespaces(facts)
    )


def unread(report: EraseReport) -> int:
    """What no temporary namespace had, of the most that the drive told or hid."""
    after = report.facts_after
    most = max(_before(report), told(after) + hidden(after))
    return max(0, most - _read(report.verification))


def hidden(facts: ControllerFacts | None) -> int:
    """What there is in all (TNVMCAP) beyond what the namespaces show and what is told of; 0 for a
    drive that manages no namespaces: nobody else can make one there."""
    if facts is None or not facts.oacs & _MANAGES:
        return 0
    whole = sum(map(_whole, _namespaces(facts)))
    over = facts.total_bytes - told(facts) - whole
    return over if over >= SMALLEST else 0


def unsteady(report: EraseReport) -> int:
    """What the drive told of, or had in a namespace, before the erase and tells of no more, or of
    which it told afterwards alone where its layout is the same; and no temporary namespace had. 0
    for a drive that manages none."""
    after = report.facts_after
    if after is None or not after.oacs & _MANAGES:
        return 0
    before, now, read = _before(report), told(after), _read(report.verification)
    come = now - max(before, read) if _same_layout(report) else 0
    return max(0, before - max(now, read), come)


_MANAGES = 1 << 3
"""OACS bit 3: Namespace Management and Attachment."""


def _before(report: EraseReport) -> int:
    """What there was to be had by the look before the erase, with the layout that it left."""
    before, after = report.facts_before, report.facts_after
    if before is None or after is None:
        return 0
    if _same_layout(report):
        return told(before)
    stood = {(each.nsid, each.size) for each in _namespaces(before)}
    # A new one may take a piece more than it shows; what it says of that (NVMCAP), no report has.
    now = sum(
        each.size if (each.nsid, each.size) in stood else _whole(each) + PIECE
        for each in _namespaces(after)
    )
    return max(0, least(before) - now)


def _same_layout(report: EraseReport) -> bool:
    before, after = report.facts_before, report.facts_after
    return before is not None and after is not None and _sizes(before) == _sizes(after)


def _whole(layout: NamespaceLayout) -> int:
    """What one shows, with its metadata."""
    return layout.blocks * (layout.block_bytes + layout.metadata_bytes)


def _sizes(facts: ControllerFacts) -> list[tuple[int, int]]:
    return sorted((each.nsid, each.size) for each in _namespaces(facts))


def _namespaces(facts: ControllerFacts) -> tuple[NamespaceLayout, ...]:
    return (*facts.namespaces, *facts.detached)


def _read(verification: VerificationRecord | None) -> int:
    read = () if verification is None else verification.namespaces
    return sum(each.blocks for each in read if each.temporary) * BLOCK
