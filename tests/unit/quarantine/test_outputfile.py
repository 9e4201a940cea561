"""Files that we write are there whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from quarantine import outputfile


def test_what_was_there_is_replaced_and_nothing_is_left_beside(tmp_path: Path) -> None:
    file = tmp_path / "one"
    for data in (b"first", b"second"):
        outputfile.replace(file, data, mode=outputfile.PRIVATE)
    assert file.read_bytes() == b"second"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_what_is_created_replaces_nothing(tmp_path: Path) -> None:
    """Nor what came up between a look and the write: here, while somebody is told."""
    file = tmp_path / "one"

    def quicker() -> None:
        file.write_bytes(b"theirs")

    with pytest.raises(FileExistsError):
        outputfile.create(file, b"mine", before=quicker)
    assert file.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("write", [outputfile.replace, outputfile.create])
def test_it_is_on_the_disk_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, bytes], None]
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "one", b"data")
    data, directory = synced
    assert data.startswith(str(tmp_path / ".one."))
    assert directory == str(tmp_path)


def test_who_can_write_it_again_does_not_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _descriptor: pytest.fail("waited"))
    outputfile.replace(tmp_path / "one", b"data", synced=False)
    assert (tmp_path / "one").read_bytes() == b"data"


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "one"
    file.write_bytes(b"before")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        outputfile.replace(file, b"after")
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]
