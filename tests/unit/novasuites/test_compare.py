"""What counts as a difference between Nova's own tests with the patch and without it."""

from __future__ import annotations

import io
import json
import unittest
from typing import Any

from tests.novasuites.compare import MUTE_SHARE, judge, mute
from tests.novasuites.runner import FAILED, PASSED, SKIPPED, Recorder
from tests.novasuites.suites import Seen, read


def side(patched: bool = False, **outcomes: str) -> Seen:
    return Seen(patched, outcomes, dict.fromkeys(outcomes, "boom"))


def test_the_same_on_both_sides_is_right() -> None:
    assert judge(side(a=PASSED, b=SKIPPED), side(a=PASSED, b=SKIPPED), {}) == {}


def test_a_test_that_fails_with_the_patch_is_wrong() -> None:
    assert judge(side(a=PASSED), side(a=FAILED), {}) == {"a": "passed without, failed with: boom"}


def test_a_test_that_only_the_patch_makes_pass_is_wrong() -> None:
    assert list(judge(side(a=FAILED), side(a=PASSED), {})) == ["a"]


def test_a_test_that_fails_on_both_sides_shows_nothing_and_is_wrong() -> None:
    assert list(judge(side(a=FAILED), side(a=FAILED), {})) == ["a"]


def test_a_few_that_fail_alike_on_both_sides_say_nothing() -> None:
    fine = {f"t{n}": PASSED for n in range(MUTE_SHARE - 1)}
    sides = side(a=FAILED, **fine), side(a=FAILED, **fine)
    assert mute(*sides, {}) == {"a"}
    assert mute(*sides, {"a": "it must fail with the patch alone"}) == set()
    assert mute(side(a=FAILED, b=FAILED, **fine), side(a=FAILED, b=FAILED, **fine), {}) == set()
    assert mute(side(a=PASSED, **fine), side(a=FAILED, **fine), {}) == set()
    otherwise = Seen(True, dict(sides[1].outcomes), {"a": "bang"})
    assert mute(sides[0], otherwise, {}) == set()


def test_a_test_that_ran_on_one_side_only_is_wrong() -> None:
    wrong = judge(side(a=PASSED, b=PASSED), side(a=PASSED, c=PASSED), {})
    assert wrong == {
        "b": "passed without, absent with: boom",
        "c": "absent without, passed with: boom",
    }


def test_what_must_differ_is_right_only_where_it_does() -> None:
    assert judge(side(a=PASSED), side(a=FAILED), {"a": "why"}) == {}
    assert list(judge(side(a=PASSED), side(a=PASSED), {"a": "why"})) == ["a"]
    assert list(judge(side(a=FAILED), side(a=FAILED), {"a": "why"})) == ["a"]


def test_what_a_test_was_alone_takes_the_place_of_what_it_was() -> None:
    assert side(a=FAILED, b=FAILED).but(side(a=PASSED)).failed == {"b"}


class Case(unittest.TestCase):
    """One of each; pytest is not to run it."""

    __test__ = False

    def runTest(self) -> None:
        raise NotImplementedError

    def passes(self) -> None:
        pass

    def fails(self) -> None:
        raise AssertionError("one\n\ntwo")

    def skips(self) -> None:
        self.skipTest("why")

    def fails_in_part(self) -> None:
        with self.subTest(part=1):
            raise AssertionError("part")

    def fails_twice(self) -> None:
        self.addCleanup(self.fails)
        raise AssertionError("first")


def recorded(*names: str) -> Any:
    stream = io.StringIO()
    unittest.TestSuite(Case(name) for name in names).run(Recorder(stream))
    seen = read([json.dumps({"patched": True}), *stream.getvalue().splitlines()])
    assert seen.patched
    return {test.rpartition(".")[2]: (how, seen.why[test]) for test, how in seen.outcomes.items()}


def test_what_became_of_each_test_is_written() -> None:
    assert recorded("passes", "fails", "skips", "fails_in_part", "fails_twice") == {
        "passes": (PASSED, ""),
        "fails": (FAILED, "two"),
        "skips": (SKIPPED, "why"),
        "fails_in_part": (FAILED, "AssertionError: part"),
        "fails_twice": (FAILED, "AssertionError: first"),
    }
