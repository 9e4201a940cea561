"""A drive that comes a little later than its order, or than its host after a boot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.protocol.report import Outcome, Verdict
from tests.lab.nvme.composed.host import Clock
from tests.unit.case.bed import Bed, bed

__all__ = ["bed"]

ORDER = "order-0000-0000-0001"
READY = 120.0


@pytest.fixture
def ordered(bed: Bed) -> Bed:
    bed.request = replace(bed.request, order_id=ORDER)
    bed.ask(limits=replace(bed.policy.limits, ready=READY))
    return bed


def away(bed: Bed, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The kernel sees no function for so long from now on."""
    function = bed.kernel.function
    hidden = function.with_name("hidden")
    function.rename(hidden)
    back, wait = bed.clock.now + seconds, Clock.wait

    def waits(clock: Clock, passed: float) -> None:
        wait(clock, passed)
        if clock.now >= back and hidden.exists():
            hidden.rename(function)

    monkeypatch.setattr(Clock, "wait", waits)


def test_an_order_waits_for_its_drive(ordered: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    away(ordered, monkeypatch, READY / 2)
    report = ordered.run()
    assert (report.outcome, report.verdict, report.fit) == (
        Outcome.COMPLETED,
        Verdict.ERASED,
        True,
    ), report.reasons


def test_a_case_goes_on_with_a_drive_that_is_later_than_its_host(
    ordered: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had done would be forgotten, and a person would have to release the slot."""
    ordered.crash_after("Intent")
    away(ordered, monkeypatch, READY / 2)
    report = ordered.run()
    assert (report.outcome, report.verdict, report.fit) == (
        Outcome.COMPLETED,
        Verdict.ERASED,
        True,
    ), report.reasons


def test_one_that_does_not_come_is_absent(ordered: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    began = ordered.clock.now
    away(ordered, monkeypatch, READY * 10)
    report = ordered.run()
    assert report.outcome is Outcome.ABSENT
    assert READY <= ordered.clock.now - began < READY * 2
    assert ordered.started == []


def test_who_erases_by_hand_is_told_at_once(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    bed.ask(limits=replace(bed.policy.limits, ready=READY))
    began = bed.clock.now
    away(bed, monkeypatch, READY * 10)
    assert bed.run().outcome is Outcome.ABSENT
    assert bed.clock.now - began < READY
