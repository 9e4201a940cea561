"""What an erase left, by its reading, and which blocks may be that."""

from __future__ import annotations

import os

import pytest

from eraser.proof.aftererase import AfterErase
from eraser.proof.classify import classify
from eraser.proof.tally import Blocks, Tally

ZEROS, ONES, PATTERN = bytes(4096), b"\xff" * 4096, b"0123456789abcdef" * 256
NOISE, TEXT = os.urandom(4096), b"a customer's name\n" * 227 + bytes(10)
PIECE = PATTERN[:16].hex()


def has(left: AfterErase, block: bytes) -> bool:
    return left.has(block, classify(block))


@pytest.mark.parametrize(
    ("reading", "known"),
    [
        (Tally(looks=Blocks(zeros=9)), [ZEROS]),
        (Tally(looks=Blocks(ones=9)), [ONES]),
        (Tally(looks=Blocks(pattern=9), patterns=(PIECE,)), [PATTERN]),
        # By die, and what was never written beside what was.
        (Tally(looks=Blocks(zeros=5, ones=4)), [ZEROS, ONES]),
        (Tally(looks=Blocks(zeros=5, pattern=4), patterns=(PIECE,)), [ZEROS, PATTERN]),
    ],
    ids=["zeros", "ones", "pattern", "by die", "two values"],
)
def test_where_all_that_was_read_is_uniform_nothing_else_is_what_the_erase_left(
    reading: Tally, known: list[bytes]
) -> None:
    every = [ZEROS, ONES, PATTERN, b"\x01" * 4096, NOISE, TEXT]
    assert [block for block in every if has(AfterErase.of(reading), block)] == known


@pytest.mark.parametrize(
    "reading",
    [
        Tally(looks=Blocks(random=9)),
        Tally(looks=Blocks(zeros=8, random=1)),
        Tally(looks=Blocks(zeros=8, structured=1)),
        Tally(),
        Tally(looks=Blocks(pattern=9), patterns=tuple(f"{n:032x}" for n in range(1, 5))),
    ],
    ids=["noise", "some noise", "data", "nothing read", "more patterns than are remembered"],
)
def test_otherwise_no_block_can_be_told_from_what_it_left(reading: Tally) -> None:
    assert all(has(AfterErase.of(reading), block) for block in (ZEROS, ONES, PATTERN, NOISE, TEXT))
