"""Commands about what somebody looked at before: a slot's version, a certificate's files."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from quarantine import cli
from quarantine.evidence.certificate import SignedCertificate
from quarantine.record.words.facts import SlotChanges
from tests.unit.quarantine.api import test_reads
from tests.unit.quarantine.api.client import SLOTS, Site
from tests.unit.quarantine.api.test_reads import issue

Cli = Callable[..., tuple[int, str, str]]
ONE = SLOTS[0]
TOP = Path(__file__).parents[4]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "site").mkdir()
    return Site(tmp_path / "site")


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*words: object) -> tuple[int, str, str]:
        code = cli.main(["--config-file", str(site.file), *map(str, words)])
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


@pytest.fixture
def made(site: Site) -> list[SignedCertificate]:
    return issue(site)


def test_a_decision_about_what_was_seen(site: Site, run: Cli) -> None:
    seen = json.loads(run("slot", "show", ONE, "-f", "json")[1])["version"]
    with site.store() as store:
        store.amend(store.slots()[0], SlotChanges(alarm="smoke"))
    code, out, err = run("slot", "hold", ONE, "--reason", "noises", "--seen", seen)
    assert (code, out) == (3, "")
    assert err.count("\n") == 1
    assert json.loads(run("slot", "show", ONE, "-f", "json")[1])["state"] == "released"
    again = json.loads(run("slot", "show", ONE, "-f", "json")[1])["version"]
    assert run("slot", "hold", ONE, "--reason", "noises", "--seen", again)[0] == 0
    assert json.loads(run("slot", "show", ONE, "-f", "json")[1])["state"] == "held"


def test_no_version_is_none_that_was_seen(run: Cli) -> None:
    """A script whose variable is empty: the slot was held as it was by then."""
    code, out, err = run("slot", "hold", ONE, "--reason", "noises", "--seen", "")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert json.loads(run("slot", "show", ONE, "-f", "json")[1])["state"] == "released"


def test_as_much_of_a_list_as_is_asked_for(run: Cli) -> None:
    def listed(*words: str) -> list[str]:
        return run("slot", "list", "-f", "value", "-c", "slot", *words)[1].split()

    assert listed("--limit", "2") == [str(slot) for slot in SLOTS[:2]]
    assert listed() == listed("--all") == [str(slot) for slot in SLOTS]
    assert run("slot", "list", "--limit", "0")[0] == 2


def test_a_saved_certificate_is_checked_elsewhere(
    run: Cli, made: list[SignedCertificate], tmp_path: Path
) -> None:
    """For their owner alone, and the same bytes as an export's."""
    last, files = made[4].digest, tmp_path / "saved"
    code, out, err = run("certificate", "save", ONE, "--directory", files, "-f", "value")
    assert (code, err) == (0, "")
    written = [Path(line) for line in out.split()]
    assert [path.name.removeprefix(last) for path in written] == [
        ".order.jws", ".report.jws", ".host.jwk", ".json",
    ]  # fmt: skip
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert stat.S_IMODE(files.stat().st_mode) == 0o700
    assert run("certificate", "export", "--directory", tmp_path / "exported")[0] == 0
    for path in written:
        assert path.read_bytes() == (tmp_path / "exported" / path.name).read_bytes()
    found = json.loads(run("certificate", "verify", written[-1], "-f", "json")[1])
    assert (found[0]["valid"], found[0]["testimony"]) == (True, "agrees")


@pytest.mark.parametrize("link", [False, True])
def test_nothing_is_written_over_unless_somebody_says_so(
    run: Cli, made: list[SignedCertificate], tmp_path: Path, link: bool
) -> None:
    """Nor is anything beside it begun, nor a link followed."""
    there = tmp_path / f"{made[0].digest}.json"
    if link:
        there.symlink_to(tmp_path / "elsewhere")
    else:
        there.write_text("mine")
    before = sorted(tmp_path.iterdir())
    words = ("certificate", "save", made[0].digest, "--directory", tmp_path)
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert "--overwrite" in err
    assert str(there) in err
    assert sorted(tmp_path.iterdir()) == before
    assert link or there.read_text() == "mine"
    assert run(*words, "--overwrite")[0] == 0
    assert json.loads(there.read_text())["jws"] == made[0].token
    assert not there.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "ascii"])
def test_a_printed_page_has_the_encoding_that_it_names(
    site: Site, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    issuer = replace(test_reads.ISSUER, organisation="Müller \u4e2d")
    monkeypatch.setattr(test_reads, "ISSUER", issuer)
    digest = issue(site)[0].digest
    argv = [sys.executable, "-m", "quarantine.cli", "--config-file", str(site.file)]
    done = subprocess.run(
        [*argv, "certificate", "html", digest],
        env={**os.environ, "PYTHONIOENCODING": encoding},
        cwd=TOP,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    page = done.stdout.decode("utf-8")
    assert '<meta charset="utf-8">' in page
    assert "Müller \u4e2d" in page
