"""The rolling budget: everyone in time, oldest first, never all at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.protocol.identity import Slot
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from quarantine.service.reread_schedule import RereadSchedule
from tests.unit.quarantine.rules.test_decide import RECORD

PERIOD = 100.0


class Hand:
    """A monotonic clock moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def records(count: int) -> list[SlotRecord]:
    slots = [Slot(f"cmp{n:03}", "0000:81:00.0") for n in range(count)]
    return [replace(RECORD, slot=slot, state=State.IN_USE) for slot in slots]


def turn(watch: RereadSchedule) -> list[SlotRecord]:
    found = list(watch.due())
    for record in found:
        watch.seen(record)
    return found


def test_what_was_never_read_is_read_at_once() -> None:
    watch = RereadSchedule(PERIOD, Hand())
    watch.refill(records(5))
    assert len(turn(watch)) == 5
    assert turn(watch) == []


@pytest.mark.parametrize("step", [1.0, 7.0, 15.0, 60.0])
@pytest.mark.parametrize("count", [1, 3, 50, 400])
def test_each_is_read_once_per_period_at_least(step: float, count: int) -> None:
    clock = Hand()
    watch = RereadSchedule(PERIOD, clock)
    watch.refill(records(count))
    turn(watch)
    last = {record.slot: clock.at for record in records(count)}
    worst = 0.0
    for _ in range(int(10 * PERIOD / step)):
        clock.at += step
        for record in turn(watch):
            worst = max(worst, clock.at - last[record.slot])
            last[record.slot] = clock.at
    worst = max(worst, *(clock.at - at for at in last.values()))
    assert worst <= PERIOD + step


def test_reads_are_spread_over_the_period() -> None:
    clock = Hand()
    watch = RereadSchedule(PERIOD, clock)
    watch.refill(records(100))
    turn(watch)
    most = 0
    for _ in range(400):
        clock.at += 1
        most = max(most, len(turn(watch)))
    # All at once would be a hundred.
    assert most <= 8


def test_oldest_first_and_gone_when_no_longer_used() -> None:
    clock = Hand()
    watch = RereadSchedule(PERIOD, clock)
    first, second, third = records(3)
    for _ in range(2):
        for record in (second, third, first):
            clock.at += 1
            watch.seen(record)
    clock.at += 2 * PERIOD
    assert [r.slot for r in watch.due()] == [second.slot, third.slot, first.slot]
    watch.seen(replace(second, state=State.RELEASED))
    watch.refill([third])
    assert [r.slot for r in watch.due()] == [third.slot]


def test_the_one_that_waits_longest_says_how_late_a_release_would_be_seen() -> None:
    clock = Hand()
    watch = RereadSchedule(PERIOD, clock)
    start = clock.at
    clock.at += 5
    assert (len(watch), watch.oldest) == (0, start), "what is in use is not known yet"
    first, second = records(2)
    watch.refill([first, second])
    assert (len(watch), watch.oldest) == (2, start)
    watch.seen(first)
    watch.missed(second)
    assert watch.oldest == start, "it was not read"
    watch.seen(second)
    assert watch.oldest == clock.at, "although the next reading is due earlier"
    clock.at += 5
    watch.seen(first)
    watch.seen(replace(second, state=State.RELEASED))
    assert watch.oldest == clock.at, "nobody can let go of it again"
    clock.at += 5
    watch.refill([])
    assert (len(watch), watch.oldest) == (0, clock.at), "there is nothing to miss"
    watch.refill([first])
    clock.at += 5
    watch.refill([first])
    assert watch.oldest == clock.at - 5, "since it is on the list"
