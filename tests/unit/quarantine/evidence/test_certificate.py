"""Certificates: what they say, who signed them, and how they hang together."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jwcrypto import jwk, jws

from eraser.protocol import codec
from eraser.protocol.condition import BootPartitions, Buffer, Condition, FirmwareSlots
from eraser.protocol.policy import (
    Buffers,
    Label,
    LimitOverrides,
    Method,
    Policy,
    Quirk,
    VerificationMode,
)
from eraser.protocol.report import (
    ActRecord,
    EraseReport,
    LinkRecord,
    Verdict,
    VerificationRecord,
    VisitRecord,
)
from eraser.protocol.ticket import LastOwner
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CertificateEvidence, Link, SignedCertificate
from quarantine.evidence.chain import ledger
from quarantine.evidence.checks import clocks, consistency, methods
from quarantine.evidence.sections import Certificate, HistoryLine, Issuer, ValidationDecision
from quarantine.evidence.sheet import rows
from quarantine.record.words.facts import HistoryRow
from quarantine.record.words.states import Event, State
from quarantine.service.issue.registrar import moments
from tests.unit.quarantine.testimony import (
    BLOCK,
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    ORDER,
    REPORT,
    SAMPLED,
    SLOT,
    VERIFICATION,
    command,
    log81,
)

KEY = PrivateKey.generate()
OTHER = PrivateKey.generate()
ISSUER = Issuer("Example Cloud", "A. Operator", "Head of storage", "Roubaix", "ops@example.org")
HISTORY = (HistoryLine("2026-11-20T10:59:00Z", "release_seen", "released", "server gone"),)


def evidence_of(report: EraseReport = REPORT, number: int = 1) -> CertificateEvidence:
    """Of the order with this number: each is certified once."""
    order = replace(ORDER, order_id=f"order-{number:010}", nonce=f"nonce-{number:011}")
    return CertificateEvidence(
        order=order,
        order_token="order.token.x",
        report=report,
        report_token="report.token.x" if number == 1 else f"report.token.{number}",
        host_key="thumbprint",
        provider="11111111-1111-4111-8111-111111111111",
        last_user="22222222-2222-4222-8222-222222222222",
        history=HISTORY,
    )


def issue(previous: Link, report: EraseReport = REPORT, key: PrivateKey = KEY) -> SignedCertificate:
    evidence = evidence_of(report, previous.position + 1)
    built = certificate.build(evidence, ISSUER, previous, "2026-11-20T12:00:00Z")
    return certificate.sign(built, key)


EXAMPLE = issue(Link())


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
    assert body.sanitization.method is Label.PURGE
    assert [done.cdw10 for done in body.sanitization.techniques] == [4, 2]
    assert "success (SSTAT 1), SCDW10 0x2" in body.sanitization.techniques[1].reported
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
    assert "firmware answers reads truthfully, at any later time and to any host" in sentence
    half = replace(VERIFICATION, sampled=SAMPLED // 2)
    less = issue(Link(), replace(REPORT, verification=half)).certificate.verification
    assert less.residual_shown > 0.00019


@pytest.mark.parametrize(("fresh", "noise", "assumed"), [
    (True, False, False), (False, False, True), (True, True, True),
])  # fmt: skip
def test_what_the_drive_was_asked_for_before_bears_no_claim_about_the_rest(
    fresh: bool, noise: bool, assumed: bool
) -> None:
    """A host of before the second seed drew the places before the erase, and known content is
    always of places that were read before it: then the sentence says what it assumes."""
    counts = replace(COUNTS, zeros=0, random=COUNTS.read) if noise else COUNTS
    record = replace(VERIFICATION, fresh=fresh, namespaces=(counts,), expected="unknown")
    said = issue(Link(), replace(REPORT, verification=record)).certificate.verification.sentence
    assert ("asked for before the erase like all others" in said) == assumed
    assert ("drawn after the last technique" in said) == fresh


def test_noise_is_judged_by_known_places_alone() -> None:
    counts = replace(COUNTS, read=COUNTS.blocks, zeros=0, random=COUNTS.blocks)
    noise = replace(VERIFICATION, namespaces=(counts,), expected="unknown", sampled=COUNTS.blocks)
    said = issue(Link(), replace(REPORT, verification=noise)).certificate.verification
    assert "n = 1,024 places" in said.sentence
    assert said.residual_shown > 0.006
    assert "0.672316 %" in said.sentence


@pytest.mark.parametrize(
    ("probed", "n", "shown"), [(777, "777", 0.0088), (0, "0", 1.0), (9999, "1,024", 0.0067)]
)
def test_no_more_known_places_bear_the_claim_than_count_everywhere(
    probed: int, n: str, shown: float
) -> None:
    """Of 1,024 canaries a host says which count wherever a remainder lies; it cannot add any."""
    counts = replace(COUNTS, zeros=0, random=COUNTS.read, uniform="")
    noise = replace(VERIFICATION, namespaces=(counts,), expected="unknown", probed=probed)
    said = issue(Link(), replace(REPORT, verification=noise)).certificate.verification
    assert f"n = {n} places" in said.sentence
    assert said.residual_shown == pytest.approx(shown, rel=0.01)
    assert said.canaries_checked == 1024


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


@pytest.mark.parametrize("read", [SAMPLED, COUNTS.blocks])
def test_a_value_that_blocks_repeat_is_not_said_to_be_nothing(read: int) -> None:
    """A tenant's filler of 16 bytes looks as what an erase may leave, and is let through."""
    counts = replace(COUNTS, read=read, zeros=read - 7, pattern=7, expected="unknown", uniform="")
    record = replace(VERIFICATION, namespaces=(counts,), sampled=read, expected="unknown")
    signed = issue(Link(), replace(REPORT, verification=record))
    words = "none of them holds data, unless it is a short value that some repeat throughout."
    assert words in signed.certificate.verification.sentence
    assert not list(consistency.contradictions(signed.certificate))
    assert "repeat" not in issue(Link()).certificate.verification.sentence


