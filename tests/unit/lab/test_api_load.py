"""The clients of benchmarks.api: what is not answered is told."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from benchmarks.api import load


class HangsUp(BaseHTTPRequestHandler):
    """Answers who looks, and ends the connection of who acts."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        self.close_connection = True

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), HangsUp) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_an_act_that_is_not_answered_is_a_problem(port: int) -> None:
    """The benchmark's exit code is 1 where an answer was none."""
    one = load.Act("POST", "/act", "/looked-at", {})

    found = load.act(port, [itertools.repeat(one)], requests=3, seconds=60, headers={})

    assert len(found.times) == 3
    assert [problem.partition(":")[0] for problem in found.problems] == ["POST /act"] * 3
