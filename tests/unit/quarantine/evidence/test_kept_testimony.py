"""Testimony: kept with the certificate, exported with it, and held against it by whoever doubts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from jwcrypto import jwk, jws

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.policy import Policy
from eraser.protocol.report import REPORT_TYPE, EraseReport, Verdict
from eraser.protocol.ticket import LastOwner
from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli, outputfile
from quarantine.errors import BadInputError, UnreadableError
from quarantine.evidence import certificate, testimony
from quarantine.evidence.certificate import CertificateEvidence, Link, SignedCertificate
from quarantine.evidence.checks import consistency
from quarantine.evidence.sections import Certificate, HistoryLine
from quarantine.evidence.sheet import files
from quarantine.evidence.testimony import TestimonyResult, TestimonyStanding
from quarantine.record.database import models
from quarantine.record.words.facts import SignedTestimony
from tests.unit.quarantine.evidence.test_certificate import ISSUER, KEY, OTHER
from tests.unit.quarantine.service.inbound.plane import Plane, plane
from tests.unit.quarantine.testimony import ORDER, REPORT

__all__ = ["plane"]

HOST = PrivateKey.generate()
OWNER = LastOwner("22222222-2222-4222-8222-222222222222", "i-1", "2026-11-01", "2026-11-20")
SAID = replace(REPORT, last_owner=OWNER, residues=("persistent event log: kept by the drive",))
NOBODY_TESTIFIES = (
    "issued_at", "issuer", "withheld", "case.history",
    "drive.media_type", "drive.property_number", "source.provider", "source.known_from",
    "source.chassis", "sanitization.attestation", "validation.decision", "validation.decided",
    *(f"validation.{name}.{word}" for name in ("policy", "profile") for word in ("ver", "app")),
)  # fmt: skip
"""The controller's own words: what it decided, the operator's texts, the slot's history."""
NO_OTHER_VALUE = {"format", "position", "previous"}
"""What no certificate can say otherwise in the place of this one. Its place in the chain is the
controller's own word too."""


@dataclass(frozen=True)
class Papers:
    """A certificate with what it rests on."""

    signed: SignedCertificate
    given: SignedTestimony

    def weighed(self, **changes: Any) -> TestimonyResult:
        given = replace(self.given, **changes)
        return testimony.weigh(self.signed.certificate, given, [KEY.public])


def papers(
    report: EraseReport = SAID,
    order: EraseOrder = ORDER,
    *,
    withheld: tuple[str, ...] = (),
    signer: PrivateKey = HOST,
    orderer: PrivateKey = KEY,
) -> Papers:
    order_token = orderer.sign(codec.canonical(order), ORDER_TYPE)
    report_token = signer.sign(codec.canonical(report), REPORT_TYPE)
    evidence = CertificateEvidence(
        order=order,
        order_token=order_token,
        report=report,
        report_token=report_token,
        host_key=HOST.public.thumbprint,
        provider="11111111-1111-4111-8111-111111111111",
        last_user=OWNER.domain,
        history=(HistoryLine("2026-11-20T10:59:00Z", "release_seen", "released", "server gone"),),
        withheld=withheld,
    )
    body = certificate.build(evidence, ISSUER, Link(), "2026-11-20T12:00:00Z")
    given = SignedTestimony(order_token, report_token, HOST.public)
    return Papers(certificate.sign(body, KEY), given)


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The place of each value that is no list and no object."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, held in inner:
        if isinstance(held, dict | list):
            yield from leaves(held, (*path, name))
        else:
            yield (*path, name)


def altered(body: Certificate, path: tuple[str | int, ...]) -> Certificate | None:
    """With another value in one place; None where no certificate can say that."""
    said = codec.plain(body)
    place = said
    for name in path[:-1]:
        place = place[name]
    held = place[path[-1]]
    others = {
        "Purge": "Clear", "Clear": "Purge", "sanitize-crypto": "sanitize-block",
        "sanitize-block": "sanitize-crypto", "statistical": "full", "not_erased": "unknown",
        "accepted": "withheld",
    }  # fmt: skip
    if isinstance(held, bool):
        place[path[-1]] = not held
    elif isinstance(held, int | float):
        place[path[-1]] = held + 1
    else:
        place[path[-1]] = others.get(held, f"{held}x")
    try:
        return codec.decode(Certificate, said, "altered")
    except BadWireError:
        return None


