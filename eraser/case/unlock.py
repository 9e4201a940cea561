"""Taking off what keeps a drive from being written and erased (docs/decisions/restore.md)."""

from __future__ import annotations

from eraser.case.entries import Sent, Unlocked
from eraser.case.layout import change
from eraser.case.session import CaseSession
from eraser.controller.nvme import Controller
from eraser.controller.passthru import NAMESPACE_ATTACHMENT
from eraser.drive import manage
from eraser.drive.inspect import facts
from eraser.erase.layout import controller_list
from eraser.errors import DriveError
from eraser.protocol.report import CommandRecord, ControllerFacts, Step

_PROTECTED = 1
"""Feature 84h, state 1: the only one that a command takes back."""

_FIRST_LOOK = 10.0
"""Seconds for the kernel's first look at changed namespaces."""


def unlock(desk: CaseSession, found: ControllerFacts) -> None:
    """Takes off what keeps the drive from being written and erased, as far as commands can.

    What is left is named by the last look. Raises ``DriveError`` where the drive is gone.
    """
    condition = found.condition
    if condition is None:
        return
    locked = [entry.nsid for entry in condition.protected if entry.state == _PROTECTED]
    loose = [each.nsid for each in found.detached if _protected(desk.controller, each.nsid)]
    if not locked and not loose and not condition.reservations:
        return
    with desk.step(Step.UNLOCK):
        desk.recheck()
        for held in condition.reservations:
            # First: what holds one namespace may keep the drive from attaching another.
            path = desk.hold.paths.get(held.nsid)
            for record in manage.clear_reservation(desk.controller, held, path) if path else ():
                desk.note(Sent(record))
        for nsid in loose:
            # It keeps the drive from every sanitize, and its feature is an attached one's alone.
            attach(desk, nsid)
        for nsid in (*locked, *loose):
            desk.note(Sent(manage.unprotect(desk.controller, nsid)))
        if locked or loose:
            # The kernel has made the disks read only, and looks again only when it is told to.
            look_anew(desk)


def _protected(controller: Controller, nsid: int) -> bool:
    """Of a detached namespace, by NSATTR; not of one that the drive does not describe."""
    try:
        return controller.identify_namespace(nsid, attached=False).write_protected
    except DriveError:
        return False


def attach_all(desk: CaseSession, found: ControllerFacts) -> None:
    """Attaches every namespace that is not: Format reaches no other."""
    if not found.detached:
        return
    with desk.step(Step.UNLOCK, "attaching namespaces"):
        desk.recheck()
        for layout in found.detached:
            attach(desk, layout.nsid)
        look_anew(desk)


def unlock_late(desk: CaseSession) -> None:
    """What the inspection put off because a sanitize was running: the drive takes none of it
    meanwhile, and does not tell all that locks it. Once in a case, before anything else is sent."""
    if not desk.state.locked:
        return
    try:
        found = facts(desk.controller)
    except DriveError as error:
        # As in the inspection: it is erased all the same, then held, for the last look asks again.
        desk.tell(0.0, str(error))
    else:
        unlock(desk, found)
    desk.note(Unlocked())


def attach(desk: CaseSession, nsid: int) -> list[str]:
    """Attaches a namespace to this controller; what is wrong, as :func:`wrong` says it."""
    return wrong(
        change(
            desk,
            NAMESPACE_ATTACHMENT,
            nsid=nsid,
            cdw10=manage.ATTACH,
            send=controller_list(desk.controller.identify().controller_id),
            timeout=desk.limits.command,
            note=f"attach namespace {nsid}",
        )
    )


def wrong(record: CommandRecord) -> list[str]:
    """What is wrong with it, in at most one line."""
    if record.status == 0:
        return []
    status = "no completion" if record.status is None else f"status {record.status:#05x}"
    return [f"restore: expected success, found {status} ({record.message[:200]})"]


def look_anew(desk: CaseSession) -> None:
    """Makes the kernel see the namespaces that there are, and claims their disks."""
    desk.hold.drop()
    for seconds in (min(_FIRST_LOOK, desk.limits.ready), desk.limits.ready):
        # Twice: the first look drops a namespace whose identifiers changed, the next one finds it.
        try:
            desk.controller.wait_live(desk.limits.ready, namespaces=False)
            desk.controller.rescan(timeout=desk.limits.ready)
            desk.controller.wait_namespaces(seconds)
            break
        except DriveError as error:
            # A disk that the kernel cannot make is no reason not to erase; what cannot be read
            # is named by the verification.
            desk.tell(0.0, str(error))
    desk.hold.take()
