"""A drive that answers "later" has done nothing, and is asked again while there is time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eraser.clock import Clock
from eraser.controller.adminqueue import AdminQueue
from eraser.controller.passthru import said_later
from eraser.erase import format as detached
from eraser.host.sysfs import Host

TOOL = """#!/bin/sh
[ "$1" = version ] && exit 0
n=$(cat {count} 2>/dev/null || echo 0)
echo $((n + 1)) > {count}
[ $n -ge {later} ] && exit 0
echo "NVMe status: some text({status})" >&2
exit 1
"""


def tool(directory: Path, later: int, status: str) -> tuple[str, Path]:
    """An nvme-cli of a few lines: it refuses so often, then succeeds; where it counts its calls."""
    path, count = directory / "nvme", directory / "count"
    path.write_text(TOOL.format(count=count, later=later, status=status))
    path.chmod(0o755)
    return str(path), count


@pytest.mark.parametrize(
    ("text", "later"),
    [
        ("NVMe status: Admin Command Media Not Ready(0x24)", True),
        ("NVMe status: Admin Command Media Not Ready(0x4024)", False),  # Do Not Retry
        ("NVMe status: Namespace Not Ready(0x2082)", True),  # More
        ("NVMe status: Sanitize Namespace In Progress(0x2c)", True),
        ("NVMe status: Invalid Field in Command(0x2)", False),
        ("passthru: Inappropriate ioctl for device", False),
    ],
)
def test_what_nvme_cli_prints_tells_whether_to_ask_again(text: str, later: bool) -> None:
    assert said_later(text) is later


def test_a_sanitize_that_another_of_a_namespace_keeps_off_is_left_to_the_case() -> None:
    """Canaries come first: none could be written where that one runs."""
    text = "NVMe status: Sanitize Namespace In Progress(0x2c)"
    assert [said_later(text, opcode) for opcode in (0x84, 0x80, 0x0A)] == [False, True, True]


class Pauses(Clock):
    """Those that were made, on a clock that they move."""

    def __init__(self) -> None:
        self.made: list[float] = []

    def monotonic(self) -> float:
        return sum(self.made)

    def sleep(self, seconds: float) -> None:
        self.made.append(seconds)


@pytest.mark.parametrize(
    ("later", "status", "seconds", "wanted", "calls"),
    [
        (3, "0x24", 30.0, 0, 4),  # it wakes
        (9, "0x24", 1.0, 0x24, 5),  # it does not, in the time that it has
        (3, "0x4024", 30.0, 0x24, 1),  # Do Not Retry
    ],
)
def test_an_admin_command(
    tmp_path: Path,
    later: int,
    status: str,
    seconds: float,
    wanted: int,
    calls: int,
) -> None:
    program, count = tool(tmp_path, later, status)
    clock = Pauses()
    host = Host(nvme=program, clock=clock)
    queue = AdminQueue(host, "0000:01:00.0", "/dev/nvme0", timeout=30.0)
    record, _data = queue.admin(0x84, cdw10=2, timeout=seconds)
    assert (record.status, int(count.read_text())) == (wanted, calls)
    assert len(clock.made) == calls - 1


@pytest.mark.parametrize(("ready", "calls", "exit_code"), [(60.0, 3, 0), (0.0, 1, 1)])
def test_a_command_of_a_detached_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: float, calls: int, exit_code: int
) -> None:
    program, count = tool(tmp_path, 2, "0x24")
    monkeypatch.setattr(detached, "LATER_PAUSE", 0.0)
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    found = detached.send(
        Host(),
        (program,),
        tmp_path / "result",
        lock=lock,
        timeout=30.0,
        ready=ready,
        tick=lambda _seconds: None,
    )
    os.close(lock)
    assert found is not None
    assert (found.exit_code, int(count.read_text())) == (exit_code, calls)


@pytest.mark.parametrize(("opcode", "again"), [(0x06, True), (0x84, False)])
def test_what_the_kernel_did_not_send_is_read_again(
    tmp_path: Path, opcode: int, again: bool
) -> None:
    """It resets the controller, and does not say so yet. What changes the drive is decided anew."""
    program, count = tool(tmp_path, 2, "0x370")
    queue = AdminQueue(Host(nvme=program, clock=Pauses()), "0000:01:00.0", "/dev/nvme0", timeout=30)
    record, _data = queue.admin(opcode, timeout=30.0)
    assert (record.status, int(count.read_text())) == ((0, 3) if again else (None, 1))
