"""The sampler: how many, which, and with what power."""

from __future__ import annotations

import hashlib
import math
import random
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.proof import sampling

BLOCKS = st.integers(1, 1 << 40)
COUNTS = st.integers(1, 3000)
SEEDS = st.binary(min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("confidence", "residual", "n"),
    [
        (0.95, 0.01, 299),
        (0.99, 0.01, 459),
        (0.999, 0.01, 688),
        (0.999, 0.001, 6905),
        (0.999, 0.0001, 69075),
        (0.99999, 0.0001, 115124),
        (0.999, 0.00001, 690773),
    ],
)
def test_needed_is_the_table_of_the_standard_formula(
    confidence: float, residual: float, n: int
) -> None:
    assert sampling.needed(confidence, residual) == n


@given(st.floats(0.5, 0.99999), st.floats(1e-7, 0.1))
def test_needed_is_the_smallest_number_that_reaches_the_bound(c: float, f: float) -> None:
    n = sampling.needed(c, f)
    assert sampling.bound(n, c) <= f * (1 + 1e-9)
    assert n == 1 or sampling.bound(n - 1, c) > f * (1 - 1e-9)


@pytest.mark.parametrize(("c", "f"), [(0, 0.1), (1, 0.1), (0.9, 0), (0.9, 1), (math.nan, 0.1)])
def test_needed_refuses_what_has_no_answer(c: float, f: float) -> None:
    with pytest.raises(ValueError, match="expected 0 < confidence"):
        sampling.needed(c, f)


def test_no_samples_exclude_nothing() -> None:
    assert sampling.bound(0, 0.999) == 1.0


@given(SEEDS, BLOCKS, COUNTS)
def test_places(seed: bytes, blocks: int, n: int) -> None:
    found = sampling.places(seed, blocks, n)
    assert found == sampling.places(seed, blocks, n)
    assert found[0] == 0
    assert found[-1] == blocks - 1
    assert all(a < b for a, b in pairwise(found))
    size = sampling.stratum(blocks, n)
    if n >= blocks:
        assert list(found) == list(range(blocks))
    # One in every stratum; the two ends may come on top.
    per = [place // size for place in found]
    assert set(per) == set(range(-(-blocks // size)))
    drawn = sampling.drawn(blocks, n)
    assert min(n, blocks) <= drawn <= len(found) <= drawn + 2
    # No block has less chance than n / blocks, whatever the remainder of the division.
    assert Fraction(1, size) >= Fraction(min(n, blocks), blocks)


@given(SEEDS, BLOCKS, COUNTS)
def test_another_seed_reads_other_places(seed: bytes, blocks: int, n: int) -> None:
    if blocks > 100 * n and n > 20:
        assert sampling.places(seed, blocks, n) != sampling.places(seed + b"x", blocks, n)


def test_the_algorithm_is_the_documented_one() -> None:
    """Drawn again from the words of docs/decisions/sampling.md, with big integers only."""
    seed, blocks, n = b"\x07" * 32, 1_000_003, 9000
    size = blocks // n
    expected = {0, blocks - 1}
    stream = b"".join(
        hashlib.shake_256(b"nvme-quarantine places 1\0" + seed + k.to_bytes(8, "big")).digest(32768)
        for k in range(4)
    )
    at = 0
    for start in range(0, blocks, size):
        width = min(size, blocks - start)
        if width == 1:
            expected.add(start)
            continue
        while True:
            word = int.from_bytes(stream[at : at + 8], "big")
            at += 8
            if word < 2**64 // width * width:
                break
        expected.add(start + word % width)
    assert list(sampling.places(seed, blocks, n)) == sorted(expected)


def test_no_number_is_preferred() -> None:
    """Three eighths of the words lie in the incomplete last round of this size: a plain remainder
    would give the first part of the range 8/5 of its share."""
    size = 5 * 2**61
    stream = sampling.words(b"bias")
    low = sum(sampling.below(stream, size) < size * 3 // 5 for _ in range(20000))
    assert abs(low - 12000) < 6 * math.sqrt(20000 * 0.6 * 0.4)


@given(st.lists(st.integers(1, 1 << 36), min_size=1, max_size=9), COUNTS)
def test_shares_of_namespaces_keep_every_blocks_chance(sizes: list[int], n: int) -> None:
    total = sum(sizes)
    shares = [sampling.share(n, blocks, total) for blocks in sizes]
    assert sum(shares) >= n
    for blocks, part in zip(sizes, shares, strict=True):
        assert part >= 1
        assert Fraction(part, blocks) >= Fraction(n, total)


@pytest.mark.parametrize("scatter", ["random", "one piece", "every stratum's end"])
def test_a_planted_residue_is_found_as_often_as_promised(scatter: str) -> None:
    """600 drives with exactly the fraction f left: missed no more often than 1 - C allows."""
    blocks, confidence, residual = 20_000, 0.9, 0.01
    n = sampling.needed(confidence, residual)
    size = sampling.stratum(blocks, n)
    count = int(blocks * residual)
    missed = 0
    for trial in range(600):
        if scatter == "one piece":
            start = int.from_bytes(hashlib.sha256(b"%d" % trial).digest()[:4], "big")
            left = {(start + k) % blocks for k in range(count)}
        elif scatter == "random":
            left = set(random.Random(trial).sample(range(blocks), count))
        else:
            left = {(k + 1) * size - 1 for k in range(min(count, blocks // size))}
        missed += left.isdisjoint(sampling.places(b"seed %d" % trial, blocks, n))
    # Binomial(600, 0.1): mean 60, sigma 7.3.
    assert missed <= 60 + 5 * 7.4
    if scatter == "random":
        assert missed >= 60 - 5 * 7.4
