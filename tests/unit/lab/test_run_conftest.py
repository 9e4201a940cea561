"""A run of tests with our conftest, below xdist: where the time went, and what failed at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import FAILURES

TOP = Path(__file__).parents[3]


def test_a_run_says_where_its_time_went_and_writes_each_failure_down(tmp_path: Path) -> None:
    for name, body in (("slow", "import time; time.sleep(0.2)"), ("wrong", "assert False")):
        directory = tmp_path / "tests" / name
        directory.mkdir(parents=True)
        (directory / f"test_{name}.py").write_text(f"def test_it():\n    {body}\n")
    failures = tmp_path / "failures"
    argv = [sys.executable, "-m", "pytest", "-n", "2", "-p", "tests.conftest"]
    argv += ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path / "tests")]
    env = {**os.environ, FAILURES: str(failures)}
    env.pop("PYTEST_XDIST_WORKER", None)
    done = subprocess.run(argv, cwd=TOP, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert failures.read_text() == "tests/wrong/test_wrong.py::test_it (call)\n"
    assert re.search(r"tests/slow +1 tests +0\.\d s  slowest: test_slow\.py::test_it", done.stdout)
    assert re.search(r"tests/wrong +1 tests ", done.stdout)
