"""What blocks look like: noise that is noise, and data that is not."""

from __future__ import annotations

import bz2
import json
import os
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.proof.classify import BlockClass, classify, piece_class, repeated

NOISE = random.Random(1).randbytes


def _xfs_superblock() -> bytes:
    """The fields that every XFS file system starts with (magic, block size, counts, uuid)."""
    head = struct.pack(">4sIQQQ16s", b"XFSB", 4096, 488378646, 0, 0, NOISE(16))
    return head.ljust(512, b"\0") + b"XAGF".ljust(512, b"\0") + bytes(3072)


def _luks_header() -> bytes:
    return (b"LUKS\xba\xbe\0\x02" + bytes(8) + b"sha256".ljust(32, b"\0") + NOISE(64)).ljust(
        4096, b"\0"
    )


STRUCTURED = {
    "xfs superblock": _xfs_superblock(),
    "luks header": _luks_header(),
    "text": json.dumps([{"name": f"user-{n}", "id": n} for n in range(400)]).encode()[:4096],
    "a phrase over and over": (b"TENANT-SECRET-0001 " * 300)[:4096],
    "program": Path("/bin/sh").resolve().read_bytes()[8192:12288],
    "pointers": b"".join(struct.pack("<Q", 0x7F0000000000 + 8 * n) for n in range(512)),
    "floats": b"".join(struct.pack("<d", 1 + n / 512) for n in range(512)),
    "counters": b"".join(struct.pack(">I", n) for n in range(1024)),
    "one sector of text among zeros": bytes(1024) + b"password=hunter2 ".ljust(3072, b"\0"),
    "one byte among zeros": bytes(4000) + b"\x01" + bytes(95),
    "one byte among ones": b"\xff" * 100 + b"\xfe" + b"\xff" * 3995,
    "half text, half noise": (b"the quick brown fox " * 103)[:2048] + NOISE(2048),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_somebodys_data(name: str) -> None:
    assert classify(STRUCTURED[name]) is BlockClass.STRUCTURED


@pytest.mark.parametrize("size", [512, 1536, 4096])
def test_uniform(size: int) -> None:
    assert classify(bytes(size)) is BlockClass.ZEROS
    assert classify(b"\xff" * size) is BlockClass.ONES
    assert classify(b"\xa5\x5a" * (size // 2)) is BlockClass.PATTERN
    assert classify(b"\xde\xad\xbe\xef" * (size // 4)) is BlockClass.PATTERN
    assert classify(NOISE(16) * (size // 16)) is BlockClass.PATTERN


def test_noise_is_noise_every_time() -> None:
    """A naive entropy threshold of 7.99 fails every honest 4 KiB block (mean 7.955)."""
    for block in (os.urandom(4096) for _ in range(5000)):
        assert classify(block) is BlockClass.RANDOM


def test_what_is_encrypted_or_compressed_looks_like_noise_too() -> None:
    text = json.dumps([random.Random(n).random() for n in range(20000)]).encode()
    assert classify(bz2.compress(text)[4096:8192]) is BlockClass.RANDOM


def test_sectors_of_noise_among_blank_ones() -> None:
    """512-byte sectors written and crypto-erased beside such as never were: an honest mixture."""
    assert classify(bytes(512) + NOISE(512) + bytes(3072)) is BlockClass.RANDOM
    assert classify(b"\xff" * 3584 + NOISE(512)) is BlockClass.RANDOM


@given(st.binary(min_size=1, max_size=4096))
def test_any_bytes_have_a_class(data: bytes) -> None:
    assert classify(data) is classify(memoryview(data))


@given(st.binary(min_size=16, max_size=16), st.integers(2, 300), st.data())
def test_repeated_agrees_with_a_plain_compare(
    piece: bytes, times: int, data: st.DataObject
) -> None:
    window = bytearray(piece * times)
    assert repeated(memoryview(window)) == piece
    at = data.draw(st.integers(0, len(window) - 1))
    window[at] ^= 0x10
    assert repeated(memoryview(window)) is None


def test_the_class_of_a_piece() -> None:
    assert piece_class(bytes(16)) is BlockClass.ZEROS
    assert piece_class(b"\xff" * 16) is BlockClass.ONES
    assert piece_class(b"\xff" * 15 + b"\0") is BlockClass.PATTERN


def test_uniform_is_what_holds_nothing() -> None:
    assert {c for c in BlockClass if not c.uniform} == {BlockClass.RANDOM, BlockClass.STRUCTURED}
