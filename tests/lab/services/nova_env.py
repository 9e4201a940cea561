"""A Python environment with the real Nova, our patch for nova-compute, and the lab's driver.

``tools/nova-env`` makes the environment; what is changed here is a copy of it (hard links, so it
costs neither time nor space), because others test Nova as it comes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.lab.errors import LabError
from tests.lab.guest.cache import Cache, digest, digest_files
from tests.lab.guest.payload import REPOSITORY

RELEASE: Final = "34.0.0"
_EXTRAS: Final = ("psycopg2-binary>=2.9",)
"""The database's client, which Nova leaves to the operator. SQLite refuses writers that meet."""
_DRIVER: Final = Path("tests/lab/nova/lab_nvme.py")
_PATCH: Final = Path("nova_patch")


def patched_python(release: str = RELEASE, cache: Cache | None = None) -> Path:
    """The ``python`` of the copy. Raises ``LabError``."""
    original = Path(_run(["tools/nova-env", release])).parent.parent
    sources = [_DRIVER, *sorted(p.relative_to(REPOSITORY) for p in _sources())]
    key = digest((original.name, digest_files(REPOSITORY, sources)))

    def build(part: Path) -> None:
        shutil.copytree(original, part, copy_function=_link, symlinks=True, dirs_exist_ok=True)
        site = next(part.glob("lib/python3*/site-packages"))
        shutil.copy(REPOSITORY / _DRIVER, site / "nova" / "virt" / _DRIVER.name)
        python = str(part / "bin" / "python")
        _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *_EXTRAS])
        install = ["install", "--python", python]
        _run([sys.executable, "-m", "nova_patch", *install])

    return (cache or Cache()).entry(f"nova-daemons-{release}", key, build) / "bin" / "python"


def _sources() -> list[Path]:
    return [p for p in (REPOSITORY / _PATCH).rglob("*") if p.is_file() and p.suffix != ".pyc"]


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


def _run(argv: list[str]) -> str:
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise LabError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()