def test_a_certificate_agrees_with_what_it_was_made_of() -> None:
    assert papers().weighed() == TestimonyResult(TestimonyStanding.AGREES)
    unfit = papers(replace(SAID, fit=False), withheld=("health: worn",))
    assert unfit.weighed().standing is TestimonyStanding.AGREES


def test_a_gate_that_names_nobody_is_left_out() -> None:
    """One host's empty word made a certificate that its own testimony contradicted, for ever."""
    held = papers(replace(SAID, last_owner=replace(OWNER, domain="")))
    source = held.signed.certificate.source
    assert (source.last_user, source.gate_since) == (OWNER.domain, "")
    assert source.known_from == "allocations seen in Placement"
    assert held.weighed().standing is TestimonyStanding.AGREES


def test_every_value_that_the_testimony_does_not_bear_is_named() -> None:
    """By whoever has the controller's key: each of the values is altered and signed again."""
    whole = papers()
    facts = texts = 0
    unread = set[str]()
    for path in leaves(codec.plain(whole.signed.certificate)):
        body = altered(whole.signed.certificate, path)
        name = ".".join(map(str, path))
        if body is None:
            unread.add(name)
            continue
        found = testimony.weigh(body, whole.given, [KEY.public])
        if name.startswith(NOBODY_TESTIFIES):
            assert found.standing is TestimonyStanding.AGREES, name
        elif found.standing is TestimonyStanding.CONTRADICTS:
            facts += 1
        else:
            texts += 1
            assert found.remarks, name
    assert unread == NO_OTHER_VALUE
    assert (facts > 90, texts > 15) == (True, True), (facts, texts)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"report": "a.b.c"}, "report: expected the one that the certificate names"),
        ({"order": "a.b.c"}, "order: expected the one that the certificate names"),
        ({"host_key": OTHER.public}, "host's key: expected the one that the certificate names"),
    ],
)
def test_another_message_or_key_than_the_certificate_names(
    changes: dict[str, Any], words: str
) -> None:
    found = papers().weighed(**changes)
    assert found.standing is TestimonyStanding.CONTRADICTS
    assert found.problems[0].startswith(words)


def test_messages_that_were_signed_by_others() -> None:
    (problem,) = papers(signer=OTHER).weighed().problems
    assert problem.startswith(f"report: expected a signature by key {HOST.public.thumbprint}")
    (problem,) = papers(orderer=OTHER).weighed().problems
    assert problem.startswith("order: expected a signature by key")
    whole = papers()
    assert testimony.weigh(whole.signed.certificate, whole.given, []).problems == (
        "order: expected a public key, found none",
    )


def test_an_order_in_place_of_a_report_is_none() -> None:
    order_token = HOST.sign(codec.canonical(ORDER), ORDER_TYPE)
    body = papers().signed.certificate
    case = replace(body.case, report_digest=certificate.token_digest(order_token))
    given = replace(papers().given, report=order_token)
    case = replace(case, order_digest=certificate.token_digest(given.order))
    (problem,) = testimony.weigh(replace(body, case=case), given, [KEY.public]).problems
    assert "expected a message of type" in problem


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (replace(SAID, order_id="order-0000000002"), "expected the order's order_id"),
        (replace(SAID, slot=Slot("cmp2", ORDER.slot.address)), "expected the order's slot"),
        (replace(SAID, slot=Slot("cmp1", "0000:02:00.0")), "expected the order's slot"),
        (replace(SAID, generation=ORDER.generation + 1), "expected the order's generation"),
        (replace(SAID, nonce="nonce-00000000002"), "expected the order's nonce"),
        (
            replace(SAID, incarnation="incarnation-00002"),
            "expected the order's incarnation",
        ),
        (replace(SAID, verdict=Verdict.UNKNOWN), "the host's verdict is unknown"),
        (replace(SAID, fit=False), "the host calls the drive unfit"),
    ],
)
def test_a_report_that_bears_no_certificate(report: EraseReport, words: str) -> None:
    found = papers(report).weighed()
    assert found.standing is TestimonyStanding.CONTRADICTS
    assert any(words in line for line in found.problems)


