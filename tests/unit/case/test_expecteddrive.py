"""By hand: whoever erases says which drive is meant, and any other is refused untouched."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import socket
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.case import session as case_session
from eraser.case.session import CaseJournal, CaseSession
from eraser.cli import erase as cli_erase
from eraser.cli import inspect
from eraser.controller.lock import SlotLock
from eraser.errors import IdentityError
from eraser.host.sysfs import Host
from eraser.media.reader import BlockDevice
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Policy, Verification, VerificationMode
from eraser.state.case_files import CaseFiles, CaseRequest
from tests.unit.case.fakes import IDENTITY, PROFILE, REQUEST
from tests.unit.cli.test_case import run
from tests.unit.controller.labdrive import lab_controller

OTHER = dataclasses.replace(IDENTITY, serial="ANOTHER1")


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[CaseRequest]:
    """Requests that would have been carried out."""
    found: list[CaseRequest] = []

    def carry_out(request: CaseRequest, *_given: Any, **_words: Any) -> None:
        found.append(request)
        raise IdentityError("enough")

    monkeypatch.setattr(cli_erase, "run_case", carry_out)
    monkeypatch.setattr("sys.stdin", io.StringIO("IN A PIPE\n"))
    (tmp_path / "profile").write_bytes(codec.canonical(PROFILE))
    (tmp_path / "identity").write_bytes(codec.canonical(IDENTITY))
    return found


def erase(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    words = ("erase", "--pci", "0000:01:00.0", "--profile", str(tmp_path / "profile"), *more)
    return run(*words, capsys=capsys)


def test_a_script_must_say_which_drive(
    asked: list[CaseRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = erase(tmp_path, capsys)
    assert (code, out, len(err.splitlines()), asked) == (2, "", 1, [])
    assert all(option in err for option in ("--serial", "--identity", "--any-drive"))


@pytest.mark.parametrize("typed", ["", "\n", "   \n"])
def test_nothing_typed_is_no_drive(
    asked: list[CaseRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    assert erase(tmp_path, capsys)[0] == 2
    assert asked == []


def test_a_terminal_is_asked_for_the_serial(
    asked: list[CaseRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{IDENTITY.serial}\nnot this\n"))
    _code, out, err = erase(tmp_path, capsys)
    assert [(request.serial, request.identity) for request in asked] == [(IDENTITY.serial, None)]
    assert (out, err.startswith("serial number of the drive at 0000:01:00.0: ")) == ("", True)


def test_options_say_it_without_a_question(
    asked: list[CaseRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    erase(tmp_path, capsys, "--serial", " S1 ")
    erase(tmp_path, capsys, "--identity", str(tmp_path / "identity"))
    erase(tmp_path, capsys, "--any-drive")
    said = [(request.serial, request.identity) for request in asked]
    assert said == [("S1", None), ("", IDENTITY), ("", None)]


@pytest.mark.parametrize(
    "more",
    [
        ("--serial", ""),
        ("--serial", "S1", "--any-drive"),
        ("--identity", "/nowhere"),
        ("--identity", "/dev/zero"),
    ],
)
def test_what_says_no_drive_is_bad_input(
    asked: list[CaseRequest],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
) -> None:
    code, _out, err = erase(tmp_path, capsys, *more)
    assert (code, len(err.splitlines()), asked) == (2, 1, [])


def test_a_host_without_a_name_is_a_host(
    asked: list[CaseRequest],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "(none)")
    erase(tmp_path, capsys, "--any-drive")
    assert asked[0].slot.host == "localhost"


@pytest.mark.parametrize(
    ("meant", "refused"),
    [
        ({"serial": IDENTITY.serial}, False),
        ({"serial": "ANOTHER1"}, True),
        ({"serial": IDENTITY.serial[:-1]}, True),
        ({"identity": IDENTITY}, False),
        ({"identity": OTHER}, True),
    ],
)
def test_another_drive_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, meant: dict[str, Any], refused: bool
) -> None:
    monkeypatch.setattr(case_session, "check_unique", lambda *_a: None)
    request = dataclasses.replace(REQUEST, **({"identity": None} | meant))
    files = CaseFiles.of(tmp_path, request)
    files.make()
    journal = CaseJournal(files)
    lock = SlotLock(request.slot.address, tmp_path)
    session = CaseSession(request, files, Host(), lock, journal, lambda *_told: None, BlockDevice)
    controller: Any = SimpleNamespace(identity=lambda: IDENTITY)
    session._controller = controller
    if refused:
        with pytest.raises(IdentityError, match="nothing was sent to it"):
            session._know()
    else:
        session._know()
    assert session.state.identity == (None if refused else IDENTITY)
    journal.close()


def test_inspect_writes_who_the_drive_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = lab_controller(tmp_path)
    monkeypatch.setattr(inspect, "open_controller", lambda *_a, **_k: controller)
    place = tmp_path / "identity.json"
    words = ("inspect", "--pci", controller.address, "--save-identity", str(place))
    code, out, _err = run(*words, "-f", "json", capsys=capsys)
    kept = codec.load(ControllerIdentity, place.read_bytes(), "identity")
    assert (code, kept.serial) == (0, json.loads(out)["identity"]["serial"])
    assert kept == controller.identity()


@pytest.mark.parametrize("option", ["--save", "--save-identity"])
def test_inspect_puts_no_file_in_the_place_of_a_device_or_a_pipe(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
) -> None:
    """As /dev/null is one, and /dev/stdout a link to whatever there is: as root the rename would
    take it from the whole host."""
    controller = lab_controller(tmp_path)
    monkeypatch.setattr(inspect, "open_controller", lambda *_a, **_k: controller)
    pipe, null, link = tmp_path / "pipe", tmp_path / "null", tmp_path / "link"
    os.mkfifo(pipe)
    null.symlink_to("/dev/null")
    link.symlink_to(tmp_path / "file")
    with open(os.open(pipe, os.O_RDWR), "rb", buffering=0) as reader:
        for place in (null, link, pipe):
            code, _out, _err = run(
                "inspect", "--pci", controller.address, option, str(place), capsys=capsys
            )
            assert code == 0
        assert stat.S_ISFIFO(os.lstat(pipe).st_mode)
        assert reader.read(1) == b"{"
    assert null.is_char_device()
    assert link.is_symlink()
    assert (tmp_path / "file").read_bytes().startswith(b"{")


def test_who_erases_by_hand_is_told_that_the_layout_of_nist_is_read_in_full(
    asked: list[CaseRequest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy"
    said = "policy 'purge' asks for verification 'nist', which is gone: every block is read, as in"
    for mode in VerificationMode:
        file.write_bytes(codec.canonical(Policy(verification=Verification(mode=mode))))
        _code, out, err = erase(tmp_path, capsys, "--any-drive", "--policy", str(file))
        assert asked.pop().policy.verification.mode is mode, "what was asked for is in the report"
        # The other line is the case's own end.
        lines = [line for line in err.splitlines() if "enough" not in line]
        nist = mode is VerificationMode.NIST
        assert (out, len(lines), said in err) == (("", 1, True) if nist else ("", 0, False)), err
