"""A log that nobody reads: who works goes on, and what is lost is counted."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest

from quarantine import logs, stderr
from quarantine.logs import OneLine
from quarantine.stderr import StandardError


class Read:
    """A process's standard error, and whoever reads it."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader, self.writer = reader, writer
        self.handler = StandardError(writer)
        self.handler.setFormatter(OneLine("%(levelname)s %(message)s"))
        self.found = b""

    def say(self, words: str, level: int = logging.INFO) -> None:
        name = logging.getLevelName(level)
        record = logging.makeLogRecord({"msg": words, "levelno": level, "levelname": name})
        self.handler.handle(record)

    def drain(self) -> list[str]:
        """All lines, once the last one that was said is there."""
        thread = threading.Thread(target=self._take, daemon=True)
        thread.start()
        self.say("END", logging.ERROR)
        thread.join(60)
        assert not thread.is_alive(), self.found[-1000:]
        return self.found.decode().split("ERROR END")[0].splitlines()

    def _take(self) -> None:
        while b"ERROR END" not in self.found:
            self.found += os.read(self.reader, 65536)


@pytest.fixture(params=["pipe", "terminal"])
def read(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    monkeypatch.setattr(stderr, "LINES", 100)
    monkeypatch.setattr(stderr, "PATIENCE", 0.2)
    ends = os.pipe() if request.param == "pipe" else os.openpty()
    if request.param == "terminal":
        tty.setraw(ends[1])  # else it ends lines in another way, and cuts long ones
    yield Read(*ends)
    # The thread may be in a write that a reader alone can end: the reader's end goes first.
    for end in ends:
        os.close(end)


def test_lines_are_written_whole_and_in_their_order(read: Read) -> None:
    wanted = ["one", "ü" * 1500, "x" * 3900, "three"]
    for words in wanted:
        read.say(words)
    assert read.drain() == [f"INFO {words}" for words in wanted]


def test_nobody_waits_for_a_reader_that_stopped(read: Read) -> None:
    """The safety pass has more slots to reserve, and each of its threads logs."""
    began = time.monotonic()
    for number in range(1000):
        read.say(f"{number} {'x' * 1000}")
    assert time.monotonic() - began < 20, "one waited"
    # The thread may have made room in between: what is missing is told of where it is missing.
    number = gaps = 0
    for line in read.drain():
        if missing := re.fullmatch(r"WARNING (\d+) lines are missing here: nobody took them", line):
            number, gaps = number + int(missing[1]), gaps + 1
        else:
            assert line == f"INFO {number} {'x' * 1000}"
            number += 1
    assert number == 1000
    assert gaps, "a log without a bound"


def test_a_gap_is_told_of_where_it_is(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stderr, "LINES", 2)
    monkeypatch.setattr(read.handler, "_start", lambda: None)
    for words in ["one", "two", "lost", "lost"]:
        read.say(words)
    monkeypatch.setattr(stderr, "LINES", 100)
    read.say("three")
    monkeypatch.undo()
    gap = "WARNING 2 lines are missing here: nobody took them"
    assert read.drain() == ["INFO one", "INFO two", gap, "INFO three"]


def test_who_is_called_is_called_though_there_was_no_room_for_the_rest(read: Read) -> None:
    for number in range(1000):
        read.say(f"{number} {'x' * 1000}")
    read.say("ALARM on-offer cmp1/0000:01:00.0: a drive", logging.ERROR)
    assert "ERROR ALARM on-offer cmp1/0000:01:00.0: a drive" in read.drain()


def test_what_waits_as_a_process_ends_is_waited_for_a_little(
    read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(90):
        read.say(f"{number} {'x' * 1000}")
    began = time.monotonic()
    read.handler.flush()
    assert 0.1 < time.monotonic() - began < 10
    read.drain()
    monkeypatch.setattr(stderr, "PATIENCE", 60)
    began = time.monotonic()
    read.handler.flush()
    assert time.monotonic() - began < 30, "it waited for a reader that had taken all"


def test_a_line_of_ours_that_cannot_be_said_is_told_of(read: Read) -> None:
    read.handler.handle(
        logging.makeLogRecord({"name": "x", "levelno": 20, "msg": "%d", "args": ("no number",)})
    )
    (line,) = read.drain()
    assert line.startswith("x: '%d' cannot be said: TypeError")


def test_a_reader_that_is_gone_ends_nothing() -> None:
    reader, writer = os.pipe()
    read = Read(reader, writer)
    os.close(reader)
    read.say("to nobody")
    read.handler.flush()
    assert not read.handler._lines
    os.close(writer)


def test_a_child_has_a_thread_of_its_own(read: Read) -> None:
    read.say("parent")
    read.handler.flush()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            read.say("child")
            read.handler.flush()
        os._exit(0)
    os.waitpid(child, 0)
    assert read.drain() == ["INFO parent", "INFO child"]


SAYS = (
    "import logging, sys; from quarantine.logs import set_up_logging; set_up_logging('INFO')\n"
    "for number in range(500): logging.info('%d', number)\n"
    "import warnings; warnings.warn('odd')\n"
)


def test_a_process_that_ends_has_said_all() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAYS], capture_output=True, text=True, timeout=60, check=True
    )
    said = done.stderr.splitlines()
    assert [line.rpartition(" ")[2] for line in said[:500]] == [str(n) for n in range(500)]
    assert "py.warnings" in said[500], "a warning is a line of the log"


@pytest.mark.parametrize("stream", [None, StringIO(), "closed", "numberless"])
def test_a_stream_that_is_no_file_is_written_to_as_ever(
    monkeypatch: pytest.MonkeyPatch, stream: Any
) -> None:
    class Numberless(StringIO):
        def fileno(self) -> int:
            return -1

    if stream == "numberless":
        stream = Numberless()
    if stream == "closed":
        stream = StringIO()
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    assert isinstance(logs._standard_error(), logging.StreamHandler)
