"""The real fio: what it answers, what it complains of, and how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qualify.cli.output import BenchInterrupted, interruptible
from qualify.errors import FioError
from qualify.fio import fiorun
from qualify.fio.workload import MIB, Cell, Load, Place, cell_options, fill_options

SAMPLES = Path(__file__).parent / "samples"
LOAD = Load("libaio", 4, 2)


@pytest.fixture
def place(room: Path) -> Place:
    file = room / "file"
    file.write_bytes(bytes(4 * MIB))
    return Place(str(file), 4 * MIB)


def test_a_cell_of_the_matrix(place: Place) -> None:
    ticks: list[float] = []
    sample = fiorun.run(cell_options(Cell(4096, 65), place, LOAD, 1), seconds=1, tick=ticks.append)

    assert sample.read.count > 0
    assert sample.write.count > 0
    # 65 of 100 by chance.
    assert 0.5 < sample.read.count / (sample.read.count + sample.write.count) < 0.8
    assert 0.9 < sample.seconds < 3
    assert sample.throughput == pytest.approx(sample.iops * 4096, rel=0.02)
    assert ticks == sorted(ticks)


def test_filling_leaves_no_block_as_it_was(place: Place) -> None:
    sample = fiorun.run(fill_options(place, LOAD), seconds=5)

    assert sample.write.throughput > 0
    data = Path(place.path).read_bytes()
    assert len(data) == place.size
    assert all(any(data[at : at + 4096]) for at in range(0, place.size, 4096))


def test_the_engine_io_uring(place: Place) -> None:
    options = cell_options(Cell(4096, 100), place, Load("io_uring", 4, 1), 1)
    try:
        sample = fiorun.run(options, seconds=1)
    except FioError as error:
        pytest.skip(f"a kernel that forbids it: {error}")
    assert sample.read.count > 0


@pytest.mark.parametrize(
    ("sample", "says"),
    [
        ("einval", "logical blocks may be larger"),
        ("no-engine", "choose another with --engine"),
        ("full", "give a smaller --size"),
        ("no-file", "not there any more"),
    ],
)
def test_what_fio_says_becomes_one_line_that_helps(sample: str, says: str) -> None:
    words = (SAMPLES / f"fio-3.33-{sample}.txt").read_text()
    line = fiorun.explain(words, ["fio", "--name=cell", "a", "b"], 1)

    assert says in line
    assert "fio: " in line
    assert "\n" not in line


def test_words_of_fio_cannot_move_the_terminal() -> None:
    assert "\x1b" not in fiorun.explain("fio: \x1b[2J\x07 gone", ["fio"], -9)
    assert "SIGKILL" in fiorun.explain("", ["fio"], -9)


def test_blocks_that_the_target_refuses(place: Place) -> None:
    with pytest.raises(FioError, match="refuses direct I/O"):
        fiorun.run(cell_options(Cell(513, 100), place, LOAD, 1), seconds=1)


def test_a_target_that_vanished_is_not_made_anew(place: Place) -> None:
    """In /dev that would fill the machine's memory."""
    Path(place.path).unlink()
    for options in (cell_options(Cell(4096, 0), place, LOAD, 1), fill_options(place, LOAD)):
        with pytest.raises(FioError, match="not there any more"):
            fiorun.run(options, seconds=1)
    assert not Path(place.path).exists()


def test_no_such_engine(place: Place) -> None:
    with pytest.raises(FioError, match="no such I/O engine"):
        fiorun.run(cell_options(Cell(4096, 100), place, Load("nope", 1, 1), 1), seconds=1)


def test_no_fio_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FioError, match="install the package fio"):
        fiorun.find()


def standin(directory: Path, script: str) -> None:
    """A program named fio."""
    program = directory / "fio"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_another_program_named_fio(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    standin(tmp_path, "echo usage: fio FILE")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(FioError, match="expected one JSON object"):
        fiorun.run([], seconds=1)


def test_a_fio_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    standin(tmp_path, f"echo $$ >{tmp_path}/pid; trap '' INT; while :; do sleep 60; done")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(fiorun, "GRACE", 0.5)
    monkeypatch.setattr(fiorun, "_STOP", 0.2)
    with pytest.raises(FioError, match="still running"):
        fiorun.run([], seconds=0.5)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def running(directory: Path) -> list[str]:
    """fio's processes that work in a directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                line = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if line.startswith(b"/usr/bin/fio") and os.fsencode(directory) in line:
                found.append(process.name)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_stops_fio_tidies_up_and_goes_on(room: Path, number: int) -> None:
    result = room.parent / f"result-{room.name}.json"
    argv = [sys.executable, "-m", "qualify.cli.app", "run", "quick", str(room), "--size", "4M"]
    argv += ["--rounds", "1", "--jobs", "1", "--output", str(result)]
    child = subprocess.Popen(
        [*argv, "--seconds", "1"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # A test run under nohup hands on that it ignores SIGHUP, and the bench leaves that so.
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
    )
    journal = Path(f"{result}.part")
    assert child.stderr is not None
    for line in child.stderr:  # the progress line tells when the second cell is under way
        if "4K 100/0" in line:
            break
    child.send_signal(number)
    began = time.monotonic()
    _, said = child.communicate(timeout=30)

    assert child.returncode == 128 + number
    assert time.monotonic() - began < 15
    assert "--resume" in said
    assert list(room.iterdir()) == []
    assert running(room) == []
    assert not result.exists()
    assert len(journal.read_text().splitlines()) == 2  # the header, and the first cell
    if number != signal.SIGINT:
        return  # going on is the same

    done = subprocess.run(
        [*argv, "--seconds", "1", "--resume"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "round 1 1M 100/0" not in done.stderr  # that one was measured before
    assert result.exists()
    assert not journal.exists()
    result.unlink()


def test_a_bench_that_is_killed_leaves_no_fio_that_writes(room: Path) -> None:
    """Nobody keeps the target for it any more: the next who takes it would be written over."""
    argv = [sys.executable, "-m", "qualify.cli.app", "run", "quick", str(room), "--size", "4M"]
    argv += ["--jobs", "1", "--seconds", "60", "--output", str(room.parent / "killed.json")]
    child = subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert child.stderr is not None
    for line in child.stderr:
        if "1M 100/0" in line:
            break
    deadline = time.monotonic() + 20
    while not running(room) and time.monotonic() < deadline:
        time.sleep(0.1)
    child.kill()
    child.communicate()
    while running(room) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert running(room) == []


def test_a_signal_while_fio_is_started_ends_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start takes milliseconds, in which nobody has the process yet."""
    started: list[int] = []

    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *argv: Any, **options: Any) -> None:
            super().__init__(*argv, **options)
            started.append(self.pid)
            # To this thread: the runner of the tests has others, which do not block it, while the
            # bench has one.
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Signalled)
    with pytest.raises(BenchInterrupted), interruptible():
        fiorun.run(cell_options(Cell(4096, 100), place, LOAD, 30), seconds=30)
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)
