"""What all unit tests share.

Properties are held for as long as they take: machines are shared, and seconds prove nothing.
Images are files on a file system that can be read past the page cache. Processes die here and
disks do not: nobody waits for one.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from eraser.clock import MACHINE, Clock

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

Image = Callable[[bytes], str]


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An fsync that fails where the real one does, for want of a file, and waits for no disk. What
    is synced, and when, the tests look at that put one of their own in its place."""

    def fsync(descriptor: int) -> None:
        os.fstat(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.fixture(autouse=True)
def just_booted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test's result hangs on how long its machine has been up."""
    began = MACHINE.boottime()

    def boottime(_clock: Clock) -> float:
        return 5.0 + time.clock_gettime(time.CLOCK_BOOTTIME) - began

    monkeypatch.setattr(Clock, "boottime", boottime)


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
def image(tmp_path: Path) -> Iterator[Image]:
    """Makes an image file with the bytes given and returns its path."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        found = next((d for d in (tmp_path, Path(other)) if _direct(d)), None)
        if found is None:
            pytest.skip("neither the temporary directory nor /var/tmp can do O_DIRECT")

        def make(content: bytes) -> str:
            path = found / f"image-{len(list(found.iterdir()))}"
            path.write_bytes(content)
            return str(path)

        yield make
