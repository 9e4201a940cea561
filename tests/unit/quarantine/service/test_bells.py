"""Many bells for one thing: one look now, one after, and none is lost in between."""

from __future__ import annotations

import pytest

from quarantine.service.inbound.bells import GAP_SECONDS, Bells


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_row_of_bells_costs_two_looks() -> None:
    clock, looks = Clock(), list[str]()
    bells = Bells(clock)

    def look() -> None:
        looks.append("look")
        clock.now += 5.0  # longer than the gap: what counts is its end

    assert bells.ring("cmp1", look) == 0.0
    assert bells.ring("cmp1", look) == pytest.approx(GAP_SECONDS)
    for _ in range(100):
        assert bells.ring("cmp1", look) == 0.0
    assert looks == ["look"]
    clock.now += GAP_SECONDS
    assert bells.ring("cmp1", look) == 0.0  # the one that waited
    assert looks == ["look"] * 2
    # And so on: the next row has one that waits again.
    assert bells.ring("cmp1", look) > 0
    assert bells.ring("cmp1", look) == 0.0


def test_others_are_not_kept_waiting() -> None:
    clock, looks = Clock(), list[str]()
    bells = Bells(clock)
    for name in ("cmp1", "cmp2"):
        assert bells.ring(name, lambda name=name: looks.append(name)) == 0.0  # type: ignore[misc]
    assert looks == ["cmp1", "cmp2"]


def test_a_look_that_failed_is_no_reason_to_look_without_end() -> None:
    clock = Clock()
    bells = Bells(clock)

    def fails() -> None:
        raise ValueError("away")

    with pytest.raises(ValueError, match="away"):
        bells.ring("cmp1", fails)
    assert bells.ring("cmp1", fails) == pytest.approx(GAP_SECONDS)


def test_made_up_names_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quarantine.service.inbound.bells._MOST", 10)
    bells = Bells(Clock())
    for number in range(1000):
        bells.ring(number, lambda: None)
    assert len(bells._quiet) <= 10
