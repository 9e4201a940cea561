"""Several environments in one go: which one has its turn, what red is, and nothing outlives it."""

from __future__ import annotations

import configparser
import hashlib
import os
import subprocess
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[2]
SCRIPT = TOP / "tools" / "environments"


def load() -> ModuleType:
    loader = SourceFileLoader("environments", str(SCRIPT))
    spec = spec_from_loader("environments", loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules["environments"] = module  # dataclasses look their module up
    loader.exec_module(module)
    return module


environments = load()


def test_all_are_what_tox_has() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(TOP / "tox.ini")
    named = {each.removeprefix("testenv:") for each in tox.sections() if ":" in each}
    assert {*environments.LONG, "lint"} == named
    assert set(environments.TURNS) == set(environments.LONG)
    assert set(environments.LONGER) <= set(environments.TURNS)
    lifecycles = "{env:NVME_QUARANTINE_LIFECYCLES:1000}"
    assert tox["testenv:site"]["commands"].count(lifecycles) == 3


def test_each_has_its_turn_and_a_commit_always_the_same() -> None:
    commits = [hashlib.sha256(bytes([n])).hexdigest() for n in range(100)]
    turns = [environments.turn(commit) for commit in commits]
    assert set(turns) == set(environments.TURNS)
    assert turns == [environments.turn(commit) for commit in commits]
    assert environments.turn("0" * 40) == "daemons"
    assert environments.turn("0" * 39 + "4") == "site"


def test_what_takes_longer_than_its_turn_begins_elsewhere_with_each_commit() -> None:
    """Of a hundred tests all are among the first half of some commit's, whatever has the turn."""
    commits = [hashlib.sha256(bytes([n])).hexdigest() for n in range(256)]
    begins: dict[str, set[int]] = {name: set() for name in environments.TURNS}
    for commit in commits:
        name = environments.turn(commit)
        settings = environments.settings(name, commit)
        assert settings == environments.settings(name, commit)
        assert (environments.ROTATION in settings) == (name in environments.LONGER)
        if name in environments.LONGER:
            begins[name].add(int(settings[environments.ROTATION]) % 100)
    for name in environments.LONGER:
        seen = {(begin + n) % 100 for begin in begins[name] for n in range(50)}
        assert len(begins[name]) > 10
        assert seen == set(range(100))
    assert environments.settings("site", "0" * 40) == environments.TURNS["site"]


@pytest.mark.parametrize(
    ("code", "failures", "expected"),
    [
        (0, "", "ok"),
        (1, "", "RED"),
        (-9, "", "RED"),
        (None, "", "not finished"),
        (None, "tests/a.py::b (call)\n", "RED"),
    ],
)
def test_what_is_red(code: int | None, failures: str, expected: str) -> None:
    assert environments.outcome(code, failures) == expected


def run(
    tmp_path: Path, tox: str, mode: str, seconds: float = 60.0, name: str = "site"
) -> tuple[int, str]:
    """The script with a tox of ours, and ``seconds`` for a turn."""
    program = tmp_path / "tox"
    program.write_text(f"#!/bin/sh\n{tox}\n")
    program.chmod(0o755)
    shorter = (
        "import sys, tests.unit.test_environments as t; e = t.environments; "
        f"e.TURN_SECONDS = {seconds}; e.TURNS = {{{name!r}: e.TURNS[{name!r}]}}; "
        "sys.exit(e.main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", shorter, str(program), mode]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, timeout=300)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def test_all_goes_on_after_a_red_one(tmp_path: Path) -> None:
    code, said = run(tmp_path, '[ "$2" != tenants ]', "all")
    assert code == 1
    table = said.partition("== what came of it\n")[2].splitlines()
    assert [line.split()[:2] for line in table] == [
        ["default", "ok"],
        *([name, "RED" if name == "tenants" else "ok"] for name in environments.LONG),
    ]
    red = next(line for line in table if "RED" in line)
    assert red.endswith("tools/test -e tenants")
    assert run(tmp_path, "true", "all")[0] == 0


def test_ci_says_what_it_ran_and_how_to_run_it_again(tmp_path: Path) -> None:
    code, said = run(tmp_path, 'echo "ran $* with $NVME_QUARANTINE_LIFECYCLES"', "ci")
    assert code == 0
    again = "NVME_QUARANTINE_LIFECYCLES=300 tools/test -e site"
    assert said.count(again) == 3
    assert "ran  with \n" in said
    assert "ran -e site with 300\n" in said


def test_ci_says_how_to_begin_where_it_began(tmp_path: Path) -> None:
    """The default run is as written: it is always seen whole."""
    code, said = run(tmp_path, f'echo "ran $* with ${environments.ROTATION}."', "ci", name="rack")
    assert code == 0
    assert "ran  with .\n" in said
    begin = said.partition("ran -e rack with ")[2].partition(".")[0]
    assert said.count(f"{environments.ROTATION}={begin} tools/test -e rack") == 3
    assert begin.isdecimal()


@pytest.mark.parametrize(
    ("failed", "expected", "word"),
    [("", 0, "not finished"), ("echo test_it >>$NVME_QUARANTINE_FAILURES", 1, "RED")],
)
def test_what_is_cut_off_is_red_only_if_a_test_failed(
    tmp_path: Path, failed: str, expected: int, word: str
) -> None:
    """A guest that has a session of its own and ignores signals keeps nobody waiting."""
    guest = f"setsid sh -c 'trap \"\" TERM; echo $$ >{tmp_path}/guest; sleep 1000' &"
    began = time.monotonic()
    code, said = run(tmp_path, f'[ "$2" ] || exit 0\n{failed}\n{guest}\nsleep 1000', "ci", 3.0)
    assert (code, word in said) == (expected, True), said
    assert time.monotonic() - began < 100
    assert not os.path.exists(f"/proc/{(tmp_path / 'guest').read_text().strip()}")


def test_a_default_that_is_red_is_red_and_the_turn_is_had_all_the_same(tmp_path: Path) -> None:
    code, said = run(tmp_path, '[ "$2" ]', "ci")
    assert code == 1
    assert [line.split()[1] for line in said.splitlines()[-2:]] == ["RED", "ok"]
