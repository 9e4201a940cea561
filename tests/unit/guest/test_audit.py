"""The audit of a backing file: what is stored, and whose it is."""

import os
from pathlib import Path

from tests.lab.rack import audit

BLOCK = audit.BLOCK
GIB = 1 << 30


def make(path: Path, pieces: dict[int, bytes], size: int = 1024 * GIB) -> Path:
    with path.open("wb") as handle:
        handle.truncate(size)
        for offset, data in pieces.items():
            os.pwrite(handle.fileno(), data, offset)
    return path


def test_a_block_anywhere_on_a_huge_sparse_drive_is_found(tmp_path: Path) -> None:
    text = b"secret".ljust(BLOCK, b".")
    backing = make(tmp_path / "media", {0: text, 1023 * GIB: text, 1024 * GIB - BLOCK: text})

    found = audit.matching_blocks(backing, lambda block: b"secret" in block)
    assert found == [0, 1023 * GIB, 1024 * GIB - BLOCK]


def test_a_fingerprint_follows_the_content_wherever_it_moves(tmp_path: Path) -> None:
    first = make(tmp_path / "one", {5 * GIB: os.urandom(BLOCK), 6 * GIB: os.urandom(4 * BLOCK)})
    known = audit.fingerprints(first)
    moved = next(block for offset, block in audit.stored_blocks(first) if offset == 6 * GIB)
    second = make(tmp_path / "two", {BLOCK: moved, 9 * GIB: os.urandom(BLOCK)})

    assert len(known) == 5
    assert audit.count_leaked(first, known) == 5
    assert audit.count_leaked(second, known) == 1


def test_blocks_of_one_repeated_byte_are_nobodys(tmp_path: Path) -> None:
    backing = make(tmp_path / "media", {0: b"\0" * BLOCK, BLOCK: b"\xff" * BLOCK, GIB: b"x"})

    # The last one is a single letter in an otherwise empty block: that does say something.
    assert len(audit.fingerprints(backing)) == 1


def test_an_empty_drive_has_no_blocks(tmp_path: Path) -> None:
    assert list(audit.stored_blocks(make(tmp_path / "media", {}))) == []
