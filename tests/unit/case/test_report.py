"""What may be said: fit only where everything was proved, and every doubt named."""

from __future__ import annotations

import dataclasses

import pytest

from eraser.case.entries import CommandEntry, Inspected, MethodDone, Planned, Verified, WasReset
from eraser.case.report import AfterLook, Ending, assemble, readable
from eraser.case.state import CaseState
from eraser.cli.output import Summary, exit_code
from eraser.protocol import codec
from eraser.protocol.condition import Condition, WriteProtection
from eraser.protocol.policy import Label, Method, Policy
from eraser.protocol.report import CommandRecord, EraseReport, MethodRecord, Outcome, Verdict
from tests.unit.case.fakes import FACTS, HEALTH, RECORD, REQUEST

DONE = Ending(Outcome.COMPLETED)
AFTER = AfterLook(FACTS, HEALTH)


def method(
    kind: Method, verdict: Verdict = Verdict.ERASED, reason: str = "", nsid: int = 0
) -> MethodRecord:
    return MethodRecord(kind, 4, nsid, 1, False, "", "", True, verdict, reason, 0.0)


def state(*methods: MethodRecord, verdict: Verdict = Verdict.ERASED, planned: int = 0) -> CaseState:
    made = CaseState()
    made.apply(Inspected(FACTS, HEALTH, ()))
    commands = tuple(CommandEntry(m.method, 0x84, 0, 4) for m in methods)
    made.apply(Planned(commands + commands[:1] * planned, Label.PURGE, False, ""))
    for place, record in enumerate(methods):
        made.apply(MethodDone(place, record, False))
    made.apply(WasReset(""))
    made.apply(Verified(RECORD, verdict, () if verdict is Verdict.ERASED else ("content",)))
    return made


def report(
    made: CaseState, ending: Ending = DONE, after: AfterLook = AFTER, **policy: object
) -> EraseReport:
    request = dataclasses.replace(REQUEST, policy=Policy(**policy))  # type: ignore[arg-type]
    found = assemble(request, made, ending, after, "now")
    assert codec.load(EraseReport, codec.canonical(found), "report") == found
    return found


CRYPTO, BLOCK = method(Method.SANITIZE_CRYPTO), method(Method.SANITIZE_BLOCK)
FORMAT = method(Method.FORMAT_USER_DATA, nsid=1)
FAILED = method(Method.SANITIZE_CRYPTO, Verdict.NOT_ERASED, "SSTAT 3")


def test_everything_proved() -> None:
    found = report(state(CRYPTO, BLOCK))
    assert (found.verdict, found.fit, found.reasons) == (Verdict.ERASED, True, ())
    assert (found.achieved, found.downgraded) == (Label.PURGE, False)
    assert exit_code(found) == 0


def test_what_nobody_could_read_before_the_erase_is_said_and_holds_nobody() -> None:
    """Media errors that nobody knew of before would else be said to be none that are new."""
    made = state(CRYPTO, BLOCK)
    made.apply(Inspected(FACTS, None, ("health before the erase: no answer",)))
    found = report(made)
    assert (found.fit, found.untold) == (True, ("health before the erase: no answer",))


@pytest.mark.parametrize("verdict", [Verdict.NOT_ERASED, Verdict.UNKNOWN])
def test_nothing_else_is_fit(verdict: Verdict) -> None:
    found = report(state(CRYPTO, BLOCK, verdict=verdict))
    assert (found.verdict, found.fit) == (verdict, False)
    assert found.reasons[0] == "content"
    assert exit_code(found) == {Verdict.NOT_ERASED: 8, Verdict.UNKNOWN: 1}[verdict]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (dataclasses.replace(AFTER, differences=("profile: firmware",)), "firmware"),
        (dataclasses.replace(AFTER, problems=("inspection: none",)), "inspection"),
        (
            dataclasses.replace(AFTER, health=dataclasses.replace(HEALTH, critical_warning=1)),
            "critical warning",
        ),
        (
            dataclasses.replace(AFTER, health=dataclasses.replace(HEALTH, percentage_used=101)),
            "endurance",
        ),
    ],
)
def test_health_and_profile_hold_an_erased_drive(after: AfterLook, said: str) -> None:
    found = report(state(CRYPTO, BLOCK), after=after)
    assert (found.verdict, found.fit) == (Verdict.ERASED, False)
    assert said in " ".join(found.reasons)
    assert exit_code(found) == 7


