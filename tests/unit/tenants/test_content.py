"""Erased, random or somebody's: judged on real bytes."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from nvme_raid.content import BLOCK, judge
from nvme_raid.model import Content, Sampled

RANDOM = random.Random(7).randbytes
MIB = 1 << 20


@pytest.mark.parametrize("pattern", [b"\0", b"\xff", b"\xde\xad\xbe\xef", b"\xa5\x5a"])
def test_one_short_pattern_is_blank(pattern: bytes) -> None:
    data = pattern * (MIB // len(pattern))

    assert judge([(0, data), (8 * MIB, data[:BLOCK])]) == Sampled(Content.UNIFORM)


def test_random_blocks_among_blank_ones_are_noise_and_the_first_is_named() -> None:
    samples = [(0, bytes(MIB)), (4 * MIB, bytes(BLOCK) + RANDOM(BLOCK))]

    assert judge(samples) == Sampled(Content.NOISE, 4 * MIB + BLOCK)


def test_an_erase_that_stopped_inside_a_block_is_noise() -> None:
    assert judge([(0, RANDOM(512 * 3) + bytes(512 * 5))]).content is Content.NOISE


def test_random_blocks_are_never_taken_for_data() -> None:
    """An honest drive that is refused is a defect as well: 4,096 blocks, 7 drives' worth."""
    source = random.Random(1)
    for _ in range(16):
        assert judge([(0, source.randbytes(MIB))]).content is Content.NOISE


@pytest.mark.parametrize(
    "data",
    [
        b"customer 1;name;street\n" * 200,
        Path(__file__).read_bytes(),
        b"\0" * 2048 + b"SQLite format 3\0" + b"\0" * 2032,
        b"".join(number.to_bytes(8, "little") for number in range(512)),
    ],
    ids=["table", "source", "header", "counters"],
)
def test_data_without_a_signature_is_data(data: bytes) -> None:
    block = data[:BLOCK].ljust(BLOCK, b"\0")

    assert judge([(0, bytes(MIB)), (MIB, block)]) == Sampled(Content.DATA, MIB)


def test_a_packed_file_cannot_be_told_from_noise_and_that_is_known() -> None:
    """Why ``require_blank`` is there."""
    packed = gzip.compress(RANDOM(64 << 10))

    assert judge([(0, packed[BLOCK : 2 * BLOCK])]).content is Content.NOISE
