"""From what a case found to its report: outcome, label, fit and reasons. Without I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from eraser.case.state import CaseState
from eraser.drive.health import final, unfit
from eraser.drive.profile import obstacles, unmendable
from eraser.drive.residues import residues
from eraser.protocol import codec
from eraser.protocol.conclusions import buffers
from eraser.protocol.conclusions.applied import tolerated
from eraser.protocol.conclusions.unallocated import SMALLEST, manages, told
from eraser.protocol.policy import Label, Unallocated
from eraser.protocol.profile import Profile
from eraser.protocol.report import (
    ControllerFacts,
    EraseReport,
    HealthRecord,
    MethodRecord,
    Outcome,
    Verdict,
)
from eraser.state.case_files import CaseRequest

_MOST = 200
"""Reasons, and letters of each, of a report that was too long."""


@dataclass(frozen=True)
class Ending:
    """How the case ended: the outcome, and why it went no further where it did not."""

    outcome: Outcome
    reason: str = ""
    ours: bool = True
    """Nobody uses it, and it is the drive that it was."""


@dataclass(frozen=True)
class AfterLook:
    """The drive after the erase; None and a problem where it could not be read."""

    facts: ControllerFacts | None = None
    health: HealthRecord | None = None
    differences: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    tools: dict[str, str] = field(default_factory=dict)

    @property
    def detached(self) -> tuple[int, ...]:
        """Namespaces that exist and are not attached: out of reach for Format, and for reading."""
        return () if self.facts is None else tuple(n.nsid for n in self.facts.detached)


def achieved(state: CaseState) -> Label | None:
    """What the commands that ended well amount to.

    Purge for one sanitize with success; Clear only where every planned Format succeeded, because
    each erases its own namespace.
    """
    methods = state.methods
    # One Sanitize that ended well covers the whole subsystem, whatever the others came to.
    if any(m.method.is_sanitize and m.verdict is Verdict.ERASED for m in methods):
        return Label.PURGE
    if methods and len(methods) == len(state.steps) and _all_erased(methods):
        return Label.CLEAR
    return None


def _all_erased(methods: tuple[MethodRecord, ...]) -> bool:
    return all(method.verdict is Verdict.ERASED for method in methods)


def judge_case(
    state: CaseState, ending: Ending, after: AfterLook
) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict over everything, with its reasons; empty only for erased."""
    # COMPLETED with a reason: an error stopped the case on its way.
    if ending.outcome is not Outcome.COMPLETED or ending.reason:
        return _unfinished(state), (ending.reason or ending.outcome.value, *_doubts(state))
    if state.verified is None:
        return _unfinished(state), _doubts(state) or ("the erase was not verified",)
    verdict, reasons = state.verified.verdict, state.verified.reasons
    if verdict is Verdict.ERASED and achieved(state) is Label.CLEAR and after.detached:
        names = ", ".join(map(str, after.detached))
        return Verdict.UNKNOWN, (
            f"namespaces {names} exist and are not attached: Format does not reach them",
        )
    return verdict, reasons if verdict is Verdict.ERASED else (*reasons, *_doubts(state))


def _unfinished(state: CaseState) -> Verdict:
    """Without a verification nothing was proved to be gone; a failed erase is known to be one."""
    methods = state.methods
    if methods and all(method.verdict is Verdict.NOT_ERASED for method in methods):
        return Verdict.NOT_ERASED
    return Verdict.UNKNOWN


def _doubts(state: CaseState, passed: Collection[int] = ()) -> tuple[str, ...]:
    """Commands that did not end well, each with why; not those whose ``id`` is in ``passed``."""
    return tuple(
        f"{method.method.value}: {method.reason or method.verdict.value}"
        for method in state.methods
        if method.verdict is not Verdict.ERASED and id(method) not in passed
    )


def hold_reasons(
    request: CaseRequest, state: CaseState, verdict: Verdict, after: AfterLook
) -> tuple[str, ...]:
    """Why an erased drive is not handed out. Health and profile stand here and nowhere else."""
    if verdict is not Verdict.ERASED:
        return ()
    # By id: equal records of two commands are two commands.
    passed = {id(record) for record in tolerated(request.policy, state.methods)}
    # What the commands came to, against what was asked for.
    found = list(_doubts(state, passed))
    label, allowed = achieved(state), request.policy.allow_clear
    if label is None:
        found.append("no planned command ended well")
    elif request.policy.label is Label.PURGE and label is Label.CLEAR and not allowed:
        found.append("Purge was asked for, Clear was done, and the policy does not allow it")
    # What weakens the reading, and what the drive did to writes.
    if state.reset is not None and state.reset.problem:
        found.append(f"controller reset before the verification: {state.reset.problem}")
    if state.dropped:
        found.append(
            f"the drive called {state.dropped} writes done and stored something else: "
            "nobody's data is safe on it; replace it"
        )
    # What is left on the drive, or beside it, that nobody has read.
    found += after.problems
    if state.freed is not None and state.freed.problem:
        found.append(state.freed.problem)
    found += _unreached(request, state, label, after)
    inspected = None if state.inspected is None else state.inspected.facts
    if held := buffers.why_held(buffers.seen(inspected, after.facts), label, request.policy):
        found.append(held)
    found += [
        f"namespace {nsid} exists and is not attached: nobody has read it; attach or delete it"
        for nsid in after.detached
    ]
    # The drive against its profile, and its health.
    found += after.differences
    # Trouble in restoring explains a difference. Where the drive is as its profile in the end, it
    # holds nobody.
    if after.differences and state.restored is not None:
        found += state.restored.problems
    if after.health is not None:
        found += unfit(after.health, request.policy.health, inspected, after.facts)
    return tuple(dict.fromkeys(found))


