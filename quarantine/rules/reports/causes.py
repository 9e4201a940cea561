"""Which code a hold by a host's report gets: the gravest that its members show. Pure.

Only a name for what :mod:`quarantine.rules.reports.check` decided: nothing here lets a drive out.
Sentences of a report are its host's: they are printed and never looked into.
"""

from __future__ import annotations

from typing import Final

from eraser.protocol.conclusions import buffers, unallocated
from eraser.protocol.conclusions.remarks import remarks
from eraser.protocol.conclusions.visits import came_back, read_otherwise
from eraser.protocol.condition import Condition
from eraser.protocol.fitness import Consequence
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Label, Unallocated
from eraser.protocol.report import EraseReport, Verdict
from quarantine.record.words.reasons import HoldCode

_RESERVED: Final = 0x083
"""Reservation Conflict (Base 2.0, Generic Command Status): also of a namespace that is not
attached, whose reservation no report tells."""


def of_unproved(order: EraseOrder, report: EraseReport) -> HoldCode:
    """Of a report whose verdict is not erased, or unknown."""
    read = () if report.verification is None else report.verification.namespaces
    if _survived(report):
        return HoldCode.DATA_LEFT
    # A lock before the command that failed by it: the lock is what a person can take off.
    if _blocked(report) or any(each.status == _RESERVED for each in report.commands):
        return HoldCode.LOCKED
    if report.methods and report.methods[-1].verdict is not Verdict.ERASED:
        return HoldCode.COMMAND_FAILED
    if report.verdict is Verdict.NOT_ERASED:
        return HoldCode.NOT_ERASED
    if any(n.unreadable for n in read):
        return HoldCode.UNREADABLE
    if any(n.changed for n in read) or any(read_otherwise(report.visits)):
        return HoldCode.READS_DIFFER
    if report.facts_after is not None and report.facts_after.detached:
        return HoldCode.NAMESPACE_UNREAD
    return HoldCode.NOT_AS_PROFILE if _shared(order, report) else HoldCode.UNPROVED


def of_unfit(
    order: EraseOrder, report: EraseReport, *, contradicted: bool, loaded: bool, differs: bool
) -> HoldCode:
    """Of a drive that its host calls erased, and that is not handed out.

    ``contradicted``: something speaks against the erase; ``loaded``: an image lies in a firmware
    slot that was not there; ``differs``: the drive is not as its profile.
    """
    weaker = order.policy.label is Label.PURGE and report.achieved is Label.CLEAR
    if not report.fit and weaker and not order.policy.allow_clear:
        return HoldCode.DOWNGRADED
    if contradicted:
        # Its host may have said so itself: a command that failed is no contradiction then.
        failed = any(method.verdict is not Verdict.ERASED for method in report.methods)
        told = failed and not report.fit
        return HoldCode.COMMAND_FAILED if told else HoldCode.REPORT_CONTRADICTS
    if report.facts_after is not None and report.facts_after.detached:
        return HoldCode.NAMESPACE_UNREAD
    if _blocked(report):
        return HoldCode.LOCKED
    memory = buffers.seen(report.facts_before, report.facts_after)
    if buffers.why_held(memory, report.achieved, order.policy):
        return HoldCode.MEMORY_UNREAD
    if _ill(order, report):
        return HoldCode.HEALTH
    if loaded:
        return HoldCode.FIRMWARE_LOADED
    if differs or report.profile_differences:
        return HoldCode.NOT_AS_PROFILE
    return HoldCode.CAPACITY_UNREAD if _unreached(order, report) else HoldCode.UNFIT


def _survived(report: EraseReport) -> bool:
    """Data outlived a command that the drive called done.

    A drive that says that it refused or failed is no liar for what is left: the last owner's blocks
    speak against it where any command was done, canaries where the last one was, since each command
    gets its own.
    """
    read = () if report.verification is None else report.verification.namespaces
    back = tuple(came_back(report.visits))
    done = [method.verdict is Verdict.ERASED for method in report.methods] or [True]
    blocks = any(n.unchanged for n in read) or any(act.unchanged for act in back)
    canaries = any(n.canaries for n in read) or any(act.canaries for act in back)
    return (blocks and any(done)) or (canaries and done[-1])


def _condition(report: EraseReport) -> Condition | None:
    facts = report.facts_after or report.facts_before
    return None if facts is None else facts.condition


def _blocked(report: EraseReport) -> bool:
    found = _condition(report)
    if found is None:
        return False
    said = found.security
    locked = said is not None and (said.locked or said.password_set or said.password_locked)
    return bool(locked or found.reservations or found.protected)


def _shared(order: EraseOrder, report: EraseReport) -> bool:
    """More controllers lead to the drive than its profile names: nothing was sent."""
    found, wanted = _condition(report), order.profile.condition
    return found is not None and found.controllers > (1 if wanted is None else wanted.controllers)


def _ill(order: EraseOrder, report: EraseReport) -> bool:
    if report.health is None:
        return True
    found = remarks(report.health, order.policy.health, report.facts_before, report.facts_after)
    return any(remark.consequence is not Consequence.NOTE for remark in found)


def _unreached(order: EraseOrder, report: EraseReport) -> bool:
    """Capacity in no namespace, that counts, and over which no temporary one was read."""
    facts, read = report.facts_after, report.verification
    if facts is None:
        return False
    asked = order.policy.verification.unallocated is Unallocated.HOLD
    reached = read is not None and any(n.temporary for n in read.namespaces)
    there = bool(facts.unallocated_bytes) and not reached
    managed = unallocated.manages(report.facts_before, facts)
    hides = managed and unallocated.hidden(facts) > unallocated.hidden(report.facts_before)
    return (there or hides or bool(unallocated.unsteady(report))) and (
        asked or report.achieved is Label.CLEAR
    )
