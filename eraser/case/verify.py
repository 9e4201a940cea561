"""The proving part of a case: reset, read everything that was asked for, judge."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

from eraser.case import visit
from eraser.case.entries import Again, Verified, WasReset
from eraser.case.probes import (
    canaries_of,
    draw_seed,
    layouts,
    lost_fingerprints,
    make_readable,
    reading_plan,
)
from eraser.case.sanitize import failed_before, seal_lost, unwritten
from eraser.case.session import CaseSession, OutOfTimeError
from eraser.case.state import CaseState
from eraser.controller.spec import SmartLog
from eraser.errors import BadInputError, DriveError
from eraser.proof import statement
from eraser.proof import verdict as judging
from eraser.proof.tally import VerificationResult
from eraser.proof.verify import Verifier, VerifyPlan
from eraser.protocol import codec
from eraser.protocol.report import MethodRecord, Step, Verdict
from eraser.state.journal import replace_durably

CHECKPOINT_SECONDS = 2.0

RESET = "the reset before the reading, or before some blocks are read twice"
"""For the journal. One name: a drive whose host goes down in either is not handed out."""

_RANK = {Verdict.ERASED: 0, Verdict.UNKNOWN: 1, Verdict.NOT_ERASED: 2}


def reset(session: CaseSession) -> None:
    """A controller reset after the last command, so that no cache answers the reading: with the
    shutdown before it that the next tenant's host announces, where the drive is visited."""
    if session.state.reset is not None:
        return
    with session.step(Step.RESET):
        announced, problem = False, session.given_up(RESET)
        if not problem:
            announced, problem = _reset(session)
        session.note(WasReset(problem, _writes(session), announced))


def _reset(session: CaseSession) -> tuple[bool, str]:
    """Whether the shutdown was announced, and why the controller was not reset."""
    with session.risk(RESET):
        # The driver resets the controller as it takes the drive back, so one of the two is enough.
        announced = bool(session.policy.verification.visit) and not session.rebind()
        return announced, "" if announced else session.reset()


def reconsider(session: CaseSession) -> None:
    """In a resumed case: an erase that may have been written over since is done once more.

    Between two runs the slot was not locked: the drive may have been mounted, or have been in
    another host. Only the drive itself can say that it was not, and where it cannot, erasing again
    costs time and nothing else.
    """
    state = session.state
    if not state.resumed or not state.erased or state.halted or _unwritten(session):
        return
    # Forgotten before the entry: a crash in between costs a second reading and nothing else.
    session.files.read_anew()
    reason = "the drive may have been written to between the erase and this run"
    session.note(Again(reason, read=False))


def written_after(session: CaseSession) -> bool:
    """Somebody wrote since the last sanitize: the drive took its seal back *and* counted writes.

    Either alone may be a habit of the drive: counters lag, and a reset may clear the seal.
    """
    last, reset_, now = session.state.methods[-1], session.state.reset, _writes(session)
    if not last.method.is_sanitize or reset_ is None or reset_.writes is None or now is None:
        return False
    return now > reset_.writes and seal_lost(last, session.sanitize_log()[1])


def _unwritten(session: CaseSession) -> bool:
    last, reset_ = session.state.methods[-1], session.state.reset
    if last.method.is_sanitize and unwritten(last, session.sanitize_log()[1]):
        return True
    if reset_ is None or reset_.writes is None:
        return False
    # A counter that did not even count the case's own writes (canaries) shows nobody else's.
    return _writes_before(session.state) < reset_.writes == _writes(session)


def _writes_before(state: CaseState) -> float:
    """Host Write Commands as the case found the drive; more than any where it was not told."""
    health = None if state.inspected is None else state.inspected.health
    return float("inf") if health is None else health.host_write_commands


def _writes(session: CaseSession) -> int | None:
    """Host Write Commands; None where the drive does not tell."""
    try:
        return SmartLog.parse(session.controller.smart_log()).host_write_commands
    except DriveError:
        return None  # then nothing is known of what came between two runs


def verify(session: CaseSession) -> None:
    """Reads, judges, and says what follows. Raises :class:`DriveError`, OutOfTimeError."""
    state = session.state
    if state.verified is not None:
        return
    with session.step(Step.VERIFY):
        make_readable(session)
        draw_seed(session)
        plan = reading_plan(session, probes=True)
        if not plan.namespaces:
            # What kept the profile's from coming back is what a person has to know.
            problems = () if state.restored is None else state.restored.problems
            why = "; ".join(problems) or "create it and erase again"
            raise DriveError(f"expected a namespace to verify, found none; {why}")
        # The kernel makes no disk of some namespaces, and nothing would be read of these.
        unread = set(session.controller.active_namespaces()) - {n.nsid for n in plan.namespaces}
        if unread:
            raise DriveError(
                f"expected to read every namespace, found no block device of {sorted(unread)}; "
                "see the kernel's log"
            )
        result = _read(session, plan)
        evidence = _evidence(session, result, lost_fingerprints(session, plan))
        # The table takes the last method's word for that of the drive.
        methods = _worst_last(state.methods)
        word, reasons = judging.judge(methods, evidence)
        again = _again(session, word, evidence.result)
        if again:
            # What was read is dropped before the entry: a crash in between has it read once more.
            session.files.read_anew()
            session.note(Again(again))
            return
        said = statement.record(methods, evidence, session.clock.utc())
        session.note(Verified(said, word, reasons))