def test_a_method_that_failed_holds_the_drive_although_another_erased_it() -> None:
    found = report(state(FAILED, BLOCK))
    assert (found.verdict, found.achieved, found.fit) == (Verdict.ERASED, Label.PURGE, False)
    assert "sanitize-crypto: SSTAT 3" in found.reasons


def test_a_failed_method_may_pass_by_permission_and_what_is_unknown_never() -> None:
    found = report(state(FAILED, BLOCK), allow_failed=True)
    assert (found.verdict, found.fit, found.reasons) == (Verdict.ERASED, True, ())
    lost = method(Method.SANITIZE_CRYPTO, Verdict.UNKNOWN, "stuck")
    assert not report(state(lost, BLOCK), allow_failed=True).fit
    last = method(Method.SANITIZE_BLOCK, Verdict.NOT_ERASED, "SSTAT 3")
    assert not report(state(CRYPTO, last), allow_failed=True).fit


def test_what_the_policys_table_retires_is_said() -> None:
    dying = dataclasses.replace(HEALTH, critical_warning=9, percentage_used=101)
    found = report(state(CRYPTO, BLOCK), after=dataclasses.replace(AFTER, health=dying))
    assert not found.fit
    assert ["spare" in found.retire[0], "read only" in found.retire[1]] == [True, True]
    assert set(found.retire) < set(found.reasons)
    warm = dataclasses.replace(HEALTH, critical_warning=2)
    found = report(state(CRYPTO, BLOCK), after=dataclasses.replace(AFTER, health=warm))
    assert (found.fit, found.retire) == (True, ())


def test_clear_is_never_called_purge() -> None:
    found = report(state(FORMAT), allow_clear=True)
    assert (found.achieved, found.downgraded, found.fit) == (Label.CLEAR, True, True)
    found = report(state(FORMAT), allow_clear=False)
    assert (found.achieved, found.downgraded, found.fit) == (Label.CLEAR, True, False)
    found = report(state(FORMAT), label=Label.CLEAR)
    assert (found.achieved, found.downgraded, found.fit) == (Label.CLEAR, False, True)


def test_clear_needs_every_namespace() -> None:
    other = method(Method.FORMAT_USER_DATA, Verdict.NOT_ERASED, "status 0x006", nsid=2)
    found = report(state(FORMAT, other), allow_clear=True)
    assert (found.achieved, found.fit) == (None, False)
    found = report(state(FORMAT, planned=1), allow_clear=True)
    assert (found.achieved, found.fit) == (None, False)


def test_a_detached_namespace_is_erased_by_sanitize_alone_and_read_by_nobody() -> None:
    loose = (dataclasses.replace(FACTS.namespaces[0], nsid=9),)
    after = dataclasses.replace(AFTER, facts=dataclasses.replace(FACTS, detached=loose))
    found = report(state(FORMAT), after=after, allow_clear=True)
    assert (found.verdict, found.fit) == (Verdict.UNKNOWN, False)
    assert "9" in found.reasons[0]
    found = report(state(CRYPTO, BLOCK), after=after)
    assert (found.verdict, found.achieved, found.fit) == (Verdict.ERASED, Label.PURGE, False)
    assert found.reasons == (
        "namespace 9 exists and is not attached: nobody has read it; attach or delete it",
    )


@pytest.mark.parametrize(("oacs", "fit"), [(2, True), (2 | 8, False)], ids=["not", "managed"])
def test_capacity_in_no_namespace_holds_where_somebody_can_be_given_it(
    oacs: int, fit: bool
) -> None:
    """Told of after the erase alone. Without namespace management nobody ever can (OACS bit 3)."""
    facts = dataclasses.replace(FACTS, oacs=oacs, total_bytes=2 << 30, unallocated_bytes=1 << 30)
    after = dataclasses.replace(AFTER, facts=facts)
    found = report(state(FORMAT), after=after, allow_clear=True)
    assert (found.verdict, found.fit) == (Verdict.ERASED, fit)
    assert ("belong to no namespace" in " ".join(found.reasons)) is not fit


