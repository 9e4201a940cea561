"""When a host that does not know how its defences stand is worth a call."""

from __future__ import annotations

from quarantine.doubt import Doubts

GRACE = 300.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_rolling_restart_calls_nobody() -> None:
    """A thousand hosts, each unknown in a hello or two."""
    clock = Clock()
    doubts = Doubts(GRACE, clock)
    for number in range(1000):
        for doubtful in (True, True, False):
            clock.now += 60
            assert doubts.is_young(f"cmp{number}", doubtful) is doubtful


def test_a_doubt_that_lasts_is_old_and_one_that_comes_again_is_young() -> None:
    clock = Clock()
    doubts = Doubts(GRACE, clock)
    young = []
    for _ in range(7):
        young.append(doubts.is_young("cmp1", True))
        clock.now += 60
    assert young == [True] * 5 + [False] * 2
    assert not doubts.is_young("cmp1", False)
    assert doubts.is_young("cmp1", True)
    # Others' words are no word of this one; and what went to another process in between neither.
    clock.now += GRACE + 1
    assert doubts.is_young("cmp2", True)
    assert doubts.is_young("cmp1", True)
