"""The door to a time stamping authority, when the one behind it never comes to an end."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from quarantine.errors import TimeStampError
from quarantine.service.issue import tsa
from quarantine.service.issue.tsa import TimeStampAuthority


@pytest.fixture
def trickle() -> Iterator[str]:
    """An authority that sends a byte of a header line again and again, each in time."""
    over = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError):
            peer, _ = listener.accept()
            with peer:
                peer.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not over.wait(0.01):
                    peer.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        server.join()


def test_an_authority_that_never_ends_its_answer_is_given_up(
    trickle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tomorrow's head is written by the thread that asks, and asks no second time meanwhile."""
    monkeypatch.setattr(tsa, "DEADLINE", 0.2)
    authority = TimeStampAuthority(trickle)
    with pytest.raises(TimeStampError, match=r"whole answer within 0\.2 seconds"):
        authority.stamp(b"head")
    with pytest.raises(TimeStampError, match="still sends"):
        authority.stamp(b"head")
