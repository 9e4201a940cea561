"""Looks at many drives: some at a time, each in its turn, and none waits for one that is mute."""

from __future__ import annotations

import functools
import threading

import pytest

from eraser import looks
from eraser.errors import DriveError
from eraser.looks import AT_ONCE, Looks

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
    assert Looks[int]().take(works, PATIENCE) == {str(n): n for n in range(3 * AT_ONCE)}
    assert not crowd.is_set()


def test_who_was_not_asked_is_asked_first_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "AT_ONCE", 1)
    asked: list[str] = []
    taken: Looks[None] = Looks()

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
    taken: Looks[str] = Looks()
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

    assert Looks[str]().take({"bad": fails, "good": lambda: "found"}, PATIENCE) == {"good": "found"}
    assert "bad: it answers nothing" in caplog.text
