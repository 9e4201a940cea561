"""A host that speaks no more is told once, and again when it fell silent anew."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from eraser.wire.report import Hello
from eraser.wire.signing import PrivateKey
from quarantine.record.store import Store
from quarantine.silence import Silence

LIFE = "incarnation-00001"


class Clock:
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    found = Store.open(f"sqlite:///{tmp_path}/record.db", clock=clock)
    found.migrate()
    for name in ("cmp1", "cmp2"):
        found.register_host(name, PrivateKey.generate().public, LIFE)
    yield found
    found.close()


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    caplog.clear()
    return found


def test_a_silent_host_is_told_once(
    store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    silence = Silence(store, 3600.0, clock)
    clock.forward(3600)
    assert silence.check() == frozenset()
    store.host_seen("cmp2", 1, Hello("cmp2", LIFE, 1, "0.1.0", (), ()))
    clock.forward(1)
    # Registered and never heard counts from its registration.
    assert silence.check() == {"cmp1"}
    assert silence.check() == {"cmp1"}
    (text,) = alarms(caplog)
    assert "ALARM host cmp1" in text
    assert "1 h" in text
    store.host_seen("cmp1", 1, Hello("cmp1", LIFE, 1, "0.1.0", (), ()))
    assert silence.check() == frozenset()
    clock.forward(3601)
    assert silence.check() == {"cmp1", "cmp2"}
    assert len(alarms(caplog)) == 2
    store.remove_host("cmp1")
    clock.forward(-86400)
    assert silence.check() == frozenset()
