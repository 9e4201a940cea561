"""The former releases that hosts are upgraded from are what the history says they were."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.lab import releases

TOP = Path(__file__).resolve().parents[3]


def members(archive: bytes) -> dict[str, bytes]:
    """Its files by name."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            file = opened.extractfile(member)
            if file is not None:
                found[member.name] = file.read()
    return found


@pytest.mark.parametrize("name", releases.NAMES)
def test_each_is_whole_and_what_its_commit_was(name: str) -> None:
    kept = members(releases.archive(name))
    assert b"def main(" in kept["eraser/cli.py"]
    assert b"/LIBRARY" in releases.hook(name).encode()
    commit = releases.COMMITS[name]
    made = subprocess.run(
        ["git", "archive", commit, "eraser"], cwd=TOP, capture_output=True, check=False
    )
    if made.returncode == 0:
        assert kept == members(made.stdout)


@pytest.mark.parametrize("name", releases.NAMES)
def test_its_units_call_what_is_kept_here(name: str) -> None:
    kept = [f"ExecStart={start}" for start in releases.starts(name)]
    assert len(kept) >= 3
    searched = subprocess.run(
        ["git", "grep", "-h", "ExecStart=", releases.COMMITS[name], "--", "docs/samples"],
        cwd=TOP, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if searched.returncode == 0:
        assert kept == searched.stdout.splitlines()
