"""The directories of a case, as a power loss leaves them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from eraser.agent.hoststate import keygen
from eraser.defences import setup
from eraser.host import slotwatch
from eraser.ownership import pending
from eraser.protocol.identity import Slot
from eraser.state.case_files import CaseFiles
from tests.unit.ownership.parts import TICKET

SLOT = Slot("host", "0000:01:00.0")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Directories whose names are on the disk."""
    found = set[Path]()

    def fsync(descriptor: int) -> None:
        synced = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if synced.is_dir():
            found.update(path for path in synced.iterdir() if path.is_dir())

    monkeypatch.setattr(os, "fsync", fsync)
    return found


KEEPERS: list[Callable[[Path], object]] = [
    lambda state: CaseFiles.of_slot(state, SLOT).make(),
    lambda state: pending.put(state, TICKET),
    lambda state: setup.save(state, setup.Setup(slots=())),
    lambda state: slotwatch.save(state, slotwatch.Memory()),
    lambda state: keygen(state, "host"),
]


@pytest.mark.parametrize("keep", KEEPERS)
def test_every_new_directory_has_its_name_on_the_disk(
    tmp_path: Path, kept: set[Path], keep: Callable[[Path], object]
) -> None:
    """What is synced inside of one is lost with its name, the journal too."""
    keep(tmp_path / "srv" / "state")
    made = {path for path in tmp_path.rglob("*") if path.is_dir()}
    assert tmp_path / "srv" / "state" in made
    assert kept == made


def test_the_name_of_a_directory_that_was_there_is_synced_again(
    tmp_path: Path, kept: set[Path]
) -> None:
    files = CaseFiles.of_slot(tmp_path / "srv" / "state", SLOT)
    files.make()
    kept.clear()
    files.make()
    assert files.state_dir in kept, "whoever made it may have died before its name was on the disk"


@pytest.mark.parametrize(
    ("remove", "stays"), [(CaseFiles.sweep, {"request.json"}), (CaseFiles.clear, set[str]())]
)
def test_no_journal_stands_alone_after_a_power_loss(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    remove: Callable[[CaseFiles], None],
    stays: set[str],
) -> None:
    """It would be resumed, without the key and the results that it speaks of."""
    files = CaseFiles.of_slot(tmp_path / "state", SLOT)
    files.make()
    for path in (files.journal, files.probe_key, files.format_result(0, 1)):
        path.touch()
    (files.directory / "request.json").touch()
    every = {path.name for path in files.directory.iterdir()}
    disk = [every]
    """The case's names that are on the disk, after each sync."""

    def fsync(_descriptor: int) -> None:
        there = files.directory.is_dir()
        disk.append({path.name for path in files.directory.iterdir()} if there else set())

    monkeypatch.setattr(os, "fsync", fsync)
    remove(files)
    assert disk[1] == every - {files.journal.name}, "it goes first, and alone"
    assert disk[-1] == stays