REFUSED = replace(
    SAID.methods[0], verdict=Verdict.NOT_ERASED, reason="the drive refused it", changed=False
)


def test_the_verdict_on_a_refused_method_is_the_hosts() -> None:
    """Whose log has an older success. The report bears it; a certificate that is older than the
    member has none, and stays what it is: it holds, in its own words."""
    report = replace(SAID, methods=(REFUSED, SAID.methods[1]))
    whole = papers(report, replace(ORDER, policy=Policy(allow_failed=True)))
    assert whole.weighed() == TestimonyResult(TestimonyStanding.AGREES)
    body = whole.signed.certificate
    said = body.sanitization.techniques

    def with_verdict(verdict: Verdict, **changes: Any) -> Certificate:
        done = replace(body.sanitization, techniques=(replace(said[0], verdict=verdict), said[1]))
        return replace(body, sanitization=done, **changes)

    other = testimony.weigh(with_verdict(Verdict.UNKNOWN), whole.given, [KEY.public])
    assert other.standing is TestimonyStanding.CONTRADICTS
    assert "sanitization.techniques[0].verdict: the certificate says" in other.problems[0]
    praised = body.headline.replace("success of", "success of sanitize-crypto and")
    older = with_verdict(Verdict.ERASED, headline=praised)
    found = testimony.weigh(older, whole.given, [KEY.public])
    assert found.standing is TestimonyStanding.AGREES
    assert any(line.startswith("headline: this release") for line in found.remarks)
    assert list(consistency.contradictions(older)) == []
    # With the verdict that headline is a contradiction.
    [line] = consistency.contradictions(replace(body, headline=praised))
    assert line.startswith("expected a headline with the success of sanitize-block")


def test_what_this_release_would_not_certify_is_a_remark() -> None:
    """Rules become stricter; a certificate of before does not become false by that."""
    untold = replace(SAID, methods=(replace(SAID.methods[0], changed=False), SAID.methods[1]))
    found = papers(untold).weighed()
    assert found.standing is TestimonyStanding.AGREES
    assert "log 81h was not seen to change" in found.remarks[0]