def _again(session: CaseSession, word: Verdict, result: VerificationResult) -> str:
    """Why a second round is due. An honest drive is not held for a journal that we lost, nor for
    blocks that another erase makes readable; what still fails after it is a person's to decide."""
    state = session.state
    if word is not Verdict.UNKNOWN or state.retried:
        return ""
    # Another erase may mend these: it lets the drive replace bad blocks, and all is read again.
    if doubt := judging.unreadable(result) or judging.unstable(result):
        return doubt
    adopted = any(method.adopted for method in state.methods)
    # An adopted command was running before any canary could be planted.
    lost = not state.canaries_planted and session.policy.verification.canaries
    if adopted and lost:
        return "the probes were lost with the journal, and content alone does not decide"
    # A tenant's sanitize that failed keeps every write from the drive until another one succeeds
    # (Base 2.0, 8.21.3). That was ours, and now they can be planted.
    if lost and failed_before(state.methods[-1]):
        return "a sanitize that had failed kept canaries off, and content alone does not decide"
    # A drive without FPI does not tell that it is still formatting, and takes no writes meanwhile.
    if lost and any(m.attempts > 1 and not m.method.is_sanitize for m in state.methods):
        return "a Format that was interrupted kept canaries off, and content alone does not decide"
    return ""


def _worst_last(methods: tuple[MethodRecord, ...]) -> tuple[MethodRecord, ...]:
    """Formats are one each per namespace: the worst of them speaks for the drive."""
    if any(method.method.is_sanitize for method in methods):
        return methods
    return tuple(sorted(methods, key=lambda method: _RANK[method.verdict]))


def _read(session: CaseSession, plan: VerifyPlan) -> VerificationResult:
    unreset = "nothing is read twice"
    if plan.reread and (why := session.given_up(RESET)):
        # Without a reset in between a second reading proves nothing, and would be claimed.
        plan, unreset = dataclasses.replace(plan, reread=0), why
        _note_problem(session, why)
    verifier = Verifier(plan, session.disk, session.clock)
    _restore(session, verifier)
    result = verifier.run(
        _checkpoints(session, verifier),
        session.out_of_time,
        lambda: _reset_again(session, verifier),
    )
    if result is None:
        session.check_time()
        raise OutOfTimeError("expected to read to the end, found the reading stopped")
    if not plan.reread:
        # Else the visit comes with the second reset, before the second reading.
        visit.after(session, plan, verifier.left, unreset)
    return result


def _reset_again(session: CaseSession, verifier: Verifier) -> None:
    """The second reset, with half of the proof behind us: docs/decisions/reading.md says why, and
    why it is the one that the next tenant's drive gets."""
    paths = session.hold.paths
    with session.step(Step.RESET, "again, to read some blocks twice"):
        with session.risk(RESET):
            done = session.reset_function()
        # The plan names disks by their paths: under other names other namespaces would be read.
        if session.hold.paths != paths:
            raise DriveError(
                f"expected the disks {sorted(paths.values())} after a reset, found "
                f"{sorted(session.hold.paths.values())}; see the kernel's log"
            )
        _note_problem(session, done.problem)
        make_readable(session)
    visit.after(session, verifier.plan, verifier.left, done.refused)


def _note_problem(session: CaseSession, problem: str) -> None:
    """The second reset's failure counts as the first one's does."""
    first = session.state.reset
    if problem and first is not None and not first.problem:
        session.note(dataclasses.replace(first, problem=problem))


def _restore(session: CaseSession, verifier: Verifier) -> None:
    try:
        # A document may have 4 MiB, and each of a thousand namespaces takes 14 KiB of this file,
        # which no other machine wrote.
        verifier.restore(json.loads(session.files.verify_state.read_bytes()))
    except FileNotFoundError:
        return
    except (BadInputError, ValueError, RecursionError) as error:
        # Reading again from the start costs time and nothing else.
        session.tell(0.0, f"reading from the start: {error}")


def _checkpoints(session: CaseSession, verifier: Verifier) -> Callable[[float, str], None]:
    due = session.clock.monotonic() + CHECKPOINT_SECONDS

    def tick(fraction: float, detail: str) -> None:
        nonlocal due
        session.tell(fraction, detail)
        if session.clock.monotonic() >= due:
            replace_durably(session.files.verify_state, codec.canonical(verifier.state()))
            due = session.clock.monotonic() + CHECKPOINT_SECONDS

    return tick


def _evidence(
    session: CaseSession, result: VerificationResult, lost: tuple[str, ...]
) -> judging.Proof:
    """The counts, with the canaries that really stood on the drive, not those that should have."""
    asked = sum(len(canaries_of(session, layout).positions) for layout in layouts(session))
    # The key gives all places, also those where no canary came to stand. These are taken off.
    planted = session.state.canaries_planted
    void = max(0, result.canaries_planted - planted)
    promises = tuple(
        judging.Fill.of(session.controller.identify_namespace(namespace.nsid).expected_byte)
        for namespace in result.namespaces
    )
    return judging.Proof(
        result=dataclasses.replace(
            result,
            canaries_planted=min(planted, result.canaries_planted),
            canaries_checked=max(0, result.canaries_checked - void),
            canaries_counted=max(0, result.canaries_counted - void),
        ),
        expected=promises,
        canaries_asked=asked,
        missing_probes=_missing(session, asked) + lost,
        visits=tuple(session.state.visits),
    )


def _missing(session: CaseSession, asked: int) -> tuple[str, ...]:
    found = session.state.missing_probes
    if asked and not session.state.planted:
        found += ("canaries: the erase was running before any could be planted",)
    return found
