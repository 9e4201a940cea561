"""The directories of a case, as a power loss leaves them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from eraser.state.case_files import CaseFiles


def test_every_new_directory_has_its_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is synced inside of one is lost with its name, the journal too."""
    kept = set[Path]()

    def fsync(descriptor: int) -> None:
        directory = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        kept.update(path for path in directory.iterdir() if path.is_dir())

    monkeypatch.setattr(os, "fsync", fsync)
    files = CaseFiles.of_slot(tmp_path / "srv" / "state", Slot("host", "0000:01:00.0"))
    files.make()
    made = {path for path in tmp_path.rglob("*") if path.is_dir()}
    assert files.directory in made
    assert kept == made
    kept.clear()
    files.make()
    assert files.state_dir in kept, "whoever made it may have died before its name was on the disk"
