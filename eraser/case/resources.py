"""Queues and interrupts that a tenant took from the physical function of a drive with SR-IOV.

With one pair of queues a drive passes every act, and is slow for all who come after.
"""

from __future__ import annotations

from dataclasses import replace

from eraser.case.entries import Sent
from eraser.case.session import CaseSession
from eraser.drive import manage
from eraser.drive.profile import allocations, is_of
from eraser.protocol.report import ControllerFacts, Step


def told(session: CaseSession, found: ControllerFacts) -> ControllerFacts:
    """Without them where the profile names none, so that they are compared with nothing.

    Journal and report are then as the release before wrote them: it can go on with the case, and
    an older control plane reads what became of it.
    """
    wanted, condition = session.request.profile.condition, found.condition
    if condition is None or (wanted is not None and wanted.flexible is not None):
        return found
    return replace(found, condition=replace(condition, flexible=None))


def set_back(session: CaseSession, found: ControllerFacts) -> None:
    """Sets the profile's numbers, which count from the next reset of the function on: with the
    default policy one comes before the last look, which names what still differs.

    Raises ``DriveError`` where the drive is gone.
    """
    profile, now, identity = session.request.profile, found.condition, session.state.identity
    if profile.condition is None or now is None or identity is None:
        return
    due = tuple(allocations(profile.condition.flexible, now.flexible))
    # Of another model's drive nothing is made what it should be.
    if not due or not is_of(profile, identity, found):
        return
    with session.step(Step.UNLOCK, "queues and interrupts"):
        session.recheck()
        for kind, wanted, _found in due:
            session.note(Sent(manage.allocate(session.controller, kind, wanted)))
