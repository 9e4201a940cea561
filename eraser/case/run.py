"""One drive, from the lock to the report. Killed after any step, the next run goes on.

Trust goes first to the drive's own log, then to the journal. A run ends in exactly one report,
or in an error that leaves the case as it was, to be taken up again.
"""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path

from eraser import VERSION, build
from eraser.case import (
    drivefacts,
    namespacesanitize,
    probes,
    resets,
    sanitize,
    subsystem,
    unlock,
    verify,
)
from eraser.case import (
    erase as case_erase,
)
from eraser.case import (
    features as case_features,
)
from eraser.case.entries import Began, CommandEntry, Inspected, Planned, Resumed
from eraser.case.namespaces import attaching, changing, temporary
from eraser.case.report import AfterLook, Ending, assemble, readable
from eraser.case.session import CaseJournal, CaseSession, OnProgress, OutOfTimeError
from eraser.case.state import CaseState
from eraser.controller import nvmecli
from eraser.controller.lock import SlotLock
from eraser.controller.nvme import Controller
from eraser.drive import health
from eraser.drive.features import features
from eraser.drive.inspect import described, facts
from eraser.drive.profile import compare
from eraser.erase.plan import Capabilities, FormatTarget, make_plan
from eraser.errors import BusyError, DriveError, EraserError, IdentityError, InUseError
from eraser.host import proc
from eraser.host.sysfs import AbsentError, Host, PciFunction
from eraser.media.reader import OpenDisk
from eraser.ownership.model import SteadyTime
from eraser.protocol.condition import Buffer
from eraser.protocol.policy import Label
from eraser.protocol.report import ControllerFacts, EraseReport, Outcome, Step, Verdict
from eraser.state.case_files import DEFAULT_RUN_DIR, CaseFiles, CaseRequest
from eraser.state.journal import JournalError, UnknownEntryError, read

_PASSING_SECONDS = 1.0
"""The worker looks whether a slot is locked by locking it for a moment."""
_LOCK_POLL = 0.1


class NoMethodError(EraserError):
    """The policy allows no method that this drive offers. Nothing destructive was sent."""

    exit_code = 10


def run_case(
    request: CaseRequest,
    files: CaseFiles,
    host: Host,
    *,
    on_progress: OnProgress,
    run_dir: Path = DEFAULT_RUN_DIR,
    anew: bool = False,
    disk: OpenDisk,
) -> EraseReport:
    """Carries the case to its end and returns the report, which is on the disk by then.

    A finished case returns its report again, or with ``anew`` is followed by another one; an
    interrupted one is resumed. Whatever goes wrong
    with the drive ends in a report. Raises :class:`BusyError` where another process works on the
    slot, :class:`BadInputError` where the state directory cannot be written, ``OSError`` where
    the disk fails, :class:`UnknownEntryError` where another release wrote the journal: the case
    then stays as it is, to be called again.

    It reaches the machine by the doors of ``host``, and the drive's blocks by ``disk``.
    """
    lock = SlotLock(request.slot.address, run_dir)
    followed = _acquire(lock, files, request, host, on_progress)
    try:
        # Under the lock: nobody reads or writes the case's files meanwhile.
        if anew and files.finished():
            files.clear()
        return _locked(request, files, host, lock, on_progress, disk, followed=followed)
    finally:
        lock.release()


def _acquire(
    lock: SlotLock, files: CaseFiles, request: CaseRequest, host: Host, on_progress: OnProgress
) -> bool:
    """Takes the lock; waits for a passing look, and for an orphaned Format of this very case.

    Returns whether such a one had it until now.
    """
    began, orphaned = host.clock.monotonic(), False
    while True:
        try:
            lock.acquire()
            return orphaned
        except BusyError:
            waited = host.clock.monotonic() - began
            orphaned = _orphan_is_left(lock, files, host)
            # Somebody works on the slot, unless a dead run has left a child with the lock.
            if waited >= _PASSING_SECONDS:
                if not orphaned or waited >= request.policy.limits.format:
                    raise
                on_progress(Step.ERASE, 0.0, "a command of an earlier run is still going")
        host.clock.sleep(_LOCK_POLL)


