"""A Format's child outlives its sender, holds the slot meanwhile, and leaves its result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eraser.controller.lock import SlotLock
from eraser.erase import format as format_nvm
from eraser.errors import BadInputError, BusyError
from eraser.host.sysfs import Host

ADDRESS = "0000:01:00.0"
PATIENCE = 60.0


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A program in nvme-cli's place: waits for a file, then says what it was given."""
    script = tmp_path / "nvme"
    script.write_text(
        f'#!/bin/sh\nwhile [ ! -e "{tmp_path}/go" ]; do sleep 0.05; done\n'
        'echo "NVMe status: Internal Error(0x4006)" >&2\nexit 1\n'
    )
    script.chmod(0o755)
    return script


def wait(ready: object, what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():  # type: ignore[operator]  # any callable
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_the_result_comes_back(tmp_path: Path, tool: Path) -> None:
    (tmp_path / "go").touch()
    ticks: list[float] = []
    with SlotLock(ADDRESS, tmp_path) as lock:
        result = format_nvm.send(
            Host(),
            (str(tool), "x"),
            tmp_path / "r.json",
            lock=lock.fd,
            timeout=30,
            tick=ticks.append,
        )
    assert result is not None
    assert (result.exit_code, result.argv) == (1, (str(tool), "x"))
    assert "0x4006" in result.stderr
    assert format_nvm.read_result(tmp_path / "r.json") == result


def test_what_goes_with_a_command_reaches_it(tmp_path: Path) -> None:
    with SlotLock(ADDRESS, tmp_path) as lock:
        result = format_nvm.send(
            Host(),
            ("/bin/sh", "-c", "cat >&2"),
            tmp_path / "r.json",
            lock=lock.fd,
            timeout=30,
            tick=lambda _seconds: None,
            stdin=b"one controller",
        )
    assert result is not None
    assert (result.exit_code, result.stderr) == (0, "one controller")


def test_the_child_goes_on_when_the_sender_is_killed(tmp_path: Path, tool: Path) -> None:
    sender = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path\n"
            "from eraser.controller.lock import SlotLock; from eraser.erase import format as f\n"
            "from eraser.host.sysfs import Host\n"
            "lock = SlotLock(sys.argv[1], Path(sys.argv[2])); lock.acquire()\n"
            "f.send(Host(), (sys.argv[3],), Path(sys.argv[2], 'r.json'), lock=lock.fd, timeout=60,"
            " tick=lambda s: Path(sys.argv[2], 'sent').touch())\n",
            ADDRESS,
            str(tmp_path),
            str(tool),
        ],
        cwd=Path(__file__).parents[3],
    )
    wait((tmp_path / "sent").exists, "the child was started")
    os.kill(sender.pid, signal.SIGKILL)
    sender.wait()
    lock = SlotLock(ADDRESS, tmp_path)
    with pytest.raises(BusyError):
        lock.acquire()
    assert format_nvm.read_result(tmp_path / "r.json") is None
    (tmp_path / "go").touch()
    wait((tmp_path / "r.json").exists, "the child wrote its result")
    lock.acquire(blocking=True)
    lock.release()
    result = format_nvm.read_result(tmp_path / "r.json")
    assert result is not None
    assert result.exit_code == 1


def test_an_old_result_is_not_taken_for_a_new_one(tmp_path: Path, tool: Path) -> None:
    (tmp_path / "r.json").write_text("{}")
    (tmp_path / "go").touch()
    with SlotLock(ADDRESS, tmp_path) as lock:
        result = format_nvm.send(
            Host(),
            (str(tool),),
            tmp_path / "r.json",
            lock=lock.fd,
            timeout=30,
            tick=lambda _s: None,
        )
    assert result is not None


def test_a_damaged_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"argv": []')
    with pytest.raises(BadInputError):
        format_nvm.read_result(tmp_path / "r.json")


def test_a_child_that_died_is_not_a_format_that_takes_too_long(tmp_path: Path) -> None:
    """Its result could not be written (a full disk): its end is unknown, and known to be one."""
    with SlotLock(ADDRESS, tmp_path) as lock:
        result = format_nvm.send(
            Host(),
            (str(tmp_path / "no such program"),),
            tmp_path / "r.json",
            lock=lock.fd,
            timeout=30,
            tick=lambda _s: None,
        )
    assert result is not None
    assert result.exit_code is None
    assert "died" in result.stderr