@pytest.mark.parametrize(
    ("loose", "unread", "but", "lines"),
    [
        ((2,), 0, "namespace 2, which is not attached", ["Not read: namespace 2, not attached."]),
        (
            (2, 3),
            0,
            "namespaces 2 and 3, which are not attached",
            ["Not read: namespaces 2 and 3, not attached."],
        ),
        (
            (2,),
            1 << 30,
            "namespace 2, which is not attached, and 1,073,741,824 bytes that belong to no "
            "namespace",
            [
                "Not read: namespace 2, not attached.",
                "Not read: 1,073,741,824 bytes that belong to no namespace.",
            ],
        ),
    ],
)
def test_a_namespace_that_is_not_attached_was_not_read(
    loose: tuple[int, ...], unread: int, but: str, lines: list[str]
) -> None:
    (space,) = FACTS.namespaces
    facts = replace(
        FACTS,
        detached=tuple(replace(space, nsid=nsid) for nsid in loose),
        unallocated_bytes=unread,
        total_bytes=space.size * (1 + len(loose)) + unread,
    )
    counts = replace(COUNTS, read=COUNTS.blocks, zeros=COUNTS.blocks)
    full = replace(VERIFICATION, namespaces=(counts,), sampled=COUNTS.blocks)
    report = replace(REPORT, facts_before=facts, facts_after=facts, verification=full)
    body = issue(Link(), report).certificate
    assert f"It was then read back in full except for {but}, and was" in body.headline
    assert [line for line in body.not_done if line.startswith("Not read: ")] == lines


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
    assert "It is not Purge" in body.sanitization.meaning
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
    report = replace(
        REPORT, verification=seen, methods=(adopted,), resumed=1, reasons=("odd",),
        untold=("health before the erase: no answer",),
    )  # fmt: skip
    body = issue(Link(), report).certificate
    said = "\n".join(body.exceptions)
    for words in (
        "Missing probe: canaries: the namespace was write protected",
        "Not seen: sanitize-crypto",
        "without a journal",
        "2 attempts",
        "1 time(s)",
        "Remark of the host: odd",
        "before the erase is not complete: health before the erase: no answer",
    ):
        assert words in said
    assert any("planting canaries" in line for line in body.not_done)
    assert any("fingerprints" in line for line in body.not_done)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (VERIFICATION, ()),
        # On a small drive canaries may stand on all that was fingerprinted.
        (replace(VERIFICATION, fingerprints_checked=0), ("comparing blocks with fingerprints",)),
        (
            replace(VERIFICATION, namespaces=(replace(COUNTS, reread=0),)),
            ("once more after another reset",),
        ),
    ],
)
def test_a_proof_that_came_to_nothing_is_one_that_was_not_done(
    seen: VerificationRecord, said: tuple[str, ...]
) -> None:
    body = issue(Link(), replace(REPORT, verification=seen)).certificate
    for words in ("comparing blocks with fingerprints", "once more after another reset"):
        assert any(words in line for line in body.not_done) == (words in said)
    page_says = "\n".join(rows.readings(body.verification))
    assert ("nothing was read again" in page_says) == (not seen.namespaces[0].reread)


def visit(*, wrote: bool, compared: int = 8, refused: int = 8) -> VisitRecord:
    acts = (
        ActRecord("single blocks", 8, 0, 0, 0, 0),
        ActRecord("Compare", compared, refused, 0, 0, 0),
    )
    return VisitRecord(1 if wrote else 2, wrote, acts, ("reset of the bus",), 0 if wrote else 30.0)


