"""A shell in a guest: typed into a terminal as a person does, and into a guest that was kept."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.rack

TOP = Path(__file__).parents[2]
SECONDS = 150.0


class Terminal:
    """A program in a terminal, and what it has said."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            argv, cwd=TOP, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._said = ""

    def expect(self, pattern: str) -> str:
        """Waits until it has said that, and goes on behind it."""
        deadline = time.monotonic() + SECONDS
        while (found := re.search(pattern, self._said)) is None:
            ready, _, _ = select.select([self._ours], [], [], 1.0)
            try:
                more = os.read(self._ours, 4096) if ready else b""
            except OSError:
                more = b""
            ended = ready and not more
            assert not ended, f"expected {pattern!r}, it ended after {self._said[-2000:]!r}"
            assert time.monotonic() < deadline, f"expected {pattern!r}: {self._said[-2000:]!r}"
            self._said += more.decode(errors="replace")
        self._said = self._said[found.end() :]
        return found[0]

    def type(self, keys: str) -> None:
        """Types keys."""
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """Its exit code."""
        code = self.process.wait(SECONDS)
        os.close(self._ours)
        return code


@pytest.fixture
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    made = Terminal([sys.executable, "-m", "tests.lab.rack", *request.param])
    yield made
    made.process.kill()
    made.process.wait()


@pytest.mark.parametrize("terminal", [["honest", "lying"]], indirect=True)
def test_a_person_types_into_a_host_with_two_drives(terminal: Terminal) -> None:
    prompt = r"root@compute-1:\S*# "
    terminal.expect(r"0000:01:00\.0  honest .*\n.*0000:02:00\.0  lying ")
    terminal.expect(prompt)
    terminal.type("cd /sys/class/nvme\r")
    terminal.expect(prompt)
    terminal.type("ls | wc -l; pwd\r")  # it is one shell: it has not forgotten where it is
    terminal.expect(r"[\r\n]2\r\n/sys/class/nvme\r\n")
    terminal.expect(prompt)
    terminal.type("sleep 1000\r")
    terminal.expect("sleep 1000\r\n")
    time.sleep(1)
    terminal.type("\x03")  # the guest's, not ours
    terminal.expect(prompt)
    terminal.type("\x1d")
    terminal.expect("rack: ")
    terminal.type(":log\r")
    terminal.expect("rack: ")
    terminal.type(":shell\r")
    terminal.expect(prompt)
    terminal.type("uname -a; exit 3\r")
    terminal.expect(r"Linux compute-1 6\.")
    assert terminal.end() == 3


FAILS = """
def test_it(rack):
    rack.compute().sh("echo seen by the test >/root/trace")
    assert False
"""


def test_a_failed_tests_guest_is_kept_until_its_visitor_leaves(tmp_path: Path) -> None:
    (tmp_path / "test_fails.py").write_text(FAILS)
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "tests.emulated.conftest"]
    argv += ["-p", "no:cacheprovider", "--keep", "--basetemp", str(tmp_path / "kept")]
    argv += ["--rootdir", str(tmp_path), str(tmp_path / "test_fails.py")]
    failing = Terminal(argv)
    try:
        command = failing.expect(r"tools/shell --attach (\S+)\r\n")
        failing.expect("They end when you leave")
        attach = [sys.executable, "-m", "tests.lab.rack", *command.split()[1:]]
        done = subprocess.run(
            attach, cwd=TOP, input="cat trace\n", capture_output=True, text=True, timeout=SECONDS
        )
        assert done.returncode == 0, done.stderr
        assert "\nseen by the test" in done.stdout
        failing.expect("1 failed")
        assert failing.end() == 1
    finally:
        failing.process.kill()
    late = subprocess.run(attach, cwd=TOP, capture_output=True, text=True, timeout=SECONDS)
    assert late.returncode == 1
    assert "run the test with --keep" in late.stderr
