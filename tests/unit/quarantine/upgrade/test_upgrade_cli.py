"""``upgrade check`` on the command line: bad input, exit codes, both kinds of output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli
from quarantine.operations.plane import Plane
from quarantine.operations.setup import upgrades
from quarantine.upgrade.catalogue import CHECKS
from quarantine.upgrade.facts import Facts
from tests.unit.quarantine.api.client import Site
from tests.unit.quarantine.upgradefacts import FREE, Cloud, spec


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A control plane without cloud and record."""
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/none.db\n[placement]\ncloud = no-such-cloud\n"
    )
    return file


def run(conf: Path, *words: object) -> int:
    return cli.main(["--config-file", str(conf), "upgrade", "check", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--nova-conf", "/etc/nova/nova.conf"), "ROLE=FILE"),
        (("--nova-conf", "cinder=x"), "ROLE=FILE"),
        (("--nova-conf", "api="), "ROLE=FILE"),
        (("--nova-conf", "api@cmp1=x"), "ROLE=FILE"),
        (("--nova-conf", "compute@../x=x"), "host name"),
        (("--nova-conf", "api=/no/such/file"), "/no/such/file"),
        (("--nova-conf", "placement=/no/such/file"), "/no/such/file"),
        (("--host", "../x"), "host name"),
        (("--nova-release", "hibiscus"), "--help"),
        (("--silent-after", "soon"), "--help"),
    ],
)
def test_malformed_options_are_one_line(
    conf: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], complaint: str
) -> None:
    assert run(conf, *words) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.count("\n") == 1
    assert complaint in out.err


def test_without_cloud_and_record_it_fails_and_names_both(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(conf, "-f", "json") == 2
    shown = json.loads(capsys.readouterr().out)
    results = {check["check"]: check["result"] for check in shown["checks"]}
    assert shown["result"] == "failure"
    assert {name for name, result in results.items() if result == "failure"} == {
        "record-readable",
        "placement-answers",
    }
    assert results["reserved"] == "warning"
    assert run(conf) == 2
    text = capsys.readouterr().out
    assert "db upgrade" in text
    assert "not known, and so a warning:" in text


def test_the_exit_code_is_the_worst_result(
    conf: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cloud = Cloud(tmp_path)
    facts: list[Facts] = []
    monkeypatch.setattr(upgrades, "gather", lambda *_a, **_k: facts[-1])
    facts.append(cloud.facts())
    assert run(conf) == 0
    facts.append(cloud.facts(silent={"cmp1": 9999.0}))
    assert run(conf) == 1
    facts.append(cloud.facts(nova_release=None))
    assert run(conf) == 1
    facts.append(cloud.facts(confs=(cloud.nova(specs=("{}", spec(FREE.address))),)))
    capsys.readouterr()
    assert run(conf, "-f", "json") == 2
    shown = json.loads(capsys.readouterr().out)
    (order,) = [check for check in shown["checks"] if check["check"] == "device-spec-order"]
    assert order["leaks"] == [22]
    assert order["findings"][0]["result"] == "failure"
    assert {"where", "found", "why", "do", "unknown"} <= order["findings"][0].keys()


def test_what_nobody_foresaw_is_255(
    conf: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_args: object, **_words: object) -> Facts:
        raise RuntimeError

    monkeypatch.setattr(upgrades, "gather", broken)
    assert run(conf) == 255
    assert capsys.readouterr().out == ""


def test_a_configuration_moves_no_cursor(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "no\x1b[2Jva.conf"
    file.write_text('[pci]\nreport_in_placement = \x1b[2J\nalias = {"\x1b[2J": 1}\n')
    run(conf, "--nova-conf", f"all={file}")
    run(conf, "--nova-conf", f"all={file}", "-f", "json")
    assert "\x1b" not in capsys.readouterr().out


def test_the_checks_are_listed_without_asking_anybody(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(conf, "list") == 0
    assert CHECKS[0].title in capsys.readouterr().out
    assert run(conf, "list", "-f", "json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [check["check"] for check in shown] == [check.name for check in CHECKS]


def test_a_role_named_twice_reads_both_files(
    conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.conf", tmp_path / "two.conf"
    one.write_text("[filter_scheduler]\npci_in_placement = true\n")
    two.write_text("[pci]\nreport_in_placement = true\n")
    run(conf, "--nova-conf", f"api={one}", "--nova-conf", f"api={two}", "-f", "json")
    shown = json.loads(capsys.readouterr().out)
    (result,) = [check for check in shown["checks"] if check["check"] == "pci-in-placement"]
    assert [finding["where"] for finding in result["findings"]] == ["scheduler", "conductor"]


def test_defences_that_we_were_told_to_do_without_are_named(
    conf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf.write_text(
        conf.read_text() + "[gate]\nrequired = false\nrequired_defences = hook,loaded\n"
        "[compute]\nghost_checks = false\n[detection]\nbells = false\n"
    )
    run(conf, "-f", "json")
    shown = json.loads(capsys.readouterr().out)
    (own,) = [check for check in shown["checks"] if check["check"] == "own-settings"]
    words = [finding["found"] for finding in own["findings"]]
    assert [w.partition(" ")[0] for w in words] == [
        "[gate]required",
        "[gate]required_defences",
        "[compute]ghost_checks",
        "[detection]bells",
    ]
    assert "patch" in words[1]


def test_keys_are_apart_by_what_is_in_their_files(tmp_path: Path) -> None:
    """Not by whether the options are set; a newline more makes no other key."""
    site = Site(tmp_path)
    certificates = (tmp_path / "controller.pem").read_bytes()
    (tmp_path / "own.pem").write_bytes(PrivateKey.generate().pem())
    (tmp_path / "copy.pem").write_bytes(certificates + b"\n")

    def said(order: str, ticket: str) -> list[str]:
        conf = tmp_path / "keys.conf"
        conf.write_text(
            f"[erase]\norder_key = {tmp_path}/{order}\nticket_key = {tmp_path}/{ticket}\n"
        )
        with Plane([site.file, conf]).parts() as parts:
            return list(upgrades._shared_keys(parts))

    (tmp_path / "third.pem").write_bytes(PrivateKey.generate().pem())
    assert said("own.pem", "third.pem") == []
    assert said("copy.pem", "own.pem") == ["[erase]order_key has the key of certificates in it"]
    assert said("own.pem", "copy.pem") == ["[erase]ticket_key has the key of certificates in it"]
    (shared,) = said("own.pem", "own.pem")
    assert "found the one that signs orders" in shared
    (gone,) = said("gone.pem", "own.pem")
    assert "gone.pem" in gone
