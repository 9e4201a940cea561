"""Performance levels: the sources' own figures grade as what they were measured on."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualify.results.levels import LEVELS, grade

SIZE = 256 * 10**9
"""The sources measured a volume of 256 GB."""

PLENTY = 10**12


def by_vpu(vpu: int):
    return next(level for level in LEVELS if level.vpu == vpu)


@pytest.mark.parametrize(
    ("vpu", "per_gb", "most", "kb", "mb"),
    [
        (0, 2, 3_000, 240, 480),
        (10, 60, 25_000, 480, 480),
        (20, 75, 50_000, 600, 680),
        (30, 90, 75_000, 720, 880),
        (120, 225, 300_000, 1_800, 2_680),
    ],
)
def test_the_rule_gives_the_published_rows(
    vpu: int, per_gb: int, most: int, kb: int, mb: int
) -> None:
    level = by_vpu(vpu)

    found = (level.iops_per_gb, level.max_iops, level.kb_per_gb, level.max_mb)
    assert found == (per_gb, most, kb, mb)


@pytest.mark.parametrize(("vpu", "iops"), [(0, 512), (50, 30_720), (120, 57_600)])
def test_what_256_gb_are_promised(vpu: int, iops: int) -> None:
    assert by_vpu(vpu).iops(SIZE) == iops


@pytest.mark.parametrize(
    ("iops", "vpu"), [(514, 0), (547, 0), (30_400, 50), (30_900, 50), (56_900, 120), (57_500, 120)]
)
def test_the_sources_measurements_grade_as_their_volumes(iops: int, vpu: int) -> None:
    found = grade(SIZE, iops, PLENTY)

    assert found is not None
    assert found.vpu == vpu


def test_by_its_word_a_promise_that_is_missed_by_a_little_is_missed() -> None:
    found = grade(SIZE, 30_400, PLENTY, tolerance=0)

    assert found is not None
    assert found.vpu == 40


def test_throughput_alone_holds_a_level_back() -> None:
    # VPU 10 promises 480 KB/s for each GB: 122.88 MB/s at 256 GB, VPU 20 153.6.
    assert grade(SIZE, 10**6, 150e6, tolerance=0) == by_vpu(10)
    assert grade(SIZE, 10**6, 153.6e6, tolerance=0) == by_vpu(20)


def test_the_most_of_a_level_is_enough_for_a_large_volume() -> None:
    """Four drives of 1.8 TB as in the source: 225 IOPS a GB would be 1.6 million."""
    assert grade(7_200 * 10**9, 300_000, 2_680e6, tolerance=0) == by_vpu(120)
    assert grade(7_200 * 10**9, 299_999, 2_680e6, tolerance=0) == by_vpu(110)


def test_below_every_level() -> None:
    assert grade(SIZE, 400, PLENTY) is None
    assert grade(SIZE, 10**6, 1e6) is None


@pytest.mark.parametrize("size", [0, -1])
def test_a_volume_has_a_size(size: int) -> None:
    with pytest.raises(ValueError, match="size above 0"):
        grade(size, 1, 1)


@given(st.integers(1, 10**15), st.floats(0, 1e9), st.floats(0, 1e12), st.floats(1, 10))
def test_more_never_grades_lower(size: int, iops: float, rate: float, more: float) -> None:
    low, high = grade(size, iops, rate), grade(size, iops * more, rate * more)

    assert low is None or (high is not None and high.vpu >= low.vpu)
    assert all(
        smaller.iops(size) <= larger.iops(size)
        and smaller.throughput(size) <= larger.throughput(size)
        for smaller, larger in itertools.pairwise(LEVELS)
    )