def test_what_stood_in_the_way_of_an_erase_is_named_with_it() -> None:
    """Else a person reads a status, and not that the tenant has protected the drive for ever."""
    protected = Condition(protected=(WriteProtection(1, 3),))
    facts = dataclasses.replace(FACTS, condition=protected)
    refused = method(Method.SANITIZE_BLOCK, Verdict.NOT_ERASED, "status 0x020")
    after = dataclasses.replace(AFTER, facts=facts)
    found = report(state(refused, verdict=Verdict.NOT_ERASED), after=after)
    assert any("pull the drive" in reason for reason in found.reasons)
    assert found.retire
    assert set(found.retire) <= set(found.reasons)


def test_a_case_that_is_interrupted_by_use_claims_nothing_so_that_it_can_come_again() -> None:
    """The control plane holds a report that says "in use" and yet claims methods."""
    found = report(state(CRYPTO), Ending(Outcome.IN_USE, "open: process 9 (smartctl)"))
    assert (found.methods, found.achieved, found.fit) == ((), None, False)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (Outcome.IN_USE, 3),
        (Outcome.WRONG_DRIVE, 4),
        (Outcome.ABSENT, 6),
        (Outcome.NO_METHOD, 10),
    ],
)
def test_other_endings(outcome: Outcome, code: int) -> None:
    found = report(CaseState(), Ending(outcome, "why"), AfterLook())
    assert (found.outcome, found.verdict, found.fit) == (outcome, Verdict.UNKNOWN, False)
    assert found.reasons == ("why",)
    assert exit_code(found) == code


def test_an_error_in_mid_case_is_never_erased_although_it_was_verified_before() -> None:
    found = report(state(CRYPTO, BLOCK), Ending(Outcome.COMPLETED, "the drive went away"))
    assert (found.verdict, found.fit) == (Verdict.UNKNOWN, False)
    assert found.reasons[0] == "the drive went away"


def test_a_failed_reset_holds() -> None:
    made = state(CRYPTO, BLOCK)
    made.apply(WasReset("no reset"))
    assert report(made).fit is False


@pytest.mark.parametrize("swollen", ["commands", "residues"])
def test_a_drive_that_makes_a_report_too_long_has_one_that_can_be_read(swollen: str) -> None:
    """It was written, and nobody could read it: neither sent nor taken up again, for ever."""
    found = report(state(CRYPTO, BLOCK))
    assert readable(found) is found
    sent = CommandRecord(("nvme",), 9, 1, 5, 0, 0, "x" * 400, "2026-11-28T12:00:00+00:00", 0.001)
    more = {"commands": (sent,) * 14 * 1024, "residues": ("x" * 400,) * 14 * 1024}[swollen]
    cleared = dataclasses.replace(found, achieved=Label.CLEAR, downgraded=True)
    short = readable(dataclasses.replace(cleared, **{swollen: more}))
    assert (short.achieved, short.downgraded) == (None, False), "to nothing, there is no downgrade"
    assert codec.load(EraseReport, codec.canonical(short), "report") == short
    assert (short.verdict, short.fit, short.order_id) == (Verdict.UNKNOWN, False, found.order_id)
    assert "expected a report of at most 4194304 bytes" in short.reasons[0]
    assert short.commands == ()
    assert (short.methods == ()) == (swollen == "residues")


def test_the_summary_says_what_the_report_says(tmp_path: object) -> None:
    found = report(state(CRYPTO, BLOCK))
    from pathlib import Path

    summary = Summary.of(found, Path("/reports/x.json"))
    assert (summary.verdict, summary.fit, summary.report) == (
        Verdict.ERASED,
        True,
        "/reports/x.json",
    )
    assert summary.methods == ("sanitize-crypto: erased", "sanitize-block: erased")
