"""Every row of docs/decisions/verdict.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.proof.classify import BlockClass
from eraser.proof.statement import record, sentence
from eraser.proof.tally import Blocks, VerificationResult
from eraser.proof.verdict import (
    PROBE_FLOOR,
    Fill,
    Proof,
    judge,
)
from eraser.protocol import codec
from eraser.protocol.policy import Method, VerificationMode
from eraser.protocol.report import (
    ActRecord,
    MethodRecord,
    NamespaceVerification,
    Verdict,
    VerificationRecord,
    VisitRecord,
)

ERASED, NOT_ERASED, UNKNOWN = Verdict.ERASED, Verdict.NOT_ERASED, Verdict.UNKNOWN
ZEROS, ONES, NOTHING = Fill.ZEROS, Fill.ONES, Fill.UNKNOWN
N = 69075
K = 1024


def _method(method: Method, verdict: Verdict = ERASED, reason: str = "") -> MethodRecord:
    return MethodRecord(method, 0, 0, 1, False, "", "", True, verdict, reason, 1.0)


BLOCK_ERASE = (_method(Method.SANITIZE_CRYPTO), _method(Method.SANITIZE_BLOCK))
CRYPTO = (_method(Method.SANITIZE_CRYPTO),)
FORMAT = (_method(Method.FORMAT_USER_DATA),)


def _evidence(
    expected: Fill,
    looks: Blocks,
    written: Blocks | None = None,
    *,
    canaries: int = 0,
    unchanged: int = 0,
    unreadable: int = 0,
    planted: int = K,
    prints: int = 0,
    patterns: int | None = None,
    incomplete: str = "",
    asked: int = K,
    missing: tuple[str, ...] = (),
    blocks: int = 1 << 30,
) -> Proof:
    """``looks`` in all; ``written`` at the places of probes, where the blocks read most often."""
    if written is None:
        most = max(BlockClass, key=looks.of)
        written = Blocks(**{most.value: planted + prints})
    namespace = NamespaceVerification(
        nsid=1,
        blocks=blocks,
        read=looks.total,
        zeros=looks.zeros,
        ones=looks.ones,
        pattern=looks.pattern,
        random=looks.random,
        structured=looks.structured,
        canaries=canaries,
        unchanged=unchanged,
        unreadable=unreadable,
    )
    result = VerificationResult(
        asked=VerificationMode.STATISTICAL,
        done=VerificationMode.STATISTICAL,
        seed="ab" * 32,
        confidence=0.999,
        residual=0.0001,
        sampled=N,
        namespaces=(namespace,),
        written=(written,),
        patterns=(tuple("abcdefgh"[: int(looks.pattern > 0) if patterns is None else patterns]),),
        canaries_planted=planted,
        canaries_checked=planted,
        fingerprints_taken=prints,
        fingerprints_checked=prints,
        compared=N if prints else 0,
        canaries_counted=planted,
        incomplete=incomplete,
        bytes_read=looks.total * 4096,
        seconds=1.0,
    )
    return Proof(result, (expected,), asked, missing)


# Row, methods, evidence, verdict, a piece of the reason.
ROWS = [
    # 1. What must be gone is there.
    ("1 lying", BLOCK_ERASE, _evidence(ZEROS, Blocks(random=N), canaries=K), NOT_ERASED, "1024"),
    ("1 one canary", CRYPTO, _evidence(NOTHING, Blocks(random=N), canaries=1), NOT_ERASED, "1 can"),
    (
        "1 one block of the owner",
        CRYPTO,
        _evidence(NOTHING, Blocks(random=N), unchanged=1, prints=5000),
        NOT_ERASED,
        "1 blocks of the last owner",
    ),
    ("1 before unreadable", CRYPTO, _evidence(NOTHING, Blocks(random=9), canaries=1, unreadable=1),
     NOT_ERASED, "1 can"),
    # 2. The promise was kept.
    ("2 zeros", BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=N)), ERASED, ""),
    ("2 ones", BLOCK_ERASE, _evidence(ONES, Blocks(ones=N)), ERASED, ""),
    ("2 without any probe", CRYPTO, _evidence(ZEROS, Blocks(zeros=N), planted=0), ERASED, ""),
    # 3. The promise was broken in part.
    ("3 structured", BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=N - 1, structured=1)), NOT_ERASED,
     "1 look like somebody's data"),
    ("3 structured alone", FORMAT, _evidence(ZEROS, Blocks(structured=N), planted=0), NOT_ERASED,
     "look like somebody's data"),
    ("3 one block of noise", BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=N - 1, random=1)),
     NOT_ERASED, "1 of 69075 blocks do not read as zeros"),
    ("3 after crypto too", CRYPTO, _evidence(ZEROS, Blocks(zeros=N - 700, random=700)),
     NOT_ERASED, "although blocks written before the erase do"),
    ("3 pattern", BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=N - 9, pattern=9)), NOT_ERASED, "9 "),
    ("3 zeros, ones", BLOCK_ERASE, _evidence(ONES, Blocks(ones=N - 1, zeros=1)), NOT_ERASED, "1"),
    ("3 written blocks differ", CRYPTO,
     _evidence(ZEROS, Blocks(zeros=9, random=N), Blocks(zeros=4, random=K - 4)), NOT_ERASED,
     "although blocks written"),
    ("3 mixture, no probe, block erase", BLOCK_ERASE,
     _evidence(ZEROS, Blocks(zeros=N - 700, random=700), Blocks(), planted=0), NOT_ERASED,
     "a block erase leaves no noise"),
    ("3 blank in two ways, no probe, block erase", BLOCK_ERASE,
     _evidence(ZEROS, Blocks(zeros=N - 700, ones=700), Blocks(), planted=0), UNKNOWN,
     "too few probes"),
    ("3 mixture, no probe, crypto", CRYPTO,
     _evidence(ZEROS, Blocks(zeros=N - 700, random=700), Blocks(), planted=0), UNKNOWN,
     "too few probes"),
    # 4. The drive did not deallocate: nothing was promised.
    ("4 all noise", CRYPTO, _evidence(ZEROS, Blocks(random=N)), ERASED, ""),
    ("4 all a pattern", BLOCK_ERASE, _evidence(ZEROS, Blocks(pattern=N)), ERASED, ""),
    ("4 unwritten blank, written noise", CRYPTO,
     _evidence(ZEROS, Blocks(zeros=N // 2, random=N // 2), Blocks(random=K)), ERASED, ""),
    ("4 noise after a block erase", BLOCK_ERASE, _evidence(ZEROS, Blocks(random=N)), UNKNOWN,
     "which a block erase leaves nowhere"),
    ("4 written noise after a block erase", BLOCK_ERASE,
     _evidence(ZEROS, Blocks(zeros=N // 2, random=N // 2), Blocks(random=K)), UNKNOWN,
     "which a block erase leaves nowhere"),
    ("4 without probes", CRYPTO, _evidence(ZEROS, Blocks(random=N), Blocks(), planted=0), UNKNOWN,
     "did not deallocate"),
    # 5. Nothing is promised.
    ("5 noise", CRYPTO, _evidence(NOTHING, Blocks(random=N)), ERASED, ""),
    ("5 pattern", BLOCK_ERASE, _evidence(NOTHING, Blocks(pattern=N)), ERASED, ""),
    ("5 zeros", BLOCK_ERASE, _evidence(NOTHING, Blocks(zeros=N)), ERASED, ""),
    ("5 blank and noise", CRYPTO,
     _evidence(NOTHING, Blocks(zeros=60000, random=9075), Blocks(random=K)), ERASED, ""),
    ("5 blank and pattern", BLOCK_ERASE,
     _evidence(NOTHING, Blocks(zeros=60000, pattern=9075), Blocks(pattern=K)), ERASED, ""),
    ("5 fingerprints decide alone", CRYPTO,
     _evidence(NOTHING, Blocks(random=N), planted=0, prints=5000), ERASED, ""),
    ("5 structured", CRYPTO, _evidence(NOTHING, Blocks(random=N, structured=1)), UNKNOWN,
     "look like somebody's data"),
    ("5 no probe", CRYPTO, _evidence(NOTHING, Blocks(random=N), Blocks(), planted=0), UNKNOWN,
     "does not say what erased blocks read as"),
    ("5 no probe, all zeros", CRYPTO, _evidence(NOTHING, Blocks(zeros=N), Blocks(), planted=0),
     UNKNOWN, "does not say"),
    ("5 few probes", CRYPTO, _evidence(NOTHING, Blocks(random=N), planted=PROBE_FLOOR - 1,
     asked=PROBE_FLOOR - 1), UNKNOWN, "expected 688"),
    ("5 enough probes", CRYPTO,
     _evidence(NOTHING, Blocks(random=N), planted=PROBE_FLOOR, asked=PROBE_FLOOR), ERASED, ""),
    ("5 many writes failed", CRYPTO, _evidence(NOTHING, Blocks(random=N), planted=900), UNKNOWN,
     "900 of 1024"),
    ("5 few writes failed", CRYPTO, _evidence(NOTHING, Blocks(random=N), planted=1000), ERASED, ""),
    ("5 a tiny drive", CRYPTO,
     _evidence(NOTHING, Blocks(random=64), planted=64, asked=64, blocks=64), ERASED, ""),
    ("5 two patterns", BLOCK_ERASE, _evidence(NOTHING, Blocks(pattern=N), patterns=2), UNKNOWN,
     "more than one pattern"),
    ("5 noise, though written blocks are blank", BLOCK_ERASE,
     _evidence(NOTHING, Blocks(pattern=N - 7, random=7), Blocks(pattern=K)), NOT_ERASED,
     "7 of 69075 blocks hold noise"),
    ("5 written blocks differ", CRYPTO,
     _evidence(NOTHING, Blocks(zeros=9000, random=60075), Blocks(zeros=500, random=524)), UNKNOWN,
     "no erase that we know"),
    # 6. Not all was read.
    ("6 unreadable", BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=N - 3), unreadable=3), UNKNOWN,
     "3 blocks cannot be read"),
    ("6 unreadable, broken promise", BLOCK_ERASE,
     _evidence(ZEROS, Blocks(zeros=N - 4, random=1), unreadable=3), NOT_ERASED, "1 of"),
    ("6 given up", BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=9), incomplete="given up"), UNKNOWN,
     "given up"),
    ("6 nothing read", BLOCK_ERASE, _evidence(ZEROS, Blocks(), planted=0), UNKNOWN, "no block"),
    ("6 nothing read, nothing promised", CRYPTO, _evidence(NOTHING, Blocks()), UNKNOWN, "no block"),
    # 7. The drive's own word.
    ("7 no method", (), _evidence(ZEROS, Blocks(zeros=N)), UNKNOWN, "no method"),
    ("7 all failed", (_method(Method.SANITIZE_BLOCK, NOT_ERASED, "SSTAT 3"),),
     _evidence(ZEROS, Blocks(zeros=N)), NOT_ERASED, "SSTAT 3"),
    ("7 all unknown", (_method(Method.SANITIZE_BLOCK, UNKNOWN, "stuck"),),
     _evidence(ZEROS, Blocks(zeros=N)), UNKNOWN, "sanitize-block: stuck"),
    ("7 the last one failed", (*CRYPTO, _method(Method.SANITIZE_BLOCK, NOT_ERASED, "SSTAT 3")),
     _evidence(ZEROS, Blocks(zeros=N)), UNKNOWN, "SSTAT 3"),
    ("7 the last one stands", (_method(Method.SANITIZE_CRYPTO, NOT_ERASED), *BLOCK_ERASE[1:]),
     _evidence(ZEROS, Blocks(zeros=N)), ERASED, ""),
    ("7 unknown, but data is seen", (_method(Method.SANITIZE_BLOCK, UNKNOWN, "stuck"),),
     _evidence(ZEROS, Blocks(random=N), canaries=5), NOT_ERASED, "5 canaries"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("methods", "evidence", "verdict", "reason"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_row(
    methods: tuple[MethodRecord, ...], evidence: Proof, verdict: Verdict, reason: str
) -> None:
    found, reasons = judge(methods, evidence)
    assert (found, reasons) == (verdict, reasons)
    assert bool(reasons) == (verdict is not ERASED)
    assert reason in " | ".join(reasons)
    # The certificate claims something exactly where the verdict does.
    assert sentence(methods, evidence).startswith("Nothing is claimed") == (verdict is not ERASED)


@pytest.mark.parametrize(("methods", "evidence"), [r[1:3] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_leftover_can_never_help(methods: tuple[MethodRecord, ...], evidence: Proof) -> None:
    """Whatever else was found: one canary more and the drive is not erased."""
    [namespace] = evidence.result.namespaces
    for more in (replace(namespace, canaries=1), replace(namespace, unchanged=1)):
        worse = replace(evidence, result=replace(evidence.result, namespaces=(more,)))
        assert judge(methods, worse)[0] is NOT_ERASED


def _visited(*, wrote: bool = False, **counts: int) -> tuple[VisitRecord, ...]:
    act = replace(ActRecord("reads with FUA", 34, 0, 0, 0, 0), **counts)
    return (VisitRecord(1, wrote, (act,), ()),)


@pytest.mark.parametrize(
    ("visits", "verdict", "reason"),
    [
        (_visited(), ERASED, ""),
        (_visited(otherwise=2), UNKNOWN, "2 blocks read otherwise than anything that the erase"),
        (_visited(structured=1), UNKNOWN, "1 blocks look like somebody's data"),
        (_visited(wrote=True, otherwise=2, structured=1), ERASED, ""),
        (_visited(canaries=1, otherwise=2), NOT_ERASED, "1 canaries"),
    ],
    ids=["6b nothing", "6b noise", "6b data", "6b our own writes", "1a first"],
)
def test_what_another_way_of_asking_shows_leaves_nothing_certain(
    visits: tuple[VisitRecord, ...], verdict: Verdict, reason: str
) -> None:
    evidence = replace(_evidence(ZEROS, Blocks(zeros=N)), visits=visits)
    found, reasons = judge(BLOCK_ERASE, evidence)
    assert (found, bool(reasons)) == (verdict, verdict is not ERASED)
    assert reason in " | ".join(reasons)


def test_missing_probes_are_named_only_where_they_matter() -> None:
    missing = ("canaries: the namespace is write protected",)
    clean = _evidence(ZEROS, Blocks(zeros=N), planted=0, missing=missing)
    assert judge(BLOCK_ERASE, clean) == (ERASED, ())
    doubtful = _evidence(NOTHING, Blocks(random=N), Blocks(), planted=0, missing=missing)
    assert "missing probe: canaries: the namespace" in judge(CRYPTO, doubtful)[1][-1]


def test_the_promise_of_several_namespaces() -> None:
    assert Fill.of(0) is Fill.together([ZEROS, ZEROS]) is ZEROS
    assert Fill.of(255) is ONES
    assert Fill.of(None) is NOTHING
    for each in ([ZEROS, ONES], [ZEROS, NOTHING], [NOTHING], []):
        assert Fill.together(each) is NOTHING


def test_the_sentence_for_content_bounds_what_was_read() -> None:
    found = sentence(BLOCK_ERASE, _evidence(ZEROS, Blocks(zeros=70001)))
    assert "n = 69,075 of them at random places drawn after the erase (seed abab" in found
    assert "Of 1,073,741,824 blocks of 4096 bytes 70,001 were read" in found
    assert (
        "Assuming that the firmware tells the truth, less than 0.01 % of the blocks hold" in found
    )
    assert "with 99.9 % confidence" in found


def test_no_sentence_rounds_a_confidence_up() -> None:
    """A policy may ask for any below 1, and nothing below it is certain."""
    evidence = _evidence(ZEROS, Blocks(zeros=70001))
    asked = replace(evidence, result=replace(evidence.result, confidence=0.9999999999))
    assert "with 99.99999999 % confidence" in sentence(BLOCK_ERASE, asked)


def test_the_sentence_for_noise_claims_no_more_than_the_probes_do() -> None:
    """69,075 blocks of noise prove nothing; 1,024 canaries exclude 0.673 %, not 0.01 %."""
    found = sentence(CRYPTO, _evidence(NOTHING, Blocks(random=N)))
    assert "less than 0.673 % of the blocks kept what they held" in found
    assert "from the n = 1,024 places" in found
    assert "0.01 %" not in found
    with_prints = sentence(CRYPTO, _evidence(NOTHING, Blocks(random=N), prints=5000))
    assert "less than 0.01 % of the blocks kept" in with_prints


def test_the_sentence_for_noise_counts_what_is_earned_everywhere() -> None:
    """Of many small namespaces each has more canaries than its size earns."""
    evidence = _evidence(NOTHING, Blocks(random=N), planted=1405, asked=1405)
    fewer = replace(evidence, result=replace(evidence.result, canaries_counted=K))
    assert "n = 1,024 places" in sentence(CRYPTO, fewer)
    assert "1,405 canaries" in sentence(CRYPTO, fewer)
    assert record(CRYPTO, fewer, "").probed == K


@pytest.mark.parametrize("counts", [0, PROBE_FLOOR - 1, PROBE_FLOOR])
@pytest.mark.parametrize("prints", [0, 5000], ids=["canaries", "fingerprints"])
def test_noise_is_not_told_by_probes_that_do_not_count_everywhere(counts: int, prints: int) -> None:
    """A remainder in a namespace without any, beside one with all of them, would not be found."""
    evidence = _evidence(NOTHING, Blocks(random=N), prints=prints, planted=0 if prints else K)
    result = replace(evidence.result, canaries_counted=0, compared=0)
    counted = replace(result, **{"compared" if prints else "canaries_counted": counts})
    verdict, reasons = judge(CRYPTO, replace(evidence, result=counted))
    assert verdict is (ERASED if counts >= PROBE_FLOOR else UNKNOWN)
    assert any(f"{counts} of them count" in text for text in reasons) is (verdict is UNKNOWN)
    # What reads alike everywhere is judged by its look, with the known blocks as a pattern of it.
    blank = _evidence(NOTHING, Blocks(zeros=N), prints=prints, planted=0 if prints else K)
    none = replace(blank.result, canaries_counted=0, compared=0)
    assert judge(CRYPTO, replace(blank, result=none))[0] is ERASED


def test_the_sentence_for_a_full_read() -> None:
    evidence = _evidence(ZEROS, Blocks(zeros=1 << 20), blocks=1 << 20)
    full = replace(
        evidence,
        result=replace(evidence.result, done=VerificationMode.FULL, sampled=1 << 20),
    )
    found = sentence(BLOCK_ERASE, full)
    assert found.startswith("All 1,048,576 blocks of 4096 bytes were read: 1,048,576 zeros.")
    assert "Assuming that the firmware tells the truth, no addressable block" in found
    noise = replace(
        full,
        result=replace(
            full.result,
            namespaces=(replace(full.result.namespaces[0], zeros=0, random=1 << 20),),
            written=(Blocks(random=K),),
        ),
    )
    assert "less than 0.673 %" in sentence(CRYPTO, noise), "a full read of noise proves no more"


@pytest.mark.parametrize(
    ("n", "shown"), [(69075, "0.01 %"), (69074, "0.0101 %"), (1, "99.9 %"), (2300, "0.3 %")]
)
def test_a_bound_is_rounded_up(n: int, shown: str) -> None:
    evidence = _evidence(ZEROS, Blocks(zeros=n))
    evidence = replace(evidence, result=replace(evidence.result, sampled=n))
    assert f"less than {shown} of" in sentence(BLOCK_ERASE, evidence)


def test_the_record_goes_over_the_wire() -> None:
    evidence = _evidence(ZEROS, Blocks(zeros=N), missing=("fingerprints: lost",))
    made = record(BLOCK_ERASE, evidence, "2026-11-20T11:00:30+00:00")
    again = codec.load(VerificationRecord, codec.canonical(made), "record")
    assert again == made
    assert made.expected == "zeros"
    assert made.missing_probes == ("fingerprints: lost",)
    assert "Assuming" in made.sentence
