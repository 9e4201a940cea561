"""Who waits for the look of another gets its failure, and waits no longer than for one."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from quarantine.errors import (
    BadInputError,
    QuarantineError,
    UnavailableError,
    UnreadableError,
)
from quarantine.operations import shared_turn
from quarantine.operations.shared_turn import SharedTurn

ALL = 6


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up because the machine is busy."""
    monkeypatch.setattr(shared_turn, "WAIT_SECONDS", 60.0)


class Looks:
    """All ask before the first has looked; how many of them looked, and what each was told."""

    def __init__(self, failure: QuarantineError | None) -> None:
        self._turn = SharedTurn(self._now)
        self._asked = threading.Semaphore(0)
        self._failure = failure
        self.made: list[int] = []
        with ThreadPoolExecutor(ALL) as pool:
            self.told = list(pool.map(self._ask, range(ALL)))

    def _now(self) -> float:
        """Whoever asks is asked for the time first."""
        self._asked.release()
        return time.monotonic()

    def _ask(self, number: int) -> str:
        try:
            with self._turn.turn():
                self.made.append(number)
                if len(self.made) == 1:
                    assert all(self._asked.acquire(timeout=30) for _ in range(ALL))
                if self._failure is not None:
                    raise self._failure
        except QuarantineError as error:
            return str(error)
        return ""


@pytest.mark.parametrize("kind", [UnavailableError, UnreadableError])
def test_what_the_record_failed_one_with_it_failed_all(kind: type[QuarantineError]) -> None:
    looks = Looks(kind("no answer"))
    assert (len(looks.made), looks.told) == (1, ["no answer"] * ALL)


def test_what_was_wrong_with_one_question_is_not_with_the_next() -> None:
    assert len(Looks(BadInputError("no such flavor")).made) == ALL


def test_nobody_waits_for_one_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_turn, "WAIT_SECONDS", 0.01)
    shared = SharedTurn(time.monotonic)
    with shared.turn(), pytest.raises(UnavailableError, match=r"within 0\.01 s"), shared.turn():
        raise AssertionError("two at once")
    with shared.turn():
        pass


def test_who_comes_behind_a_failure_looks_again() -> None:
    shared, said = SharedTurn(iter(range(9)).__next__), UnavailableError("no answer")
    with pytest.raises(UnavailableError), shared.turn():
        raise said
    with shared.turn():
        pass
