"""The control plane's decision on a report: each contradiction alone must hold the slot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eraser.proof.plan import NamespacePlan, VerifyPlan
from eraser.protocol import codec
from eraser.protocol.condition import Buffer, Condition, ExpectedCondition, FirmwareSlots
from eraser.protocol.fitness import Health
from eraser.protocol.identity import Slot
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import (
    Buffers,
    Label,
    Method,
    Policy,
    Quirk,
    Verification,
    VerificationMode,
)
from eraser.protocol.report import (
    ActRecord,
    EraseReport,
    MethodRecord,
    Outcome,
    Verdict,
    VisitRecord,
)
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CertificateEvidence, Link
from quarantine.evidence.checks import clocks, consistency, reading
from quarantine.evidence.sections import HistoryLine, Issuer
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import State
from quarantine.rules.reports.check import Ruling, check
from tests.unit.quarantine.testimony import (
    BLOCK,
    BLOCKS,
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    IDENTITY,
    NAMESPACE,
    ORDER,
    RECORD,
    REPORT,
    SAMPLED,
    VERIFICATION,
    command,
    log81,
)

CLEAR_POLICY = replace(ORDER.policy, allow_clear=True)
NO_SANITIZE = replace(FACTS, sanicap=0)
CLEARED = replace(
    REPORT,
    achieved=Label.CLEAR,
    downgraded=True,
    methods=(FORMAT,),
    commands=(command(0x80, 0x200),),
    facts_before=NO_SANITIZE,
    facts_after=NO_SANITIZE,
)


def ruled(report: EraseReport, order: EraseOrder = ORDER) -> tuple[Ruling, str]:
    decision = check(order, report, RECORD)
    return decision.ruling, decision.reason


def test_an_honest_report_is_certified() -> None:
    assert ruled(REPORT) == (Ruling.CERTIFY, "")


def test_a_size_that_the_profile_tolerates_is_certified_and_said() -> None:
    blocks = NAMESPACE.blocks + 8
    larger = replace(NAMESPACE, blocks=blocks, capacity=blocks)
    wanted = replace(ORDER.profile, namespaces=(larger,))
    assert ruled(REPORT, replace(ORDER, profile=wanted))[0] is Ruling.HOLD
    order = replace(ORDER, profile=replace(wanted, size_tolerance=8 * NAMESPACE.block_bytes))
    assert ruled(REPORT, order) == (Ruling.CERTIFY, "")
    evidence = CertificateEvidence(order, "", REPORT, "", "", "", "", ())
    body = certificate.build(evidence, Issuer(), Link(), "2026-11-20T12:00:00Z")
    assert (
        f"Namespace 1 has {8 * NAMESPACE.block_bytes} bytes less than the profile names, which "
        "permits it (size_tolerance)."
    ) in body.exceptions


def test_memory_that_format_does_not_reach_needs_its_permission() -> None:
    """Its host calls it fit: it knows no better, or wants to be rid of the drive."""
    facts = replace(NO_SANITIZE, condition=Condition(buffers=(Buffer.PMR,)))
    report = replace(CLEARED, facts_before=facts)
    order = replace(ORDER, policy=CLEAR_POLICY)
    ruling, reason = ruled(report, order)
    assert ruling is Ruling.HOLD
    assert "found a persistent memory region (PMR), which nobody has read" in reason
    asked = replace(CLEAR_POLICY.verification, buffers=Buffers.PRINT)
    permitted = replace(ORDER, policy=replace(CLEAR_POLICY, verification=asked))
    assert ruled(report, permitted) == (Ruling.CERTIFY, "")
    assert ruled(replace(REPORT, facts_after=replace(FACTS, condition=facts.condition))) == (
        Ruling.CERTIFY,
        "",
    )


@pytest.mark.parametrize(
    ("counts", "wrote", "said"),
    [
        ((8, 0, 0, 0, 0), False, ""),
        ((8, 0, 1, 0, 0), False, "by single blocks, found 1 canaries"),
        ((8, 0, 0, 2, 0), False, "and 2 blocks as they were"),
        ((8, 0, 0, 0, 3), False, "found 3 blocks that look like it"),
        ((8, 0, 0, 0, 0, 8), False, ""),
        ((8, 0, 0, 0, 0, 9), False, "single blocks: expected 8 blocks at most, found 9"),
        ((8, 0, 0, 0, 0, 0, 4), False, "by single blocks, found 4 blocks that read otherwise"),
        ((8, 0, 0, 0, 0, -1), False, "single blocks: expected counts of 0 or more"),
        ((-8, 0, 0, 0, 0), False, "single blocks: expected counts of 0 or more"),
        ((8, 0, 0, 0, 0), True, "no writes after the last technique"),
    ],
)
def test_what_a_visit_showed_or_wrote_last_holds_the_slot(
    counts: tuple[int, ...], wrote: bool, said: str
) -> None:
    act = ActRecord("single blocks", *counts)
    report = replace(REPORT, visits=(VisitRecord(2, wrote, (act,), ()),))
    ruling, reason = ruled(report)
    assert ruling is (Ruling.HOLD if said else Ruling.CERTIFY)
    assert said in reason


ACT = ActRecord("single blocks", 8, 0, 0, 0, 0, 8)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (((1, True), (2, False)), ""),
        (((2, True), (2, False)), "no writes after the last technique"),
        (((2, True), (1, False)), "no writes after the last technique"),
        (((9, True), (9, False)), "no writes after the last technique"),
        # The last one of all was written after everything, whatever place it names.
        (((1, True),), "no writes after the last technique"),
        (((2, False), (1, True)), "no writes after the last technique"),
    ],
)
def test_what_was_written_after_the_last_technique_holds_wherever_it_stands(
    places: tuple[tuple[int, bool], ...], said: str
) -> None:
    """Neither the erase reached it, nor did anybody read it."""
    visits = tuple(VisitRecord(place, wrote, (ACT,), ()) for place, wrote in places)
    ruling, reason = ruled(replace(REPORT, visits=visits))
    assert ruling is (Ruling.HOLD if said else Ruling.CERTIFY)
    assert said in reason


def test_a_visit_of_an_adopted_sanitize_counts_from_the_plan() -> None:
    """Of a sanitize found running nothing before it is told; its places are the plan's all the
    same. Here it was the second of two, and was run once more."""
    adopted = replace(BLOCK, adopted=True, log_before="", verdict=Verdict.ERASED)
    visits = (VisitRecord(2, True, (ACT,), ()), VisitRecord(3, False, (ACT,), (), 30.0))
    report = replace(REPORT, methods=(adopted, BLOCK), visits=visits)
    assert ruled(report) == (Ruling.CERTIFY, "")
    evidence = CertificateEvidence(ORDER, "", report, "", "", "", "", ())
    body = certificate.build(evidence, Issuer(), Link(), "2026-11-20T12:00:00Z")
    first, last = body.verification.acts
    assert first.startswith("Before technique 2, with writes")
    assert last.startswith("After the last technique, without writes")
    late = replace(report, visits=(visits[1], replace(visits[0], place=3), visits[1]))
    assert "no writes after the last technique" in ruled(late)[1]


def test_a_visit_that_was_left_out_is_not_called_done() -> None:
    """The host went down in the midst of it, again and again."""
    why = "every act between two erases: the host went down in the midst of it, 2 times at least"
    visits = (VisitRecord(1, True, (), (why,)), VisitRecord(2, False, (ACT,), (), 30.0))
    report = replace(REPORT, visits=visits)
    assert ruled(report) == (Ruling.CERTIFY, "")
    evidence = CertificateEvidence(ORDER, "", report, "", "", "", "", ())
    body = certificate.build(evidence, Issuer(), Link(), "2026-11-20T12:00:00Z")
    [last] = body.verification.acts
    assert last.startswith("After the last technique, without writes")
    said = "Not done: writing to the drive, as its next tenant will, between two erases."
    assert said in body.not_done
    assert f"Not done of what a next tenant may do first: {why}." in body.not_done


@pytest.mark.parametrize(
    ("uniform", "holds"),
    [("00" * 16, False), ("", False), ("ff" * 16, True), ("ab" * 16, True), ("00", True),
     ("AB" * 16, True), ("nothing at all", True)],
)  # fmt: skip
def test_the_bytes_that_repeat_are_those_that_were_counted(uniform: str, holds: bool) -> None:
    """It is printed: "every block that was read repeats ..."."""
    seen = replace(VERIFICATION, namespaces=(replace(COUNTS, uniform=uniform),))
    ruling, reason = ruled(replace(REPORT, verification=seen))
    assert (ruling is Ruling.HOLD) == holds
    assert ("the same 16 bytes" in reason) == holds


def test_a_pattern_that_repeats_is_a_pattern() -> None:
    counts = replace(COUNTS, zeros=0, pattern=SAMPLED, uniform="ab" * 16)
    seen = replace(VERIFICATION, namespaces=(counts,))
    assert "the same 16 bytes" not in ruled(replace(REPORT, verification=seen))[1]
    counts = replace(counts, pattern=SAMPLED - 1, zeros=1)
    seen = replace(VERIFICATION, namespaces=(counts,))
    assert "the same 16 bytes" in ruled(replace(REPORT, verification=seen))[1]


def test_clear_is_certified_where_the_operator_allowed_the_downgrade() -> None:
    assert ruled(CLEARED, replace(ORDER, policy=CLEAR_POLICY)) == (Ruling.CERTIFY, "")


EVERY = 0xFFFFFFFF


def cleared(formatted: tuple[int, ...], *, temporary: bool = False, fna: int = 4) -> EraseReport:
    """By Format of these, on a drive with two namespaces."""
    second = replace(NAMESPACE, nsid=2)
    facts = replace(
        NO_SANITIZE,
        fna=fna,
        namespaces=(NAMESPACE,) if temporary else (NAMESPACE, second),
        dlfeat=(1,) if temporary else (1, 1),
        total_bytes=2 * NAMESPACE.size,
        unallocated_bytes=NAMESPACE.size if temporary else 0,
    )
    counts = (COUNTS, replace(COUNTS, nsid=2, temporary=temporary))
    return replace(
        CLEARED,
        methods=tuple(replace(FORMAT, nsid=nsid) for nsid in formatted),
        commands=(
            *([command(0x0D, 0)] if temporary else []),
            *(command(0x80, 0x200, nsid=nsid) for nsid in formatted),
            *([command(0x0D, 1, nsid=2)] if temporary else []),
        ),
        facts_before=facts,
        facts_after=facts,
        verification=replace(VERIFICATION, namespaces=counts, sampled=2 * SAMPLED),
    )


@pytest.mark.parametrize("temporary", [False, True])
@pytest.mark.parametrize(
    ("formatted", "fna", "said"),
    [
        ((1, 2), 4, ""),
        ((EVERY,), 4, ""),
        ((1,), 4 | 2, ""),
        ((1,), 4, "expected a Format of namespace 2, found none"),
        ((2,), 4, "expected a Format of namespace 1, found none"),
        # Bit 0 is of a Format that erases nothing.
        ((1,), 4 | 1, "expected a Format of namespace 2, found none"),
    ],
)
def test_clear_reaches_each_namespace(
    formatted: tuple[int, ...], fna: int, said: str, temporary: bool
) -> None:
    report = cleared(formatted, temporary=temporary, fna=fna)
    namespaces = report.facts_after.namespaces if report.facts_after else ()
    profile = replace(ORDER.profile, namespaces=namespaces)
    ruling, reason = ruled(report, replace(ORDER, policy=CLEAR_POLICY, profile=profile))
    assert ruling is (Ruling.HOLD if said else Ruling.CERTIFY)
    assert said in reason


def test_clear_reaches_no_namespace_that_is_not_attached() -> None:
    """Also where the drive is not handed out: its certificate would call it cleared."""
    report = cleared((EVERY,), temporary=True)
    assert report.facts_after is not None
    assert report.verification is not None
    facts = replace(report.facts_after, detached=(replace(NAMESPACE, nsid=2),))
    read = replace(report.verification, namespaces=(COUNTS,))
    loose = replace(report, facts_after=facts, verification=read, fit=False, reasons=("loose",))
    decision = check(replace(ORDER, policy=CLEAR_POLICY), loose, RECORD)
    assert not decision.erased
    assert "namespace 2 is not attached: Format does not reach it" in decision.reason


def test_clear_in_place_of_a_purge_that_the_drive_offers_is_held() -> None:
    """Its certificate would say that the drive offers none."""
    order = replace(ORDER, policy=CLEAR_POLICY)
    for sanicap, offered in ((3, "sanitize-crypto, sanitize-block"), (2, "sanitize-block")):
        facts = replace(NO_SANITIZE, sanicap=sanicap)
        ruling, reason = ruled(replace(CLEARED, facts_before=facts, facts_after=facts), order)
        assert ruling is Ruling.HOLD
        assert f"the drive offers {offered} for Purge" in reason


def test_clear_in_place_of_a_purge_that_quirks_skip_is_certified() -> None:
    both = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
    quirk = Quirk(ORDER.identity.model, "hangs", firmware="VDV*", skip=both)
    report = replace(CLEARED, facts_before=FACTS, facts_after=FACTS)
    order = replace(ORDER, policy=replace(CLEAR_POLICY, quirks=(quirk,)))
    assert ruled(report, order) == (Ruling.CERTIFY, "")
    one = replace(quirk, skip=both[:1])
    assert ruled(report, replace(order, policy=replace(CLEAR_POLICY, quirks=(one,))))[0] is (
        Ruling.HOLD
    )


def test_clear_is_held_where_purge_was_asked() -> None:
    ruling, reason = ruled(CLEARED)
    assert ruling is Ruling.HOLD
    assert "allows no downgrade" in reason


SILENT = replace(FACTS, dlfeat=(0,))
"""A drive that does not say what deallocated blocks read as."""


def test_noise_after_a_crypto_erase_is_certified_when_probes_are_gone() -> None:
    counts = replace(COUNTS, zeros=1000, random=SAMPLED - 1000, uniform="", expected="unknown")
    seen = replace(VERIFICATION, expected="unknown", namespaces=(counts,))
    report = replace(REPORT, facts_after=SILENT, verification=seen)
    assert ruled(report)[0] is Ruling.CERTIFY


@pytest.mark.parametrize(
    ("probed", "certified"), [(None, True), (688, True), (9999, True), (687, False), (0, False)]
)
def test_noise_is_certified_by_places_that_count_everywhere(
    probed: int | None, certified: bool
) -> None:
    """1,024 canaries that all stood in another namespace tell nothing of this one. A host of before
    does not say which count."""
    counts = replace(COUNTS, zeros=0, random=SAMPLED, uniform="", expected="unknown")
    seen = replace(VERIFICATION, expected="unknown", namespaces=(counts,), probed=probed)
    ruling, reason = ruled(replace(REPORT, facts_after=SILENT, verification=seen))
    assert ruling is (Ruling.CERTIFY if certified else Ruling.HOLD)
    assert ("688 canaries or fingerprints" in reason) is not certified


def test_content_is_judged_without_places_that_count_everywhere() -> None:
    """Blank everywhere, and promised nowhere: known places say how this erase leaves a block."""
    counts = replace(COUNTS, expected="unknown")
    seen = replace(VERIFICATION, expected="unknown", namespaces=(counts,), probed=0)
    assert ruled(replace(REPORT, verification=seen)) == (Ruling.CERTIFY, "")


def spread(*reads: int, sizes: tuple[int, ...], order: EraseOrder = ORDER) -> tuple[Ruling, str]:
    """A drive with namespaces of these sizes (4 KiB blocks), of which so many were read."""
    spaces = tuple(replace(NAMESPACE, nsid=n, blocks=8 * size) for n, size in enumerate(sizes, 1))
    counts = tuple(
        replace(COUNTS, nsid=n, blocks=size, read=read, zeros=read, reread=min(5000, size))
        for n, (size, read) in enumerate(zip(sizes, reads, strict=True), 1)
    )
    facts = replace(FACTS, namespaces=spaces, dlfeat=(1,) * len(sizes))
    record = replace(VERIFICATION, namespaces=counts, sampled=min(sum(reads), SAMPLED))
    report = replace(REPORT, facts_before=facts, facts_after=facts, verification=record)
    return ruled(report, replace(order, profile=replace(order.profile, namespaces=spaces)))


@pytest.mark.parametrize(
    ("reads", "sizes", "said"),
    [
        ((34538, 34537), (BLOCKS, BLOCKS), ""),
        ((34538, 34538), (BLOCKS, BLOCKS), ""),
        ((69074, 1), (BLOCKS, BLOCKS), "namespace 2: expected at least 34537 blocks read"),
        ((1, 69074), (BLOCKS, BLOCKS), "namespace 1: expected at least 34537 blocks read"),
        # A share is rounded down: what rounds a share up reads one more here and there.
        ((69067, 8), (2_500_000, 300), ""),
        ((69068, 7), (2_500_000, 300), "namespace 2: expected at least 8 blocks read"),
        ((69074, 1), (2_500_000, 7), ""),
    ],
)
def test_each_namespace_has_its_share_of_the_places(
    reads: tuple[int, ...], sizes: tuple[int, ...], said: str
) -> None:
    """The bound is one of the whole drive, wherever a remainder lies."""
    ruling, reason = spread(*reads, sizes=sizes)
    assert ruling is (Ruling.HOLD if said else Ruling.CERTIFY)
    assert said in reason


@pytest.mark.parametrize("small", [1, 2, 7, 64, 300, 5_000, 69_000, 250_000])
@pytest.mark.parametrize("count", [1, 31])
def test_the_places_that_hosts_draw_are_shares_of_each(small: int, count: int) -> None:
    sizes = (2_500_000, *[small] * count)
    plan = VerifyPlan(
        VerificationMode.STATISTICAL,
        b"s" * 32,
        VERIFICATION.confidence,
        VERIFICATION.residual,
        tuple(NamespacePlan(n, "", size * 4096) for n, size in enumerate(sizes, 1)),
    )
    reads = tuple(sum(1 for _ in plan.places(each)) for each in plan.namespaces)
    assert spread(*reads, sizes=sizes) == (Ruling.CERTIFY, "")


def test_a_bound_that_is_better_than_asked_for_needs_its_own_share() -> None:
    """The sentence names the smaller remainder: it needs the more places."""
    half = BLOCKS // 2
    record = replace(
        VERIFICATION, residual=0.00005, sampled=138_152,
        namespaces=(
            replace(COUNTS, read=138_152, zeros=138_152),
            replace(COUNTS, nsid=2, read=half // 3, zeros=half // 3),
        ),
    )  # fmt: skip
    spaces = (NAMESPACE, replace(NAMESPACE, nsid=2))
    facts = replace(FACTS, namespaces=spaces, dlfeat=(1, 1))
    report = replace(REPORT, facts_before=facts, facts_after=facts, verification=record)
    order = replace(ORDER, profile=replace(ORDER.profile, namespaces=spaces))
    assert "namespace 2: expected at least 69076 blocks read" in ruled(report, order)[1]


@pytest.mark.parametrize(
    "changes", [{"residual": 5e-324}, {"residual": 0.00005}, {"confidence": 1 - 1e-15}]
)
def test_a_host_names_no_bound_that_nobody_asked_for(changes: dict[str, float]) -> None:
    """The certificate would print it as what was to be found, and with what probability."""
    ruling, reason = ruled(replace(REPORT, verification=replace(VERIFICATION, **changes)))
    assert ruling is Ruling.HOLD
    assert "expected confidence 0.999 at residual 0.0001" in reason


def test_a_full_read_is_certified_with_fewer_blocks_than_the_sample_asks() -> None:
    facts = replace(FACTS, namespaces=(replace(NAMESPACE, blocks=8000),))
    order = replace(ORDER, profile=replace(ORDER.profile, namespaces=facts.namespaces))
    counts = replace(COUNTS, blocks=1000, read=1000, zeros=1000, reread=1000)
    seen = replace(
        VERIFICATION, done=VerificationMode.FULL, sampled=1000, seed="", namespaces=(counts,),
        canaries_planted=1000, canaries_checked=1000,
    )  # fmt: skip
    report = replace(REPORT, facts_before=facts, facts_after=facts, verification=seen)
    assert ruled(report, order) == (Ruling.CERTIFY, "")


def test_a_lost_exit_code_is_no_contradiction_where_the_log_speaks() -> None:
    commands = (command(0x84, 4, None), command(0x84, 2))
    assert ruled(replace(REPORT, commands=commands))[0] is Ruling.CERTIFY


def test_an_adopted_sanitize_needs_no_record_of_those_before_it() -> None:
    adopted = replace(BLOCK, adopted=True, log_before="")
    report = replace(REPORT, methods=(adopted,), commands=())
    assert ruled(report)[0] is Ruling.CERTIFY


LOOSE = replace(NAMESPACE, nsid=2)


def test_a_namespace_that_is_not_attached_holds_a_drive_that_its_host_calls_fit() -> None:
    """A sanitize erased it, and nobody has read it."""
    facts = replace(FACTS, detached=(LOOSE,), total_bytes=2 * NAMESPACE.size)
    decision = check(ORDER, replace(REPORT, facts_after=facts), RECORD)
    assert (decision.ruling, decision.code) == (Ruling.HOLD, HoldCode.NAMESPACE_UNREAD)
    assert "expected every namespace attached and read, found 2 not attached" in decision.reason
    before = replace(REPORT, facts_before=facts)
    assert "not attached" not in check(ORDER, before, RECORD).reason


def images(*held: str) -> EraseReport:
    found = Condition(firmware=FirmwareSlots(1, 0, held))
    return replace(REPORT, facts_after=replace(FACTS, condition=found))


@pytest.mark.parametrize(
    ("before", "now", "loaded"),
    [
        ((), ("VDV10131", "EVIL"), ""),
        (("VDV10131", "OLD"), ("VDV10131", "OLD"), ""),
        (("VDV10131", "OLD"), ("VDV10131", ""), ""),
        (("VDV10131", "OLD"), ("VDV10131", "VDV10131"), ""),
        (("VDV10131", "OLD"), ("VDV10131", "KNOWN"), ""),
        (("VDV10131", "OLD"), ("VDV10131", "EVIL"), "slot 2 'OLD' as"),
        (("VDV10131", ""), ("VDV10131", "EVIL"), "slot 2 'nothing' as"),
        (("VDV10131",), ("VDV10131", "EVIL"), "slot 2 'nothing' as"),
        (("VDV10131", "OLD", "OTHER"), ("VDV10131", "OTHER", "OTHER"), "slot 2 'OLD' as"),
        (("VDV10131", "OLD"), (), ""),
    ],
)
def test_an_image_that_was_loaded_since_the_last_certificate_holds(
    before: tuple[str, ...], now: tuple[str, ...], loaded: str
) -> None:
    """What lay there before holds nothing: fleets have histories."""
    profile = replace(ORDER.profile, condition=ExpectedCondition(slot_firmware=("KNOWN",)))
    decision = check(replace(ORDER, profile=profile), images(*now), RECORD, before)
    assert decision.ruling is (Ruling.HOLD if loaded else Ruling.CERTIFY)
    assert loaded in decision.reason
    assert decision.erased is bool(loaded), "its certificate says so"
    unfit = replace(images(*now), fit=False, reasons=("worn",))
    decision = check(replace(ORDER, profile=profile), unfit, RECORD, before)
    assert loaded in decision.reason
    assert decision.erased, "the erase itself stands"


@pytest.mark.parametrize(
    ("outcome", "ruling"),
    [
        (Outcome.IN_USE, Ruling.POSTPONE),
        (Outcome.WRONG_DRIVE, Ruling.HOLD),
        (Outcome.ABSENT, Ruling.HOLD),
        (Outcome.NO_METHOD, Ruling.HOLD),
    ],
)
def test_outcomes_that_left_the_drive_alone(outcome: Outcome, ruling: Ruling) -> None:
    report = replace(
        REPORT,
        outcome=outcome,
        verdict=Verdict.UNKNOWN,
        fit=False,
        methods=(),
        reasons=("mounted at /srv",),
    )
    decision = check(ORDER, report, RECORD)
    assert decision.ruling is ruling
    assert "mounted at /srv" in decision.reason
    # A host that says "in use" and claims an erase in one breath is held, not asked again.
    assert check(ORDER, replace(report, methods=(CRYPTO,)), RECORD).ruling is Ruling.HOLD
    erased = check(ORDER, replace(report, verdict=Verdict.ERASED), RECORD)
    assert erased.code is HoldCode.REPORT_CONTRADICTS
    assert check(ORDER, replace(report, fit=True), RECORD).ruling is Ruling.HOLD


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(Outcome.WRONG_DRIVE, HoldCode.ANOTHER_DRIVE), (Outcome.ABSENT, HoldCode.NO_CONTROLLER)],
)
def test_a_drive_that_left_in_mid_erase_is_no_contradiction(
    outcome: Outcome, code: HoldCode
) -> None:
    """It was pulled, or its address is another drive's since a boot, after something was sent."""
    why = "expected the drive of this case, found another: serial"
    report = replace(REPORT, outcome=outcome, verdict=Verdict.UNKNOWN, fit=False, reasons=(why,))
    decision = check(ORDER, report, RECORD)
    assert (decision.ruling, decision.code) == (Ruling.HOLD, code)
    assert why in decision.reason
    assert "was sent" in decision.reason, "it is somewhere, and half erased"
    assert "unique" not in decision.reason


