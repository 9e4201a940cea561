"""Runners that were started before there was work are runners like any other."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eraser.spare import REST_SECONDS, Runners

_WAIT = 60.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def runners(clock: Clock) -> Iterator[Runners]:
    made = Runners(clock)
    yield made
    spare = waiting(made)
    if spare is not None and spare.stdin is not None:
        spare.stdin.close()
        spare.wait(_WAIT)


def waiting(runners: Runners) -> subprocess.Popen[bytes] | None:
    """The spare that waits now."""
    return runners._spare


def run(runners: Runners, directory: Path) -> tuple[int, str, int]:
    """Runs a case whose request is missing: pid, what it printed, exit code."""
    log = directory / "runner.log"
    log.write_text("before\n")
    child = runners.start(["case", "--request", str(directory / "none.json")], log)
    code = child.wait(_WAIT)
    return child.pid, log.read_text(), code


def test_a_spare_does_what_a_fresh_runner_does(
    runners: Runners, clock: Clock, tmp_path: Path
) -> None:
    pid, fresh, code = run(runners, tmp_path)
    assert code != 0
    assert fresh.startswith("before\n")
    assert "none.json" in fresh
    clock.now += REST_SECONDS
    runners.prepare()
    spare = waiting(runners)
    assert spare is not None
    assert spare.pid != pid
    assert run(runners, tmp_path) == (spare.pid, fresh, code)


def test_a_dead_spare_is_not_given_work(runners: Runners, tmp_path: Path) -> None:
    runners.prepare()
    spare = waiting(runners)
    assert spare is not None
    spare.kill()
    spare.wait(_WAIT)
    pid, said, _ = run(runners, tmp_path)
    assert pid != spare.pid
    assert "none.json" in said


def test_a_spare_that_cannot_be_told_is_killed_before_another_is_started(
    runners: Runners, tmp_path: Path
) -> None:
    runners.prepare()
    spare = waiting(runners)
    assert spare is not None
    kept = spare.stdin
    assert kept is not None
    unread, broken = os.pipe()
    os.close(unread)
    spare.stdin = os.fdopen(broken, "wb")
    pid, said, _ = run(runners, tmp_path)
    assert pid != spare.pid
    assert "none.json" in said
    assert spare.wait(_WAIT) == -signal.SIGKILL
    kept.close()


def test_a_spare_ends_with_its_worker(runners: Runners) -> None:
    runners.prepare()
    spare = waiting(runners)
    assert spare is not None
    assert spare.stdin is not None
    spare.stdin.close()
    assert spare.wait(_WAIT) == 0


def test_one_spare_and_no_hurry(runners: Runners, clock: Clock, tmp_path: Path) -> None:
    runners.prepare()
    first = waiting(runners)
    runners.prepare()
    assert waiting(runners) is first
    run(runners, tmp_path)
    runners.prepare()
    assert waiting(runners) is None
    clock.now += REST_SECONDS
    runners.prepare()
    assert waiting(runners) is not None
