"""Written to or not: honest drives pass with their habits, used ones do not."""

from __future__ import annotations

import pytest

from eraser.ownership.counters import since_intake, since_report
from eraser.protocol.ticket import Counters

OWN = 1000
"""Writes of the case at the most; 8 data units."""


def counters(gde: bool | None, writes: int = 5000, units: int = 300, cycles: int = 7) -> Counters:
    return Counters(writes, units, cycles, gde)


CASES = [
    # (then, now, honest between report and intake, honest between intake and start)
    (counters(True), counters(True), True, True),
    (counters(None), counters(None), True, True),
    (counters(False), counters(False), True, True),
    # The host was rebooted.
    (counters(True), counters(True, cycles=9), True, True),
    (counters(None), counters(None, cycles=9), True, True),
    # Counters that lag behind the case's own writes; the seal vouches for it.
    (counters(True), counters(True, 6000, 308), True, True),
    (counters(None), counters(None, 6000, 308), True, False),
    (counters(False), counters(False, 5001, 300), True, False),
    (counters(False), counters(False, 5000, 301), True, False),
    # More than the case ever wrote.
    (counters(True), counters(True, 6001, 300), False, False),
    (counters(True), counters(True, 5000, 309), False, False),
    (counters(None), counters(None, 6001, 300), False, False),
    (counters(None), counters(None, 5000, 309), False, False),
    # A reset took the seal of a drive that does so: before the intake that is a habit.
    (counters(True), counters(False), True, False),
    (counters(True), counters(None), True, False),
    # The seal and one block.
    (counters(True), counters(False, 5001, 300), False, False),
    (counters(True), counters(False, 5000, 301), False, False),
    # Format says nothing of a seal that stands by now.
    (counters(None), counters(True), True, True),
    (counters(None), counters(True, 5001, 300), True, False),
    # Firmware that begins to count anew, or another drive under this one's name.
    (counters(True), counters(True, 4999), False, False),
    (counters(True), counters(True, 5000, 299), False, False),
    (counters(True), counters(True, cycles=6), False, False),
]


@pytest.mark.parametrize(("then", "now", "intake", "start"), CASES)
def test_written(then: Counters, now: Counters, intake: bool, start: bool) -> None:
    assert (since_report(then, now, OWN) == "") is intake
    assert (since_intake(then, now, OWN) == "") is start


def test_a_case_that_wrote_nothing_allows_nothing() -> None:
    grown = counters(True, 5001, 300)
    assert "from 5000 to 5001" in since_report(counters(True), grown, 0)
    assert "from 5000 to 5001" in since_intake(counters(True), grown, 0)
