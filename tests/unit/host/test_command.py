"""Processes: a fixed environment, no shell, and an end in any case."""

from __future__ import annotations

import sys

import pytest

from eraser.errors import DriveError
from eraser.host.command import run


def test_a_command_sees_a_fixed_environment_and_no_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LD_PRELOAD_X", "x")
    done = run(["env"], timeout=30)
    assert sorted(line.split(b"=")[0] for line in done.stdout.splitlines()) == [b"LC_ALL", b"PATH"]
    assert b"LC_ALL=C" in done.stdout.splitlines()
    assert run(["echo", "$(id); `id`"], timeout=30).stdout == b"$(id); `id`\n"
    assert run(["cat"], timeout=30, stdin=b"in").stdout == b"in"


def test_a_command_that_fails_or_hangs_is_a_result(caplog: pytest.LogCaptureFixture) -> None:
    failed = run(["sh", "-c", "echo no >&2; exit 3"], timeout=30)
    assert (failed.exit_code, failed.stderr) == (3, "no\n")
    assert "sh -c 'echo no >&2; exit 3': exit code 3: no" in caplog.text
    hung = run([sys.executable, "-c", "import time; time.sleep(3600)"], timeout=0.3)
    assert hung.exit_code is None
    assert "killed after" in caplog.text
    with pytest.raises(DriveError, match="expected to start 'no-such-program'"):
        run(["no-such-program"], timeout=1)


def test_a_hung_command_whose_pipes_stay_open_is_left_behind() -> None:
    """A grandchild keeps standard output open, as a process that cannot be killed would."""
    script = "sleep 5 & exec sleep 3600"
    hung = run(["sh", "-c", f"echo said; {script}"], timeout=0.3)
    assert hung.exit_code is None
    assert hung.stdout in (b"said\n", b"")
