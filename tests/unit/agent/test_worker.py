"""The worker's rounds: what one step meets keeps none of the others."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eraser.agent import bell
from eraser.agent.hoststate import OrderRefusedError
from eraser.agent.worker import DEAF_SECONDS, EXIT_DEAF, TICK_SECONDS, Worker
from eraser.clock import MACHINE
from eraser.protocol.policy import VerificationMode
from tests.lab.services.process import wait_until
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
        "orders": SimpleNamespace(turn=hello),
        "tickets": SimpleNamespace(turn=lambda: turned.append("tickets")),
        "rests": SimpleNamespace(turn=lambda: turned.append("rests")),
        "old": SimpleNamespace(turn=lambda: turned.append("old")),
        "_listen": lambda: turned.append("listen"),
        "_hear": lambda: turned.append("hear"),
        "_troubles": {},
    }
    vars(worker).update(parts)
    worker._round()
    worker._round()
    assert turned == ["hello", "tickets", "rests", "old", "listen", "hear"] * 2
    assert caplog.text.count("Traceback") == 1, "not ten times a second"
    error = troubles.pop()
    worker._round()
    troubles.append(error)
    worker._round()
    assert caplog.text.count("Traceback") == 2, "it began anew"


def test_the_bell_is_heard_again_as_soon_as_its_socket_can_be_made(tmp_path: Path) -> None:
    """As on a full /run, and after a program that cleaned it."""
    run_dir = tmp_path / "run"
    run_dir.write_text("in the way")
    told: list[str] = []
    worker = Worker.__new__(Worker)
    vars(worker).update(
        settings=SimpleNamespace(run_dir=run_dir, bell_group=""),
        send=lambda _kind, address: told.append(address),
        _clock=MACHINE,
        _bell=None,
    )
    with pytest.raises(OSError, match="nobody hears this host's bells"):
        worker._hear()
    run_dir.unlink()
    for _ in range(2):
        worker._hear()
        worker._hear()
        told.clear()
        bell.ring(run_dir, ["0000:01:00.0"])
        wait_until(lambda: told == ["0000:01:00.0"], "the bell", 10)
        (run_dir / bell.SOCKET).unlink()
    assert worker._bell is not None
    worker._bell.close()


def test_the_log_says_what_became_of_an_order_in_the_layout_of_nist(
    caplog: pytest.LogCaptureFixture,
) -> None:
    verification = replace(ORDER.policy.verification, mode=VerificationMode.NIST)
    orders = [ORDER, replace(ORDER, policy=replace(ORDER.policy, verification=verification))]
    worker = Worker.__new__(Worker)
    vars(worker).update(
        state=SimpleNamespace(accept=lambda _token: orders.pop(0)),
        orders=SimpleNamespace(again=lambda _order: None),
        _wake=SimpleNamespace(set=lambda: None),
    )
    # A program that another test ran may have left the root logger at INFO.
    caplog.set_level(logging.WARNING, logger="eraser.agent.worker")
    worker.order("statistical")
    assert [record for record in caplog.records if record.name == "eraser.agent.worker"] == []
    worker.order("nist")
    assert "'nist', which is gone: every block is read, as in 'full'" in caplog.text


@dataclass
class Ticking:
    """A worker, the broker that takes its ticks or does not, and how it ended."""

    now: float = 0.0
    away: bool = False
    sent: int = 0
    ended: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.worker = Worker.__new__(Worker)
        vars(self.worker).update(
            _clock=SimpleNamespace(monotonic=lambda: self.now),
            _asked=None,
            _ticked=0.0,
            app=SimpleNamespace(send_task=self._take),
            host="cmp1",
        )

    def _take(self, *_: object, **__: object) -> None:
        if self.away:
            raise OSError("no broker")
        self.sent += 1

    def passes(self, seconds: float, *, heard: bool) -> None:
        """Round after round, ten a second in the product; each tick is heard, or none is."""
        end = self.now + seconds
        while self.now < end and not self.ended:
            self.now += 1.0
            self.worker._listen()
            if heard and not self.away:
                self.worker.tick()


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    made = Ticking()
    monkeypatch.setattr(os, "_exit", made.ended.append)
    return made


def test_a_worker_that_sends_and_hears_nothing_ends_for_systemd_to_start_it(
    ticking: Ticking,
) -> None:
    """Its hellos would go on: nobody else would notice that it takes no orders."""
    ticking.passes(3 * DEAF_SECONDS, heard=True)
    assert not ticking.ended
    ticking.passes(3 * DEAF_SECONDS, heard=False)
    assert ticking.ended == [EXIT_DEAF]
    assert ticking.now <= 4 * DEAF_SECONDS + 2 * TICK_SECONDS


def test_a_broker_that_is_away_makes_nobody_deaf(ticking: Ticking) -> None:
    ticking.away = True
    ticking.passes(3 * DEAF_SECONDS, heard=False)
    ticking.away = False
    ticking.passes(DEAF_SECONDS - TICK_SECONDS, heard=False)
    assert not ticking.ended
    ticking.passes(4 * TICK_SECONDS, heard=False)
    assert ticking.ended == [EXIT_DEAF]


def test_a_round_that_takes_minutes_makes_nobody_deaf(ticking: Ticking) -> None:
    """No tick was sent meanwhile, so none could be heard."""
    ticking.passes(3 * TICK_SECONDS, heard=True)
    ticking.now += 2 * DEAF_SECONDS
    ticking.passes(TICK_SECONDS, heard=True)
    assert not ticking.ended


def test_whoever_hears_orders_is_not_deaf(ticking: Ticking) -> None:
    """A queue with very many of them, which stand before the tick."""

    def refuses(_token: str) -> None:
        raise OrderRefusedError("once more")

    vars(ticking.worker).update(state=SimpleNamespace(accept=refuses))
    for _ in range(3 * int(DEAF_SECONDS / TICK_SECONDS)):
        ticking.passes(TICK_SECONDS, heard=False)
        ticking.worker.order("token")
    assert not ticking.ended


def test_a_tick_is_sent_now_and_then(ticking: Ticking) -> None:
    ticking.passes(10 * TICK_SECONDS, heard=True)
    assert ticking.sent == 10
