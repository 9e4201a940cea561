"""Processes: a fixed environment, no shell, and an end in any case."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from eraser.errors import DriveError
from eraser.host import command
from eraser.host.answerer import Answerer
from eraser.host.command import run
from eraser.protocol.policy import MAX_LIMIT


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


def lacking(monkeypatch: pytest.MonkeyPatch, errnos: Iterator[int]) -> list[int]:
    """No program is started while there are some; those that were met."""
    met, real = list[int](), subprocess.Popen

    def popen(*argv: Any, **options: Any) -> Any:
        if (number := next(errnos, None)) is not None:
            met.append(number)
            raise OSError(number, "lacking")
        return real(*argv, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(command, "_PAUSE", 0.01)
    return met


def test_what_the_machine_lacks_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the drive: taken for a trouble of it, it would hold an honest one."""
    some = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY)
    met = lacking(monkeypatch, iter(some))
    assert run(["echo", "yes"], timeout=30).stdout == b"yes\n"
    assert met == list(some)


def test_what_it_lacks_for_longer_is_no_trouble_of_a_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    met = lacking(monkeypatch, itertools.repeat(errno.EAGAIN))
    monkeypatch.setattr(command, "PATIENCE", 0.1)
    with pytest.raises(OSError, match="lacking"):
        run(["echo", "yes"], timeout=30)
    assert len(met) > 1


def test_a_program_that_is_not_there_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (errno.ENOENT, errno.EACCES, errno.ENOEXEC):
        met = lacking(monkeypatch, iter((number,)))
        with pytest.raises(DriveError, match="install it or mend its mode"):
            run(["echo", "yes"], timeout=30)
        assert met == [number]
        monkeypatch.undo()


def test_the_longest_limit_of_a_policy_can_be_waited_for() -> None:
    assert run(["echo", "yes"], timeout=MAX_LIMIT).stdout == b"yes\n"
    descriptor = os.open(os.devnull, os.O_RDONLY)
    answerer = Answerer(lambda question: question, descriptor, 16)
    try:
        assert answerer.ask(b"who", 16, MAX_LIMIT) == b"who"
    finally:
        answerer.close()
        os.close(descriptor)
