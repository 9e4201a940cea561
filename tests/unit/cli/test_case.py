"""The command line without a drive: one clear line, the right code, nothing touched."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eraser import cli
from eraser.cli import output
from eraser.cli.case import ProgressFile
from eraser.controller.lock import SlotLock
from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.report import Step
from eraser.state.case_files import CaseFiles, CaseProgress, CaseRequest
from tests.unit.case.fakes import PROFILE, REQUEST, ordered

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "profile.json"
    path.write_bytes(codec.canonical(PROFILE))
    return path


def run(*argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    "more",
    [
        ["--pci", "nvme0"],
        ["--pci", "0000:01:00.9"],
        ["--pci", "0000:01:00.0", "--policy", "/nowhere"],
        ["--pci", "0000:01:00.0", "--stuck-after", "-1"],
        ["--pci", "0000:01:00.0", "--sanitize-limit", "nan"],
        ["--pci", "0000:01:00.0", "--poll", "inf"],
        ["--pci", "0000:01:00.0", "--poll", "soon"],
        ["--pci", "0000:01:00.0", "--host", "../x"],
        ["--pci", "0000:01:00.0", "--unknown"],
        ["-f", "yaml"],
        [],
    ],
)
def test_bad_options(
    more: list[str], profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    code, out, err = run(
        *("erase", "--any-drive", "--profile", str(profile), "--state-dir", str(state)),
        *more,
        capsys=capsys,
    )
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("nvme-eraser: ")
    assert not state.exists()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{} {}", b'{"name": 1}', b'{"surprise": 1}', b"\xff\xfe", b"[" * 100000],
)
@pytest.mark.parametrize("which", ["--profile", "--policy"])
def test_bad_files(
    which: str, content: bytes, profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_bytes(content)
    state = tmp_path / "state"
    argv = ["erase", "--pci", "0000:01:00.0", "--any-drive", "--profile", str(profile)]
    argv += [which, str(bad)]
    code, out, err = run(*argv, "--state-dir", str(state), capsys=capsys)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert not state.exists()


def test_no_verb_and_wrong_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in ([], ["wipe"], ["--verbose"]):
        code, out, err = run(*argv, capsys=capsys)
        assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_help_names_every_verb_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(verb in text for verb in cli.VERBS)
    assert "exit codes" in text


def test_a_slow_host_does_not_pay_for_what_it_does_not_use() -> None:
    """Under TCG every import costs: neither cryptography nor celery for erase and inspect."""
    code = (
        "import sys; import eraser.cli, eraser.cli.erase, eraser.cli.inspect, eraser.cli.case\n"
        "from eraser.cli import hostsetup\n"
        "third = [m for m in ('cryptography', 'celery', 'redis', 'oslo_config') "
        "if m in sys.modules]\nassert not third, third"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)


def test_progress_on_a_file_is_lines_and_on_a_terminal_one_line() -> None:
    plain = io.StringIO()
    shown = output.ProgressLine(plain)
    for part in range(101):
        shown(Step.VERIFY, part / 100, "serial \x1b[2J")
    shown.close()
    assert 10 <= len(plain.getvalue().splitlines()) <= 12
    assert "\x1b" not in plain.getvalue()

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    live = Terminal()
    shown = output.ProgressLine(live)
    shown(Step.ERASE, 0.5, "sanitize-block, about 3 s left")
    shown(Step.VERIFY, 0.1, "")
    shown.close()
    assert live.getvalue().count("\r") == 2
    assert live.getvalue().endswith("\n")


def test_a_drives_words_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"serial": "\x1b]0;x\x07<b>"}, "table")
    assert "\x1b" not in capsys.readouterr().out
    output.show({"serial": "\x1b\u2028"}, "json")
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out) == {"serial": "\x1b\u2028"}


def test_signals_become_interrupts_and_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(output.Interrupted) as caught, output.interruptible():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.exit_code == 143
    assert "call the same command again" in str(caught.value)
    assert signal.getsignal(signal.SIGTERM) is before


def test_requests_and_progress_go_through_files(tmp_path: Path) -> None:
    files = CaseFiles.of(tmp_path, ordered())
    files.make()
    files.write_request(ordered())
    assert files.request() == ordered()
    assert codec.load(CaseRequest, codec.canonical(REQUEST), "request") == REQUEST
    shown = ProgressFile(files)
    shown(Step.ERASE, 0.25, "sanitize-block")
    assert files.progress() == CaseProgress(Step.ERASE, 0.25, "sanitize-block", os.getpid(), 1)
    (files.directory / "progress.json").write_bytes(b"\0" * 10)
    assert files.progress() is None
    assert not files.finished()
    assert files.report() is None
    files.clear()
    assert not files.directory.exists()


class Gone(io.StringIO):
    """A stream that nobody reads any more."""

    def __init__(self, live: bool) -> None:
        super().__init__()
        self.isatty = lambda: live  # type: ignore[method-assign]

    def write(self, _text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_progress_that_nobody_can_be_shown_ends_no_erase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full for a moment, and a pager that was closed."""
    files = CaseFiles.of(tmp_path, ordered())
    files.make()

    def full(_progress: CaseProgress) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_progress", full)
    ProgressFile(files)(Step.VERIFY, 0.5, "")
    for live in (False, True):
        shown = output.ProgressLine(Gone(live))
        shown(Step.VERIFY, 0.5, "")
        shown.close()


def test_a_finished_case_is_not_removed_while_another_process_has_the_slot(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That one may just have ended it, or begun the next one in the same directory."""
    slot = Slot("host", "0000:7f:00.0")
    files = CaseFiles.of_slot(tmp_path / "state", slot)
    files.make()
    report = files.directory / "report.json"
    report.write_text("{}")
    argv = ["erase", "--pci", slot.address, "--host", slot.host, "--profile", str(profile)]
    argv += ["--any-drive"]
    argv += ["--state-dir", str(tmp_path / "state"), "--run-dir", str(tmp_path / "run")]
    with SlotLock(slot.address, tmp_path / "run"):
        code, _out, err = run(*argv, capsys=capsys)
    assert (code, report.exists()) == (5, True), err
    run(*argv, capsys=capsys)
    assert json.loads(report.read_bytes())["outcome"] == "absent"


def test_an_endless_file_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code, _out, err = run("erase", "--pci", "0000:7f:00.0", "--profile", "/dev/zero", capsys=capsys)
    assert code == 2
    assert "expected at most" in err
