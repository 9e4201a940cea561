"""Taking off what keeps a drive from being written and erased (docs/decisions/restore.md)."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from eraser.case import drivefacts, resources
from eraser.case.entries import Sent, Unlocked
from eraser.case.namespaces.attaching import attach, look_anew
from eraser.case.session import CaseSession
from eraser.controller.nvme import Controller
from eraser.drive import manage
from eraser.drive.inquiry import sensible
from eraser.drive.reservations import reservation
from eraser.errors import DriveError
from eraser.protocol.condition import Reservation
from eraser.protocol.report import ControllerFacts, Step

_PROTECTED = 1
"""Feature 84h, state 1: the only one that a command takes back."""


def unlock(session: CaseSession, found: ControllerFacts) -> None:
    """Takes off what keeps the drive from being written and erased, as far as commands can.

    What is left is named by the last look. Raises ``DriveError`` where the drive is gone.
    """
    condition = found.condition
    # The inspection got no further than the layout, so nothing is known of locks.
    if condition is None:
        return
    # As early as anything: what it sets counts only from a reset of the function on.
    resources.set_back(session, found)
    locked = [entry.nsid for entry in condition.protected if entry.state == _PROTECTED]
    loose = [each.nsid for each in found.detached if _protected(session.controller, each.nsid)]
    if not locked and not loose and not condition.reservations:
        return
    with session.step(Step.UNLOCK):
        session.recheck()
        for held in condition.reservations:
            # First: what holds one namespace may keep the drive from attaching another.
            _clear(session, held)
        for nsid in loose:
            # It keeps the drive from every sanitize, and its feature is an attached one's alone.
            attach(session, nsid)
        # Not judged by status: the last look asks again whether the protection is off.
        for nsid in (*locked, *loose):
            session.note(Sent(manage.unprotect(session.controller, nsid)))
        if locked or loose:
            # The kernel has made the disks read only, and looks again only when it is told to.
            look_anew(session)


def _clear(session: CaseSession, held: Reservation) -> None:
    """Sent through the namespace's disk: without one the last look names the reservation."""
    path = session.hold.paths.get(held.nsid)
    for record in manage.clear_reservation(session.controller, held, path) if path else ():
        session.note(Sent(record))


def unlock_attached(session: CaseSession, nsids: Collection[int]) -> None:
    """Clears what hosts registered with namespaces that were attached since the inspection: the
    report travels through a namespace's disk, so nobody could ask before.

    Raises as :func:`unlock`, and no error for a drive that does not tell.
    """
    controller = session.controller
    if not nsids or not controller.identify().can_reserve:
        return
    paths = {nsid: path for nsid, path in session.hold.paths.items() if nsid in nsids}
    name = drivefacts.namer(session)
    try:
        told = [
            sensible("reservations", partial(reservation, controller, nsid, path, name), None, [])
            for nsid, path in paths.items()
        ]
    except DriveError as error:
        # As in the inspection: it is erased all the same, and the last look asks again.
        session.tell(0.0, str(error))
        return
    held = [each for each in told if each is not None]
    if not held:
        return
    with session.step(Step.UNLOCK):
        session.recheck()
        for each in held:
            _clear(session, each)


def _protected(controller: Controller, nsid: int) -> bool:
    """Of a detached namespace, by NSATTR; not of one that the drive does not describe."""
    try:
        return controller.identify_namespace(nsid, attached=False).write_protected
    except DriveError:
        return False


def unlock_late(session: CaseSession) -> None:
    """What the inspection put off because a sanitize was running: the drive takes none of it
    meanwhile, and does not tell all that locks it. Once in a case, before anything else is sent."""
    if not session.state.locked:
        return
    try:
        found = drivefacts.read(session)
    except DriveError as error:
        # As in the inspection: it is erased all the same, then held, for the last look asks again.
        session.tell(0.0, str(error))
    else:
        unlock(session, found)
    session.note(Unlocked())
