"""NIST layout, second reading, promises per namespace: what the control plane believes and says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.policy import Policy, Verification, VerificationMode
from eraser.protocol.report import EraseReport
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link
from quarantine.evidence.sections import Certificate
from quarantine.rules.reports.check import Ruling
from tests.unit.quarantine.evidence.test_certificate import ISSUER, evidence_of
from tests.unit.quarantine.evidence.test_check import ruled
from tests.unit.quarantine.testimony import (
    COUNTS,
    FACTS,
    NAMESPACE,
    ORDER,
    REPORT,
    SAMPLED,
    VERIFICATION,
)

NIST = VerificationMode.NIST
ASKED = replace(ORDER, policy=Policy(verification=Verification(mode=NIST)))
WINDOWS = 25_400
READ = WINDOWS + SAMPLED


def read(verification: dict[str, Any] | None = None, **counts: Any) -> EraseReport:
    """An honest report of a verification in the NIST layout, spoilt in a place."""
    honest = {"windows": 2000, "window_blocks": WINDOWS, "read": READ, "zeros": READ}
    namespace = replace(COUNTS, **{**honest, **counts})
    record = replace(VERIFICATION, asked=NIST, done=NIST, namespaces=(namespace,))
    return replace(REPORT, verification=replace(record, **(verification or {})))


def test_an_honest_one_is_certified() -> None:
    assert ruled(read(), ASKED) == (Ruling.CERTIFY, "")


def test_a_small_drive_is_read_whole_in_its_place() -> None:
    whole = {"windows": 0, "window_blocks": 0, "read": 250_000, "zeros": 250_000}
    done = {"done": VerificationMode.FULL, "sampled": 250_000}
    assert ruled(read(done, **whole), ASKED) == (Ruling.CERTIFY, "")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"windows": 1999}, "2000 windows"),
        ({"window_blocks": 24_999}, "a tenth"),
        ({"window_blocks": READ + 1}, "at most"),
        ({"window_blocks": -1}, "0 or more"),
        ({"changed": 1}, "read otherwise"),
        ({"reread": 0}, "read again"),
    ],
)
def test_what_does_not_add_up_is_held(changes: dict[str, Any], word: str) -> None:
    ruling, reason = ruled(read(**changes), ASKED)
    assert ruling is Ruling.HOLD
    assert word in reason


def test_a_sample_alone_is_no_nist_reading() -> None:
    ruling, reason = ruled(read({"done": VerificationMode.STATISTICAL}), ASKED)
    assert ruling is Ruling.HOLD
    assert "expected a nist or full verification" in reason


def test_the_bound_is_the_samples_and_windows_do_not_stand_in_for_it() -> None:
    ruling, reason = ruled(read({"sampled": 2000}), ASKED)
    assert ruling is Ruling.HOLD
    assert "at random places" in reason


def test_a_host_from_before_the_second_reading_is_no_contradiction() -> None:
    """Its order was sent before the control plane knew of one."""
    old = replace(COUNTS, expected="", reread=0)
    assert ruled(replace(REPORT, verification=replace(VERIFICATION, namespaces=(old,))))[0] is (
        Ruling.CERTIFY
    )


def built(report: EraseReport) -> Certificate:
    testimony = replace(evidence_of(report), order=ASKED)
    return certificate.build(testimony, ISSUER, Link(), "2026-11-20T12:00:00Z")


def test_the_certificate_names_counts_and_claims_no_conformity() -> None:
    found = built(read())
    said = found.verification
    assert "2,000 windows with 104,038,400 bytes (10.16 %)" in said.method
    assert "withdrawn NIST SP 800-88r1:" in said.method
    assert "4.7.3" not in codec.canonical(found).decode(), "no section is cited of a text like that"
    assert "windows" in said.sentence
    assert "which bound no small remainder any better" in said.sentence
    assert "0.010000 %" in said.sentence, "the bound of the sample, not of a tenth"
    assert any("withdrawn" in text for text in found.not_done)
    assert not any("withdrawn" in text for text in certificate.build(
        evidence_of(), ISSUER, Link(), "2026-11-20T12:00:00Z"
    ).not_done)  # fmt: skip


def test_namespaces_that_promise_different_things_each_keep_their_own() -> None:
    ones = replace(COUNTS, nsid=2, zeros=0, ones=SAMPLED, uniform="ff" * 16, expected="ones")
    both = replace(
        VERIFICATION, expected="unknown", namespaces=(COUNTS, ones), canaries_planted=0,
        canaries_checked=0, fingerprints_taken=0, fingerprints_checked=0, sampled=2 * SAMPLED,
        missing_probes=("canaries: write protected",),
    )  # fmt: skip
    facts = replace(FACTS, namespaces=(NAMESPACE, replace(NAMESPACE, nsid=2)), dlfeat=(1, 2))
    _ruling, reason = ruled(replace(REPORT, facts_after=facts, verification=both))
    assert "decide nothing" not in reason
    swapped = replace(both, namespaces=(replace(COUNTS, expected="ones"), ones))
    _ruling, reason = ruled(replace(REPORT, facts_after=facts, verification=swapped))
    assert "decide nothing" in reason