def _orphan_is_left(lock: SlotLock, files: CaseFiles, host: Host) -> bool:
    """The one that took the lock is dead, and its journal ends in an intent: a child is left."""
    try:
        # The lock's file names who took it, and stays as it is while a child has the lock.
        if proc.is_alive(host, int(lock.path.read_text())):
            return False
        state = CaseState.of(read(files.journal))
        return state.intent is not None or state.changing is not None
    # Who has it is not known, so it is taken for somebody who lives.
    except (ValueError, OSError, JournalError, UnknownEntryError):
        return False


def _locked(
    request: CaseRequest,
    files: CaseFiles,
    host: Host,
    lock: SlotLock,
    on_progress: OnProgress,
    disk: OpenDisk,
    *,
    followed: bool,
) -> EraseReport:
    report = files.report()
    # A run that died between the two copies of the report left one: the other is made good.
    if report is not None:
        files.keep_report(report)
        return report
    files.make()
    try:
        journal = _journal(request, files, host)
    except JournalError as error:
        # A journal that cannot be believed: nothing is sent, and the case ends as unknown.
        return _end(
            request, files, host, CaseState(), Ending(Outcome.COMPLETED, str(error)), AfterLook()
        )
    except UnknownEntryError as error:
        # Ended here, it would be held, although that release can go on with it.
        on_progress(Step.PROVE_IDLE, 0.0, str(error))
        raise
    session = CaseSession(request, files, host, lock, journal, on_progress, disk, followed=followed)
    try:
        # What an earlier run left open: how its command ended, and what it told the kernel.
        changing.record_interrupted_change(session)
        resets.restore_reset_methods(session)
        ending = _try(session)
        with session.step(Step.REPORT):
            # Also after an error: what the drive is now is for whoever has to decide.
            after = _look_again(session, ending)
        return _end(request, files, host, journal.state, ending, after)
    except JournalError as error:
        # It is full, by a drive that has us send without end: each further run would end here too.
        ending = Ending(Outcome.COMPLETED, str(error))
        return _end(request, files, host, journal.state, ending, AfterLook())
    finally:
        session.close()
        journal.close()


def _journal(request: CaseRequest, files: CaseFiles, host: Host) -> CaseJournal:
    """The journal of this request: the one that is there, or a new one."""
    journal, clock = CaseJournal(files), host.clock
    began = journal.state.began
    # Another policy may plan other commands: its places in the journal would mean other ones.
    if began is not None and began.work == request.same_work:
        journal.note(Resumed(clock.utc(), SteadyTime.now(host)))
        return journal
    # No journal, or one of other work (another policy): what stands beside it means nothing. A
    # sanitize that runs on from there is adopted by its command dword 10.
    if journal.state.narrowed:
        before, ready = journal.state.narrowed, request.policy.limits.ready
        # The journal that says what it was goes now.
        resets.put_back(host, request.slot.address, before, timeout=ready)
    journal.close()
    # The journal goes first and Began comes last: a crash in between begins the case anew.
    files.sweep()
    files.write_request(request)
    journal = CaseJournal(files)
    journal.note(Began(request.same_work, clock.utc(), clock.time(), SteadyTime.now(host)))
    return journal


def _end(
    request: CaseRequest,
    files: CaseFiles,
    host: Host,
    state: CaseState,
    ending: Ending,
    after: AfterLook,
) -> EraseReport:
    report = readable(assemble(request, state, ending, after, host.clock.utc()))
    files.write_report(report)
    return report