@pytest.mark.parametrize(
    ("visits", "said", "unsaid"),
    [
        ((), ["Not done: using the drive as its next tenant will"], ["reset of the bus"]),
        ((visit(wrote=False),), ["writing to the drive", "reset of the bus."], ["using the drive"]),
        (
            (visit(wrote=True), visit(wrote=False, compared=0)),
            ["reset of the bus; Compare (the drive refused all)."],
            ["writing to the drive", "using the drive"],
        ),
        (
            # As hosts say it that asked nothing of a namespace with sectors of 4 KiB.
            (visit(wrote=True), visit(wrote=False, compared=0, refused=0)),
            ["reset of the bus; Compare (nothing was asked)."],
            ["the drive refused"],
        ),
    ],
)
def test_what_its_next_tenant_does_and_the_host_did_not_is_named(
    visits: tuple[VisitRecord, ...], said: list[str], unsaid: list[str]
) -> None:
    text = "\n".join(issue(Link(), replace(REPORT, visits=visits)).certificate.not_done)
    assert all(words in text for words in said)
    assert not any(words in text for words in unsaid)


AFTER = "after the last technique: what was done came before it."
ALONE = "leaving the drive alone for a while before the last look at it"


@pytest.mark.parametrize(
    ("visits", "said", "unsaid"),
    [
        ([visit(wrote=True), visit(wrote=False)], [], [AFTER, ALONE]),
        ([visit(wrote=True)], [AFTER, ALONE], []),
        ([replace(visit(wrote=True), idle=30.0)], [AFTER, ALONE], []),
        ([replace(visit(wrote=True), idle=30.0), replace(visit(wrote=False), idle=0.0)],
         [ALONE], [AFTER]),
    ],
)  # fmt: skip
def test_what_was_done_before_the_last_technique_was_not_done_after_it(
    visits: list[VisitRecord], said: list[str], unsaid: list[str]
) -> None:
    text = "\n".join(issue(Link(), replace(REPORT, visits=tuple(visits))).certificate.not_done)
    assert all(words in text for words in said)
    assert not any(words in text for words in unsaid)


def test_what_the_drive_refused_of_an_act_is_said_beside_what_it_did() -> None:
    act = ActRecord("single blocks", 1, 255, 0, 0, 0, 1)
    one = replace(act, refused=1)
    visits = (VisitRecord(2, False, (act, replace(one, act="again")), (), 30.0),)
    (line,) = issue(Link(), replace(REPORT, visits=visits)).certificate.verification.acts
    assert "single blocks (1 block; 255 commands refused)" in line
    assert "again (1 block; 1 command refused)" in line


def test_of_a_drive_without_namespaces_nothing_is_said_to_be_read() -> None:
    facts = replace(FACTS, namespaces=(), dlfeat=(), ids=())
    record = replace(VERIFICATION, namespaces=(), sampled=0)
    report = replace(REPORT, facts_before=facts, facts_after=facts, verification=record, fit=False)
    given = replace(evidence_of(report), withheld=("no namespace",))
    body = certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z")
    assert "Nothing of it was read back, and it was not handed out." in body.headline
    assert body.verification.sentence == (
        "No block was read, for there was no namespace: nothing is claimed."
    )
    assert body.verification.method == "none: there was no namespace to read"
    assert list(consistency.contradictions(body)) == []


def test_a_namespace_in_one_window_has_no_subsections() -> None:
    large = replace(COUNTS, read=30_000, zeros=30_000, windows=2000, window_blocks=25_000)
    small = replace(
        COUNTS, nsid=2, blocks=100, read=100, zeros=100, windows=1, window_blocks=100, reread=0
    )
    mode = VerificationMode.NIST
    record = replace(VERIFICATION, asked=mode, done=mode, sampled=7000, namespaces=(large, small))
    body = issue(Link(), replace(REPORT, verification=record)).certificate
    whole = ", except of namespaces that are one window, whole"
    assert f"with the first and last block{whole}" in body.verification.sentence
    assert list(consistency.contradictions(body)) == []
    alone = replace(record, namespaces=(large,))
    body = issue(Link(), replace(REPORT, verification=alone)).certificate
    assert whole not in body.verification.sentence


def test_a_verification_that_ended_before_the_last_technique_is_said_to_have() -> None:
    """The clock may have been set back; or what was read is not what the technique left."""
    record = replace(VERIFICATION, finished_at="2026-11-20T10:00:00Z")
    body = issue(Link(), replace(REPORT, verification=record)).certificate
    assert body.exceptions == (clocks.SET_BACK, clocks.READ_FIRST)
    assert "what was read is not what that technique left" in clocks.READ_FIRST
    assert list(consistency.contradictions(body)) == []
    stepped = replace(REPORT, methods=(CRYPTO, replace(BLOCK, ended_at="2026-11-20T10:00:00Z")))
    assert issue(Link(), stepped).certificate.exceptions == (clocks.SET_BACK,)


def test_a_verification_is_held_against_the_end_of_a_technique_whose_beginning_nobody_saw() -> None:
    adopted = replace(REPORT, methods=(replace(BLOCK, adopted=True),), commands=())
    body = issue(Link(), adopted).certificate
    assert [done.started_at for done in body.sanitization.techniques] == [""]
    assert clocks.READ_FIRST not in body.exceptions
    record = replace(VERIFICATION, finished_at="2026-11-20T10:00:00Z")
    body = issue(Link(), replace(adopted, verification=record)).certificate
    assert clocks.READ_FIRST in body.exceptions


