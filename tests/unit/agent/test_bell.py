"""The bell: strict, never waited for, and one slot rung often is told once in a while."""

from __future__ import annotations

import grp
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eraser.agent import bell
from eraser.clock import Clock
from tests.lab.services.process import wait_until

ONE, TWO = "0000:01:00.0", "0000:81:00.1"


class Heard:
    """What a listener told; it can be made to fail."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.lost = threading.Event()
        self.missed = threading.Event()

    def __call__(self, address: str) -> None:
        if self.lost.is_set():
            self.missed.set()
            raise ConnectionRefusedError("the broker is away")
        self.told.append(address)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def listener(tmp_path: Path, heard: Heard) -> Iterator[bell.Listener]:
    made = bell.Listener(tmp_path / "run", heard)
    yield made
    made.close()


@pytest.fixture
def run_dir(listener: bell.Listener, tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_every_slot_of_a_bell_is_told(run_dir: Path, heard: Heard) -> None:
    bell.ring(run_dir, [ONE, TWO])
    wait_until(lambda: sorted(heard.told) == [ONE, TWO], "the bell", 10)


def test_a_whole_shelf_that_goes_at_once_is_told(run_dir: Path, heard: Heard) -> None:
    """More slots than one datagram may name, as the watcher rings for them."""
    shelf = [f"0000:{bus:02x}:00.0" for bus in range(200)]
    bell.ring(run_dir, shelf)
    wait_until(lambda: sorted(heard.told) == shelf, "all of them", 10)


def test_only_root_may_ring(run_dir: Path) -> None:
    mode = (run_dir / bell.SOCKET).stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert mode & 0o777 == 0o600


def test_a_group_may_ring_too(tmp_path: Path, heard: Heard) -> None:
    group = grp.getgrgid(os.getgid())
    made = bell.Listener(tmp_path, heard, group.gr_name)
    made.close()
    found = (tmp_path / bell.SOCKET).stat()
    assert (found.st_gid, found.st_mode & 0o777) == (group.gr_gid, 0o660)


UNIT = Path(__file__).parents[3] / "docs" / "samples" / "nvme-eraser-worker.service"

AS_THE_UNIT = """
import ctypes, os, sys
for number in map(int, sys.argv[2].split()):
    assert ctypes.CDLL(None).prctl(24, number, 0, 0, 0) == 0, "PR_CAPBSET_DROP"
os.setgroups([])
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""

CAPABILITIES = {"CAP_CHOWN": 0, "CAP_FOWNER": 3, "CAP_FSETID": 4}
"""Of linux/capability.h: those by which a group may be given."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root drops capabilities")
def test_a_group_may_ring_where_the_worker_runs_as_its_unit_has_it(tmp_path: Path) -> None:
    """Root with few capabilities may not give a file to a group that it is not in."""
    [line] = [x for x in UNIT.read_text().splitlines() if x.startswith("CapabilityBoundingSet=")]
    dropped = [str(number) for name, number in CAPABILITIES.items() if name not in line]
    group = next(each for each in grp.getgrall() if each.gr_gid != 0)
    listen = (
        "from pathlib import Path; from eraser.agent import bell;"
        f"bell.Listener(Path({str(tmp_path)!r}), print, {group.gr_name!r}).close()"
    )
    argv = [sys.executable, "-c", AS_THE_UNIT, listen, " ".join(dropped)]
    subprocess.run(argv, check=True, cwd=UNIT.parents[2])
    found = (tmp_path / bell.SOCKET).stat()
    assert (found.st_gid, found.st_mode & 0o777) == (group.gr_gid, 0o660)


def test_without_that_group_root_alone_rings(
    tmp_path: Path, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    bell.Listener(tmp_path, heard, "no-such-group").close()
    assert (tmp_path / bell.SOCKET).stat().st_mode & 0o777 == 0o600
    assert "no-such-group may not ring" in caplog.text


def test_more_slots_than_a_host_has_are_no_bells(
    run_dir: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "MAX_WAITING", 3)
    bell.ring(run_dir, [f"0000:{bus:02x}:00.0" for bus in range(9)])
    wait_until(lambda: len(heard.told) == 3, "the first three", 10)
    bell.ring(run_dir, [ONE])
    wait_until(lambda: heard.told[3:] == [ONE], "the next one", 10)


class Standing(Clock):
    """Its time goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_a_storm_is_told_once_now_and_once_later(tmp_path: Path, heard: Heard) -> None:
    clock = Standing()
    listener = bell.Listener(tmp_path, heard, clock=clock)
    others = (f"0000:{bus:02x}:00.0" for bus in range(2, 9))

    def told(later: float) -> int:
        """How often, so many seconds later, once all that was rung before is heard."""
        clock.now += later
        behind = next(others)

        def is_heard() -> bool:
            bell.ring(tmp_path, [behind])  # again: a bell that finds no room is lost
            return behind in heard.told

        wait_until(is_heard, "the bell behind it", 10)
        return heard.told.count(ONE)

    bell.ring(tmp_path, [ONE])
    assert told(0) == 1
    for _ in range(50):
        bell.ring(tmp_path, [ONE])
    assert [told(bell.PAUSE / 2), told(bell.PAUSE / 2), told(9 * bell.PAUSE)] == [1, 2, 2]
    listener.close()


