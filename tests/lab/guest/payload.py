"""The disks of a guest beside its root: third-party Python, our own packages, persistent state."""

import compileall
import contextlib
import io
import py_compile
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.lab.errors import BuildError
from tests.lab.guest import packages, trees
from tests.lab.guest.cache import Cache, digest, digest_files

# A restored guest already knows the sizes of its disks from when its state was saved, so every
# image put in their place has exactly the same size (sparse).
SITE_MIB: Final = 256
SOURCES_MIB: Final = 64
STATE_MIB: Final = 256
_ATTEMPTS: Final = 3
REPOSITORY: Final = Path(__file__).resolve().parents[3]


def guest_requirements(pyproject: str, names: Iterable[str]) -> list[str]:
    """Return the requirements of some distributions as pyproject.toml states them.

    Raises ``BuildError`` for a name that is no dependency of the project.
    """
    stated: dict[str, str] = {}
    for requirement in tomllib.loads(pyproject)["project"]["dependencies"]:
        found = re.match(r"[A-Za-z0-9._-]+", requirement)
        if found is not None:
            stated[found.group().lower()] = requirement
    missing = sorted(set(names) - set(stated))
    if missing:
        raise BuildError(
            f"expected {', '.join(missing)} among the dependencies in pyproject.toml, found none; "
            "add it there or remove it from tests/lab/guest/packages.py"
        )
    return sorted(stated[name] for name in names)


def site_image(cache: Cache, more: Sequence[str] = ()) -> Path:
    """Return the image of the installed third-party distributions (mounted at /opt/site).

    ``more`` are requirements of a benchmark's own, on top of the project's.
    """
    pyproject = (REPOSITORY / "pyproject.toml").read_text()
    requirements = guest_requirements(pyproject, packages.GUEST_DISTRIBUTIONS)
    requirements += [*packages.GUEST_MARKED, *more]

    def build(part: Path) -> None:
        tree = part / "tree"
        version = ".".join(map(str, packages.GUEST_PYTHON))
        argv = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tree)]
        argv += ["--no-compile", "--no-warn-script-location", "--root-user-action=ignore"]
        if sys.version_info[:2] != packages.GUEST_PYTHON:
            argv += ["--only-binary=:all:", "--python-version", version, "--implementation", "cp"]
            argv += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux_2_28_x86_64"]
        done = subprocess.run([*argv, *requirements], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"pip install for the guests failed: {done.stderr.strip()[-400:]}")
        precompile(tree, "/opt/site")
        trees.make_ext4(part / "site.ext4", SITE_MIB, tree, journal=False)
        shutil.rmtree(tree)

    key = digest([*requirements, str(SITE_MIB), str(sys.version_info[:2])])
    return cache.entry("site", key, build) / "site.ext4"


def sources_image(cache: Cache) -> Path:
    """Return the image of the project's own packages as they are now (mounted at /opt/src)."""
    for _attempt in range(_ATTEMPTS):
        # An editor may replace a file between our looking and our reading.
        with contextlib.suppress(FileNotFoundError):
            return _sources_image(cache)
    return _sources_image(cache)


def _sources_image(cache: Cache) -> Path:
    files = [
        path.relative_to(REPOSITORY)
        for name in packages.GUEST_SOURCES
        for path in (REPOSITORY / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]

    def build(part: Path) -> None:
        tree = part / "tree"
        tree.mkdir()
        for name in files:
            (tree / name.parent).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, tree / name)
        precompile(tree, "/opt/src")
        trees.make_ext4(part / "src.ext4", SOURCES_MIB, tree, journal=False)
        shutil.rmtree(tree)

    key = digest([digest_files(REPOSITORY, files), str(SOURCES_MIB), str(sys.version_info[:2])])
    return cache.entry("src", key, build) / "src.ext4"


def state_template(cache: Cache, base: Path) -> Path:
    """Return the image that a new guest's persistent disk is a copy of.

    It has a journal, as a real host's disk has: it is what a power cut is survived with.
    """

    def build(part: Path) -> None:
        trees.make_ext4(part / "state.ext4", STATE_MIB, base / "skeleton", journal=True)

    key = digest([base.name, str(STATE_MIB)])
    return cache.entry("state", key, build) / "state.ext4"


def precompile(tree: Path, mounted: str) -> None:
    """Write .pyc files that the guest uses without a look at the sources.

    Compiling is some ten times slower under emulation. A file that does not compile is left alone
    (distributions carry templates that are no Python). On another minor version of Python nothing
    is written, since the guest could not use it.
    """
    if sys.version_info[:2] != packages.GUEST_PYTHON:
        return
    with contextlib.redirect_stdout(io.StringIO()):
        compileall.compile_dir(
            tree,
            quiet=2,
            workers=0,
            stripdir=str(tree),
            prependdir=mounted,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