def test_a_verification_is_held_against_the_beginning_of_a_technique_where_it_is_known() -> None:
    """The clock was put right while it ran, and says nothing of the order of the two."""
    late = replace(BLOCK, ended_at="2026-11-20T12:00:00Z")
    body = issue(Link(), replace(REPORT, methods=(CRYPTO, late))).certificate
    assert clocks.SET_BACK in body.exceptions
    assert clocks.READ_FIRST not in body.exceptions


@pytest.mark.parametrize(
    ("nsid", "size", "said"), [(1, 8, "(namespace 1: 8 bytes for each)."), (1, 0, "")]
)
def test_metadata_beside_the_blocks_is_said_to_be_judged_by_nobody(
    nsid: int, size: int, said: str
) -> None:
    """Reads of the block layer do not show it, and passthrough's throw it away."""
    [layout] = FACTS.namespaces
    facts = replace(FACTS, namespaces=(replace(layout, nsid=nsid, metadata_bytes=size),))
    text = "\n".join(issue(Link(), replace(REPORT, facts_after=facts)).certificate.not_done)
    assert ("Not examined: metadata beside the blocks" in text) is bool(said)
    assert said in text


def test_no_more_blocks_are_said_to_have_been_looked_at_than_were() -> None:
    """A host of before tells its looks alone: a block may be among them many times."""
    acts = (
        ActRecord("the same again", 30, 0, 0, 0, 0, 6),
        ActRecord("single blocks", 1, 0, 0, 0, 0, 1),
        ActRecord("Compare", 32, 0, 0, 0, 0),
    )
    report = replace(REPORT, visits=(VisitRecord(1, True, acts, ()),))
    [said] = issue(Link(), report).certificate.verification.acts
    assert said.endswith(
        ": the same again (6 blocks), single blocks (1 block), Compare (32 looks)."
    )


@pytest.mark.parametrize("member", ["achieved", "verification", "health", "facts_after"])
def test_nothing_is_certified_that_the_report_lacks(member: str) -> None:
    report = replace(REPORT, **{member: None})
    with pytest.raises(BadInputError, match="hold the slot"):
        issue(Link(), report)


