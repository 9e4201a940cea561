"""A certificate that is signed and contradicts itself: each way to look at it says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from quarantine import cli
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.sections import Certificate
from tests.unit.quarantine.api import test_reads
from tests.unit.quarantine.api.client import READER, Site
from tests.unit.quarantine.osc.shell import Program, Wire, answer
from tests.unit.quarantine.page.visitor import visitor

SAID = "by itself: expected the identity digest"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def digest(site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    real = certificate.sign

    def sign(body: Certificate, key: Any) -> SignedCertificate:
        return real(replace(body, drive=replace(body.drive, identity_digest="0" * 64)), key)

    monkeypatch.setattr(certificate, "sign", sign)
    return test_reads.issue(site)[0].digest


def test_by_the_command(site: Site, digest: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["--config-file", str(site.file), "certificate", "show", digest])
    told = capsys.readouterr().err
    assert (code, f"it is contradicted: {SAID}" in told) == (7, True)


def test_by_the_page(site: Site, digest: str) -> None:
    text = visitor(site).as_user(READER).page(f"/page/certificates/{digest}").text
    assert "It is contradicted:" in text
    assert SAID in text


def test_by_the_api(site: Site, digest: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = site.client().as_user(READER).get(f"/v1/certificates/{digest}").json
    assert any(line.startswith(SAID) for line in found["contradictions"])
    program = Program(Wire(site.client().app), capsys)
    code, out, err = program("certificate", "show", digest, "-c", "contradictions", "-f", "value")
    assert (code, SAID in out) == (7, True)
    assert f"it is contradicted: {SAID}" in err


def test_by_an_api_of_an_earlier_release_its_testimony_still_counts(
    site: Site, digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = site.client().as_user(READER).get(f"/v1/certificates/{digest}").json
    del said["contradictions"]
    said |= {"testimony": "contradicts", "problems": ["the report names another drive"]}

    def earlier(request: Any) -> requests.Response | None:
        is_it = request.url.endswith(digest)
        text = json.dumps(said).encode()
        return answer(200, text, **{"Content-Type": "application/json"}) if is_it else None

    program = Program(Wire(site.client().app, before=earlier), capsys)
    code, out, _err = program("certificate", "show", digest, "-c", "contradictions", "-f", "value")
    assert (code, "another drive" in out) == (7, True)
