"""Somewhere that real fio can work: direct I/O, and loop devices where the machine has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MIB = 2**20


def _direct(directory: Path) -> bool:
    probe = directory / "o-direct"
    probe.write_bytes(bytes(4096))
    try:
        os.close(os.open(probe, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """An empty directory on a file system with direct I/O."""
    assert shutil.which("fio"), "these tests need fio: see tools/packages.txt"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        place = tmp_path / "room"
        place.mkdir()
        found = next((d for d in (place, Path(other)) if _direct(d)), None)
        if found is None:
            pytest.skip("neither the temporary directory nor /var/tmp can do O_DIRECT")
        yield found


Loop = Callable[[int], str]


@pytest.fixture
def loop(room: Path) -> Iterator[Loop]:
    """Makes real block devices of so many MiB."""
    made: list[str] = []

    def make(size: int) -> str:
        file = room / f"loop-{len(made)}"
        with file.open("wb") as new:
            new.truncate(size * MIB)
        done = subprocess.run(
            ["losetup", "--find", "--show", "--partscan", str(file)], capture_output=True, text=True
        )
        if done.returncode != 0:
            pytest.skip(f"no loop devices here: {done.stderr.strip()}")
        made.append(done.stdout.strip())
        # A device that somebody once set read-only stays so through other files behind it.
        subprocess.run(["blockdev", "--setrw", made[-1]], check=True)
        return made[-1]

    yield make
    for device in made:
        subprocess.run(["losetup", "--detach", device], check=True)