def test_a_wrong_drive_names_both() -> None:
    report = replace(
        REPORT,
        outcome=Outcome.WRONG_DRIVE,
        verdict=Verdict.UNKNOWN,
        fit=False,
        methods=(),
        identity=replace(IDENTITY, serial="OTHER"),
    )
    _ruling, reason = ruled(report)
    assert "PHLJ0000001" in reason
    assert "OTHER" in reason


@pytest.mark.parametrize(
    "changes",
    [
        {"slot": Slot("cmp2", "0000:01:00.0")},
        {"slot": Slot("cmp1", "0000:02:00.0")},
        {"order_id": "order-0000000002"},
        {"generation": 2},
        {"generation": 4},
        {"nonce": "nonce-00000000002"},
        {"incarnation": "incarnation-00002"},
    ],
)
def test_another_orders_ids_are_refused(changes: dict[str, Any]) -> None:
    assert ruled(replace(REPORT, **changes))[0] is Ruling.REFUSE


@pytest.mark.parametrize("state", [s for s in State if s not in (State.ERASING, State.VERIFYING)])
def test_a_slot_that_waits_for_nothing_refuses(state: State) -> None:
    assert check(ORDER, REPORT, replace(RECORD, state=state)).ruling is Ruling.REFUSE


HELD_BY_PERSON = replace(RECORD, state=State.HELD, hold_code="by-person")


