"""The NIST layout: coverage, no overlap, both ends, and no favoured place."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eraser.proof.windows import NONE, PARTS, SUBSECTIONS, everything, windows

BLOCKS = st.integers(SUBSECTIONS * PARTS, 1 << 40)
SEEDS = st.binary(min_size=1, max_size=40)
patient = settings(deadline=None, max_examples=50)


def runs(seed: bytes, blocks: int) -> list[tuple[int, int]]:
    return list(windows(seed, blocks).runs(0))


@patient
@given(SEEDS, BLOCKS)
def test_the_rule_of_4_7_3(seed: bytes, blocks: int) -> None:
    found = windows(seed, blocks)
    assert found.drawn == 2 * SUBSECTIONS
    assert 0 in found
    assert blocks - 1 in found
    assert blocks not in found
    every = list(found.runs(0))
    assert all(a < b for a, b in every)
    assert all(one[1] < two[0] for one, two in pairwise(every)), "runs that touch are one"
    assert found.blocks * 10 >= blocks, "a tenth of the media"
    # In each subsection two windows of a twentieth each; a run may reach into the next one.
    ends = [k * blocks // SUBSECTIONS for k in range(SUBSECTIONS + 1)]
    assert max(b - a for a, b in pairwise(ends)) - min(b - a for a, b in pairwise(ends)) <= 1
    at = 0
    for low, high in pairwise(ends):
        inside = 0
        while at < len(every) and every[at][0] < high:
            inside += max(0, min(every[at][1], high) - max(every[at][0], low))
            if every[at][1] > high:
                break
            at += 1
        assert inside >= 2 * -(-(high - low) // PARTS), (low, high)


@patient
@given(SEEDS, BLOCKS, st.floats(0, 1))
def test_going_on_in_the_middle(seed: bytes, blocks: int, part: float) -> None:
    start = int(part * blocks)
    every = runs(seed, blocks)
    rest = [(max(a, start), b) for a, b in every if b > start]
    assert list(windows(seed, blocks).runs(start)) == rest


@patient
@given(SEEDS, st.integers(1, SUBSECTIONS * PARTS - 1))
def test_what_is_too_small_for_windows_is_read_whole(seed: bytes, blocks: int) -> None:
    assert runs(seed, blocks) == [(0, blocks)]
    assert windows(seed, blocks).blocks == blocks


def test_no_run_at_all() -> None:
    assert (list(NONE.runs(0)), NONE.blocks, 0 in NONE) == ([], 0, False)
    assert list(everything(9).runs(9)) == []


def test_new_places_each_run() -> None:
    assert runs(b"a", 1 << 30) != runs(b"b", 1 << 30)


def test_the_algorithm_is_the_documented_one() -> None:
    """Drawn again from the words of docs/decisions/sampling.md, with sets only."""
    seed, blocks = b"\x07" * 32, 1_234_567
    prefix = b"nvme-quarantine places 1\0nvme-quarantine windows 1\0"
    stream = b"".join(
        hashlib.shake_256(prefix + seed + k.to_bytes(8, "big")).digest(32768) for k in range(2)
    )
    at = 0

    def below(size: int) -> int:
        nonlocal at
        while True:
            word = int.from_bytes(stream[at : at + 8], "big")
            at += 8
            if word < 2**64 // size * size:
                return word % size

    expected = {0, blocks - 1}
    for k in range(1000):
        start, stop = k * blocks // 1000, (k + 1) * blocks // 1000
        length = -(-(stop - start) // 20)
        points = list(range(stop - start - 2 * length + 2))
        one = points.pop(below(len(points)))
        two = points[below(len(points))]
        low, high = sorted((one, two))
        expected.update(range(start + low, start + low + length))
        expected.update(range(start + high - 1 + length, start + high - 1 + 2 * length))
    assert {n for a, b in runs(seed, blocks) for n in range(a, b)} == expected


@pytest.mark.parametrize("blocks", [SUBSECTIONS * PARTS, SUBSECTIONS * 21])
def test_every_pair_of_places_is_as_likely(blocks: int) -> None:
    """Subsections of 20 blocks: two windows of one block each, 190 pairs; of 21: of two, 171."""
    counts: dict[tuple[int, int], int] = {}
    total = 0
    for trial in range(40):
        inside = {n for a, b in runs(b"%d" % trial, blocks) for n in range(a, b)}
        size = blocks // SUBSECTIONS
        for k in range(1, SUBSECTIONS - 1):
            here = sorted(n - k * size for n in range(k * size, (k + 1) * size) if n in inside)
            key = (here[0], here[-1])
            counts[key] = counts.get(key, 0) + 1
            total += 1
    pairs = 190 if blocks == SUBSECTIONS * PARTS else 171
    assert len(counts) == pairs
    mean = total / pairs
    assert all(abs(count - mean) < 6 * mean**0.5 for count in counts.values())
