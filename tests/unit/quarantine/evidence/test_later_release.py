"""Certificates that a later release signed, read by this one: they are true, and said to be."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import BadInputError, NotUnderstoodError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import Link
from quarantine.evidence.chain import ledger
from quarantine.evidence.sheet import page
from quarantine.operations.papers import certificates
from quarantine.operations.papers.keys import TrustedKeys
from tests.unit.quarantine.evidence.test_certificate import issue

KEY = PrivateKey.generate()
BODY: dict[str, Any] = codec.plain(issue(Link()).certificate)

Altered = Callable[[dict[str, Any]], object]


def signed(alter: Altered, key: PrivateKey = KEY) -> str:
    body = copy.deepcopy(BODY)
    alter(body)
    return key.sign(codec.canonical(body), certificate.CERTIFICATE_TYPE)


LATER: dict[str, tuple[Altered, tuple[str, ...]]] = {
    "a member": (lambda b: b.update(witness={"by": "x"}), ("witness",)),
    "one of the verification": (
        lambda b: b["verification"].update(extra=1),
        ("verification.extra",),
    ),
    "one of a namespace": (
        lambda b: b["verification"]["namespaces"][0].update(extra=1),
        ("verification.namespaces[0].extra",),
    ),
    "a reserved one that has members of its own": (
        lambda b: b.update(device_evidence={"spdm": {"cert": "x"}, "kind": "TCG"}),
        ("device_evidence.spdm",),
    ),
    "a reserved one of another shape": (
        lambda b: b.update(qualification=["A"]),
        ("qualification",),
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_further_members_are_named_and_nothing_is_called_forged(name: str, tmp_path: Path) -> None:
    alter, unknown = LATER[name]
    token = signed(alter)
    found = certificate.verify(token, [KEY.public], "it")
    assert found.unknown == unknown
    shown = page.render(found)
    assert "Signed by a later release" in shown
    assert all(path in shown for path in unknown)
    document = certificate.said_document(token)
    audited = ledger.audit([("it", document)], [KEY.public])
    assert (audited.findings, len(audited.remarks)) == ((), 1)
    assert unknown[0].replace("[0]", "[]") in audited.remarks[0]
    file = tmp_path / f"{found.digest}.json"
    file.write_bytes(document)
    verified = certificates._verified(file, [KEY.public])
    assert verified.valid
    assert not verified.contradictions
    assert any(unknown[0] in remark for remark in verified.remarks)
    keys = tmp_path / "key.jwk"
    keys.write_bytes(codec.canonical({"kty": "OKP", "crv": "Ed25519", "x": KEY.public.x}))
    looked = certificates.look(token, None, TrustedKeys((keys,)), "it")
    assert any(unknown[0] in problem for problem in looked.problems), "in the API and on the page"
    assert not looked.broken


def test_nothing_is_unknown_of_todays() -> None:
    found = certificate.verify(signed(lambda body: None), [KEY.public], "it")
    assert found.unknown == ()
    assert "later release" not in page.render(found)
    document = certificate.said_document(found.token)
    assert ledger.audit([("it", document)], [KEY.public]).remarks == ()


def test_of_a_whole_chain_one_line_says_what_was_not_checked() -> None:
    documents: list[tuple[str, bytes | BadInputError]] = []
    before = Link()
    for number in range(30):
        said = {"previous": before.digest, "position": number + 1, "case": BODY["case"] | {}}
        for paper in ("order_id", "nonce", "report_digest"):
            said["case"][paper] = f"{paper}-{number}"
        extra = {f"later{number:02}": 1} if number > 4 else {}
        token = signed(lambda body, more=said | extra: body.update(more))
        found = certificate.verify(token, [KEY.public], "it")
        before = found.link
        documents.append((f"line {number + 1}", certificate.said_document(token)))
    audited = ledger.audit(documents, [KEY.public], ordered=True)
    assert audited.findings == ()
    (remark,) = audited.remarks
    assert "later05, later06" in remark
    assert "later14 and 15 more; in 25 certificates, the first is line 6" in remark


@pytest.mark.parametrize(
    "alter",
    [
        lambda body: body["sanitization"]["techniques"][0].update(command="sanitize-overwrite"),
        lambda body: body.update(format=3),
        lambda body: body.pop("headline") and body.update(headline=5),
    ],
)
def test_what_cannot_be_read_is_not_called_forged(alter: Altered) -> None:
    token = signed(alter)
    with pytest.raises(NotUnderstoodError, match="its signature holds"):
        certificate.verify(token, [KEY.public], "it")
    (finding,) = ledger.audit([("it", certificate.said_document(token))], [KEY.public]).findings
    assert "signed, and not understood" in finding.problem


def test_another_key_s_further_members_are_forged() -> None:
    token = signed(LATER["a member"][0], PrivateKey.generate())
    with pytest.raises(BadInputError) as refused:
        certificate.verify(token, [KEY.public], "it")
    assert not isinstance(refused.value, NotUnderstoodError)
    document = json.dumps({"certificate": BODY, "jws": signed(LATER["a member"][0])}).encode()
    (finding,) = ledger.audit([("it", document)], [KEY.public]).findings
    assert "forged or altered" in finding.problem


def test_format_1_gets_no_further_members() -> None:
    token = signed(lambda body: body.update(format=1, witness="x"))
    with pytest.raises(BadInputError):
        certificate.verify(token, [KEY.public], "it")
