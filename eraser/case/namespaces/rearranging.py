"""What a next tenant does with namespaces, between two methods (docs/decisions/visit.md).

A drive may answer otherwise once one was detached, attached, deleted or created. So one is detached
and attached again, a temporary one where there is any: what the layout is made of is touched on
drives alone that have no other. Temporary ones are deleted and created again besides. On a drive
that Format erases, one that erases nothing follows.

The journal names a namespace before it is detached, so a run that died in between is followed by
one that attaches it. What is not done holds no drive: it is printed.
"""

from __future__ import annotations

from eraser.case import resets, subsystem
from eraser.case.entries import Loosened
from eraser.case.namespaces import temporary
from eraser.case.namespaces.attaching import attach, look_anew, wrong
from eraser.case.namespaces.changing import change
from eraser.case.session import CaseSession
from eraser.controller.passthru import FORMAT_NVM, NAMESPACE_ATTACHMENT, CommandError
from eraser.drive import manage
from eraser.drive.inspect import described, layouts
from eraser.erase.layout import controller_list, reformat_cdw10
from eraser.errors import DriveError
from eraser.protocol.policy import Unallocated
from eraser.protocol.profile import NamespaceLayout

DETACHED = "namespaces detached and attached again"
MADE = "namespaces deleted and created again"
FORMATTED = "Format without an erase"
_TRIES = 2
"""Of attaching one again, with a reset of the controller in between."""


def manages(session: CaseSession) -> bool:
    """Whether the drive takes such commands; one that does not leaves a tenant nothing to do."""
    return session.controller.identify().can_manage_namespaces


def detach(session: CaseSession) -> str:
    """Detaches one and attaches it again; why that was not done, empty where it was.

    Raises ``InUseError``, ``IdentityError``, and ``DriveError`` for a drive that is gone.
    """
    if not manages(session):
        return ""
    # No second one where the first is away: what is left attached stays so.
    problem = attach_detached(session)
    # Each look may say why not; only the first reason counts.
    nsid, problem = (0, problem) if problem else _chosen(session)
    if problem:
        return problem
    session.recheck()
    if used := resets.in_use(session):
        return used
    # In the journal before the command: the next run knows which one to attach again.
    session.note(Loosened(nsid))
    refused = "; ".join(_detach(session, nsid))
    # A success that changes nothing is told as not done.
    if not refused and nsid in session.controller.active_namespaces():
        refused = "the drive called one detached, and still lists it as active"
    # Also where the drive refused: it may have detached it all the same.
    return attach_detached(session) or refused


def attach_detached(session: CaseSession) -> str:
    """Attaches the namespace that this run, or one that died, detached.

    Returns why it is still detached; empty where it is attached, or where none was detached.

    Raises as :func:`detach`.
    """
    nsid, problem = session.state.loose, ""
    if not nsid:
        return ""
    # The disk of what is detached is gone, and look_anew() claims all of them again.
    session.hold.drop()
    for tried in range(_TRIES):
        if _is_there(session, nsid):
            break
        if tried:
            # A drive may take it once it was reset; after this there is the restoring of the
            # layout, and then a person.
            session.reset()
            session.hold.drop()
        # Not the order's time: what was detached is attached, also when that is over.
        session.same_drive()
        problem = "; ".join(attach(session, nsid))
    look_anew(session)
    if _is_there(session, nsid):
        # Only once it is seen: a success of the command alone is not believed.
        session.note(Loosened(0))
        return ""
    return problem or f"namespace {nsid} was attached, and is not among those that are active"


def make_again(session: CaseSession) -> str:
    """Deletes the temporary namespaces and creates them again; why that was not done, empty where
    it was. Raises as :func:`detach`."""
    if not manages(session):
        return ""
    state = session.state
    if problem := _unwanted(session):
        return problem
    if not state.temporary:
        return "no capacity was in none, of which one could be made"
    if not all(command.method.is_sanitize for command in state.steps):
        # What is created has another number perhaps, and a Format is sent to one number.
        return "a Format that follows is of the namespaces that there are"
    if session.policy.verification.unallocated is not Unallocated.PRINT:
        return "the policy holds a drive that would not give them again"
    if used := resets.in_use(session):
        return used
    temporary.free(session)
    refused = "" if state.freed is None else state.freed.problem
    # Those that stay too: they are read with the rest, and deleted in the end.
    temporary.allocate(session)
    if refused or state.allocated is None:
        return refused
    gone = "" if state.temporary else "the drive gave none again of the capacity that it took back"
    return state.allocated.problem or gone


