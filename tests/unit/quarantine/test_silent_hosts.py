"""Whose last hello says nothing any more: who fell silent while others were heard."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.service.silence import Silence

AFTER = 420.0
HELLO = 60.0
PASS = 10.0


class Cloud:
    """Hosts that say hello each minute, each at a second of its own, and a pass now and then."""

    def __init__(self, hosts: int, seed: int) -> None:
        rng = random.Random(seed)
        self.now = 0.0
        self.offset = {f"cmp{n}": rng.uniform(0, HELLO) for n in range(hosts)}
        self.heard: dict[str, datetime] = {}
        self.wall = datetime(2026, 11, 26, tzinfo=UTC)
        self.silence = Silence(AFTER, lambda: self.now)
        self.pace = rng.uniform(0.5, 2) * PASS

    def run(
        self, seconds: float, *, dead: frozenset[str] = frozenset(), deaf: bool = False
    ) -> set[str]:
        """Who was called silent at any pass."""
        found = set[str]()
        end = self.now + seconds
        while self.now < end:
            before, self.now = self.now, self.now + self.pace
            for name, offset in self.offset.items():
                spoke = (self.now - offset) // HELLO > (before - offset) // HELLO
                if name not in self.heard or (spoke and name not in dead and not deaf):
                    self.heard[name] = self.wall + timedelta(seconds=self.now)
            found |= self.silence.of(self.heard)
        return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("hosts", [2, 6, 12, 300])
def test_no_outage_makes_anybody_silent_and_who_is_dead_is_so_in_time(
    hosts: int, seed: int
) -> None:
    cloud = Cloud(hosts, seed)
    assert not cloud.run(1800)
    outage = random.Random(seed).choice([60, 200, 300, 430, 1000, 7200])
    assert not cloud.run(outage, deaf=True)
    assert not cloud.run(1800)
    dead = frozenset(f"cmp{n}" for n in range(max(1, hosts // 3)))
    assert not cloud.run(AFTER - HELLO - 3 * cloud.pace, dead=dead)
    cloud.run(2 * HELLO + 6 * cloud.pace, dead=dead)
    for _ in range(2):  # also after another outage
        assert cloud.run(120, dead=dead) == set(dead)
        cloud.run(1000, dead=dead, deaf=True)
    cloud.run(2 * HELLO)
    assert not cloud.run(600)


def test_a_clock_that_is_set_changes_nothing() -> None:
    cloud = Cloud(6, 1)
    for step in (timedelta(hours=-6), timedelta(hours=12)):
        assert not cloud.run(900)
        cloud.wall += step
    dead = frozenset({"cmp3"})
    cloud.run(AFTER + HELLO, dead=dead)
    cloud.wall -= timedelta(days=1)
    assert cloud.run(600, dead=dead) == {"cmp3"}


def test_who_was_never_heard_is_silent_and_who_was_removed_is_forgotten() -> None:
    cloud = Cloud(4, 1)
    cloud.run(AFTER + 2 * HELLO, dead=frozenset({"cmp0"}))
    assert cloud.run(60, dead=frozenset({"cmp0"})) == {"cmp0"}
    del cloud.heard["cmp0"], cloud.offset["cmp0"]
    assert not cloud.run(60)