@pytest.mark.parametrize("spoilt", ["confidence", "log"])
def test_what_nothing_can_be_computed_from_hides_no_other_file(
    spoilt: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Controller and host lie together: of two certificates in a directory both are told of."""
    good, report = papers(), SAID
    body = good.signed.certificate
    if spoilt == "confidence":
        assert report.verification is not None
        report = replace(report, verification=replace(report.verification, confidence=1.0))
        body = replace(body, verification=replace(body.verification, confidence=1.0))
    else:
        last = replace(report.methods[-1], log_after="AAAA")
        report = replace(report, methods=(*report.methods[:-1], last))
        done = body.sanitization
        technique = replace(done.techniques[-1], log_after="AAAA")
        done = replace(done, techniques=(*done.techniques[:-1], technique))
        body = replace(body, sanitization=done)
    token = HOST.sign(codec.canonical(report), REPORT_TYPE)
    case = replace(body.case, report_digest=certificate.token_digest(token))
    bad = Papers(certificate.sign(replace(body, case=case), KEY), replace(good.given, report=token))
    for one in (bad, good):
        files.write_files(tmp_path, one.signed, one.given)
    key = tmp_path / "key.jwk"
    key.write_text(json.dumps(KEY.public.jwk()))
    names = [str(tmp_path / f"{one.signed.digest}.json") for one in (bad, good)]
    assert cli.main(["certificate", "verify", *names, "--key", str(key), "-f", "json"]) == 7
    first, second = json.loads(capsys.readouterr().out)
    assert first["contradictions"]
    assert "computes no texts" in first["remarks"][0]
    assert (second["testimony"], second["contradictions"]) == ("agrees", [])


def test_it_is_kept_with_the_certificate_and_written_beside_it(plane: Plane) -> None:
    plane.ordered()
    order_token, token = plane.record().order_token, plane.report()
    plane.inbox.report(token)
    stored = plane.store.last_certificate()
    assert stored is not None
    given = plane.store.testimony(stored.digest)
    assert given == SignedTestimony(order_token or "", token, plane.host.public)
    signed = certificate.verify(stored.token, [plane.controller.public], "x")
    found = testimony.weigh(signed.certificate, given, [plane.controller.public])
    assert found == TestimonyResult(TestimonyStanding.AGREES)
    # By a library of another hand, from the files alone.
    case = signed.certificate.case
    report, host = (
        plane.directory / f"{stored.digest}{end}" for end in (".report.jws", ".host.jwk")
    )
    assert hashlib.sha256(report.read_bytes()).hexdigest() == case.report_digest
    key = jwk.JWK.from_json(host.read_text())
    assert key.thumbprint() == case.host_key
    message = jws.JWS()
    message.deserialize(report.read_text())
    message.allowed_algs = ["EdDSA"]
    message.verify(key)
    assert json.loads(message.payload)["order_id"] == case.order_id


def test_an_unfit_drive_s_is_kept_too(plane: Plane) -> None:
    plane.ordered()
    token = plane.report(fit=False, reasons=("health: worn",))
    plane.inbox.report(token)
    stored = plane.store.last_certificate()
    assert stored is not None
    given = plane.store.testimony(stored.digest)
    assert given is not None
    assert given.report == token


def test_it_outlives_its_host_s_registration(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    stored = plane.store.last_certificate()
    assert stored is not None
    anew = PrivateKey.generate().public
    plane.store.register_host("cmp1", anew, "incarnation-00009", replace=True)
    given = plane.store.testimony(stored.digest)
    assert given is not None
    assert given.host_key == plane.host.public


def test_an_older_certificate_has_none_and_a_damaged_row_is_named(plane: Plane) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    stored = plane.store.last_certificate()
    assert stored is not None
    with plane.store._writing() as db:
        db.execute(sa.update(models.testimonies).values(host_key="{"))
    with pytest.raises(UnreadableError, match=stored.digest):
        plane.store.testimony(stored.digest)
    assert plane.store.testimony("0" * 64) is None


class TestOffline:
    """``certificate verify`` with the files and the controller's public key alone."""

    @pytest.fixture
    def whole(self) -> Papers:
        return papers()

    @pytest.fixture
    def file(self, whole: Papers, tmp_path: Path) -> Path:
        return files.write_files(tmp_path / "papers", whole.signed, whole.given)[-1]

    def verify(
        self, file: Path, capsys: pytest.CaptureFixture[str], *options: str
    ) -> tuple[int, dict[str, Any]]:
        key = file.parent.parent / "controller.jwk"
        key.write_bytes(codec.canonical(KEY.public.jwk()))
        words = ["certificate", "verify", str(file), "--key", str(key), *options]
        code = cli.main([*words, "-f", "json"])
        (found,) = json.loads(capsys.readouterr().out)
        assert cli.main(words) == code
        assert found["testimony"] in capsys.readouterr().out
        return code, found

    def test_it_agrees(self, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert file.suffix == ".json"
        code, found = self.verify(file, capsys, "--testimony")
        assert (code, found["testimony"], found["remarks"]) == (0, "agrees", [])

    def test_one_that_nobody_gave_is_no_error_unless_it_was_asked_for(
        self, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for path in file.parent.glob(f"{file.stem}.*.*"):
            path.unlink()
        assert self.verify(file, capsys)[0] == 0
        code, found = self.verify(file, capsys, "--testimony")
        assert (code, found["testimony"]) == (7, "not given")

    @pytest.mark.parametrize("suffix", [".order.jws", ".report.jws", ".host.jwk"])
    @pytest.mark.parametrize("damage", [None, b"", b"\xff\xfe", b"a.b.c", b'{"kty": "OKP"}'])
    def test_a_part_that_is_missing_or_damaged(
        self, file: Path, suffix: str, damage: bytes | None, capsys: pytest.CaptureFixture[str]
    ) -> None:
        part = file.with_name(f"{file.stem}{suffix}")
        if damage is None:
            part.unlink()
        else:
            part.write_bytes(damage)
        code, found = self.verify(file, capsys)
        assert (code, found["valid"], found["testimony"]) == (7, True, "contradicts")
        assert len(found["contradictions"]) >= 1

    @pytest.mark.parametrize("suffix", [".order.jws", ".report.jws", ".host.jwk"])
    def test_nobody_waits_for_a_pipe_beside_it(
        self, file: Path, suffix: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        part = file.with_name(f"{file.stem}{suffix}")
        part.unlink()
        os.mkfifo(part)
        code, found = self.verify(file, capsys)
        assert (code, found["testimony"]) == (7, "contradicts")

    def test_a_false_word_over_a_true_report(
        self, whole: Papers, file: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        body = whole.signed.certificate
        clean = replace(body.verification, canaries_planted=9999, canaries_checked=9999)
        forged = certificate.sign(replace(body, verification=clean), KEY)
        path = files.write_files(file.parent, forged, whole.given)[-1]
        code, found = self.verify(path, capsys)
        assert (code, found["testimony"]) == (7, "contradicts")
        assert found["contradictions"] == [
            "verification: expected the counts [9999, 9999, 77, 77] in the sentence on probes, "
            "found [1024, 1024, 77, 77]",
            "verification.canaries_planted: the certificate says 9999, the testimony 1024",
            "verification.canaries_checked: the certificate says 9999, the testimony 1024",
        ]


def test_a_certificate_is_never_there_without_its_testimony(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate's file is the last one: a disk that is full before it leaves none."""
    whole, write = papers(), outputfile.replace

    def full(path: Path, data: bytes, *, synced: bool) -> None:
        if ".host.jwk" in path.name:
            raise OSError(28, "No space left on device")
        write(path, data, synced=synced)

    monkeypatch.setattr(outputfile, "replace", full)
    with pytest.raises(OSError, match="No space"):
        files.write_files(tmp_path, whole.signed, whole.given)
    assert {path.suffix for path in tmp_path.iterdir()} == {".jws"}
    with pytest.raises(BadInputError, match=r"host\.jwk"):
        files.testimony_beside(tmp_path / "x.json", whole.signed.digest)


def test_in_the_record_it_is_looked_at_with_its_certificate(
    plane: Plane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    (tmp_path / "controller.pem").write_bytes(plane.controller.pem())
    conf = tmp_path / "conf"
    conf.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
    )

    def run(*words: object) -> tuple[int, str, str]:
        code = cli.main(["--config-file", str(conf), "certificate", *map(str, words)])
        out = capsys.readouterr()
        return code, out.out, out.err

    stored = plane.store.last_certificate()
    assert stored is not None
    code, out, _err = run("show", stored.digest)
    assert (code, "| testimony | agrees |" in " ".join(out.split())) == (0, True)
    code, out, _err = run("export", "--directory", tmp_path / "out", "-f", "value")
    assert (code, out.count(f"{tmp_path}/out/")) == (0, 5)
    exported = tmp_path / "out" / f"{stored.digest}.json"
    assert run("verify", exported, "--testimony")[0] == 0
    with plane.store._writing() as db:
        db.execute(sa.update(models.testimonies).values(report_token="a.b.c"))
    code, out, err = run("show", stored.digest, "-f", "json")
    assert (code, "it is contradicted: " in err) == (7, True)
    assert certificate.read_document(out.encode(), [plane.controller.public], "stdout")
    with plane.store._writing() as db:
        db.execute(sa.delete(models.testimonies))
    code, out, _err = run("show", stored.digest)
    assert (code, "not kept" in out) == (0, True)
    code, out, _err = run("export", "--directory", tmp_path / "old", "-f", "value")
    assert (code, out.count(f"{tmp_path}/old/")) == (0, 2)