def _unreached(
    request: CaseRequest, state: CaseState, label: Label | None, after: AfterLook
) -> Iterator[str]:
    """Capacity in no namespace that the drive would not show us, and may show somebody else."""
    made, asked = state.allocated, request.policy.verification.unallocated
    # Sanitize reaches it; then it is a residue that is printed.
    if label is not Label.CLEAR and asked is not Unallocated.HOLD:
        return
    # What is left without a problem is in pieces that nobody is given.
    left = 0 if made is None else state.unread + (made.left if made.problem else 0)
    why = "one that was there before the last method and not after it"
    if made is not None and made.problem:
        why = made.problem
    elif asked is not Unallocated.SKIP and (late := _told_late(state, after.facts)):
        left, why = left + late, "that the drive told of them after the erase alone"
    if left > 0:
        yield (
            f"{left} bytes belong to no namespace, and nobody has read them: expected a "
            f"temporary namespace over them, found {why}"
        )


def _told_late(state: CaseState, after: ControllerFacts | None) -> int:
    """Bytes of which the drive told when none could be made any more."""
    before = None if state.inspected is None else state.inspected.facts
    if after is None or not manages(before, after):
        return 0
    known = 0
    # What the case knew of: by its account, or what it read and what was left, whichever is more.
    if state.allocating is not None and state.allocated is not None:
        read = sum(each.size for each in state.allocated.namespaces)
        known = max(state.allocating.capacity, read + state.allocated.left)
    more = told(after) - known
    return more if more >= SMALLEST else 0


def _revisions(profile: Profile) -> frozenset[str]:
    """Those that an operator knows, running or not."""
    others = () if profile.condition is None else profile.condition.slot_firmware
    return frozenset((*profile.firmware, *others))


def assemble(
    request: CaseRequest,
    state: CaseState,
    ending: Ending,
    after: AfterLook,
    finished_at: str,
) -> EraseReport:
    """The host's testimony, unsigned."""
    verdict, reasons = judge_case(state, ending, after)
    reasons += hold_reasons(request, state, verdict, after)
    before = None if state.inspected is None else state.inspected.facts
    looked = after.facts or before
    retire = () if looked is None else tuple(unmendable(looked))
    if after.health is not None:
        # What no erase and no setting mends: a person is told to take the drive out.
        retire += final(after.health, request.policy.health, before, after.facts)
    if verdict is not Verdict.ERASED and looked is not None:
        # What kept the commands from the drive is why it is not erased.
        reasons += tuple(obstacles(looked))
    reasons = tuple(dict.fromkeys(reasons))
    # In use: the same order comes again and its case begins anew, so nothing of this one counts.
    again = ending.outcome is Outcome.IN_USE
    label = None if again else achieved(state)
    inspected = state.inspected
    return EraseReport(
        order_id=request.order_id,
        slot=request.slot,
        identity=state.identity,
        generation=request.generation,
        nonce=request.nonce,
        incarnation=request.incarnation,
        outcome=ending.outcome,
        verdict=verdict,
        fit=verdict is Verdict.ERASED and not reasons,
        reasons=reasons,
        policy=request.policy.name,
        profile=request.profile.name,
        asked=request.policy.label,
        achieved=label,
        downgraded=request.policy.label is Label.PURGE and label is Label.CLEAR,
        facts_before=None if inspected is None else inspected.facts,
        facts_after=after.facts,
        profile_differences=after.differences,
        commands=state.sent,
        methods=() if again else state.methods,
        verification=None if state.verified is None else state.verified.record,
        health=after.health,
        resumed=state.resumed,
        started_at=finished_at if state.began is None else state.began.at,
        finished_at=finished_at,
        seconds={step: round(spent, 3) for step, spent in state.seconds.items()},
        tools=after.tools,
        residues=residues(
            None if inspected is None else inspected.facts,
            after.facts,
            label,
            _revisions(request.profile),
            state.left,
        ),
        retire=retire,
        visits=tuple(state.visits),
        untold=() if inspected is None else inspected.problems,
        last_owner=None if state.revoked is None else state.revoked.last_owner,
    )


def readable(report: EraseReport) -> EraseReport:
    """The report, or one that says that it was too long: no drive ends its case in one that nobody
    can read, which would be neither sent nor taken up again.

    An honest drive's has some kilobytes, and a few hundred for each of its visits.
    """
    # The codec that reads reports takes no more bytes than that.
    size = len(codec.canonical(report))
    if size <= codec.MAX_DOCUMENT_BYTES:
        return report
    why = (
        f"expected a report of at most {codec.MAX_DOCUMENT_BYTES} bytes, found {size}, with "
        f"{len(report.commands)} commands: the drive answered in ways that nobody can go through"
    )
    # First without what grows with every command, then without all that a drive can make long.
    short = replace(
        report,
        verdict=Verdict.UNKNOWN,
        fit=False,
        achieved=None,
        downgraded=False,
        reasons=(why, *(reason[:_MOST] for reason in report.reasons[:_MOST])),
        commands=(),
        visits=(),
    )
    if len(codec.canonical(short)) <= codec.MAX_DOCUMENT_BYTES:
        return short
    return replace(
        short,
        reasons=(why,),
        untold=(),
        profile_differences=(),
        residues=(),
        retire=(),
        methods=(),
        verification=None,
        facts_before=None,
        facts_after=None,
        health=None,
        tools={},
    )
