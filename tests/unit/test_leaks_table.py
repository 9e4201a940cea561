"""The table of leaks: every row has its tests, and a row says no more than its tests saw."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nova import leaks, leaktable
from tests.nova.leaks import LEAKS, Saw, Side
from tests.nova.leaktable import FAILED, NOT_RUN, PASSED

TOP = Path(__file__).resolve().parents[2]


def functions(path: Path) -> list[str]:
    """The names of every function in a file."""
    tree = ast.walk(ast.parse(path.read_text()))
    return [node.name for node in tree if isinstance(node, ast.FunctionDef)]


def test_there_are_28_leaks_each_with_a_test_for_either_side() -> None:
    assert [leak.number for leak in LEAKS] == list(range(1, 29))
    found = [
        leaks.side_of(name)
        for path in (TOP / "tests" / "nova").glob("test_leak_*.py")
        for name in functions(path)
        if name.startswith("test_leak_")
    ]
    assert None not in found
    wanted = {(number, side) for number in range(1, 29) for side in Side}
    assert set(found) == wanted
    assert len(found) == len(wanted)


@pytest.mark.parametrize("test", sorted({test for leak in LEAKS for test in leak.rack}))
def test_a_test_on_the_rack_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in functions(TOP / path)


def test_every_word_is_explained() -> None:
    assert set(leaktable.WORDS) == set(Saw)


def line(leak: int, side: Side, saw: str) -> str:
    return json.dumps({"leak": leak, "side": side, "saw": saw})


def test_what_was_not_run_is_not_claimed() -> None:
    table = leaktable.rows(leaktable.read([line(1, Side.WITHOUT, Saw.LEAKED)]), {})
    assert (table[0].without, table[0].with_ours) == (Saw.LEAKED, NOT_RUN)
    assert not any(row.good for row in table)
    assert {outcome for row in table for _, outcome in row.rack} == {NOT_RUN}


def test_a_test_that_failed_counts_as_failed_whatever_it_saw() -> None:
    for words in ([Saw.CLOSED, FAILED], [FAILED, Saw.CLOSED]):
        seen = leaktable.read(line(1, Side.WITH, word) for word in words)
        assert seen == {(1, Side.WITH): FAILED}


@pytest.mark.parametrize("saw", [Saw.LEAKED, Saw.DESTROYED, Saw.STRANDED, Saw.FORGOTTEN, FAILED])
def test_our_side_must_not_show(saw: str) -> None:
    seen = {(leak.number, side): str(Saw.CLOSED) for leak in LEAKS for side in Side}
    assert all(row.good for row in leaktable.rows(seen, {}))
    assert not leaktable.rows(seen | {(1, Side.WITH): saw}, {})[0].good


def test_a_failure_on_the_rack_spoils_its_row() -> None:
    seen = {(leak.number, side): str(Saw.CLOSED) for leak in LEAKS for side in Side}
    rack = {test: PASSED for leak in LEAKS for test in leak.rack}
    assert all(row.good for row in leaktable.rows(seen, rack))
    row = next(leak for leak in LEAKS if leak.rack)
    spoiled = leaktable.rows(seen, rack | {row.rack[0]: FAILED})
    assert not spoiled[row.number - 1].good


def test_the_command_prints_one_object_for_each_leak(tmp_path: Path) -> None:
    source = tmp_path / "outcomes"
    source.write_text(line(3, Side.WITHOUT, Saw.LEAKED) + "\n" + line(3, Side.WITH, Saw.CLOSED))
    done = subprocess.run(
        [sys.executable, TOP / "tools" / "leaks", "-f", "json", "--from", source],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, "expected it to say that most were not run"
    printed = json.loads(done.stdout)
    assert [row["leak"] for row in printed] == list(range(1, 29))
    third = printed[2]
    assert third.keys() >= {"leak", "title", "without", "with", "how"}
    assert (third["without"], third["with"], third["how"]) == ("leaked", "closed", "harness")
    assert printed[3]["with"] == NOT_RUN


def test_the_page_is_checked_against_what_was_seen(tmp_path: Path) -> None:
    source = tmp_path / "outcomes"
    source.write_text(line(1, Side.WITH, Saw.CLOSED))
    argv = [sys.executable, TOP / "tools" / "leaks", "--check", "--from", source]
    done = subprocess.run(argv, capture_output=True, text=True)
    assert done.returncode == 1
    assert "not what the tests saw" in done.stderr


@pytest.mark.parametrize("side", [*Side, None])
def test_a_run_of_some_tests_is_no_verdict_on_the_page(tmp_path: Path, side: Side | None) -> None:
    source = tmp_path / "outcomes"
    lines = [
        line(leak.number, each, Saw.CLOSED)
        for leak in LEAKS
        for each in Side
        if leak.number > 1 or each is not side
    ]
    source.write_text("\n".join(lines))
    argv = [sys.executable, TOP / "tools" / "leaks", "--check", "--if-all", "--from", source]
    done = subprocess.run(argv, capture_output=True, text=True)
    if side is None:
        assert (done.returncode, "not what the tests saw" in done.stderr) == (1, True)
    else:
        assert (done.returncode, "1 leaks were not run" in done.stderr) == (0, True)