@pytest.mark.parametrize(
    "path",
    [("drive", "firmware"), ("sanitization", "method"), ("issued_at",), ("previous",)],
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


def test_another_spelling_of_the_same_words_is_refused() -> None:
    payload = json.dumps(codec.plain(issue(Link()).certificate), sort_keys=True).encode()
    token = KEY.sign(payload, certificate.CERTIFICATE_TYPE)
    with pytest.raises(BadInputError, match="canonical"):
        certificate.verify(token, [KEY.public], "file")


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


SAMPLES = Path(__file__).parents[1] / "samples"


def earlier() -> tuple[list[tuple[str, bytes]], PublicKey]:
    """Two certificates as the first release wrote them, and the key that they were signed with."""
    files = [SAMPLES / f"certificate-first-form-{n}.json" for n in (1, 2)]
    key = json.loads((SAMPLES / "controller.jwk").read_bytes())
    return [(f.name, f.read_bytes()) for f in files], PublicKey.from_jwk(key, "controller.jwk")


def test_certificates_of_an_earlier_release_hold_for_ever() -> None:
    files, key = earlier()
    found = ledger.audit(files, [key], ordered=True)
    # The sample's two are of one and the same order, which no record would take.
    (twice,) = found.findings
    assert "was certified before" in twice.problem
    assert found.count == 2
    for name, raw in files:
        signed = certificate.read_document(raw, [key], name)
        assert b"residues" not in raw
        assert signed.certificate.residues == ()
        again = certificate.document(signed)
        assert again == raw, "exported anew it is what was signed, without today's members"
        line = certificate.said_line(signed.token)
        assert certificate.read_document(line, [key], name) == signed


def test_a_member_may_be_missing_and_none_may_be_slipped_in() -> None:
    files, key = earlier()
    value = json.loads(files[0][1])
    value["certificate"]["residues"] = ["none at all"]
    with pytest.raises(BadInputError, match="altered"):
        certificate.read_document(json.dumps(value).encode(), [key], "file")


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


def test_what_was_cut_off_at_the_end_is_named_by_who_noted_it() -> None:
    links = chain(3)
    named = [(f"file{n}", certificate.document(one)) for n, one in enumerate(links)]
    keys = [KEY.public]
    assert ledger.audit(named, keys, end=links[2].digest).intact
    (short,) = ledger.audit(named[:2], keys, end=links[2].digest).findings
    assert "it is not there" in short.problem
    (more,) = ledger.audit(named, keys, end=links[1].digest).findings
    assert "others follow" in more.problem


def test_a_ledger_file_in_another_order_is_named() -> None:
    links = chain(4)
    lines = [certificate.said_line(links[n].token) for n in (0, 2, 1, 3)]
    found = ledger.audit(ledger.documents(lines, "all"), [KEY.public], ordered=True)
    assert [str(f) for f in found.findings] == [
        "all, line 3: out of order: position 2 after 3",
    ]
    assert ledger.audit(ledger.documents(lines, "all"), [KEY.public]).intact


def test_a_line_of_a_ledger_that_was_changed_or_doubled_is_named() -> None:
    links = chain(3)
    lines = [certificate.said_line(one.token) for one in links]
    spoiled = [lines[0], lines[1].replace(b"Purge", b"Clear"), b"\n", lines[2], lines[2]]
    found = ledger.audit(ledger.documents(spoiled, "all"), [KEY.public], ordered=True)
    names = {f.name: f.problem for f in found.findings}
    assert set(names) == {"all, line 2", "all, line 4", "all, line 5"}
    assert "altered" in names["all, line 2"]
    assert "missing link" in names["all, line 4"]
    assert "stands twice" in names["all, line 5"]


def test_a_renamed_file_is_named() -> None:
    links = chain(2)
    named = [
        (f"dir/{links[1].digest}.json", certificate.document(links[0])),
        (f"dir/{links[0].digest}.json", certificate.document(links[1])),
    ]
    found = ledger.audit(named, [KEY.public])
    assert ["renamed" in f.problem for f in found.findings] == [True, True]


def test_a_token_that_is_none_is_still_written_for_the_auditor() -> None:
    for token in ("", "a.b", "a.%%%.c", "a\nb"):
        line = certificate.said_line(token)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1


@given(st.lists(st.binary(max_size=300), max_size=4), st.integers(0, 2000), st.binary(max_size=4))
def test_whatever_is_in_a_ledger_is_named_and_breaks_nothing(
    junk: list[bytes], place: int, cut: bytes
) -> None:
    good = certificate.said_line(EXAMPLE.token)
    place %= len(good)
    lines = [*junk, good[:place] + cut + good[place + len(cut) :]]
    found = ledger.audit(ledger.documents(lines, "all"), [KEY.public])
    texts = [line for line in lines if line.strip()]
    assert found.count <= 1
    assert len(found.findings) >= len(texts) - found.count
    if found.count:
        assert json.loads(texts[-1]) == json.loads(good), "only the very words pass"


OWNER = LastOwner("22222222-2222-4222-8222-222222222222", "i-1", "2026-11-01", "2026-11-20")


@pytest.mark.parametrize(
    ("owner", "known"),
    [
        (None, "allocations seen in Placement"),
        (OWNER, "the host's gate and Placement"),
        (
            replace(OWNER, domain="33333333-3333-4333-8333-333333333333"),
            "the host's gate; Placement named 22222222-2222-4222-8222-222222222222",
        ),
    ],
)
def test_whom_the_gate_let_in_comes_first(owner: LastOwner | None, known: str) -> None:
    source = issue(Link(), replace(REPORT, last_owner=owner)).certificate.source
    assert source.known_from == known
    assert source.last_user == (owner or OWNER).domain
    assert source.gate_owner == (owner.domain if owner else "")


def test_residues_numbers_and_why_a_drive_stays_are_signed() -> None:
    report = replace(REPORT, residues=("persistent event log: kept by the drive",))
    given = replace(
        evidence_of(report),
        property_number="SSD-00017",
        chassis="CH-4",
        withheld=("health: worn", "x"),
    )
    built = certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z")
    body = certificate.verify(certificate.sign(built, KEY).token, [KEY.public], "x").certificate
    assert body.residues == report.residues
    assert (body.drive.property_number, body.source.chassis) == ("SSD-00017", "CH-4")
    assert body.withheld == ("health: worn", "x")
    assert body.issuer.destination.startswith("none yet: kept out of the pool")
    plain = issue(Link()).certificate
    assert (plain.drive.property_number, plain.source.chassis) == ("not recorded", "not recorded")
    assert plain.issuer.destination == ISSUER.destination


def test_each_downgrade_names_its_permission_and_each_quirk_its_reason() -> None:
    facts = replace(FACTS, sanicap=0x1)
    only_crypto = replace(REPORT, methods=(CRYPTO,), facts_before=facts, facts_after=facts)
    said = issue(Link(), only_crypto).certificate
    assert "permitted by allow_fewer" in said.sanitization.downgrades[0]
    assert f"Downgraded: {said.sanitization.downgrades[0]}" in said.exceptions
    quirk = Quirk(
        ORDER.identity.model, "it hangs", skip=(Method.SANITIZE_BLOCK,),
        limits=LimitOverrides(stuck=7200),
    )  # fmt: skip
    order = replace(ORDER, policy=Policy(quirks=(quirk,), allow_failed=True))
    given = replace(evidence_of(replace(REPORT, methods=(CRYPTO,))), order=order)
    said = certificate.build(given, ISSUER, Link(), "now")
    assert said.sanitization.quirks == (
        "Quirk of 'INTEL SSDPE2KX010T8', firmware '*': skips sanitize-block; limit stuck 7200 s. "
        "Reason: it hangs",
    )
    assert said.sanitization.downgrades == (
        "Skipped by a quirk: sanitize-block, which the drive offers.",
    )
    failed = replace(CRYPTO, verdict=Verdict.NOT_ERASED, reason="status 0x002")
    given = replace(given, order=replace(ORDER, policy=Policy(allow_failed=True)))
    given = replace(given, report=replace(REPORT, methods=(failed, BLOCK)))
    (line,) = certificate.build(given, ISSUER, Link(), "now").sanitization.downgrades
    assert "sanitize-crypto did not erase (status 0x002)" in line
    assert "permitted by allow_failed" in line
    assert issue(Link()).certificate.sanitization.downgrades == ()


def test_a_drive_whose_sanitize_a_quirk_skips_is_not_said_to_have_none() -> None:
    quirk = Quirk("*", "it lies", skip=(Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO))
    report = replace(
        REPORT, achieved=Label.CLEAR, downgraded=True, methods=(FORMAT,), facts_before=FACTS
    )
    order = replace(ORDER, policy=Policy(quirks=(quirk,), allow_clear=True))
    given = replace(evidence_of(report), order=order)
    first, *_others = certificate.build(given, ISSUER, Link(), "now").sanitization.downgrades
    assert first == (
        "Clear in place of Purge: the drive offers no method other than sanitize-crypto and "
        "sanitize-block, which a quirk skips, that policy 'purge' names for Purge; permitted by "
        "allow_clear."
    )


def test_a_layout_that_was_put_back_is_named() -> None:
    reserve = replace(
        command(0x0D, 0), argv=("nvme", "io-passthru", "/dev/nvme0n1", "--opcode=0xd")
    )
    sent = (
        command(0x0D, 1), command(0x0D, 1), command(0x0D, 0), command(0x0D, 0, 0x115),
        command(0x80, 0x1), reserve,
    )  # fmt: skip
    smaller = replace(FACTS.namespaces[0], blocks=1_000_000)
    tenants = replace(FACTS, namespaces=(smaller,))
    report = replace(REPORT, facts_before=tenants)
    said = issue(Link(), replace(report, commands=(*REPORT.commands, *sent))).certificate
    assert said.exceptions == (
        "The layout was not the profile's and was changed by the erase: 2 namespace(s) deleted, 1 "
        "namespace(s) created, 1 namespace(s) given another LBA format.",
    )
    assert issue(Link()).certificate.exceptions == ()
    sent = tuple(replace(command(op, 1), status=None, exit_code=None) for op in (0x0D, 0x80))
    said = issue(Link(), replace(REPORT, commands=(*REPORT.commands, *sent))).certificate
    # A next tenant's acts, in which the case was cut off: the tenant had left all as it was.
    assert said.exceptions == (
        "The layout was the profile's and was changed by the erase: 2 such command(s) cut off, "
        "their end unknown.",
    )


def test_firmware_that_changed_in_the_case_is_named() -> None:
    older = replace(FACTS, firmware="VDV10120")
    said = issue(Link(), replace(REPORT, facts_before=older)).certificate
    assert said.drive.firmware == "VDV10131"
    assert said.exceptions == (
        "The firmware was VDV10120 before the erase and is VDV10131 after it; which of them "
        "carried out the techniques is not known.",
    )


def test_a_format_that_is_not_the_first_choice_is_named() -> None:
    facts = replace(FACTS, sanicap=0, fna=0)
    wanted = Policy(
        label=Label.CLEAR, clear_methods=(Method.FORMAT_CRYPTO, Method.FORMAT_USER_DATA)
    )
    report = replace(
        REPORT, asked=Label.CLEAR, achieved=Label.CLEAR, methods=(FORMAT,), facts_before=facts
    )
    given = replace(evidence_of(report), order=replace(ORDER, policy=wanted))
    (line,) = certificate.build(given, ISSUER, Link(), "now").sanitization.downgrades
    assert line.startswith("A later choice: policy 'purge' prefers format-crypto")


def test_health_is_printed_with_what_follows_from_it() -> None:
    worn = replace(HEALTH, percentage_used=101, critical_warning=2, link=LinkRecord(8, 2, 16, 4))
    seen = issue(Link(), replace(REPORT, health=worn)).certificate.condition
    assert seen.link == "PCI Express, 2 lanes at 8 GT/s; drive and slot can 4 at 16 GT/s"
    assert [line.rpartition(" ")[2] for line in seen.remarks] == [
        "(note)", "(hold)", "(hold)", "(note)",
    ]  # fmt: skip
    assert seen.spare_threshold == HEALTH.spare_threshold


def test_it_tells_when_what_was_done_on_which_layout() -> None:
    body = issue(Link()).certificate
    assert [t.technique for t in body.sanitization.techniques] == [
        "cryptographic erase", "block erase",
    ]  # fmt: skip
    assert [t.ended_at for t in body.sanitization.techniques] == [
        "2026-11-20T11:00:05Z", "2026-11-20T11:00:10Z",
    ]  # fmt: skip
    assert body.sanitization.techniques[0].started_at == REPORT.commands[0].started_at
    assert body.sanitization.finished_at == "2026-11-20T11:00:10Z"
    assert body.verification.finished_at == VERIFICATION.finished_at
    (namespace,) = body.drive.namespaces
    assert namespace.nguid == FACTS.ids[0].nguid
    assert namespace.eui64 == FACTS.ids[0].eui64
    assert (namespace.size, namespace.block_bytes) == (1_024_000_000, 512)
    loose = replace(FACTS, detached=(replace(FACTS.namespaces[0], nsid=2),))
    body = issue(Link(), replace(REPORT, facts_before=loose)).certificate
    assert [n.nsid for n in body.drive.namespaces_before] == [1, 2]


def test_a_method_that_was_run_twice_was_sent_twice() -> None:
    """Each run is told with its own command."""
    first, second = (
        replace(CRYPTO, ended_at=f"2026-11-20T11:00:{second}Z") for second in ("05", "40")
    )
    sent = tuple(
        replace(command(0x84, 4), started_at=f"2026-11-20T11:00:{second}Z")
        for second in ("01", "36")
    )
    facts = replace(FACTS, sanicap=0x1)
    report = replace(
        REPORT, methods=(first, second), commands=sent, facts_before=facts, facts_after=facts,
        verification=replace(VERIFICATION, finished_at="2026-11-20T11:00:50Z"),
    )  # fmt: skip
    told = issue(Link(), report).certificate.sanitization.techniques
    assert [(t.started_at[-3:], t.ended_at[-3:]) for t in told] == [("01Z", "05Z"), ("36Z", "40Z")]


def test_an_older_eraser_tells_less_and_is_certified_all_the_same() -> None:
    untold = tuple(replace(record, ended_at="") for record in REPORT.methods)
    facts = replace(FACTS, ids=())
    older = replace(
        REPORT, methods=untold, facts_before=facts, facts_after=facts,
        verification=replace(VERIFICATION, finished_at=""),
    )  # fmt: skip
    body = issue(Link(), older).certificate
    assert body.sanitization.finished_at == REPORT.finished_at
    assert (body.drive.namespaces[0].nguid, body.verification.finished_at) == ("", "")
    assert list(consistency.contradictions(body)) == []


def test_cryptographic_erase_alone_needs_somebody_s_word() -> None:
    facts = replace(FACTS, sanicap=0x1)
    only_crypto = replace(REPORT, methods=(CRYPTO,), facts_before=facts, facts_after=facts)
    assert issue(Link()).certificate.sanitization.attestation == ""
    said = issue(Link(), only_crypto).certificate
    assert said.sanitization.attestation.startswith("Not attested: ")
    given = replace(evidence_of(only_crypto), attestation="AES-256-XTS, by the maker's letter")
    said = certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z")
    assert said.sanitization.attestation == (
        "Stated by Example Cloud for this model and firmware, and not checked here: AES-256-XTS, "
        "by the maker's letter"
    )
    # A block erase that failed has touched no medium either.
    failed = replace(BLOCK, verdict=Verdict.NOT_ERASED, log_after=log81(3, 2))
    both = replace(REPORT, methods=(failed, CRYPTO))
    assert issue(Link(), both).certificate.sanitization.attestation.startswith("Not attested: ")


def test_the_decision_is_told_apart_from_the_verification() -> None:
    accepted = issue(Link()).certificate
    assert accepted.validation is not None
    assert accepted.validation.decision is ValidationDecision.ACCEPTED
    assert accepted.headline.endswith("by quick sampling, and was accepted for its next use.")
    used = accepted.validation.policy
    assert (used.name, used.digest, used.version) == (
        ORDER.policy.name, codec.digest(ORDER.policy), 0,
    )  # fmt: skip
    given = replace(evidence_of(), withheld=("health: worn",))
    held = certificate.build(given, ISSUER, Link(), "2026-11-20T12:00:00Z")
    assert held.validation is not None
    assert held.validation.decision is ValidationDecision.WITHHELD
    assert held.headline.endswith("and was not handed out.")


def test_what_was_looked_at_is_not_called_unexamined() -> None:
    def said(condition: Condition | None) -> str:
        facts = replace(FACTS, condition=condition)
        return "\n".join(issue(Link(), replace(REPORT, facts_after=facts)).certificate.not_done)

    assert "Not examined: boot partitions, replay protected memory" in said(None)
    bare = said(Condition())
    assert "boot partitions" not in bare
    assert "RPMB" not in bare
    full = said(
        Condition(
            boot=BootPartitions(131072, 0, ("a", "b")),
            rpmb_units=1,
            firmware=FirmwareSlots(1, 0, ("VDV10131",)),
        )
    )
    assert "boot partitions, which were examined as far as a digest" in full
    assert "replay protected memory (RPMB)" in full
    assert "firmware images; their revisions alone were read" in full
    assert "a host memory buffer (HMB)" in full
    assert "vital product data (VPD)" in full
    assert "of which this host's kernel lets nobody read" in said(Condition(boot_untold=True))
    assert "no sensible answer" not in bare
    odd = said(Condition(unreadable=("boot partitions", "TCG security")))
    assert "no sensible answer about it: boot partitions, TCG security." in odd
    clear = replace(
        REPORT, asked=Label.CLEAR, achieved=Label.CLEAR, methods=(FORMAT,),
        commands=(command(0x80, 0x200),),
    )  # fmt: skip
    text = "\n".join(issue(Link(), clear).certificate.not_done)
    assert "Not reached by Format NVM, and not examined: a controller memory buffer" in text
    assert "(CMB) or a persistent memory region (PMR), where the drive has one" in text
    facts = replace(FACTS, condition=Condition(buffers=(Buffer.CMB,)))
    text = "\n".join(issue(Link(), replace(clear, facts_before=facts)).certificate.not_done)
    assert "a controller memory buffer (CMB), which the drive has." in text
    assert "PMR" not in text
    assert "(CMB), which the drive has; by NVM Express" in said(facts.condition or Condition())


@pytest.mark.parametrize("asked", Buffers)
def test_memory_that_format_does_not_reach_is_printed_with_its_permission(asked: Buffers) -> None:
    facts = replace(FACTS, condition=Condition(buffers=(Buffer.CMB,)), sanicap=0)
    report = replace(
        REPORT, achieved=Label.CLEAR, downgraded=True, methods=(FORMAT,), facts_before=facts,
        facts_after=facts,
    )  # fmt: skip
    verification = replace(ORDER.policy.verification, buffers=asked)
    policy = replace(ORDER.policy, allow_clear=True, verification=verification)
    given = replace(evidence_of(report), order=replace(ORDER, policy=policy))
    lines = certificate.build(given, ISSUER, Link(), "now").sanitization.downgrades
    named = [line for line in lines if "permitted by verification.buffers" in line]
    assert len(named) == (asked is Buffers.PRINT)


def test_a_drive_that_was_asked_to_purge_says_whether_it_did() -> None:
    asked = 2 | methods.PURGE_REQUIRED
    sent = replace(BLOCK, cdw10=asked, log_after=log81(1, asked, purged=True))
    report = replace(
        REPORT, methods=(CRYPTO, sent), commands=(*REPORT.commands, command(0x84, asked))
    )
    assert list(methods.contradictions(ORDER, report)) == []
    reported = issue(Link(), report).certificate.sanitization.techniques[1].reported
    assert "Purged as IEEE Std 2883 defines it set" in reported
    cleared = replace(sent, log_after=log81(1, asked))
    (problem,) = methods.contradictions(ORDER, replace(report, methods=(CRYPTO, cleared)))
    assert problem == (
        "sanitize-block: expected the drive to report that it purged, as it was asked, found not"
    )
    assert "Purged" not in issue(Link()).certificate.sanitization.techniques[1].reported


def test_format_1_is_read_with_the_names_of_today() -> None:
    files, key = earlier()
    for name, raw in files:
        body = certificate.read_document(raw, [key], name).certificate
        assert (body.format, body.headline, body.validation) == (1, "", None)
        assert body.sanitization.method is Label.PURGE
        assert body.sanitization.techniques[0].technique == "cryptographic erase"
        assert body.sanitization.techniques[0].sent.startswith("nvme ")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"format": 3}, "expected a certificate of format 1 or 2, found 3"),
        ({"format": 1}, "expected no member 'meaning' in format 1"),
        ({"headline": ""}, "expected a headline and a validation in format 2"),
        ({"validation": None}, "expected a headline and a validation in format 2"),
    ],
)
def test_each_format_has_its_own_names(change: dict[str, object], problem: str) -> None:
    payload = codec.plain(issue(Link()).certificate) | change
    token = KEY.sign(codec.canonical(payload), certificate.CERTIFICATE_TYPE)
    with pytest.raises(BadInputError, match=problem):
        certificate.verify(token, [KEY.public], "x")


def test_both_formats_stand_in_one_chain() -> None:
    files, key = earlier()
    first = certificate.read_document(files[0][1], [key], "first")
    second = issue(first.link)
    found = ledger.audit(
        [files[0], ("second", certificate.document(second))], [key, KEY.public], ordered=True
    )
    assert [line for line in found.findings if "certified before" not in line.problem] == []
    assert found.count == 2


def test_a_wrong_position_is_named() -> None:
    links = chain(2)
    skipped: Certificate = replace(links[1].certificate, position=7)
    found = audit([links[0], certificate.sign(skipped, KEY)])
    assert "broken link" in found.findings[0].problem


def test_a_host_fills_no_history() -> None:
    """A postponement has the host's words, and the certificate after it must be readable."""
    at = datetime(2026, 11, 20, tzinfo=UTC)
    row = HistoryRow(
        1, SLOT, at, Event.POSTPONED, State.ERASING, State.QUARANTINED, 1, 1, "x" * 4_000_000, {}
    )
    (line,) = moments([row])
    assert line.reason == "x" * 1000 + "..."
    (short,) = moments([replace(row, reason="in use")])
    assert short.reason == "in use"