def _try(session: CaseSession) -> Ending:
    """Every step that is left; an error of the drive is an ending, not a crash."""
    try:
        _steps(session)
    except InUseError as error:
        # These outcomes say that nothing was done to the drive. That is no longer true once a
        # method or a layout command was sent.
        ending = Ending(Outcome.IN_USE, str(error), ours=False)
        return ending if _untouched(session) else _stopped(error)
    except IdentityError as error:
        ending = Ending(Outcome.WRONG_DRIVE, str(error), ours=False)
        return ending if _untouched(session) else _stopped(error)
    except AbsentError as error:
        return Ending(Outcome.ABSENT, str(error)) if _untouched(session) else _stopped(error)
    except NoMethodError as error:
        return Ending(Outcome.NO_METHOD, str(error))
    except (DriveError, OutOfTimeError) as error:
        return _stopped(error)
    return Ending(Outcome.COMPLETED)


def _untouched(session: CaseSession) -> bool:
    """This run sent nothing destructive to what is in the slot now."""
    return not session.opened or not (session.state.attempts or session.state.rearranged)


def _stopped(error: EraserError) -> Ending:
    ours = not isinstance(error, (InUseError, IdentityError))
    return Ending(Outcome.COMPLETED, str(error), ours=ours)


def _steps(session: CaseSession) -> None:
    with session.step(Step.PROVE_IDLE):
        # Nothing is planted or erased before the drive is idle, alone, known and nobody's.
        session.open()
        subsystem.check(session)
        session.revoke()
    if session.state.plan is None:
        with session.step(Step.INSPECT):
            _inspect(session)
    plan = session.state.plan
    # Not fingerprinted: none of them would be compared.
    if plan is not None and plan.refusal:
        raise NoMethodError(plan.refusal)
    probes.fingerprint(session)
    # An erase that ended in an earlier run may be no longer the present one.
    verify.reconsider(session)
    if session.state.allocating is not None and not session.state.erased:
        # A run that died after it had deleted them, and another round: they are erased again.
        temporary.allocate(session)
    # A reading may ask for another erase, and then counts for nothing.
    while session.state.verified is None:
        case_erase.erase(session)
        if session.state.halted:
            return
        verify.reset(session)
        verify.verify(session)
    if session.state.verified is not None and session.state.verified.verdict is Verdict.ERASED:
        # What was not erased stays where it can be seen: the next case begins with it.
        temporary.free(session)


def _inspect(session: CaseSession) -> None:
    """What the drive is before anything is changed, and what will be sent to it."""
    controller = session.controller
    capabilities = Capabilities.of(controller.identify())
    plan = make_plan(session.policy, capabilities, _targets(controller), session.applied)
    sanitizes = tuple(c.cdw10 for c in plan.commands if c.method.is_sanitize)
    # Before the questions: a running sanitize keeps the drive from answering all of them.
    busy = not plan.refusal and sanitize.ours_runs(session, sanitizes)
    if not plan.refusal and not busy:
        namespacesanitize.wait(session)
    state, problems = None, list[str]()
    try:
        found = drivefacts.read(session)
    except DriveError as error:
        # A drive that leaves one question unanswered is erased all the same, then held: the last
        # look asks again.
        problems.append(f"inspection before the erase: {error}")
        found = facts(controller, layout_only=True)
    try:
        state = health.read(controller.smart_log())
    except DriveError as error:
        problems.append(f"health before the erase: {error}")
    # The first look counts, which an earlier run took before it changed anything.
    if session.state.inspected is None:
        session.note(Inspected(found, state, tuple(problems)))
    if not plan.refusal and not busy:
        unlock.unlock(session, found)
        if found.detached and plan.achieved is Label.CLEAR:
            # Each has data of its own, and will be erased by its own command.
            attaching.attach_all(session, found)
            unlock.unlock_attached(session, {each.nsid for each in found.detached})
        # As an ordinary one from here on: fingerprints, canaries, commands and reading reach it.
        temporary.allocate(session)
        # There are more namespaces now, and each needs a Format of its own.
        if plan.achieved is Label.CLEAR and (found.detached or session.state.temporary):
            plan = make_plan(session.policy, capabilities, _targets(controller), session.applied)
    commands = tuple(CommandEntry(c.method, c.opcode, c.nsid, c.cdw10) for c in plan.commands)
    session.note(Planned(commands, plan.achieved, plan.downgraded, plan.refusal, locked=busy))


