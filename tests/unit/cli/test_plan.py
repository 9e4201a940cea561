"""``nvme-eraser plan`` as it is called."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser import cli
from eraser.cli import plan
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Method, Policy, Quirk, Verification, VerificationMode
from tests.unit.case.fakes import IDENTITY
from tests.unit.host.fakehost import FakeHost


class Drive:
    """A drive that answers questions, and has no way to be told anything else."""

    def __init__(self, sanicap: int) -> None:
        self.sanicap = sanicap

    def __enter__(self) -> Drive:
        return self

    def __exit__(self, *_: object) -> None: ...

    def identify(self) -> Any:
        return SimpleNamespace(firmware="FW1", oacs=2, fna=4, sanicap=self.sanicap)

    def active_namespaces(self) -> tuple[int, ...]:
        return (1, 2)

    def identify_namespace(self, _nsid: int, *, attached: bool = True) -> Any:
        return SimpleNamespace(lba_format=1, extended_metadata=False, protection=0)

    def identity(self) -> ControllerIdentity:
        return IDENTITY


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    made = FakeHost(tmp_path / "host")
    monkeypatch.setattr(plan, "Host", lambda: made.host)
    return made


@pytest.fixture
def sanicap(fake: FakeHost, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    offered = [3]
    monkeypatch.setattr(plan, "open_controller", lambda *_a, **_k: Drive(offered[0]))
    return offered


def called(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = cli.main([*map(str, words)])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_the_plan_of_a_drive(
    capsys: pytest.CaptureFixture[str], sanicap: list[int], tmp_path: Path
) -> None:
    words = ("plan", "--pci", "0000:01:00.0")
    code, out, _err = called(capsys, *words, "-f", "json")
    found = json.loads(out)
    assert (code, found["achieved"]) == (0, "Purge")
    assert [each["cdw10"] for each in found["commands"]] == [4, 2]
    assert found["commands"][0]["patience_seconds"] == 900
    lines = called(capsys, *words)[1]
    assert "sanitize-crypto (opcode 0x84, NSID 0x0, CDW10 0x4), given up after 900 s" in lines
    assert "{" not in lines

    sanicap[0] = 0
    code, out, _err = called(capsys, *words, "-f", "json")
    assert code == 10
    assert "allow_clear" in json.loads(out)["refusal"]

    file = tmp_path / "policy.json"
    quirk = Quirk("Mod*", "hangs", skip=(Method.FORMAT_USER_DATA,))
    file.write_bytes(codec.canonical(Policy(allow_clear=True, quirks=(quirk,))))
    code, out, _err = called(capsys, *words, "--policy", file, "-f", "json")
    found = json.loads(out)
    assert (code, found["downgraded"], found["quirks"]) == (0, True, ["Mod* *: hangs"])
    assert [(each["nsid"], each["cdw10"]) for each in found["commands"]] == [(1, 0x401), (2, 0x401)]


def test_who_only_looks_from_a_container_is_told_that_nothing_is_erased_from_there(
    capsys: pytest.CaptureFixture[str], sanicap: list[int], fake: FakeHost
) -> None:
    words = ("plan", "--pci", "0000:01:00.0", "-f", "json")
    assert called(capsys, *words)[2] == ""
    fake.path("/proc/self/ns/pid").unlink()
    fake.link("/proc/self/ns/pid", "pid:[4026532281]")
    code, out, err = called(capsys, *words)
    assert (code, json.loads(out)["achieved"]) == (0, "Purge")
    assert err.startswith("nvme-eraser: from here no drive is erased: ")
    assert err.count("\n") == 1


def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], sanicap: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "policy.json"
    file.write_text('{"quirks": [{"model": "M", "reason": "r"}]}')
    for words, said in (
        (("plan", "--pci", "nonsense"), "nonsense"),
        (("plan", "--pci", "0000:01:00.0", "--policy", tmp_path / "none"), "none"),
        (("plan", "--pci", "0000:01:00.0", "--policy", file), "change something"),
    ):
        code, _out, err = called(capsys, *words)
        assert (code, err.count("\n"), said in err) == (2, 1, True), err


def test_who_asks_for_the_layout_of_nist_is_told_that_everything_is_read(
    capsys: pytest.CaptureFixture[str], sanicap: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "policy.json"
    words = ("plan", "--pci", "0000:01:00.0", "--policy", file, "-f", "json")
    for mode in VerificationMode:
        file.write_bytes(codec.canonical(Policy(verification=Verification(mode=mode))))
        code, out, err = called(capsys, *words)
        assert (code, json.loads(out)["achieved"]) == (0, "Purge")
        said = "'nist', which is gone: every block is read, as in 'full'"
        nist = mode is VerificationMode.NIST
        assert (err.count("\n"), said in err) == ((1, True) if nist else (0, False)), err
