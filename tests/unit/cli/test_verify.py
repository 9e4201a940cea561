"""``nvme-eraser verify`` without a drive: one clear line, the right code, nothing read."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eraser import cli
from eraser.cli import verify
from eraser.controller.lock import SlotLock
from eraser.errors import InUseError
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.transport import claims
from tests.unit.host.fakehost import FakeHost
from tests.unit.quarantine.testimony import IDENTITY, REPORT, log81

ADDRESS = "0000:ff:1f.7"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_bytes(codec.canonical(REPORT))
    return path


def run(tmp_path: Path, *argv: str) -> int:
    return cli.main(["verify", "--run-dir", str(tmp_path / "run"), "-f", "json", *argv])


@pytest.mark.parametrize(
    "more",
    [
        ["--pci", "nvme0"],
        ["--pci", ADDRESS, "--certificate", "/nowhere"],
        ["--pci", ADDRESS, "--command-timeout", "-1"],
        ["--pci", ADDRESS, "--key", "/nowhere"],
        ["--pci", ADDRESS, "--seed", "00"],
    ],
)
def test_bad_options(
    more: list[str], report: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--certificate", str(report), *more) == 2
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert not (tmp_path / "run").exists(), "nothing was locked, nothing was looked at"


def test_no_drive_and_a_locked_slot(report: Path, tmp_path: Path) -> None:
    argv = ("--pci", ADDRESS, "--certificate", str(report))
    assert run(tmp_path, *argv) == 6
    with SlotLock(ADDRESS, tmp_path / "run"):
        assert run(tmp_path, *argv) == 5


class Stranger:
    """A controller that is not the certificate's, and that fails the test if it is asked more."""

    def __init__(self, identity: ControllerIdentity) -> None:
        self._identity = identity

    def identity(self) -> ControllerIdentity:
        return self._identity


def test_another_drive_is_not_read(
    report: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextlib.contextmanager
    def opened(*_given: Any, **_options: Any) -> Iterator[Stranger]:
        yield Stranger(dataclasses.replace(IDENTITY, serial="ANOTHER"))

    monkeypatch.setattr(verify, "prove_idle", lambda *_given, **_options: None)
    monkeypatch.setattr(verify, "open_controller", opened)
    assert run(tmp_path, "--pci", ADDRESS, "--certificate", str(report)) == 4
    assert "ANOTHER" in capsys.readouterr().err


def test_a_drive_with_a_twin_is_not_read(
    report: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = FakeHost(tmp_path / "root")
    fake.seen("nvme6", "0000:02:00.0", IDENTITY.serial, IDENTITY.model)

    @contextlib.contextmanager
    def opened(*_given: Any, **_options: Any) -> Iterator[Stranger]:
        yield Stranger(IDENTITY)

    monkeypatch.setattr(verify, "Host", lambda: fake.host)
    monkeypatch.setattr(verify, "prove_idle", lambda *_given, **_options: None)
    monkeypatch.setattr(verify, "open_controller", opened)
    assert run(tmp_path, "--pci", ADDRESS, "--certificate", str(report)) == 4
    assert "another at 0000:02:00.0 (nvme6); hold both" in capsys.readouterr().err


def test_a_drive_in_use_is_not_opened(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_use(*_given: Any, **_options: Any) -> None:
        raise InUseError("a guest has it")

    monkeypatch.setattr(verify, "prove_idle", in_use)
    monkeypatch.setattr(verify, "open_controller", None)
    assert run(tmp_path, "--pci", ADDRESS, "--certificate", str(report)) == 3


@pytest.mark.parametrize(
    ("then", "now", "word"),
    [
        (log81(1, 2), log81(1, 2), "unbroken"),
        (log81(1, 2), log81(1, 2, erased=False), "broken"),
        (log81(1, 2), log81(1, 4), "of another erase"),
        (log81(1, 2, erased=False), log81(1, 2, erased=False), "none"),
        ("", "", "none: the drive was erased by Format"),
    ],
)
def test_the_seal(then: str, now: str, word: str) -> None:

    class Drive:
        def sanitize_log(self) -> bytes:
            return base64.b64decode(now)

    found = claims.read(codec.canonical(REPORT), None, "report")
    sealed = dataclasses.replace(found, log_after=then)
    assert verify._seal(Drive(), sealed).startswith(word)  # type: ignore[arg-type]
