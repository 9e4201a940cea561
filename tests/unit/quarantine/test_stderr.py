"""A log that nobody reads: who works goes on, and what is lost is counted."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator

import pytest

from quarantine import stderr
from quarantine.logs import OneLine
from quarantine.stderr import StandardError


class Piped:
    """A process's standard error, as a pipe."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.handler = StandardError(self.writer)
        self.handler.setFormatter(OneLine("%(message)s"))

    def say(self, words: str) -> None:
        self.handler.handle(logging.makeLogRecord({"msg": words}))

    def read(self) -> str:
        """All that is in it."""
        os.set_blocking(self.reader, False)
        found = b""
        try:
            while piece := os.read(self.reader, 65536):
                found += piece
        except BlockingIOError:
            pass
        return found.decode()


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[Piped]:
    monkeypatch.setattr(stderr, "PATIENCE", 0.05)
    made = Piped()
    yield made
    os.close(made.reader)
    os.close(made.writer)


def test_lines_are_written_whole_and_in_their_order(piped: Piped) -> None:
    wanted = ["one", "ü" * 3000, "x" * 4000, "three"]
    for words in wanted:
        piped.say(words)
    assert piped.read().splitlines() == wanted


def test_nobody_waits_for_a_reader_that_stopped(piped: Piped) -> None:
    """The safety pass has more slots to reserve, and each of its threads logs."""
    began = time.monotonic()
    for number in range(400):
        piped.say(f"{number} {'x' * 1000}")
    assert time.monotonic() - began < 20, "each waited, or one without an end"
    lost = piped.handler.missing
    assert 0 < lost < 400
    first = piped.read()
    piped.say("again")
    again = piped.read()
    assert f"{lost} lines are missing here: nobody took them\nagain\n" in again
    whole = [line for line in first.splitlines() if line.endswith("x" * 1000)]
    assert len(whole) == 400 - lost
    # What was cut in its midst spoils no other line.
    assert (first + again).splitlines()[-1] == "again"


def test_a_slow_reader_gets_all(piped: Piped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "PATIENCE", 60.0)
    found, wanted = list[bytes](), [f"{number} {'y' * 900}" for number in range(200)]

    def read() -> None:
        while b"end" not in b"".join(found):
            time.sleep(0.005)
            found.append(os.read(piped.reader, 4096))

    reader = threading.Thread(target=read)
    reader.start()
    for words in [*wanted, "end"]:
        piped.say(words)
    reader.join(60)
    assert b"".join(found).decode().splitlines() == [*wanted, "end"]


def test_a_reader_that_is_gone_ends_nothing(piped: Piped) -> None:
    os.close(piped.reader)
    piped.say("to nobody")
    assert piped.handler.missing == 1
    piped.reader = os.open(os.devnull, os.O_RDONLY)
