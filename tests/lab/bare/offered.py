"""The disk that a bare guest installs from: Debian packages, wheels, the project's own wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.lab.bare.image import BareImage
from tests.lab.errors import BuildError
from tests.lab.guest import packages, trees
from tests.lab.guest.cache import Cache, digest
from tests.lab.guest.payload import REPOSITORY

NOVA: Final = "34.0.0"
"""The release that a bare compute host has."""

_MIB: Final = 900
"""Size of the disk (a sparse file)."""
_SOURCES: Final = ("docs", "eraser", "nova_patch", "qualify", "quarantine")


def dependencies(cache: Cache, more: Sequence[str] = ()) -> Path:
    """Return a directory with the wheels of all that the project needs, and of ``more``.

    They come from where this machine's pip has its own from. Raises ``BuildError``.
    """
    stated = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted = [*stated, *packages.GUEST_MARKED, *more]

    def build(part: Path) -> None:
        argv = ["download", "--quiet", "--dest", str(part), "--only-binary=:all:"]
        if sys.version_info[:2] != packages.GUEST_PYTHON:
            version = ".".join(map(str, packages.GUEST_PYTHON))
            argv += ["--python-version", version, "--implementation", "cp"]
            for platform in ("manylinux2014_x86_64", "manylinux_2_28_x86_64"):
                argv += ["--platform", platform]
        _pip(*argv, *wanted)

    return cache.entry("wheels", digest([*wanted, str(sys.version_info[:2])]), build)


def nova(cache: Cache) -> Path:
    """Return a directory with the wheels of Nova as tested, and of all that it needs to run.

    They come from where this machine's pip has its own from. What has no wheel there (ovs) is
    built, so this Python has to be the guest's. Raises ``BuildError``.
    """
    if sys.version_info[:2] != packages.GUEST_PYTHON:
        version = ".".join(map(str, packages.GUEST_PYTHON))
        raise BuildError(f"expected Python {version}, as the guest has, found {sys.version}")
    versions = REPOSITORY / "tools" / f"requirements-nova-{NOVA}.txt"

    def build(part: Path) -> None:
        argv = ["wheel", "--quiet", "--wheel-dir", str(part), "--constraint", str(versions)]
        _pip(*argv, f"nova=={NOVA}")

    return cache.entry("nova-wheels", digest([NOVA, versions.read_bytes()]), build)


def project(directory: Path) -> Path:
    """Build the project's wheel from a copy of the checkout, as the guide says. Its path."""
    copy = directory / "checkout"
    for name in _SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, copy / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copyfile(REPOSITORY / name, copy / name)
    _pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(copy))
    shutil.rmtree(copy)
    (wheel,) = directory.glob("nvme_quarantine-*.whl")
    return wheel


def disk(image: BareImage, wheels: Sequence[Path], directory: Path) -> Path:
    """Return the disk: ``packages`` with Debian's, ``wheels`` with those of all directories."""
    tree = directory / "offered"
    shutil.copytree(image.offered, tree / "packages")
    (tree / "wheels").mkdir()
    for each in wheels:
        for wheel in each.glob("*.whl"):
            shutil.copyfile(wheel, tree / "wheels" / wheel.name)
    made = directory / "offered.ext4"
    trees.make_ext4(made, _MIB, tree, journal=False)
    shutil.rmtree(tree)
    return made


def _pip(*words: str) -> None:
    argv = [sys.executable, "-m", "pip", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"pip {words[0]} failed: {done.stderr.strip()[-600:]}")
