"""A run of tests with our conftest, below xdist: where the time went, and what failed at once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import conftest
from tests.conftest import FAILURES, ROTATION

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


def names(tmp_path: Path, rotation: str, *arguments: str) -> tuple[int, list[tuple[str, str]], str]:
    """A run of the tests a to e and of one that is deselected: its exit code, the tests in their
    order (in the second place with xdist), and all that it says."""
    tests = tmp_path / "tests"
    tests.mkdir(exist_ok=True)
    (tests / "test_first.py").write_text("".join(f"def test_{n}(): pass\n" for n in "abxc"))
    (tests / "test_second.py").write_text("".join(f"def test_{n}(): pass\n" for n in "de"))
    argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-v"]
    argv += ["-k", "not x", "--rootdir", str(tmp_path), str(tests), *arguments]
    env = {key: value for key, value in os.environ.items() if key != "PYTEST_XDIST_WORKER"}
    env[ROTATION] = rotation
    done = subprocess.run(argv, cwd=TOP, env=env, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    return done.returncode, re.findall(r"::test_(\w) PASSED|PASSED \S+::test_(\w)", said), said


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [(None, "abcde"), ("", "abcde"), ("0", "abcde"), ("2", "cdeab"), ("13", "deabc")],
)
def test_what_was_collected_is_a_ring(
    monkeypatch: pytest.MonkeyPatch, rotation: str | None, expected: str
) -> None:
    monkeypatch.delenv(ROTATION, raising=False)
    if rotation is not None:
        monkeypatch.setenv(ROTATION, rotation)
    items: list[Any] = list("abcde")
    conftest.pytest_collection_modifyitems(items)
    assert "".join(items) == expected
    none: list[Any] = []
    conftest.pytest_collection_modifyitems(none)
    assert none == []


def test_a_run_begins_where_it_is_told_among_the_tests_that_are_left(tmp_path: Path) -> None:
    code, seen, said = names(tmp_path, "2", "-n", "0")
    assert code == 0, said
    assert "".join(each for each, _ in seen) == "cdeab"
    assert f"order of tests: {ROTATION}=2\n" in said


def test_all_workers_begin_at_the_same_test(tmp_path: Path) -> None:
    """xdist refuses to run what its workers collected in different orders."""
    code, seen, said = names(tmp_path, "3", "-n", "2", "--dist", "worksteal")
    assert code == 0, said
    assert sorted(each for _, each in seen) == list("abcde")


def test_a_beginning_that_is_no_number_is_refused(tmp_path: Path) -> None:
    code, seen, said = names(tmp_path, "-1", "-n", "0")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert not seen
    assert f"{ROTATION}: expected a number" in said
