"""What the next tenant's first acts tell of an erase, for the host that did them and for whoever
decides on its report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eraser.protocol.report import ActRecord, EraseReport, VisitRecord


def came_back(visits: Iterable[VisitRecord]) -> Iterator[ActRecord]:
    """Acts that showed what the last owner or we had written before an erase that the drive had
    reported as done, also one that was followed by another."""
    return (act for visit in visits for act in visit.acts if act.canaries or act.unchanged)


def read_otherwise(visits: Iterable[VisitRecord]) -> Iterator[ActRecord]:
    """Acts that showed what the reading did not: what looks like data, or anything at all where
    all that was read is uniform. Acts of a visit that writes leave nothing to judge by."""
    return (
        act
        for visit in visits
        if not visit.wrote
        for act in visit.acts
        if act.structured or act.otherwise
    )


def before(visit: VisitRecord, report: EraseReport) -> int:
    """How many of the report's techniques came before a visit; their count, or more: all of them.

    A visit's place counts the whole plan. Of a sanitize that was found running without a journal
    nothing before it is told, so there the last visit, which follows everything, shows how many
    records are missing.
    """
    adopted = any(method.adopted for method in report.methods)
    # The last visit follows the whole plan, so its place counts all methods, told or not.
    missing = report.visits[-1].place - len(report.methods) if adopted and report.visits else 0
    return visit.place - max(0, missing)


def is_last(visit: VisitRecord, report: EraseReport) -> bool:
    """Whether a visit came after the last technique."""
    return before(visit, report) >= len(report.methods)
