"""Installing into, and removing from, the Python environment that nova-compute runs in.

Two things are put into its ``site-packages``: a copy of this package (``tree.py``), and a ``.pth``
file that loads ``boot.py`` of the copy in every Python of that environment. The copy comes first
and goes first: whatever is interrupted, a ``.pth`` file without its copy makes nova-compute refuse
to start and lets everything else run. Neither belongs to Nova's package: an upgrade of Nova leaves
both, and then the table of releases decides.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import compat, tree
from .boot import ENTRY, MANAGER
from .errors import PatchError

PTH = "nvme-quarantine-nova-patch.pth"
PACKAGE = Path(__file__).parent

ABSENT, INSTALLED, BROKEN, REFUSES = "absent", "installed", "broken", "refuses"

_LOOK = f"""
import json, sys, sysconfig, importlib.util, importlib.metadata
spec = importlib.util.find_spec("nova")
try:
    nova = importlib.metadata.version("nova") if spec and spec.origin else None
except importlib.metadata.PackageNotFoundError:
    # What pip leaves of a removed Nova are directories with files of others in them.
    nova = None
print(json.dumps({{
    "site": sysconfig.get_path("purelib"),
    "nova": nova,
    "top": spec.origin if nova else None,
    "waiting": [n for n in (type(f).__module__ for f in sys.meta_path) if n.startswith(
        {tree.PREFIX!r})],
    "python": list(sys.version_info[:3]),
}}))
"""


@dataclass(frozen=True)
class Environment:
    """A Python environment with, perhaps, Nova."""

    python: str
    site: Path
    nova: str | None
    top: Path | None
    waiting: tuple[str, ...]
    """The copies whose ``boot`` a new Python of that environment has loaded."""

    @property
    def pth(self) -> Path:
        """The file that loads the patch."""
        return self.site / PTH

    @property
    def copies(self) -> list[Path]:
        """All copies of the package, also what an interrupted command left."""
        return sorted(self.site.glob(f"{tree.PREFIX}*"))


@dataclass(frozen=True)
class Status:
    """What nova-compute of an environment would do at its next start."""

    state: str
    patch: str | None
    nova: str | None
    detail: str

    def as_dict(self) -> dict[str, Any]:
        """For ``-f json``."""
        return {
            "state": self.state,
            "patch": self.patch,
            "nova": self.nova,
            "detail": self.detail,
        }


def look(python: str) -> Environment:
    """Asks that Python where it keeps packages and which Nova it has. Nova is not imported.

    Raises ``PatchError``.
    """
    # -I: neither the caller's directory nor its PYTHONPATH is nova-compute's.
    argv = [python, "-I", "-c", _LOOK]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        found = json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines() or ["no message"]
        raise PatchError(f"expected a Python at {python}, found: {lines[-1]}") from error
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise PatchError(f"expected a Python at {python}, found: {error}") from error
    if found["python"] < [3, 9]:
        raise PatchError(f"expected Python 3.9 or later at {python}, found {found['python']}")
    origin = found["top"]
    return Environment(
        python=python,
        site=Path(found["site"]),
        nova=found["nova"],
        top=Path(origin).parent.parent if origin else None,
        waiting=tuple(found["waiting"]),
    )


def check(environment: Environment) -> compat.Release:
    """The table's row for the Nova there. Raises ``PatchError`` for one that is not supported."""
    if environment.nova is None or environment.top is None:
        raise PatchError(
            f"expected nova in the environment of {environment.python}, found none; "
            "give the Python that runs nova-compute"
        )
    row = compat.release(environment.nova)
    compat.check_sources(row, environment.top)
    return row


def install(python: str) -> Status:
    """Installs this version, or replaces another; does nothing where it is installed already.

    Raises ``PatchError`` when Nova there is not supported, and when a new Python of that
    environment does not load the patch afterwards.
    """
    environment = look(python)
    check(environment)
    name = tree.name(PACKAGE)
    copy = environment.site / name
    try:
        if not _is_intact(copy):
            _copy(environment, copy)
        # Older copies go last: until this file names the new one, it names one of them.
        _write(environment.pth, pth_line(name))
        for other in environment.copies:
            if other != copy:
                _delete(other)
    except OSError as error:
        raise PatchError(
            f"expected to write in {environment.site}, found: {error.strerror}; run as its owner"
        ) from error
    result = status(python)
    if result.state != INSTALLED:
        raise PatchError(f"expected the patch to be loaded by {python}, found: {result.detail}")
    return result


def remove(python: str) -> Status:
    """Removes every trace; does nothing where there is none. Raises ``PatchError``."""
    environment = look(python)
    try:
        for copy in environment.copies:
            _delete(copy)
        environment.pth.unlink(missing_ok=True)
        # What a _write left that was cut off before its rename.
        for part in environment.site.glob(f".{PTH}.*"):
            part.unlink(missing_ok=True)
    except OSError as error:
        raise PatchError(
            f"expected to delete in {environment.site}, found: {error.strerror}; run as its owner"
        ) from error
    return status(python)