@pytest.mark.parametrize("outcome", Outcome)
def test_of_a_slot_that_a_person_held_meanwhile_it_is_noted(outcome: Outcome) -> None:
    found = check(ORDER, replace(REPORT, outcome=outcome), HELD_BY_PERSON)
    assert found.ruling is Ruling.NOTE
    assert str(outcome) in found.reason


@pytest.mark.parametrize("record", [RECORD, HELD_BY_PERSON])
@pytest.mark.parametrize(
    "changes",
    [{"order_id": "order-0000000009"}, {"generation": 4}, {"nonce": "nonce-00000000009"}],
)
def test_an_order_that_is_no_longer_the_records_is_refused(
    changes: dict[str, Any], record: SlotRecord
) -> None:
    assert check(ORDER, REPORT, replace(record, **changes)).ruling is Ruling.REFUSE


def seen(**changes: Any) -> EraseReport:
    return replace(REPORT, verification=replace(VERIFICATION, **changes))


def counted(**changes: Any) -> EraseReport:
    return seen(namespaces=(replace(COUNTS, **changes),))


def blocked(**changes: Any) -> EraseReport:
    return replace(REPORT, methods=(CRYPTO, replace(BLOCK, **changes)))


PROFILED = replace(ORDER, profile=replace(ORDER.profile, total_bytes=FACTS.total_bytes))
"""An order whose profile names the capacity."""


