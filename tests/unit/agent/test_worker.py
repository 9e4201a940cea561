"""The worker's rounds: what one step meets keeps none of the others."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from eraser.agent.worker import Worker
from eraser.protocol.policy import VerificationMode
from tests.unit.protocol.test_codec import ORDER


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
        "old": SimpleNamespace(turn=lambda: turned.append("old")),
        "_listen": lambda: turned.append("listen"),
        "_troubles": {},
    }
    vars(worker).update(parts)
    worker._round()
    worker._round()
    assert turned == ["hello", "tickets", "rests", "old", "listen"] * 2
    assert caplog.text.count("Traceback") == 1, "not ten times a second"
    error = troubles.pop()
    worker._round()
    troubles.append(error)
    worker._round()
    assert caplog.text.count("Traceback") == 2, "it began anew"


def test_the_log_says_what_became_of_an_order_in_the_layout_of_nist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    verification = replace(ORDER.policy.verification, mode=VerificationMode.NIST)
    orders = [ORDER, replace(ORDER, policy=replace(ORDER.policy, verification=verification))]
    worker = Worker.__new__(Worker)
    vars(worker).update(
        state=SimpleNamespace(accept=lambda _token: orders.pop(0)),
        pump=SimpleNamespace(again=lambda _order: None),
        _wake=SimpleNamespace(set=lambda: None),
    )
    # A program that another test ran may have left the root logger at INFO.
    caplog.set_level(logging.WARNING, logger="eraser.agent.worker")
    worker.order("statistical")
    assert [record for record in caplog.records if record.name == "eraser.agent.worker"] == []
    worker.order("nist")
    assert "'nist', which is gone: every block is read, as in 'full'" in caplog.text