def formats(session: CaseSession) -> bool:
    """Whether the drive takes a Format at all."""
    return session.controller.identify().can_format


def format_again(session: CaseSession) -> str:
    """Formats each namespace to the format that it has, without an erase; why that was not done,
    empty where it was. Raises as :func:`detach`."""
    if not formats(session):
        return ""
    if any(command.method.is_sanitize for command in session.state.steps):
        # How long it takes, and whether it ends, a drive that was formatted in this case has shown.
        return "none has erased the drive, so nobody knows how long one takes"
    found = _formatted(session)
    if len({reformat_cdw10(each) for each in found}) != 1:
        # FNA bit 0: one Format is of all namespaces then, and gives all of them one format.
        return "the namespaces have several formats, or one that the drive does not describe"
    problem = ""
    for each in found:
        session.recheck()
        # Before each: one takes as long as the drive likes.
        if used := resets.in_use(session):
            return used
        session.hold.drop()
        # After a refusal the others are not asked: the first reason is what the report has.
        problem = problem or "; ".join(_format(session, each))
        look_anew(session)
    return problem


def _formatted(session: CaseSession) -> tuple[NamespaceLayout, ...]:
    """The active namespaces; none where the drive does not describe all of those that exist."""
    controller = session.controller
    active = controller.active_namespaces()
    found = layouts(active, described(controller, active))
    # A Format may reach those that are detached too, and their format is not asked for here.
    whole = set(active) == set(controller.allocated_namespaces())
    return found if whole and all(each.blocks for each in found) else ()


def _format(session: CaseSession, layout: NamespaceLayout) -> list[str]:
    return wrong(
        change(
            session,
            FORMAT_NVM,
            nsid=layout.nsid,
            cdw10=reformat_cdw10(layout),
            timeout=session.limits.format,
            note=f"format namespace {layout.nsid} without an erase",
        )
    )


def _unwanted(session: CaseSession) -> str:
    """A policy that has no namespace made has none of the others touched."""
    if session.policy.verification.unallocated is Unallocated.SKIP:
        return "the policy does not want it (verification.unallocated)"
    return ""


def _chosen(session: CaseSession) -> tuple[int, str]:
    """The namespace to detach, or why there is none. Raises :class:`DriveError` for a silent drive;
    one that tells nonsense is left alone."""
    if problem := _unwanted(session):
        return 0, problem
    try:
        if subsystem.count(session) != 1:
            return 0, "the drive has, or may have, another controller, which may have them too"
        return _removable(session), ""
    except CommandError as error:
        if error.status is None:
            raise
        return 0, str(error)
    except DriveError as error:
        return 0, str(error)


def _removable(session: CaseSession) -> int:
    """One that is there for the case alone, else the last one. Raises :class:`DriveError` where
    the drive would not tell of it while it is detached: nobody could put that right."""
    controller = session.controller
    active, allocated = controller.active_namespaces(), controller.allocated_namespaces()
    ours = tuple(each.nsid for each in session.state.temporary)
    for nsid in (*ours, *reversed(active)):
        if nsid in active and nsid in allocated and nsid in session.hold.paths:
            controller.identify_namespace(nsid, attached=False)
            return nsid
    raise DriveError(f"expected the active namespaces {active} among those that exist, {allocated}")


def _detach(session: CaseSession, nsid: int) -> list[str]:
    return wrong(
        change(
            session,
            NAMESPACE_ATTACHMENT,
            nsid=nsid,
            cdw10=manage.DETACH,
            send=controller_list(session.controller.identify().controller_id),
            timeout=session.limits.command,
            note=f"detach namespace {nsid}",
        )
    )


def _is_there(session: CaseSession, nsid: int) -> bool:
    """Attached. The list of all that exist is not asked: on some drives it has only these."""
    return nsid in session.controller.active_namespaces()
