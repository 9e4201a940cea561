"""Namespaces that are attached to this controller, and the kernel's look at them."""

from __future__ import annotations

from eraser.case.namespaces.changing import change
from eraser.case.session import CaseSession
from eraser.controller.passthru import NAMESPACE_ATTACHMENT
from eraser.drive import manage
from eraser.erase.layout import controller_list
from eraser.errors import DriveError
from eraser.protocol.report import CommandRecord, ControllerFacts, Step

_FIRST_LOOK = 10.0
"""Seconds for the kernel's first look at changed namespaces."""


def attach_all(session: CaseSession, found: ControllerFacts) -> None:
    """Attaches every namespace that is not: Format reaches no other."""
    with session.step(Step.UNLOCK, "attaching namespaces"):
        session.recheck()
        for layout in found.detached:
            attach(session, layout.nsid)
        look_anew(session)


def attach(session: CaseSession, nsid: int) -> list[str]:
    """Attaches a namespace to this controller; what is wrong, as :func:`wrong` says it."""
    return wrong(
        change(
            session,
            NAMESPACE_ATTACHMENT,
            nsid=nsid,
            cdw10=manage.ATTACH,
            send=controller_list(session.controller.identify().controller_id),
            timeout=session.limits.command,
            note=f"attach namespace {nsid}",
        )
    )


def wrong(record: CommandRecord) -> list[str]:
    """What is wrong with it, in at most one line."""
    if record.status == 0:
        return []
    status = "no completion" if record.status is None else f"status {record.status:#05x}"
    return [f"restore: expected success, found {status} ({record.message[:200]})"]


def look_anew(session: CaseSession) -> None:
    """Makes the kernel see the namespaces that there are, and claims their disks."""
    session.hold.drop()
    for seconds in (min(_FIRST_LOOK, session.limits.ready), session.limits.ready):
        # Twice: the first look drops a namespace whose identifiers changed, the next one finds it.
        try:
            session.controller.wait_live(session.limits.ready, namespaces=False)
            session.controller.rescan(timeout=session.limits.ready)
            session.controller.wait_namespaces(seconds)
            session.diskless = frozenset()
            break
        except DriveError as error:
            # A disk that the kernel cannot make is no reason not to erase; what cannot be read
            # is named by the verification.
            session.go_without_disks(str(error))
    # Also after two looks that failed: the disks that there are must be claimed.
    session.await_udev()
    session.hold.take()
