"""A runner is a process of its own, with the code that is installed when it starts."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from pathlib import Path

import pytest

from eraser.agent.orders import Holder
from eraser.agent.runners import DiskCases, request_of
from eraser.controller.lock import SlotLock
from eraser.errors import BadInputError
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.protocol.report import Outcome
from eraser.state import case_files
from eraser.state.case_files import CaseFiles
from tests.unit.agent.test_orders import report_for
from tests.unit.protocol.test_codec import ORDER

_WAIT = 60.0


def run(cases: DiskCases, state: Path, order_id: str) -> list[str]:
    """Runs a case to its end; the lines that its runner printed."""
    order = dataclasses.replace(ORDER, order_id=order_id)
    log = CaseFiles.of_order(state, order_id).directory / "runner.log"
    cases.start(order)
    ends = time.monotonic() + _WAIT
    while cases.holder(order) is not Holder.NOBODY:
        assert time.monotonic() < ends
        time.sleep(0.01)
    assert log.stat().st_mode & 0o777 == 0o600
    return log.read_text().splitlines()


def test_a_command_that_outlives_its_runner_is_no_runner(tmp_path: Path) -> None:
    """An nvme-cli that is stuck in the kernel has the lock that it was given."""
    lock = SlotLock(ORDER.slot.address, tmp_path / "run")
    cases = DiskCases(tmp_path / "state", tmp_path / "run", Host())
    assert cases.holder(ORDER) is Holder.NOBODY
    lock.acquire()
    assert cases.holder(ORDER) is Holder.RUNNER
    with subprocess.Popen(["true"]) as ended:
        pass
    lock.path.write_text(f"{ended.pid}\n")
    assert cases.holder(ORDER) is Holder.COMMAND
    lock.path.write_text("")
    assert cases.holder(ORDER) is Holder.RUNNER, "who takes it has not said yet who it is"
    lock.release()
    assert cases.holder(ORDER) is Holder.NOBODY


def test_a_report_of_a_newer_release_tells_that_its_case_has_ended(tmp_path: Path) -> None:
    cases = DiskCases(tmp_path, tmp_path / "run", Host())
    files = CaseFiles.of_order(tmp_path, ORDER.order_id)
    files.make()
    files.write_request(request_of(dataclasses.replace(ORDER, look=4)))
    files.write_report(report_for(ORDER))
    assert cases.look(ORDER).report == report_for(ORDER)
    later = json.loads(files.report_file.read_bytes()) | {"later": 1}
    files.report_file.write_bytes(codec.canonical(later))
    look = cases.look(ORDER)
    assert (look.report, look.outcome, look.answered) == (None, Outcome.COMPLETED, 4)
    assert "later" in look.detail
    files.report_file.write_bytes(b'{"outcome": "completed"}')
    with pytest.raises(BadInputError):
        cases.look(ORDER)


def test_a_package_upgraded_under_a_worker_runs_the_next_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, state = tmp_path / "library", tmp_path / "state"
    (library / "eraser").mkdir(parents=True)
    (library / "eraser" / "__init__.py").touch()
    cli = library / "eraser" / "cli.py"
    monkeypatch.setenv("PYTHONPATH", str(library))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.chdir(library)
    cases = DiskCases(state, tmp_path / "run", Host())
    script = "import os, sys\nprint(VERSION, os.getsid(0) == os.getpid(), *sys.argv[1:])\n"
    for version in ("before", "after"):
        cli.write_text(script.replace("VERSION", repr(version)))
        said = run(cases, state, f"an-order-{version}-upgrade")
        assert said[0].startswith(f"{version} True case --request {state}/cases/")


def test_what_a_second_runner_says_stands_behind_the_first_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eraser").mkdir()
    (tmp_path / "eraser" / "__init__.py").touch()
    (tmp_path / "eraser" / "cli.py").write_text("import sys\nsys.exit('no drive')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cases = DiskCases(tmp_path / "state", tmp_path / "run", Host())
    run(cases, tmp_path / "state", "an-order-of-a-test")
    assert run(cases, tmp_path / "state", "an-order-of-a-test") == ["no drive", "no drive"]


def test_a_case_whose_runners_die_for_ever_does_not_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eraser").mkdir()
    (tmp_path / "eraser" / "__init__.py").touch()
    (tmp_path / "eraser" / "cli.py").write_text("import sys\nsys.exit('x' * 99)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(case_files, "MAX_LOG", 150)
    cases = DiskCases(tmp_path / "state", tmp_path / "run", Host())
    lines = [len(run(cases, tmp_path / "state", "an-order-of-a-test")) for _ in range(5)]
    assert lines == [1, 2, 1, 2, 1]
    directory = CaseFiles.of_order(tmp_path / "state", "an-order-of-a-test").directory
    assert sum(path.stat().st_size for path in directory.glob("runner.log*")) <= 3 * 150


def test_the_runner_of_an_order_that_was_replaced_is_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eraser").mkdir()
    (tmp_path / "eraser" / "__init__.py").touch()
    (tmp_path / "eraser" / "cli.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cases = DiskCases(tmp_path / "state", tmp_path / "run", Host())
    cases.start(dataclasses.replace(ORDER, order_id="the-order-of-before"))
    [runner] = cases._children.values()
    ends = time.monotonic() + _WAIT
    while cases._children:
        assert time.monotonic() < ends
        cases.retire((ORDER,))
        time.sleep(0.01)
    assert not Path(f"/proc/{runner.pid}").exists()


def test_the_last_words_of_a_log_are_its_last_line(tmp_path: Path) -> None:
    cases = DiskCases(tmp_path / "state", tmp_path / "run", Host())
    assert cases.last_words(ORDER) == ""
    files = CaseFiles.of_order(tmp_path / "state", ORDER.order_id)
    files.make()
    log = files.runner_log()
    log.write_bytes(b"an older line\nnvme-eraser: found \xff; call again\n\n")
    assert cases.last_words(ORDER) == "nvme-eraser: found \ufffd; call again"
    log.write_bytes(b"x" * 10_000 + b"\n")
    assert len(cases.last_words(ORDER)) < 4096
