"""Certificates: what they say, who signed them, and how they hang together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from jwcrypto import jwk, jws

from eraser.wire import codec
from eraser.wire.policy import Label
from eraser.wire.report import EraseReport, Verdict
from eraser.wire.signing import PrivateKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate, ledger
from quarantine.evidence.certificate import Evidence, Link, SignedCertificate
from quarantine.evidence.sections import Certificate, Issuer, Moment
from tests.unit.quarantine.testimony import (
    BLOCK,
    COUNTS,
    FACTS,
    FORMAT,
    ORDER,
    REPORT,
    SAMPLED,
    VERIFICATION,
    command,
)

KEY = PrivateKey.generate()
OTHER = PrivateKey.generate()
ISSUER = Issuer("Example Cloud", "A. Operator", "Head of storage", "Roubaix", "ops@example.org")
HISTORY = (Moment("2026-11-20T10:59:00Z", "release_seen", "released", "server gone"),)


def evidence_of(report: EraseReport = REPORT) -> Evidence:
    return Evidence(
        order=ORDER,
        order_token="order.token.x",
        report=report,
        report_token="report.token.x",
        host_key="thumbprint",
        provider="11111111-1111-4111-8111-111111111111",
        last_user="22222222-2222-4222-8222-222222222222",
        history=HISTORY,
    )


def issue(previous: Link, report: EraseReport = REPORT, key: PrivateKey = KEY) -> SignedCertificate:
    built = certificate.build(evidence_of(report), ISSUER, previous, "2026-11-20T12:00:00Z")
    return certificate.sign(built, key)


def chain(length: int) -> list[SignedCertificate]:
    links: list[SignedCertificate] = []
    for _ in range(length):
        links.append(issue(links[-1].link if links else Link()))
    return links


def audit(signed: list[SignedCertificate]) -> ledger.Audit:
    named = [(f"file{n}", certificate.document(one)) for n, one in enumerate(signed)]
    return ledger.audit(named, [KEY.public])


def test_a_library_of_another_hand_verifies_it() -> None:
    signed = issue(Link())
    token = jws.JWS()
    token.deserialize(signed.token)
    token.allowed_algs = ["EdDSA"]
    token.verify(jwk.JWK(**KEY.public.jwk()))
    assert token.jose_header["typ"] == certificate.CERTIFICATE_TYPE
    assert hashlib.sha256(token.payload).hexdigest() == signed.digest
    assert json.loads(token.payload)["drive"]["identity"]["serial"] == ORDER.identity.serial
    foreign = jws.JWS()
    foreign.deserialize(signed.token)
    with pytest.raises(jws.InvalidJWSSignature):
        foreign.verify(jwk.JWK(**OTHER.public.jwk()))


def test_it_survives_its_own_file() -> None:
    signed = issue(Link())
    assert certificate.read_document(certificate.document(signed), [KEY.public], "file") == signed
    assert certificate.read_document(signed.token.encode(), [KEY.public], "file") == signed


def test_one_of_several_keys_is_enough() -> None:
    signed = issue(Link())
    assert certificate.verify(signed.token, [OTHER.public, KEY.public], "x").key == (
        KEY.public.thumbprint
    )


def test_it_has_the_fields_of_sp_800_88() -> None:
    body = issue(Link()).certificate
    assert body.drive.manufacturer == "Intel (PCI vendor 0x8086)"
    assert body.drive.identity == ORDER.identity
    assert body.drive.media_type == "NVMe solid state drive"
    assert body.source.last_user == "22222222-2222-4222-8222-222222222222"
    assert body.sanitization.label is Label.PURGE
    assert [m.cdw10 for m in body.sanitization.methods] == [4, 2]
    assert "success (SSTAT 1), SCDW10 0x2" in body.sanitization.methods[1].reported
    assert body.sanitization.tools["nvme-cli"] == "2.4"
    assert body.verification.method.startswith("quick sampling")
    assert body.issuer == ISSUER
    assert body.case.report_digest == hashlib.sha256(b"report.token.x").hexdigest()
    assert body.case.history == HISTORY
    assert body.exceptions == ()


def test_the_confidence_sentence_is_computed() -> None:
    sentence = issue(Link()).certificate.verification.sentence
    assert "69,075 of 250,000 blocks" in sentence
    assert VERIFICATION.seed in sentence
    assert "0.010000 %" in sentence
    assert "0.999" in sentence
    assert "firmware answers reads truthfully" in sentence
    half = replace(VERIFICATION, sampled=SAMPLED // 2)
    less = issue(Link(), replace(REPORT, verification=half)).certificate.verification
    assert less.residual_shown > 0.00019


def test_noise_is_judged_by_known_places_alone() -> None:
    counts = replace(COUNTS, read=COUNTS.blocks, zeros=0, random=COUNTS.blocks)
    noise = replace(VERIFICATION, namespaces=(counts,), expected="unknown", sampled=COUNTS.blocks)
    said = issue(Link(), replace(REPORT, verification=noise)).certificate.verification
    assert "n = 1,024 places" in said.sentence
    assert said.residual_shown > 0.006
    assert "0.672316 %" in said.sentence


def test_an_earlier_failed_run_is_named() -> None:
    failed = replace(BLOCK, verdict=Verdict.NOT_ERASED, reason="SSTAT 3")
    body = issue(Link(), replace(REPORT, methods=(failed, BLOCK))).certificate
    assert any("an earlier run: SSTAT 3" in line for line in body.exceptions)


def test_full_is_said_only_where_every_block_was_read() -> None:
    counts = replace(COUNTS, read=COUNTS.blocks, zeros=COUNTS.blocks)
    full = replace(VERIFICATION, namespaces=(counts,), sampled=COUNTS.blocks)
    said = issue(Link(), replace(REPORT, verification=full)).certificate.verification
    assert said.method.startswith("full")
    assert said.residual_shown == 0.0
    assert "All 250,000 blocks" in said.sentence


def test_a_downgrade_is_printed() -> None:
    facts = replace(FACTS, sanicap=0)
    report = replace(
        REPORT,
        achieved=Label.CLEAR,
        downgraded=True,
        methods=(FORMAT,),
        commands=(command(0x80, 0x200),),
        facts_before=facts,
        facts_after=facts,
    )
    body = issue(Link(), report).certificate
    assert body.sanitization.downgraded
    assert "It is not Purge" in body.sanitization.label_meaning
    assert any(line.startswith("Downgraded") for line in body.exceptions)
    assert any("Format NVM" in line for line in body.not_done)


def test_what_was_not_done_is_named() -> None:
    seen = replace(
        VERIFICATION,
        canaries_planted=0,
        canaries_checked=0,
        fingerprints_taken=0,
        fingerprints_checked=0,
        missing_probes=("canaries: the namespace was write protected",),
    )
    adopted = replace(BLOCK, adopted=True, attempts=2)
    report = replace(REPORT, verification=seen, methods=(adopted,), resumed=1, reasons=("odd",))
    body = issue(Link(), report).certificate
    said = "\n".join(body.exceptions)
    for words in (
        "Missing probe: canaries: the namespace was write protected",
        "Not seen: sanitize-crypto",
        "without a journal",
        "2 attempts",
        "1 time(s)",
        "Remark of the host: odd",
    ):
        assert words in said
    assert any("planting canaries" in line for line in body.not_done)
    assert any("fingerprints" in line for line in body.not_done)


@pytest.mark.parametrize("member", ["achieved", "verification", "health", "facts_after"])
def test_nothing_is_certified_that_the_report_lacks(member: str) -> None:
    report = replace(REPORT, **{member: None})
    with pytest.raises(BadInputError, match="hold the slot"):
        issue(Link(), report)


@pytest.mark.parametrize(
    "path",
    [("drive", "firmware"), ("sanitization", "label"), ("issued_at",), ("previous",)],
)
def test_a_tampered_field_is_found(path: tuple[str, ...]) -> None:
    value = json.loads(certificate.document(issue(Link())))
    place = value["certificate"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = "Clear"
    with pytest.raises(BadInputError, match="altered"):
        certificate.read_document(json.dumps(value).encode(), [KEY.public], "file")


def test_a_tampered_token_is_found() -> None:
    signed = issue(Link())
    head, _body, signature = signed.token.split(".")
    other = issue(Link(), replace(REPORT, resumed=3)).token.split(".")[1]
    with pytest.raises(BadInputError, match="signature"):
        certificate.verify(f"{head}.{other}.{signature}", [KEY.public], "file")


def test_another_key_is_refused() -> None:
    with pytest.raises(BadInputError, match="signature by key"):
        certificate.verify(issue(Link()).token, [OTHER.public], "file")
    with pytest.raises(BadInputError, match="found none"):
        certificate.verify(issue(Link()).token, [], "file")


def test_an_order_signed_by_the_same_key_is_no_certificate() -> None:
    token = KEY.sign(codec.canonical(issue(Link()).certificate), "nvme-quarantine.erase-order+json")
    with pytest.raises(BadInputError, match="type"):
        certificate.verify(token, [KEY.public], "file")


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff\xfe", b'{"certificate": 1, "jws": 2}', b"a.b"])
def test_other_files_are_one_clear_error(raw: bytes) -> None:
    with pytest.raises(BadInputError, match="file: ") as caught:
        certificate.read_document(raw, [KEY.public], "file")
    assert "\n" not in str(caught.value)


def test_the_chain_holds_in_any_order() -> None:
    links = chain(4)
    found = audit([links[2], links[0], links[3], links[1]])
    assert found.intact
    assert (found.count, found.first, found.last) == (4, links[0].digest, links[3].digest)
    assert audit([]).intact


def test_a_missing_link_is_named() -> None:
    links = chain(4)
    found = audit([links[0], links[1], links[3]])
    assert [finding.name for finding in found.findings] == ["file2"]
    assert links[2].digest in found.findings[0].problem


def test_a_cut_beginning_is_named() -> None:
    links = chain(3)
    assert [finding.name for finding in audit(links[1:]).findings] == ["file0"]


def test_a_forged_link_is_named_and_so_is_the_gap_it_leaves() -> None:
    links = chain(3)
    forged = certificate.sign(
        replace(links[1].certificate, issued_at="2026-01-01T00:00:00Z"), OTHER
    )
    problems = {f.name: f.problem for f in audit([links[0], forged, links[2]]).findings}
    assert "forged" in problems["file1"]
    assert "missing link" in problems["file2"]


def test_a_fork_is_named() -> None:
    links = chain(2)
    twin = issue(links[0].link, replace(REPORT, resumed=1))
    assert any("forks" in f.problem for f in audit([*links, twin]).findings)
    assert any("forks at the beginning" not in f.problem for f in audit([*links, twin]).findings)


def test_a_wrong_position_is_named() -> None:
    links = chain(2)
    skipped: Certificate = replace(links[1].certificate, position=7)
    found = audit([links[0], certificate.sign(skipped, KEY)])
    assert "broken link" in found.findings[0].problem
