"""Looks at many drives: some at a time, each in its turn, and none waits for one that is mute."""

from __future__ import annotations

import functools
import threading

import pytest

from eraser.agent import bounded_probes
from eraser.agent.bounded_probes import AT_ONCE, BoundedProbes
from eraser.errors import DriveError

PATIENCE = 30.0
"""Seconds; only a broken look takes that long."""


def test_no_more_than_some_run_at_the_same_time() -> None:
    """All at once, each is late on a busy host with many drives, again and again."""
    guard, crowd = threading.Lock(), threading.Event()
    active = 0

    def look(name: int) -> int:
        nonlocal active
        with guard:
            active += 1
            if active > AT_ONCE:
                crowd.set()
        crowd.wait(0.05)  # time for one too many to come
        with guard:
            active -= 1
        return name

    works = {str(n): functools.partial(look, n) for n in range(3 * AT_ONCE)}
    assert BoundedProbes[int]().take(works, PATIENCE) == {str(n): n for n in range(3 * AT_ONCE)}
    assert not crowd.is_set()


def test_who_was_not_asked_is_asked_first_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_probes, "AT_ONCE", 1)
    asked: list[str] = []
    taken: BoundedProbes[None] = BoundedProbes()

    def look(name: str, over: threading.Event) -> None:
        asked.append(name)
        over.wait(PATIENCE)

    for turn in range(1, 5):
        over = threading.Event()
        taken.take({name: functools.partial(look, name, over) for name in "abc"}, 0.0)
        over.set()
        for thread in threading.enumerate():
            if thread.name.startswith("look "):
                thread.join(PATIENCE)
        assert asked == list("abca")[:turn]


def test_the_mute_keep_nobody_waiting_and_are_not_asked_twice() -> None:
    speak = threading.Event()
    asked: list[str] = []

    def mute(name: str) -> str:
        asked.append(name)
        speak.wait(PATIENCE)
        return name

    works = {f"mute {n}": functools.partial(mute, f"mute {n}") for n in range(AT_ONCE)}
    works |= {f"quick {n}": functools.partial(str, n) for n in range(AT_ONCE)}
    taken: BoundedProbes[str] = BoundedProbes()
    try:
        for _ in range(2):
            found = taken.take(works, 0.2)
            assert found == {f"quick {n}": str(n) for n in range(AT_ONCE)}
        assert len(asked) == AT_ONCE
    finally:
        speak.set()


def test_a_look_that_fails_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    def fails() -> str:
        raise DriveError("it answers nothing")

    assert BoundedProbes[str]().take({"bad": fails, "good": lambda: "found"}, PATIENCE) == {
        "good": "found"
    }
    assert "bad: it answers nothing" in caplog.text


class _Slow:
    """Looks at one drive that answers when it is let, each time what it is told to."""

    def __init__(self, fresh: float) -> None:
        self.now = 0.0
        self.asked = 0
        self._taken: BoundedProbes[str] = BoundedProbes(fresh, clock=lambda: self.now)
        self._let = threading.Event()

    def hello(self, *, says: str = "an answer", among: str = "abc") -> dict[str, str]:
        """What is found before anything could answer."""
        self._let = threading.Event()
        return self._taken.take(
            {name: functools.partial(self._look, self._let, name, says) for name in among}, 0.0
        )

    def answers(self) -> None:
        self._let.set()
        for thread in threading.enumerate():
            if thread.name.startswith("look "):
                thread.join(PATIENCE)

    def _look(self, let: threading.Event, name: str, says: str) -> str:
        self.asked += 1
        let.wait(PATIENCE)
        if says == "an error":
            raise DriveError(says)
        return name + says


def test_a_late_answer_is_found_the_next_time() -> None:
    """Where each drive of a busy host is late each time, none was ever named."""
    slow = _Slow(fresh=90.0)
    assert slow.hello(says="1") == {}
    slow.answers()
    slow.now = 60.0
    assert slow.hello(says="2") == {"a": "a1", "b": "b1", "c": "c1"}
    slow.answers()
    assert slow.asked == 6
    slow.now = 120.0
    assert slow.hello() == {"a": "a2", "b": "b2", "c": "c2"}
    slow.answers()


def test_a_late_answer_counts_from_its_question_on_and_not_for_long() -> None:
    slow = _Slow(fresh=90.0)
    slow.hello()
    slow.now = 80.0
    slow.answers()
    slow.now = 91.0
    assert slow.hello() == {}
    slow.answers()


def test_a_late_answer_about_what_is_not_asked_for_any_more_is_dropped() -> None:
    """A case works on the drive meanwhile: what it was before says nothing of what it is after."""
    slow = _Slow(fresh=90.0)
    slow.hello()
    slow.answers()
    assert slow.hello(among="bc").keys() == {"b", "c"}
    slow.answers()
    assert slow.hello(among="abc").keys() == {"b", "c"}
    slow.answers()


def test_a_late_error_is_no_answer() -> None:
    slow = _Slow(fresh=90.0)
    slow.hello(says="an error")
    slow.answers()
    assert slow.hello() == {}
    slow.answers()


def test_a_new_answer_beats_a_late_one_and_so_does_a_new_error() -> None:
    let = threading.Event()
    taken: BoundedProbes[str] = BoundedProbes(90.0, clock=lambda: 0.0)

    def late(says: str) -> str:
        let.wait(PATIENCE)
        return says

    def error() -> str:
        raise DriveError("reset")

    assert taken.take({name: functools.partial(late, "old") for name in "abc"}, 0.0) == {}
    let.set()
    for thread in threading.enumerate():
        if thread.name.startswith("look "):
            thread.join(PATIENCE)
    assert taken.take({"a": lambda: "new", "b": error}, PATIENCE) == {"a": "new"}


def test_a_late_answer_counts_for_nothing_where_nothing_else_is_said() -> None:
    slow = _Slow(fresh=0.0)
    slow.hello()
    slow.answers()
    assert slow.hello() == {}
    slow.answers()