@pytest.mark.parametrize(
    "data",
    [b"", b" ", b"hello", b"\xff\xfe", b"0000:01:00.0;x", b"0000:01:00.0\n", b"0000:81:00.A",
     b"0000:AB:00.0", b" ".join([b"0000:01:00.0"] * 79), b"[]", b"0000:01:00.0 ../x"],
)  # fmt: skip
def test_what_is_no_bell_is_dropped_as_a_whole(run_dir: Path, heard: Heard, data: bytes) -> None:
    with pytest.raises(ValueError, match=r"expected|decode"):
        bell.parse(data)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.sendto(data, str(run_dir / bell.SOCKET))
    bell.ring(run_dir, [TWO])
    wait_until(lambda: bool(heard.told), "the bell behind it", 10)
    assert heard.told == [TWO]


def test_a_bell_that_nobody_takes_is_lost_and_the_next_is_not(run_dir: Path, heard: Heard) -> None:
    heard.lost.set()
    bell.ring(run_dir, [ONE])
    assert heard.missed.wait(10), "expected the bell to be told"
    heard.lost.clear()
    bell.ring(run_dir, [TWO])
    wait_until(lambda: bool(heard.told), "the next bell", 10)
    assert heard.told == [TWO]


def test_ringing_where_nobody_listens_is_fine(tmp_path: Path) -> None:
    bell.ring(tmp_path, [ONE])
    (tmp_path / bell.SOCKET).write_text("no socket")
    bell.ring(tmp_path, [ONE])


def test_a_bell_does_not_wait_for_a_listener_that_is_stuck(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stuck:
        stuck.bind(str(tmp_path / bell.SOCKET))
        began = time.monotonic()
        for _ in range(1000):
            bell.ring(tmp_path, [ONE])
        assert time.monotonic() - began < 5


def test_the_next_listener_takes_over(tmp_path: Path) -> None:
    first, second = Heard(), Heard()
    old = bell.Listener(tmp_path, first)
    new = bell.Listener(tmp_path, second)
    bell.ring(tmp_path, [ONE])
    wait_until(lambda: second.told == [ONE], "the bell", 10)
    old.close()
    new.close()
    assert first.told == []
    assert sorted(os.listdir(tmp_path)) == [bell.SOCKET]


def test_whoever_rings_without_end_keeps_nobody_from_hearing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    """What is heard is told, although more is always there to be heard."""

    class Endless:
        """A socket that is never empty, and tells that nobody stopped to listen."""

        def recv(self, _most: int) -> bytes:
            nonlocal taken
            taken += 1
            if taken > 100 * bell.MAX_WAITING:
                raise AssertionError("expected an end of the listening, found none")
            return ONE.encode()

    taken = 0
    listener = bell.Listener(tmp_path, heard)
    listener.close()
    monkeypatch.setattr(listener, "_socket", Endless())
    listener._drain()
    assert list(listener._waiting) == [ONE]
