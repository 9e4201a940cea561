"""Steady state: the two limits, each alone, at its edge."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualify.rounds.steady import judge


@pytest.mark.parametrize(
    ("values", "reached"),
    [
        ([100, 100, 100, 100, 100], True),
        ([110, 90, 100, 90, 110], True),  # at the edge of the range, level
        ([111, 89, 100, 90, 110], False),  # a value further off
        ([95, 97.5, 100, 102.5, 105], True),  # a line of exactly 10 %
        ([94.5, 97, 100, 103, 105.5], False),  # within the range, but rising
        ([105.5, 103, 100, 97, 94.5], False),  # or falling
        ([0, 0, 0, 0, 0], False),
    ],
)
def test_range_and_slope(values: list[float], reached: bool) -> None:
    found = judge(values)

    assert found is not None
    assert found.reached is reached


def test_only_the_last_five_rounds_count() -> None:
    found = judge([9_000, 400, 100, 101, 99, 100, 100])

    assert found is not None
    assert (found.reached, found.first, found.last, found.mean) == (True, 3, 7, 100)


def test_four_rounds_say_nothing() -> None:
    assert judge([100] * 4) is None
    assert judge([]) is None


def test_the_line_is_that_of_least_squares() -> None:
    found = judge([100, 100, 100, 100, 150])

    assert found is not None
    # Mean 110; slope 100/10 = 10 a round, 40 over the window.
    assert found.slope == pytest.approx(40 / 110)
    assert found.deviation == pytest.approx(40 / 110)


@given(st.lists(st.floats(1, 1e9), min_size=5, max_size=9), st.floats(0.001, 1000))
def test_units_do_not_matter(values: list[float], factor: float) -> None:
    one, other = judge(values), judge([value * factor for value in values])

    assert one is not None
    assert other is not None
    assert other.deviation == pytest.approx(one.deviation, abs=1e-9)
    assert other.slope == pytest.approx(one.slope, abs=1e-9)
