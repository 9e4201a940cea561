"""The proving part of a case: reset, read everything that was asked for, judge."""

from __future__ import annotations

import dataclasses
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
from eraser.case.sanitize import seal_lost, unwritten
from eraser.case.session import CaseSession, OutOfTimeError
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

_RANK = {Verdict.ERASED: 0, Verdict.UNKNOWN: 1, Verdict.NOT_ERASED: 2}


def reset(desk: CaseSession) -> None:
    """A controller reset after the last command, so that no cache answers the reading: with the
    shutdown before it that the next tenant's host announces, where the drive is visited."""
    if desk.state.reset is not None:
        return
    with desk.step(Step.RESET):
        announced = bool(desk.policy.verification.visit) and not desk.rebind()
        problem = "" if announced else desk.reset()
        desk.note(WasReset(problem, _writes(desk), announced))


def reconsider(desk: CaseSession) -> None:
    """In a resumed case: an erase that may have been written over since is done once more.

    Between two runs the slot was not locked: the drive may have been mounted, or have been in
    another host. Only the drive itself can say that it was not, and where it cannot, erasing again
    costs time and nothing else.
    """
    state = desk.state
    if not state.resumed or not state.erased or state.halted or _unwritten(desk):
        return
    desk.files.read_anew()
    reason = "the drive may have been written to between the erase and this run"
    desk.note(Again(reason, read=False))


def written_after(desk: CaseSession) -> bool:
    """Somebody wrote since the last sanitize: the drive took its seal back *and* counted writes.

    Either alone may be a habit of the drive: counters lag, and a reset may clear the seal.
    """
    last, reset_, now = desk.state.methods[-1], desk.state.reset, _writes(desk)
    if not last.method.is_sanitize or reset_ is None or reset_.writes is None or now is None:
        return False
    return now > reset_.writes and seal_lost(last, desk.sanitize_log()[1])


def _unwritten(desk: CaseSession) -> bool:
    last, reset_ = desk.state.methods[-1], desk.state.reset
    if last.method.is_sanitize and unwritten(last, desk.sanitize_log()[1]):
        return True
    return reset_ is not None and reset_.writes is not None and reset_.writes == _writes(desk)


def _writes(desk: CaseSession) -> int | None:
    """Host Write Commands; None where the drive does not tell."""
    try:
        return SmartLog.parse(desk.controller.smart_log()).host_write_commands
    except DriveError:
        return None  # then nothing is known of what came between two runs


def verify(desk: CaseSession) -> None:
    """Reads, judges, and says what follows. Raises :class:`DriveError`, OutOfTimeError."""
    state = desk.state
    if state.verified is not None:
        return
    with desk.step(Step.VERIFY):
        make_readable(desk)
        draw_seed(desk)
        plan = reading_plan(desk, probes=True)
        if not plan.namespaces:
            raise DriveError(
                "expected a namespace to verify, found none; create it and erase again"
            )
        unread = set(desk.controller.active_namespaces()) - {n.nsid for n in plan.namespaces}
        if unread:
            raise DriveError(
                f"expected to read every namespace, found no block device of {sorted(unread)}; "
                "see the kernel's log"
            )
        result = _read(desk, plan)
        evidence = _evidence(desk, result, lost_fingerprints(desk, plan))
        methods = _worst_last(state.methods)
        word, reasons = judging.judge(methods, evidence)
        again = _again(desk, word, evidence.result)
        if again:
            desk.files.read_anew()
            desk.note(Again(again))
            return
        said = statement.record(methods, evidence, desk.clock.utc())
        desk.note(Verified(said, word, reasons))


def _again(desk: CaseSession, word: Verdict, result: VerificationResult) -> str:
    """Why a second round is due. An honest drive is not held for a journal that we lost, nor for
    blocks that another erase makes readable; what still fails after it is a person's to decide."""
    state = desk.state
    if word is not Verdict.UNKNOWN or state.retried:
        return ""
    if doubt := judging.unreadable(result) or judging.unstable(result):
        return doubt
    adopted = any(method.adopted for method in state.methods)
    lost = not state.canaries_planted and desk.policy.verification.canaries
    if adopted and lost:
        return "the probes were lost with the journal, and content alone does not decide"
    return ""


def _worst_last(methods: tuple[MethodRecord, ...]) -> tuple[MethodRecord, ...]:
    """Formats are one each per namespace: the worst of them speaks for the drive."""
    if any(method.method.is_sanitize for method in methods):
        return methods
    return tuple(sorted(methods, key=lambda method: _RANK[method.verdict]))


def _read(desk: CaseSession, plan: VerifyPlan) -> VerificationResult:
    verifier = Verifier(plan, desk.disk, desk.clock)
    _restore(desk, verifier)
    result = verifier.run(
        _checkpoints(desk, verifier), desk.out_of_time, lambda: _reset_again(desk, verifier)
    )
    if result is None:
        desk.check_time()
        raise OutOfTimeError("expected to read to the end, found the reading stopped")
    if not plan.reread:
        visit.after(desk, plan, verifier.left, "nothing is read twice")
    return result


def _reset_again(desk: CaseSession, verifier: Verifier) -> None:
    """The second reset, with half of the proof behind us: docs/decisions/reading.md says why, and
    why it is the one that the next tenant's drive gets."""
    first, paths = desk.state.reset, desk.hold.paths
    with desk.step(Step.RESET, "again, to read some blocks twice"):
        done = desk.reset_function()
        if desk.hold.paths != paths:
            raise DriveError(
                f"expected the disks {sorted(paths.values())} after a reset, found "
                f"{sorted(desk.hold.paths.values())}; see the kernel's log"
            )
        if done.problem and first is not None and not first.problem:
            desk.note(dataclasses.replace(first, problem=done.problem))
        make_readable(desk)
    visit.after(desk, verifier.plan, verifier.left, done.refused)


def _restore(desk: CaseSession, verifier: Verifier) -> None:
    try:
        raw = desk.files.verify_state.read_bytes()
        verifier.restore(codec.parse(raw, desk.files.verify_state.name))
    except FileNotFoundError:
        return
    except BadInputError as error:
        # Reading again from the start costs time and nothing else.
        desk.tell(0.0, f"reading from the start: {error}")


def _checkpoints(desk: CaseSession, verifier: Verifier) -> Callable[[float, str], None]:
    due = desk.clock.monotonic() + CHECKPOINT_SECONDS

    def tick(fraction: float, detail: str) -> None:
        nonlocal due
        desk.tell(fraction, detail)
        if desk.clock.monotonic() >= due:
            replace_durably(desk.files.verify_state, codec.canonical(verifier.state()))
            due = desk.clock.monotonic() + CHECKPOINT_SECONDS

    return tick


def _evidence(
    desk: CaseSession, result: VerificationResult, lost: tuple[str, ...]
) -> judging.Proof:
    """The counts, with the canaries that really stood on the drive, not those that should have."""
    asked = sum(len(canaries_of(desk, layout).positions) for layout in layouts(desk))
    planted = desk.state.canaries_planted
    void = max(0, result.canaries_planted - planted)
    promises = tuple(
        judging.Fill.of(desk.controller.identify_namespace(namespace.nsid).expected_byte)
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
        missing_probes=_missing(desk, asked) + lost,
        visits=tuple(desk.state.visits),
    )


def _missing(desk: CaseSession, asked: int) -> tuple[str, ...]:
    found = desk.state.missing_probes
    if asked and not desk.state.planted:
        found += ("canaries: the erase was running before any could be planted",)
    return found
