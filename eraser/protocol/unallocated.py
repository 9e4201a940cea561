"""Capacity that belongs to no namespace: what a report tells of it. Pure.

The drive's word for it is UNVMCAP (Base 2.0, figure 275), asked before the erase and after it.
Bytes throughout.
"""

from __future__ import annotations

from eraser.protocol.report import ControllerFacts, EraseReport, VerificationRecord

SMALLEST = 1 << 20
"""Less than this, in one piece, is nothing that anybody is given a namespace of."""
BLOCK = 4096
"""What a verification counts in."""


def told(facts: ControllerFacts | None) -> int:
    """UNVMCAP; 0 where it is more than there is in all, which is no figure."""
    if facts is None or facts.unallocated_bytes > facts.total_bytes:
        return 0
    return facts.unallocated_bytes


def unread(report: EraseReport) -> int:
    """What no temporary namespace had, of the most that the drive told where its layout was the
    same both times, else of what it told in the end."""
    return max(0, max(_looks(report)) - _read(report.verification))


def unsteady(report: EraseReport) -> int:
    """What the drive told of at one look and not at the other, with the same layout, and no
    temporary namespace had. 0 for a drive that manages none: nobody else can make one."""
    after, looks = report.facts_after, _looks(report)
    if after is None or not after.oacs & _MANAGES:
        return 0
    return max(0, max(looks) - max(min(looks), _read(report.verification)))


_MANAGES = 1 << 3
"""OACS bit 3: Namespace Management and Attachment."""


def _looks(report: EraseReport) -> tuple[int, ...]:
    before, after = report.facts_before, report.facts_after
    if before is None or after is None or _sizes(before) != _sizes(after):
        return (told(after),)
    return told(before), told(after)


def _sizes(facts: ControllerFacts) -> list[tuple[int, int]]:
    return sorted((each.nsid, each.size) for each in (*facts.namespaces, *facts.detached))


def _read(verification: VerificationRecord | None) -> int:
    read = () if verification is None else verification.namespaces
    return sum(each.blocks for each in read if each.temporary) * BLOCK
