"""Green results of searches that take minutes, kept by the digest of all that they depend on.

What is kept is that a test was green, and nothing else: a red one is searched again. The digest is
of the modules that the tests import (:mod:`tests.lab.runs.closure`), of what is installed, and of
the interpreter.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.lab.guest.cache import Cache, digest, digest_files
from tests.lab.runs.closure import closure

NO_CACHE: Final = "NVME_QUARANTINE_NO_CACHE"
TURNED: Final = "NVME_QUARANTINE_TURNED"
"""Set where a guard is turned around in place: the files do not say what is run."""

_KIND: Final = "searched"
_CLOCK_SECONDS: Final = 2.0
"""The kernel's time of its own start is in whole seconds."""

SETTINGS: Final = (Path("tools/requirements-test.txt"), Path("pyproject.toml"))


class Searched:
    """Which tests were green with the very files of now."""

    def __init__(self, top: Path, tests: Path, cache: Cache, begun: float) -> None:
        """``tests`` is the directory of the tests; ``begun`` is when this process began, Unix time.

        What was changed since then may be loaded as it was before: nothing is known of that.
        """
        self._top = top
        self.files = closure(top, tests.glob("*.py")) | frozenset(SETTINGS)
        changed = max((top / each).stat().st_mtime for each in self.files)
        self.trusted = changed < begun - _CLOCK_SECONDS
        self._contents = digest_files(top, self.files)
        installed = sorted(
            f"{each.name} {each.version}" for each in importlib.metadata.distributions()
        )
        self.digest = digest([self._contents, sys.version, platform.machine(), *installed])
        self._cache = cache

    def _note(self, test: str) -> Path:
        return self._cache.entry(_KIND, self.digest, lambda _: None) / digest([test])

    def knows(self, test: str) -> bool:
        """Whether the test was green before."""
        return self.trusted and self._note(test).exists()

    def keep(self, test: str) -> None:
        """Remembers that the test was green just now, unless a file is not what it was."""
        if self.trusted and digest_files(self._top, self.files) == self._contents:
            self._note(test).touch()


def process_begun() -> float:
    """When this process began, Unix time (proc(5): ``starttime`` of stat, ``btime``)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    booted = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text().splitlines()
        if line.startswith("btime ")
    )
    return booted + int(fields[19]) / os.sysconf("SC_CLK_TCK")


def of_directory(
    top: Path, tests: Path, begun: Callable[[], float] = process_begun
) -> Searched | None:
    """What is known of a directory's tests; None where everything is to be run."""
    if os.environ.get(NO_CACHE) or os.environ.get(TURNED):
        return None
    return Searched(top, tests, Cache(), min(begun(), time.time()))
