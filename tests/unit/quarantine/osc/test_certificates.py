"""Certificates from an API: saved as they came, and believed by the key that somebody has."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli
from quarantine.evidence.certificate import SignedCertificate
from quarantine.record.database import engine as door
from quarantine.record.database import models
from tests.unit.quarantine.api.client import SLOTS, Site
from tests.unit.quarantine.api.test_reads import issue
from tests.unit.quarantine.osc.shell import Program, answer


@pytest.fixture
def made(site: Site) -> list[SignedCertificate]:
    return issue(site)


@pytest.fixture
def key(site: Site) -> Path:
    """The control plane's public key, as an auditor has it."""
    file = site.path / "public.jwk"
    private = PrivateKey.from_pem((site.path / "controller.pem").read_bytes(), "key")
    file.write_text(json.dumps(private.public.jwk()))
    return file


def test_saved_and_checked_here(
    program: Program, made: list[SignedCertificate], key: Path, tmp_path: Path
) -> None:
    files = tmp_path / "saved"
    code, out, err = program("certificate", "save", SLOTS[0], "--directory", files, "-f", "value")
    assert (code, err) == (0, "")
    written = [Path(line) for line in out.split()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert written[-1].name == f"{made[4].digest}.json"
    asked = len(program.wire.carried)
    words = ("certificate", "verify", written[-1], "--key", key, "--testimony", "-f", "json")
    code, out, err = program(*words)
    (one,) = json.loads(out)
    assert (code, one["valid"], one["testimony"]) == (0, True, "agrees")
    assert len(program.wire.carried) == asked, "the API is asked nothing"
    assert program("certificate", "save", made[4].digest, "--directory", files)[0] == 2
    said = json.loads(written[-1].read_text())
    said["certificate"]["position"] = 99
    written[-1].write_text(json.dumps(said))
    assert program(*words)[0] == 7
    again = ("certificate", "save", made[4].digest, "--directory", files, "--overwrite")
    assert program(*again)[0] == 0
    assert program(*words)[0] == 0
    other = tmp_path / "other.jwk"
    other.write_text(json.dumps(PrivateKey.generate().public.jwk()))
    assert program("certificate", "verify", written[-1], "--key", other)[0] == 7


def test_whose_word_is_shown(program: Program, made: list[SignedCertificate], key: Path) -> None:
    digest = made[0].digest
    by_it = json.loads(program("certificate", "show", digest, "-f", "json")[1])
    assert by_it["jws"] == made[0].token
    code, out, err = program("certificate", "show", digest)
    assert (code, err) == (0, "")
    assert "by the API, whose word this is" in out
    program.wire.carried.clear()
    code, out, err = program("certificate", "show", digest, "--key", key)
    assert (code, err) == (0, "")
    assert "here, with the keys that are believed" in out
    assert "agrees" in out
    ends = [line.rpartition("/")[2] for line in program.wire.carried]
    assert ends == ["signed", "testimony"], "nothing but what proves itself"
    assert (
        json.loads(program("certificate", "show", digest, "--key", key, "-f", "json")[1]) == by_it
    )


def test_an_api_that_lies(
    program: Program, made: list[SignedCertificate], key: Path, tmp_path: Path
) -> None:
    """Another certificate under the name that was asked for, and one that nobody signed."""
    files = tmp_path / "saved"
    said = {"token": made[1].token}

    def lie(request: Any) -> Any:
        if request.url.endswith("/signed"):
            return answer(200, said["token"].encode())
        return None

    program.wire.before = lie
    digest = made[0].digest
    for words in (
        ("save", digest, "--directory", files),
        ("show", digest, "--key", key),
        ("show", digest),
        ("show", digest, "-f", "json"),
    ):
        code, out, err = program("certificate", *words)
        assert (code, out) == (1, "")
        assert "found another under its name" in err
    assert not files.exists()
    head, body, _signature = made[0].token.split(".")
    said["token"] = f"{head}.{body}.{'A' * 86}"
    assert program("certificate", "show", digest, "--key", key)[0] == 2
    assert program("certificate", "save", digest, "--directory", files)[0] == 0
    saved = files / f"{digest}.json"
    assert program("certificate", "verify", saved, "--key", key)[0] == 7
    said["token"] = "nothing"
    assert program("certificate", "save", digest, "--directory", tmp_path / "more")[0] == 1


def test_one_that_does_not_hold_is_no_change_of_somebody_elses(
    site: Site, program: Program, made: list[SignedCertificate]
) -> None:
    """Who is told that somebody was quicker asks again."""
    with site.store() as store, door.writing(store._engine) as db:
        table = models.certificates
        one = sa.update(table).where(table.c.digest == made[0].digest)
        db.execute(one.values(token=f"{made[0].token[:-8]}AAAAAAAA"))
    words = ("certificate", "show", made[0].digest)
    code, out, err = program(*words)
    assert (code, out) == (cli.main(["--config-file", str(site.file), *words]), "")
    assert (code, "does not hold" in err) == (2, True)


@pytest.mark.parametrize("digest", ["../../etc/x", "..", "\x1b[2J"])
def test_no_file_is_named_by_a_stranger(program: Program, digest: str, tmp_path: Path) -> None:
    """The newest of a slot is by the API's word: a name that is no digest is none."""
    page = json.dumps({"certificates": [{"digest": digest}]}).encode()
    program.wire.before = lambda _request: answer(200, page)
    code, out, err = program("certificate", "save", SLOTS[0], "--directory", tmp_path / "saved")
    assert (code, out) == (2, "")
    assert err.strip().isprintable()
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("command", ["show", "verify"])
def test_rotations_lead_nowhere_without_a_key(
    program: Program, made: list[SignedCertificate], tmp_path: Path, command: str
) -> None:
    """What was asked for is a check here: the API's word in its place would pass for one."""
    file = tmp_path / "certificate.json"
    file.write_text(made[0].token)
    what = made[0].digest if command == "show" else file
    code, out, err = program("certificate", command, what, "--rotations", tmp_path)
    assert (code, out) == (2, "")
    assert "--key" in err
