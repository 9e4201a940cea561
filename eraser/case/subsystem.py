"""Whether the drive has another controller, through which somebody may be using it (promise 2).

Nobody sees from here what a second port leads to: another host, or a guest. A Sanitize through ours
erases what is used through that one. Only a person knows, and says so in the profile.
"""

from __future__ import annotations

from eraser.case.session import CaseSession
from eraser.drive import inquiry
from eraser.errors import InUseError


def check(session: CaseSession) -> None:
    """Raises :class:`InUseError` where there are more controllers than the profile names, or where
    the drive does not tell and the profile does not say so; ``DriveError`` where it is silent."""
    controller = session.controller
    if not controller.identify().many_controllers:
        return
    found = count(session)
    condition = session.request.profile.condition
    wanted = 1 if condition is None else condition.controllers
    # Equal also where both are 0: the drive does not tell, and the profile says that it need not.
    if found == wanted or 1 <= found <= wanted:
        return
    told = f"{found} controllers" if found else "that there are more, and not how many"
    named = f"the {wanted}" if wanted else "the number"
    raise InUseError(
        f"{session.request.slot.address}: expected no more controllers in its subsystem than "
        f"{named} that the profile names, found {told}: a guest or another host may use the drive "
        "through another one; nothing was sent to it; where nobody can, approve a profile of such "
        "a drive"
    )


def count(session: CaseSession) -> int:
    """Controllers of the subsystem; ``inquiry.UNTOLD`` where there may be more than one and the
    drive does not tell. Raises ``DriveError`` for a drive that is silent."""
    controller = session.controller
    identify = controller.identify()
    return inquiry.sensible(
        "controllers", lambda: inquiry.controllers(controller, identify), inquiry.UNTOLD, []
    )
