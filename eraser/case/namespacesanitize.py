"""A namespace that is sanitized by itself (Sanitize Namespace; Base 2.3, 5.2.23), by a tenant.

It goes on over resets and power cycles. Meanwhile the drive aborts each Sanitize of its own, and
what changes that namespace, with status 2Ch (8.1.26.4.2, 5.1.2). The subsystem's log 81h does not
show it; that of the namespace does.
"""

from __future__ import annotations

import contextlib
import functools

from eraser.case.entries import Sent
from eraser.case.session import CaseSession
from eraser.controller.nvme import Controller
from eraser.controller.passthru import SANITIZE_NAMESPACE, CommandError
from eraser.controller.spec import SanitizeLog, SanitizeState
from eraser.drive import optionalquestions
from eraser.erase.sanitize import SPROG_FULL, Watchdog
from eraser.errors import DriveError

EXIT_MEDIA_VERIFICATION = 5
"""SANACT, dword 10 bits 2:0 (Base 2.3, 5.2.22, 5.2.23)."""

_WHAT = "a tenant's sanitize of a namespace"


def wait(session: CaseSession) -> None:
    """Before anything is asked or put on the drive, where it is new enough to have such a one."""
    identify = session.controller.identify()
    if identify.can_sanitize and identify.tells_of_namespace_sanitize:
        _wait(session)


def wait_after_refusal(session: CaseSession, seconds: float) -> None:
    """The drive has refused a Sanitize for it. ``seconds`` go by where it tells nothing else.

    Raises :class:`DriveError` when patience is over.
    """
    if _wait(session):
        return
    end = session.clock.monotonic() + seconds
    while session.clock.monotonic() < end:
        session.tell(0.0, f"{_WHAT} is running")
        session.check_time()
        session.clock.sleep(min(session.limits.poll, seconds))


def _wait(session: CaseSession) -> bool:
    """Until none is running any more, as far as the drive tells; whether any was."""
    limits, clock = session.limits, session.clock
    dog = Watchdog(clock.monotonic(), limits.sanitize, limits.stuck)
    nsids, left, seen = _listed(session.controller), set[int](), False
    while running := _running(session.controller, nsids):
        seen, nsids = True, tuple(running)
        for nsid, log in running.items():
            # Once: a drive that stays in it all the same is met by the watchdog.
            if log.verifying and nsid not in left:
                _leave_verification(session, nsid)
                left.add(nsid)
            dog.allow(log.estimate)
        # All of them together: each that moves is a drive that works.
        progress = sum(log.progress for log in running.values()) // len(running)
        if over := dog.look(progress, clock.monotonic()):
            numbers = ", ".join(map(str, nsids))
            raise DriveError(f"waiting for {_WHAT} ({numbers}): {over}")
        session.tell(progress / SPROG_FULL, f"{_WHAT} is running")
        session.check_time()
        clock.sleep(limits.poll)
    return seen


def _listed(controller: Controller) -> tuple[int, ...]:
    """All that exist; of a drive that does not list them those that are active. The inspection
    tells what is wrong with the list. Raises :class:`DriveError` where there is none of these."""
    what = "allocated namespaces"
    with contextlib.suppress(DriveError):
        found = optionalquestions.ask(controller, what, controller.allocated_namespaces)
        if found is not None:
            return found
    return controller.active_namespaces()


def _running(controller: Controller, nsids: tuple[int, ...]) -> dict[int, SanitizeLog]:
    """By namespace. Raises :class:`DriveError` where the drive does not come back."""
    what, found = "the Sanitize Status log (81h) of a namespace", dict[int, SanitizeLog]()
    for nsid in nsids:
        tell = functools.partial(controller.sanitize_log, nsid)
        try:
            raw = optionalquestions.ask(controller, what, tell)
        except CommandError:
            # Refused, by a drive that has no such log of a namespace.
            continue
        if raw is None:
            break
        try:
            log = SanitizeLog.parse(raw)
        except DriveError:
            # Nonsense: whatever it does then, its Sanitize is refused for one that runs.
            continue
        # A drive that knows no such target tells of the subsystem all the same.
        if log.target == nsid and log.state is SanitizeState.RUNNING:
            found[nsid] = log
    return found


def _leave_verification(session: CaseSession, nsid: int) -> None:
    """It is over, and waits for whoever wanted to look at the media: nobody does any more."""
    session.recheck()
    record, _data = session.controller.admin(
        SANITIZE_NAMESPACE,
        nsid=nsid,
        cdw10=EXIT_MEDIA_VERIFICATION,
        timeout=session.limits.command,
        note=f"exit the Media Verification state of namespace {nsid}",
    )
    session.note(Sent(record))
