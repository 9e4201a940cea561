"""A child that goes on when we die: a session of its own, deaf, with one descriptor of ours."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from eraser.host.children import CHILDREN

DEAF = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def test_it_holds_one_thing_hears_nothing_and_leads_its_own_session(tmp_path: Path) -> None:
    kept = os.open(tmp_path / "kept", os.O_CREAT | os.O_RDWR)
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(other, True)

    def work() -> None:
        held = {os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd") if n != "3"}
        deaf = all(signal.getsignal(number) is signal.SIG_IGN for number in DEAF)
        (tmp_path / "part").write_text(
            f"{os.getsid(0) == os.getpid()} {deaf} {str(tmp_path / 'other') in held}"
            f" {str(tmp_path / 'kept') in held}"
        )
        (tmp_path / "part").rename(tmp_path / "said")

    try:
        ended = CHILDREN.outlive(work, kept)
        deadline = time.monotonic() + 60
        while not ended() and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        os.close(kept)
        os.close(other)
    assert (tmp_path / "said").read_text() == "True True False True"


def test_whoever_is_too_slow_is_killed(tmp_path: Path) -> None:
    def slow() -> bytes:
        (tmp_path / "pid").write_text(str(os.getpid()))
        time.sleep(600)
        return b""

    assert CHILDREN.alone([slow], 1.0, grace=30.0) == [None]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
