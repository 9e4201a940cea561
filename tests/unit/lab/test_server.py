"""The server process and its control socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.nvme.commandlog import log_path, read_commands
from tests.lab.nvme.control import DriveControl
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import EraseFault, Faults
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.server import customise, main, parse_size
from tests.unit.lab.guest import TinyGuest

ROOT = Path(__file__).parents[3]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server on ``tmp_path`` and wait until it is ready; ended with the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(*extra: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.lab.nvme.server",
                f"--backing={tmp_path / 'd.raw'}",
                f"--socket={tmp_path / 'd.sock'}",
                f"--control={tmp_path / 'd.ctl'}",
                "--size=16M",
                "--serial=PROC1",
                "--die-with-parent",
                *extra,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield begin
    for process in running:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_killed_server_is_a_power_cut(start: Start, tmp_path: Path) -> None:
    process = start("--faults", json.dumps({"sanitize_seconds": 600}))
    with TinyGuest(tmp_path / "d.sock") as guest:
        guest.enable()
        assert guest.admin(6, cdw10=1).code == 0
        assert guest.data(24)[4:24] == b"PROC1".ljust(20)
        assert guest.admin(0x84, cdw10=2).code == 0
    with DriveControl(tmp_path / "d.ctl") as control:
        deadline = time.monotonic() + 30
        while control.state().sanitize.progress == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    process.kill()
    process.wait()
    start("--faults", json.dumps({"sanitize_seconds": 0.05}))
    with DriveControl(tmp_path / "d.ctl") as control:
        counters = control.counters()
        assert (counters["power_cycles"], counters["unsafe_shutdowns"]) == (2, 1)
        while control.state().sanitize.running and time.monotonic() < deadline:
            time.sleep(0.01)
        assert control.state().sanitize.status == 1
    sent = [c for c in read_commands(log_path(tmp_path / "d.raw")) if c.name == "sanitize"]
    assert len(sent) == 1


def test_sigterm_ends_it_cleanly(start: Start, tmp_path: Path) -> None:
    process = start()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert not (tmp_path / "d.sock").exists()


def test_faults_change_at_run_time(start: Start, tmp_path: Path) -> None:
    start("--preset", "lying")
    with DriveControl(tmp_path / "d.ctl") as control:
        assert control.faults().sanitize is EraseFault.LIE
        wanted = Faults(format_seconds=3.5, admin_status={0x84: 0x4006}, gone=True)
        control.set_faults(wanted)
        assert control.faults() == wanted
        with TinyGuest(tmp_path / "d.sock") as guest:
            assert guest.register(0x1C) == 0xFFFFFFFF
            control.set_faults(Faults())
            guest.enable()


def test_power_off_and_on(start: Start, tmp_path: Path) -> None:
    start()
    with DriveControl(tmp_path / "d.ctl") as control, TinyGuest(tmp_path / "d.sock") as guest:
        guest.enable()
        control.power_off()
        assert not control.powered()
        assert guest.register(0) == 0xFFFFFFFF
        control.power_on()
        assert guest.register(0x14) == 0
        guest.enable()
        assert control.counters()["power_cycles"] == 2


def test_health_can_be_set(start: Start, tmp_path: Path) -> None:
    start()
    with DriveControl(tmp_path / "d.ctl") as control:
        smart = control.state().smart
        smart.percentage_used = 255
        control.set_smart(smart)
        assert control.state().smart.percentage_used == 255


def test_wrong_requests_are_answered_in_words(start: Start, tmp_path: Path) -> None:
    start()
    with DriveControl(tmp_path / "d.ctl") as control:
        for request, message in (
            ({"do": "explode"}, "cannot do 'explode'"),
            ({"do": "set_faults", "faults": {"sanitise": 1}}, "no field 'sanitise'"),
            ({"do": "set_faults", "faults": {"sanitize": "perhaps"}}, "one of none, lie"),
            ({"do": "set_faults"}, "faults"),
            ([], "should be a JSON object"),
        ):
            control._stream.write(json.dumps(request) + "\n")
            control._stream.flush()
            answer = json.loads(control._stream.readline())
            assert answer["error"]
            assert message in answer["error"]
        assert control.powered()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "nope"], "no drive preset 'nope'"),
        (["--size", "many"], "a size should look like"),
        (["--faults", "{"], "drive server: "),
        (["--profile", '{"sanitize": {"cypto": false}}'], "no field 'cypto'"),
    ],
)
def test_bad_options_end_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        common = [f"--backing={tmp_path / 'd.raw'}", f"--socket={tmp_path / 'd.sock'}"]
        assert main([*common, *arguments]) == 2
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_no_server_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(DriveError, match="a drive should listen on"):
        DriveControl(tmp_path / "none")


def test_a_profile_is_changed_field_by_field() -> None:
    changed = customise(
        DriveProfile(), {"sanitize": {"crypto": False}, "lba_shifts": [12], "serial": "X"}
    )
    assert not changed.sanitize.crypto
    assert changed.sanitize.block
    assert (changed.lba_shifts, changed.serial) == ((12,), "X")


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1M", 1 << 20), ("1.5k", 0), ("1.9t", 2089072092774 // 4096 * 4096)],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size