def _targets(controller: Controller) -> tuple[FormatTarget, ...]:
    """One that does not describe itself is none: Format has to name its format. A sanitize reaches
    it all the same, and the verification knows that it was not read."""
    found = described(controller, controller.active_namespaces())
    return tuple(FormatTarget.of(nsid, namespace) for nsid, namespace in found)


def _look_again(session: CaseSession, ending: Ending) -> AfterLook:
    """The drive as it is at the end. What cannot be read is named and keeps it from release."""
    tools = _tools(session.host)
    # A drive that is not ours to ask, or that would not answer.
    if not session.opened or session.state.halted:
        return AfterLook(tools=tools)
    controller, problems = session.controller, list[str]()
    found, state = None, None
    differences: tuple[str, ...] = ()
    try:
        # Each look has its own try: what one of them meets hides nothing of the other.
        # A drive that may be another's, or in which a command of ours may be running yet, is told
        # nothing that it keeps.
        told = drivefacts.read(session, named=ending.ours and session.state.changing is None)
        found = _with_registers(told, session.state.mapped)
        identity = controller.identity()
        if session.state.identity is not None:
            # No profile names a serial number, and a certificate is about one drive.
            problems += (
                f"it calls itself otherwise after the erase: {line}"
                for line in session.state.identity.differences(identity)
            )
        rules = features(controller, session.request.profile.features)
        # Only at a case's end: one that was stopped at once may be of a drive in use.
        if session.state.verified is not None and case_features.mend(session, found, rules):
            rules = features(controller, session.request.profile.features)
        differences = compare(session.request.profile, identity, found, rules)
    except DriveError as error:
        problems.append(f"inspection after the erase: {error}")
    try:
        if session.state.verified is not None and verify.written_after(session):
            problems.append("the drive was written to after the erase: find out by whom")
        state = health.read(controller.smart_log())
        earlier = _media_errors_before(session.state)
        if earlier is not None:
            state = dataclasses.replace(state, media_errors_before=earlier)
        link = health.link(PciFunction(session.host, session.request.slot.address))
        state = dataclasses.replace(state, link=link)
    except DriveError as error:
        problems.append(f"health after the erase: {error}")
    return AfterLook(found, state, differences, tuple(problems), tools)


def _with_registers(found: ControllerFacts, mapped: tuple[Buffer, ...] | None) -> ControllerFacts:
    """With what registers told while no driver had the drive, where nobody may read them now."""
    condition = found.condition
    if mapped is None or condition is None or not condition.buffers_untold:
        return found
    both = tuple(sorted({*condition.buffers, *mapped}))
    told = dataclasses.replace(condition, buffers=both, buffers_untold=False)
    return dataclasses.replace(found, condition=told)


def _media_errors_before(state: CaseState) -> int | None:
    """Before the erase, and after the last owner's blocks were read: an erase mends those."""
    if state.fingerprinted is not None and state.fingerprinted.media_errors is not None:
        return state.fingerprinted.media_errors
    if state.inspected is None or state.inspected.health is None:
        return None
    return state.inspected.health.media_errors_after


def _nvme_cli(host: Host) -> str:
    try:
        return nvmecli.version(host)
    except (DriveError, OSError) as error:
        return str(error)


def _tools(host: Host) -> dict[str, str]:
    """Versions of what did the work."""
    return {
        "eraser": VERSION,
        "eraser build": build.digest(),
        "nvme-cli": _nvme_cli(host),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
