"""A certificate that a later release signed, shown by this one: true, and called nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from quarantine import cli
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate
from tests.unit.quarantine.api import test_reads
from tests.unit.quarantine.api.client import READER, Site
from tests.unit.quarantine.osc.shell import Program, Wire
from tests.unit.quarantine.page.visitor import visitor

UNKNOWN = "a later release signed members that this one does not know: witness"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


@pytest.fixture
def digest(site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    def sign(body: Any, key: Any) -> SignedCertificate:
        payload = codec.canonical({**codec.plain(body), "witness": {"by": "x"}})
        token = key.sign(payload, certificate.CERTIFICATE_TYPE)
        named = hashlib.sha256(payload).hexdigest()
        return SignedCertificate(body, token, named, key.public.thumbprint)

    monkeypatch.setattr(certificate, "sign", sign)
    return test_reads.issue(site)[0].digest


def test_by_the_command_it_is_no_matter_of_a_rotation(
    site: Site, digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cli.main(["--config-file", str(site.file), "certificate", "show", digest])
    told = capsys.readouterr().err
    assert code == 0
    assert UNKNOWN in told
    assert "rotation" not in told


def test_as_json_it_is_what_was_signed(
    site: Site, digest: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It has the form of a certificate's file, and was called altered without what is not known."""
    command = ("certificate", "show", digest, "-f", "json")
    assert cli.main(["--config-file", str(site.file), *command]) == 0
    shown = tmp_path / "shown.json"
    shown.write_text(capsys.readouterr().out)
    assert json.loads(shown.read_text())["certificate"]["witness"] == {"by": "x"}
    verify = ["certificate", "verify", str(shown), "-c", "problem", "-f", "value"]
    assert cli.main(["--config-file", str(site.file), *verify]) == 0
    assert capsys.readouterr().out.strip() == ""


def test_by_the_page_its_testimony_says_nothing_else(site: Site, digest: str) -> None:
    text = visitor(site).as_user(READER).page(f"/page/certificates/{digest}").text
    assert UNKNOWN in text
    assert "Testimony agrees" in text
    assert "says otherwise" not in text


def test_by_the_api_it_contradicts_nothing(
    site: Site, digest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = Program(Wire(site.client().app), capsys)
    code, out, err = program("certificate", "show", digest, "-c", "contradictions", "-f", "value")
    assert (code, out.strip()) == (0, "")
    assert UNKNOWN in err