def status(python: str) -> Status:
    """What is there, and what nova-compute will make of it. Raises ``PatchError``."""
    environment = look(python)
    if not environment.pth.exists():
        left = environment.copies
        detail = f"left over: {left[0]}; remove deletes it" if left else "not installed"
        return Status(ABSENT, None, environment.nova, detail)
    # A damaged copy is loaded too, and refuses when nova-compute starts (start.admit).
    intact = [copy for copy in environment.copies if _is_intact(copy)]
    loaded = [copy for copy in intact if f"{copy.name}.boot" in environment.waiting]
    if not loaded:
        return Status(
            BROKEN,
            None,
            environment.nova,
            f"{environment.pth} is there but what it loads is not, so nova-compute refuses to "
            "start; install again or remove",
        )
    # What counts is the installed copy's table and version, not those of the caller.
    version, refusal = _ask(environment, loaded[0].name)
    if refusal:
        return Status(REFUSES, None, environment.nova, refusal)
    return Status(INSTALLED, version, environment.nova, str(loaded[0]))


def pth_line(name: str) -> str:
    """The ``.pth`` file's one line. Without the copy it blocks nova-compute, and nothing else.

    ``site`` prints errors of such a line and goes on, which would start nova-compute unpatched: so
    the line carries its own refusal.
    """
    why = (
        f"nova-compute must not start (nvme-quarantine patch): expected the package {name} beside "
        f"{PTH}, found: %s; install the patch again, or remove {PTH}"
    )
    # `site` runs a line of a .pth file only where it begins with `import`, and each line by itself.
    # What the refusal needs are defaults of its arguments: Python forgets `error` after its clause.
    code = f"""\
try:
    import {name}.boot
    {name}.boot.wait()
except Exception as error:
    def find_spec(name, path=None, target=None, exit=sys.exit, why={why!r} % error):
        if name in {(ENTRY, MANAGER)!r}: exit(why)
    sys.meta_path.insert(0, type("Refusal", (), {{"find_spec": staticmethod(find_spec)}}))
"""
    return f"import sys; exec({code!r}, {{'sys': sys}})\n"


def _ask(environment: Environment, name: str) -> tuple[str, str]:
    """The version of an installed copy, and why it would refuse that Nova, or nothing.

    Raises ``PatchError`` where that Python does not end.
    """
    code = f"""
import sys
from {name} import VERSION, compat, start
from {name}.errors import PatchError
print(VERSION)
try:
    compat.check_sources(start.admit(), compat.installed_top())
except PatchError as error:
    sys.exit(str(error))
"""
    argv = [environment.python, "-I", "-c", code]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired as error:
        raise PatchError(f"expected {environment.python} to end in 60 s, killed it") from error
    # The last line is the reason in both: our refusal's words, and the end of a traceback.
    refusal = (done.stderr.strip().splitlines() or ["no message"])[-1] if done.returncode else ""
    return done.stdout.strip(), refusal


def _is_intact(copy: Path) -> bool:
    try:
        return tree.name(copy) == copy.name
    except OSError:
        return False


def _copy(environment: Environment, target: Path) -> None:
    _delete(target)
    made = Path(tempfile.mkdtemp(prefix=f"{tree.PREFIX}new-", dir=environment.site))
    try:
        # mkdtemp lets its owner in alone, and nova-compute is another user.
        made.chmod(0o755)
        for path in tree.files(PACKAGE):
            shutil.copyfile(path, made / path.name)
            (made / path.name).chmod(0o644)
            _sync(made / path.name)
        _sync(made)
        # Its files are on the disk before it has its name: after a power loss none is half there.
        made.rename(target)
        _sync(target.parent)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        raise
    # Every program of the environment imports two of these files: let them find bytecode.
    argv = [environment.python, "-I", "-m", "compileall", "-q", str(target)]
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(argv, capture_output=True, timeout=60, check=False)


def _delete(copy: Path) -> None:
    """Under another name first, so that half a copy is never importable."""
    if copy.exists():
        # A name of its own: where an image is built, an earlier run had the same process id.
        grave = Path(tempfile.mkdtemp(prefix=f"{tree.PREFIX}old-", dir=copy.parent))
        copy.rename(grave)
        shutil.rmtree(grave)


def _sync(path: Path) -> None:
    """On the disk, a file's bytes or a directory's names: without the patch nova-compute starts as
    if it had never been installed."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and durable: the host may lose power right after."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp lets its owner in alone, and nova-compute is another user.
        os.chmod(name, 0o644)
        os.replace(name, path)
        _sync(path.parent)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
