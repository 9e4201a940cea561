"""What benchmarks.overhead calls the last command of a case."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks.overhead import rounds
from quarantine.record.words.states import Event, State

BEGAN = 1_000_000.0


def row(event: Event, after: float) -> Any:
    return SimpleNamespace(event=event, at=datetime.fromtimestamp(BEGAN + after, UTC))


def command(seq: int, after: float) -> Any:
    return SimpleNamespace(seq=seq, wall=BEGAN + after, is_admin=True)


def test_a_look_for_the_ticket_is_no_command_of_the_case() -> None:
    """It comes after the certificate: counted from it, a return takes a part of what it took."""
    history = [
        row(Event.RELEASE_SEEN, 1),
        row(Event.CUSTODY_TAKEN, 2),
        row(Event.ORDERED, 3),
        row(Event.CERTIFIED, 20),
        row(Event.RETURNED, 24),
    ]
    commands = [command(7, 0), command(8, 5), command(9, 18), command(10, 23)]
    site = SimpleNamespace(
        slot=lambda _drive: SimpleNamespace(state=State.AVAILABLE),
        history=lambda _drive: history,
    )
    drive = SimpleNamespace(commands=lambda: commands)

    found = rounds._stretches(cast(Any, site), cast(Any, drive), BEGAN, 0, 7)

    assert found[rounds.TO_COMMAND] == pytest.approx(5)
    assert found["drive at work"] == pytest.approx(13)
    assert found["last command to certified"] == pytest.approx(2)
    assert found[rounds.TO_POOL] == pytest.approx(6)
