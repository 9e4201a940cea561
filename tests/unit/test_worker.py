"""The worker's rounds: what one step meets keeps none of the others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from eraser.worker import Worker


def test_a_hello_that_cannot_be_made_keeps_no_ticket(caplog: pytest.LogCaptureFixture) -> None:
    turned: list[str] = []
    troubles: list[Exception] = [OSError(28, "No space left on device")]

    def hello() -> None:
        turned.append("hello")
        for error in troubles:
            raise error

    # Only what a round needs: Celery takes the tasks of one worker in a process, not of two.
    worker = Worker.__new__(Worker)
    parts = {
        "pump": SimpleNamespace(turn=hello),
        "tickets": SimpleNamespace(turn=lambda: turned.append("tickets")),
        "rests": SimpleNamespace(turn=lambda: turned.append("rests")),
        "cases": SimpleNamespace(prepare=lambda: turned.append("cases")),
        "_listen": lambda: turned.append("listen"),
        "_troubles": {},
    }
    vars(worker).update(parts)
    worker._round()
    worker._round()
    assert turned == ["hello", "tickets", "rests", "listen", "cases"] * 2
    assert caplog.text.count("Traceback") == 1, "not ten times a second"
    error = troubles.pop()
    worker._round()
    troubles.append(error)
    worker._round()
    assert caplog.text.count("Traceback") == 2, "it began anew"