def after(**changes: Any) -> EraseReport:
    return replace(REPORT, facts_after=replace(FACTS, **changes))


HELD: dict[str, tuple[EraseReport, str]] = {
    "not erased": (replace(REPORT, verdict=Verdict.NOT_ERASED), "verdict not_erased"),
    "unknown": (replace(REPORT, verdict=Verdict.UNKNOWN), "verdict unknown"),
    "not fit": (replace(REPORT, fit=False, reasons=("worn",)), "worn"),
    "no identity": (replace(REPORT, identity=None), "identity"),
    "other identity": (replace(REPORT, identity=replace(IDENTITY, serial="X")), "serial"),
    "other policy": (replace(REPORT, policy="mild"), "policy"),
    "other profile": (replace(REPORT, profile="p5510"), "profile"),
    "asked otherwise": (replace(REPORT, asked=Label.CLEAR), "asked for"),
    "no label": (replace(REPORT, achieved=None), "label"),
    "downgrade claimed": (replace(REPORT, downgraded=True), "downgraded"),
    "purge by format": (
        replace(REPORT, methods=(FORMAT,), commands=(command(0x80, 0x200),)),
        "no part of the label",
    ),
    "no methods": (replace(REPORT, methods=()), "at least one method"),
    "a method left out": (replace(REPORT, methods=(BLOCK,)), "sanitize-crypto"),
    "another order of methods": (replace(REPORT, methods=(BLOCK, CRYPTO)), "stand last"),
    "a method that the drive lacks": (
        replace(REPORT, facts_before=replace(FACTS, sanicap=1)),
        "found also sanitize-block",
    ),
    "sanitize on a drive without": (replace(REPORT, facts_before=NO_SANITIZE), "no method"),
    "no facts before": (replace(REPORT, facts_before=None), "before the erase"),
    "method not erased": (blocked(verdict=Verdict.UNKNOWN), "verdict erased"),
    "other action": (blocked(cdw10=4), "CDW10"),
    "unrestricted exit": (blocked(cdw10=0xA, log_after=log81(1, 0xA)), "CDW10"),
    "no deallocation": (blocked(cdw10=0x202, log_after=log81(1, 0x202)), "CDW10"),
    "log failed": (blocked(log_after=log81(3, 2)), "found failed"),
    "log running": (blocked(log_after=log81(2, 2)), "found running"),
    "log never": (blocked(log_after=log81(0, 2)), "found never"),
    "log of another command": (blocked(log_after=log81(1, 4)), "another command's"),
    "log cut short": (blocked(log_after=log81(1, 2, size=64)), "512 bytes"),
    "log no Base64": (blocked(log_after="*"), "Base64"),
    "no log": (blocked(log_after=""), "512 bytes"),
    "no log before": (blocked(log_before=""), "log before"),
    "log did not change": (blocked(changed=False), "older one's"),
    "never sent": (replace(REPORT, commands=(command(0x84, 4),)), "as sent"),
    "sent and refused": (
        replace(REPORT, commands=(command(0x84, 4), command(0x84, 2, 0x1D))),
        "as sent",
    ),
    "no verification": (replace(REPORT, verification=None), "verification by reading"),
    "asked other mode": (seen(asked=VerificationMode.FULL), "to have been asked"),
    "less confidence": (seen(confidence=0.9), "confidence"),
    "more confidence than there is": (seen(confidence=1.0), "confidence"),
    "no residue at all": (seen(residual=0.0), "confidence"),
    "larger residue": (seen(residual=0.001), "residual"),
    "no seed": (seen(seed=""), "seed"),
    "too few samples": (
        seen(sampled=SAMPLED - 1, namespaces=(replace(COUNTS, read=SAMPLED, zeros=SAMPLED),)),
        "at least 69075",
    ),
    "more samples than reads": (seen(sampled=SAMPLED + 1), "as many as read"),
    "full in name only": (seen(done=VerificationMode.FULL), "every block read"),
    "namespace not read": (counted(read=0, zeros=0), "found none"),
    "another size": (counted(blocks=BLOCKS - 1), "to be verified"),
    "another namespace": (counted(nsid=2), "to be verified"),
    "one namespace twice": (seen(namespaces=(COUNTS, COUNTS)), "twice"),
    "classes do not add up": (counted(zeros=SAMPLED - 1), "together"),
    "negative count": (counted(zeros=SAMPLED + 1, ones=-1), "negative"),
    "more read than there is": (counted(read=BLOCKS + 1, zeros=BLOCKS + 1), "at most"),
    "canaries left": (counted(canaries=1), "canary"),
    "unchanged left": (counted(unchanged=1), "as they were"),
    "unreadable": (counted(zeros=SAMPLED - 1, unreadable=1), "could not be read"),
    "structured": (counted(zeros=SAMPLED - 1, structured=1), "somebody's data"),
    "canaries unchecked": (seen(canaries_checked=1000), "canaries to be checked"),
    "more fingerprints than taken": (seen(fingerprints_checked=78), "fingerprints"),
    "no canaries, no reason": (seen(canaries_planted=0, canaries_checked=0), "found neither"),
    "too few known places": (
        seen(
            expected="unknown",
            namespaces=(replace(COUNTS, expected="unknown"),),
            canaries_planted=687,
            canaries_checked=687,
            fingerprints_taken=687,
            fingerprints_checked=687,
        ),
        "decide nothing",
    ),
    "noise where zeros were promised, without probes": (
        seen(
            namespaces=(replace(COUNTS, zeros=0, random=SAMPLED),),
            canaries_planted=0,
            canaries_checked=0,
            missing_probes=("canaries: lost",),
        ),
        "decide nothing",
    ),
    "nothing decides": (
        seen(
            expected="unknown",
            namespaces=(replace(COUNTS, expected="unknown"),),
            canaries_planted=0,
            canaries_checked=0,
            fingerprints_taken=0,
            fingerprints_checked=0,
            missing_probes=("canaries: write protected",),
        ),
        "decide nothing",
    ),
    "no facts after": (replace(REPORT, facts_after=None), "after the erase"),
    "differs from its profile": (
        replace(REPORT, profile_differences=("fid 6: expected 1, found 0",)),
        "fid 6",
    ),
    "other firmware": (after(firmware="EVIL"), "EVIL"),
    "other capacity": (after(total_bytes=1), "total_bytes"),
    "other layout": (
        after(namespaces=(replace(NAMESPACE, lba_format=1),)),
        "namespaces of the profile",
    ),
    "no health": (replace(REPORT, health=None), "SMART"),
    "critical warning": (replace(REPORT, health=replace(HEALTH, critical_warning=4)), "0x04"),
    "worn out": (replace(REPORT, health=replace(HEALTH, percentage_used=101)), "101 %"),
    "no time": (replace(REPORT, started_at="yesterday"), "found 'yesterday'"),
    "a time before all": (replace(REPORT, started_at="0001-01-01T00:00:00+14:00"), "0001-01-01"),
    "a time after all": (replace(REPORT, finished_at="9999-12-31T23:59:59-14:00"), "9999-12-31"),
    "a seed that the sentence cannot hold": (
        seen(
            done=VerificationMode.FULL,
            seed="0",
            sampled=BLOCKS,
            namespaces=(replace(COUNTS, read=BLOCKS, zeros=BLOCKS),),
        ),
        "expected a seed in hexadecimal",
    ),
    "more than a certificate may hold": (
        replace(REPORT, residues=("x" * codec.MAX_DOCUMENT_BYTES,)),
        "bytes in its certificate",
    ),
    "more than a certificate may hold, once it is spelt": (
        replace(REPORT, tools={"nvme": "\x01" * (codec.MAX_DOCUMENT_BYTES // 6)}),
        "bytes in its certificate",
    ),
}


@pytest.mark.parametrize("case", HELD)
def test_each_contradiction_holds(case: str) -> None:
    report, word = HELD[case]
    ruling, reason = ruled(report, PROFILED)
    assert ruling is Ruling.HOLD, reason
    assert word in reason


def test_an_unfit_drive_needs_a_certificate_that_can_be_read_too() -> None:
    decision = check(ORDER, replace(REPORT, fit=False, reasons=("x" * 4_000_000,)), RECORD)
    assert (decision.ruling, decision.erased) == (Ruling.HOLD, False)


def test_a_host_s_clock_that_was_set_back_holds_nothing() -> None:
    """Nothing is decided on a host's clock (promise 4); the certificate says that it was."""
    stepped = blocked(ended_at="2026-11-20T10:00:00Z")
    assert ruled(stepped)[0] is Ruling.CERTIFY
    evidence = CertificateEvidence(ORDER, "o", stepped, "r", "k", "p", "", ())
    body = certificate.build(evidence, Issuer(), Link(), "2026-11-20T12:00:00Z")
    assert body.exceptions == (clocks.SET_BACK,)
    assert list(consistency.contradictions(body)) == []
    assert any(
        "before it started" in line
        for line in consistency.contradictions(replace(body, exceptions=()))
    )
    honest = certificate.build(replace(evidence, report=REPORT), Issuer(), Link(), body.issued_at)
    (false,) = consistency.contradictions(replace(honest, exceptions=(clocks.SET_BACK,)))
    assert false.startswith("expected times of the host in no order")


@pytest.mark.parametrize(
    ("times", "issued", "previous", "back"),
    [
        ((1, 2), 3, 0, False),
        ((10, 2), 3, 0, True),
        ((1, 10), 3, 0, True),
        ((1, 2), 3, 10, True),
        ((1, 2), 3, 4, False),
    ],
    ids=["steady", "in the case", "before it was issued", "since the last one", "set right"],
)
def test_our_own_clock_that_was_set_back_is_said_to_have_been(
    times: tuple[int, int], issued: int, previous: int, back: bool
) -> None:
    """The certificate is in the chain for good; by its times it must not look forged."""

    def at(minute: int) -> str:
        return f"2026-11-20T12:{minute:02}:00Z"

    history = tuple(HistoryLine(at(minute), "ordered", "erasing", "") for minute in times)
    evidence = CertificateEvidence(ORDER, "o", REPORT, "r", "k", "p", "", history)
    link = Link("d" * 64, 3, at(previous))
    body = certificate.build(evidence, Issuer(), link, at(issued))
    assert (clocks.OURS_SET_BACK in body.exceptions) == back
    assert list(consistency.contradictions(body)) == []
    plain = replace(body, exceptions=())
    assert bool(list(consistency.contradictions(plain))) == (back and previous < issued)


def test_a_fingerprint_under_a_canary_is_no_contradiction() -> None:
    assert ruled(seen(fingerprints_checked=70))[0] is Ruling.CERTIFY


def test_a_command_lost_with_its_sender_is_no_contradiction() -> None:
    report = replace(REPORT, commands=(), resumed=1)
    assert ruled(report) == (Ruling.CERTIFY, "")


def test_a_method_that_failed_and_then_succeeded_stands_by_its_success() -> None:
    failed = replace(BLOCK, verdict=Verdict.NOT_ERASED, log_after=log81(3, 2), reason="failed")
    assert ruled(replace(REPORT, methods=(CRYPTO, failed, BLOCK)))[0] is Ruling.CERTIFY
    ruling, reason = ruled(replace(REPORT, methods=(CRYPTO, BLOCK, failed)))
    assert ruling is Ruling.HOLD
    assert "failed" in reason


def test_each_namespace_needs_its_own_format() -> None:
    order = replace(ORDER, policy=CLEAR_POLICY)
    methods = tuple(replace(FORMAT, nsid=nsid) for nsid in (1, 2))
    sent = tuple(replace(command(0x80, 0x200), nsid=nsid) for nsid in (1, 2))
    assert ruled(replace(CLEARED, methods=methods, commands=sent), order)[0] is Ruling.CERTIFY
    ruling, reason = ruled(replace(CLEARED, methods=methods, commands=sent[:1]), order)
    assert ruling is Ruling.HOLD
    assert "expected a Format" in reason


def test_another_model_than_the_profiles_is_held() -> None:
    profile = replace(ORDER.profile, model="OTHER", total_bytes=FACTS.total_bytes)
    ruling, reason = ruled(REPORT, replace(ORDER, profile=profile))
    assert ruling is Ruling.HOLD
    assert "model" in reason


def test_a_policy_of_full_reading_takes_no_sample() -> None:
    policy = Policy(verification=Verification(mode=VerificationMode.FULL))
    ruling, reason = ruled(seen(asked=VerificationMode.FULL), replace(ORDER, policy=policy))
    assert ruling is Ruling.HOLD
    assert "full verification" in reason


def test_health_limits_are_the_policys() -> None:
    policy = Policy(health=Health(max_percentage_used=200, allow_critical_warning=True))
    worn = replace(REPORT, health=replace(HEALTH, percentage_used=150, critical_warning=4))
    assert ruled(worn, replace(ORDER, policy=policy))[0] is Ruling.CERTIFY


def test_a_format_without_success_is_held() -> None:
    order = replace(ORDER, policy=CLEAR_POLICY)
    for commands in ((), (command(0x80, 0x200, None),), (command(0x80, 0x400),)):
        ruling, reason = ruled(replace(CLEARED, commands=commands), order)
        assert ruling is Ruling.HOLD
        assert "expected a Format" in reason


def test_the_first_clear_method_offered_is_the_one_expected() -> None:
    crypto = replace(FORMAT, method=Method.FORMAT_CRYPTO, cdw10=0x400)
    report = replace(CLEARED, methods=(crypto,), commands=(command(0x80, 0x400),))
    ruling, reason = ruled(report, replace(ORDER, policy=CLEAR_POLICY))
    assert ruling is Ruling.HOLD
    assert "format-crypto" in reason


@pytest.mark.parametrize(
    ("kind", "cdw10", "holds"),
    [
        (Method.FORMAT_USER_DATA, 0x200, False),
        (Method.FORMAT_USER_DATA, 0, True),
        (Method.FORMAT_USER_DATA, 0x400, True),
        (Method.FORMAT_USER_DATA, 0x600, True),
        (Method.FORMAT_CRYPTO, 0x400, False),
        (Method.FORMAT_CRYPTO, 0, True),
        (Method.FORMAT_CRYPTO, 0x200, True),
    ],
)
def test_a_format_is_believed_by_its_secure_erase_settings(
    kind: Method, cdw10: int, *, holds: bool
) -> None:
    """SES 000b erases nothing, and the drive ends it well all the same (Base 2.0, figure 189)."""
    sent = command(0x80, cdw10)
    report = replace(
        CLEARED, methods=(replace(FORMAT, method=kind, cdw10=cdw10),), commands=(sent,)
    )
    order = replace(ORDER, policy=replace(CLEAR_POLICY, clear_methods=(kind,)))
    ruling, reason = ruled(report, order)
    assert ruling is (Ruling.HOLD if holds else Ruling.CERTIFY)
    assert ("expected CDW10 & 0xe00" in reason) is holds


@pytest.mark.parametrize(
    ("kind", "cdw10", "lacks"),
    [
        (Method.FORMAT_USER_DATA, 0x200, {"oacs": FACTS.oacs & ~0x2}),
        (Method.FORMAT_CRYPTO, 0x400, {"oacs": FACTS.oacs & ~0x2}),
        (Method.FORMAT_CRYPTO, 0x400, {"fna": FACTS.fna & ~0x4}),
    ],
)
def test_a_format_that_the_drive_does_not_offer_is_not_believed(
    kind: Method, cdw10: int, lacks: dict[str, int]
) -> None:
    """OACS bit 1 is Format NVM, FNA bit 2 its cryptographic erase (Base 2.0, figure 275)."""
    facts = replace(NO_SANITIZE, **lacks)
    report = replace(
        CLEARED,
        methods=(replace(FORMAT, method=kind, cdw10=cdw10),),
        commands=(command(0x80, cdw10),),
        facts_before=facts,
        facts_after=facts,
    )
    order = replace(ORDER, policy=replace(CLEAR_POLICY, clear_methods=(kind,)))
    ruling, reason = ruled(report, order)
    assert ruling is Ruling.HOLD
    assert "offers no method for Clear" in reason


@pytest.mark.parametrize(
    ("confidence", "residual", "n"),
    [(0.95, 0.01, 299), (0.999, 0.001, 6905), (0.999, 0.0001, 69075), (0.99, 0.001, 4603)],
)
def test_sample_sizes_of_the_published_table(confidence: float, residual: float, n: int) -> None:
    assert reading.needed(confidence, residual) == n
    assert reading.bound(n, confidence) <= residual < reading.bound(n - 2, confidence)


def quirky(**changes: Any) -> EraseOrder:
    quirk = Quirk(ORDER.identity.model, "hangs", firmware="VDV*", **changes)
    return replace(ORDER, policy=Policy(quirks=(quirk,)))


def test_a_quirk_changes_what_had_to_be_run() -> None:
    order = quirky(skip=(Method.SANITIZE_BLOCK,))
    alone = replace(REPORT, methods=(CRYPTO,), commands=(command(0x84, 4),))
    assert ruled(alone)[0] is Ruling.HOLD
    assert ruled(alone, order) == (Ruling.CERTIFY, "")
    ruling, reason = ruled(REPORT, order)
    assert ruling is Ruling.HOLD
    assert "found also sanitize-block" in reason
    other = replace(alone, facts_before=replace(FACTS, firmware="OTHER"))
    assert ruled(other, order)[0] is Ruling.HOLD
    turned = quirky(purge_methods=(Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO))
    assert ruled(REPORT, turned)[0] is Ruling.HOLD
    other_way = replace(REPORT, methods=(BLOCK, CRYPTO), commands=REPORT.commands[::-1])
    assert ruled(other_way, turned) == (Ruling.CERTIFY, "")


def test_fewer_methods_need_their_permission() -> None:
    facts = replace(FACTS, sanicap=1)
    fewer = replace(
        REPORT, methods=(CRYPTO,), commands=(command(0x84, 4),), facts_before=facts,
        facts_after=facts,
    )  # fmt: skip
    assert ruled(fewer)[0] is Ruling.CERTIFY
    ruling, reason = ruled(fewer, replace(ORDER, policy=Policy(allow_fewer=False)))
    assert ruling is Ruling.HOLD
    assert "allows no fewer" in reason


def test_a_failed_method_needs_its_permission() -> None:
    failed = replace(CRYPTO, verdict=Verdict.NOT_ERASED, reason="SSTAT 3")
    report = replace(REPORT, methods=(failed, BLOCK))
    allowed = replace(ORDER, policy=Policy(allow_failed=True))
    assert ruled(report)[0] is Ruling.HOLD
    assert ruled(report, allowed) == (Ruling.CERTIFY, "")
    unknown = replace(report, methods=(replace(failed, verdict=Verdict.UNKNOWN), BLOCK))
    assert ruled(unknown, allowed)[0] is Ruling.HOLD


FAILED_CRYPTO = replace(CRYPTO, verdict=Verdict.NOT_ERASED, log_after=log81(3, 4))
FAILED_BLOCK = replace(BLOCK, verdict=Verdict.NOT_ERASED, log_after=log81(3, 2))
REFUSED_BLOCK = replace(BLOCK, verdict=Verdict.NOT_ERASED, reason="status 0x020")


@pytest.mark.parametrize(
    ("done", "retires"),
    [
        ((FAILED_CRYPTO, FAILED_BLOCK), True),
        ((replace(FAILED_BLOCK, attempts=2),), True),
        ((FAILED_BLOCK,), False),
        # Refused twice, with the log of an earlier one that failed.
        ((replace(FAILED_BLOCK, attempts=2, changed=False),), False),
        # Of two attempts one was interrupted, or met another's sanitize: it failed once.
        ((replace(FAILED_CRYPTO, attempts=2), REFUSED_BLOCK), False),
        ((replace(FAILED_CRYPTO, attempts=2), replace(BLOCK, verdict=Verdict.UNKNOWN)), False),
        ((REFUSED_BLOCK,), False),
        ((), False),
    ],
)
def test_only_a_sanitize_that_failed_twice_retires(
    done: tuple[MethodRecord, ...], retires: bool
) -> None:
    report = replace(REPORT, verdict=Verdict.UNKNOWN, fit=False, methods=done)
    assert bool(check(ORDER, report, RECORD).retire) is retires


@pytest.mark.parametrize(
    ("changes", "erased", "retires"),
    [
        ({}, True, False),
        ({"health": replace(HEALTH, critical_warning=8)}, True, True),
        ({"health": replace(HEALTH, percentage_used=250)}, True, False),
        ({"health": None}, False, False),
        ({"facts_after": None}, False, False),
        ({"commands": ()}, False, False),
        ({"verdict": Verdict.UNKNOWN}, False, False),
        ({"verdict": Verdict.NOT_ERASED, "health": replace(HEALTH, critical_warning=8)}, 0, True),
        ({"identity": replace(IDENTITY, serial="X")}, False, False),
    ],
)
def test_an_unfit_drive_that_was_erased_is_told_from_one_that_was_not(
    changes: dict[str, Any], erased: bool, retires: bool
) -> None:
    decision = check(ORDER, replace(REPORT, fit=False, reasons=("unfit",), **changes), RECORD)
    assert decision.ruling is Ruling.HOLD
    assert (decision.erased, bool(decision.retire)) == (bool(erased), retires)


def test_what_the_table_only_notes_holds_nothing() -> None:
    hot = replace(REPORT, health=replace(HEALTH, critical_warning=2))
    assert ruled(hot) == (Ruling.CERTIFY, "")
    strict = Policy(health=Health(note=()))
    assert ruled(hot, replace(ORDER, policy=strict))[0] is Ruling.HOLD
    assert check(ORDER, REPORT, RECORD).retire == ()


def test_a_drive_that_its_host_wrongly_calls_fit_is_held_and_retired() -> None:
    lied = replace(REPORT, health=replace(HEALTH, critical_warning=4))
    decision = check(ORDER, lied, RECORD)
    assert (decision.ruling, decision.erased) == (Ruling.HOLD, False)
    assert "reliability degraded" in decision.retire[0]


def test_what_no_order_can_mend_retires_the_drive_whatever_else_its_host_says() -> None:
    for_ever = "namespace 1 is write protected for ever"
    decision = check(ORDER, replace(REPORT, retire=(for_ever,)), RECORD)
    assert decision.ruling is Ruling.HOLD
    assert for_ever in decision.reasons
    assert decision.retire == (for_ever,)


GAVE_UP = replace(CRYPTO, verdict=Verdict.NOT_ERASED, log_after=log81(3, 4), reason="SSTAT 3")


@pytest.mark.parametrize(
    ("methods", "retires"),
    [
        ((replace(GAVE_UP, attempts=2),), True),
        ((GAVE_UP, replace(BLOCK, verdict=Verdict.NOT_ERASED, log_after=log81(3, 2))), True),
        ((GAVE_UP,), False),
        ((replace(GAVE_UP, attempts=2, log_after=log81(1, 4)),), False),
        ((replace(GAVE_UP, attempts=2, log_after=log81(3, 2)),), False),
        ((replace(GAVE_UP, attempts=2, log_after="rubbish"),), False),
        ((replace(GAVE_UP, attempts=2, verdict=Verdict.UNKNOWN),), False),
        ((replace(FORMAT, attempts=2, verdict=Verdict.NOT_ERASED),), False),
    ],
)
def test_a_drive_whose_sanitize_failed_twice_by_its_own_log_is_retired(
    methods: tuple[MethodRecord, ...], retires: bool
) -> None:
    report = replace(REPORT, verdict=Verdict.NOT_ERASED, fit=False, methods=methods)
    decision = check(ORDER, report, RECORD)
    assert (decision.ruling, decision.erased) == (Ruling.HOLD, False)
    assert bool(decision.retire) is retires
    kept = replace(ORDER, policy=Policy(health=Health(retire=())))
    assert check(kept, report, RECORD).retire == ()
