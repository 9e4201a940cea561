"""Shows that each patch of docs/upstream is red without its change of Nova, and green with it.

Usage: tools/nova-env 34.0.0 -m tests.novasuites.upstream [NUMBER...]

For each patch Nova's package is laid out anew, link by link, in a temporary directory. The tests of
the patch alone must fail there; the tests and the change must pass, with all other tests of the
same files. Nova's environment is not touched, and nothing is sent.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PATCHES = Path(__file__).resolve().parents[2] / "docs" / "upstream"
_RAN = re.compile(r"^Ran (\d+) tests", re.MULTILINE)
_BAD = re.compile(r"^(?:FAIL|ERROR): (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Patch:
    """One file: what it changes in Nova, and in Nova's tests."""

    path: Path
    change: str
    tests: str

    @property
    def modules(self) -> list[str]:
        """The test modules that it touches."""
        return [path.removesuffix(".py").replace("/", ".") for path in _paths(self.tests)]

    @property
    def added(self) -> set[str]:
        """The names of the tests that it adds."""
        return set(re.findall(r"^\+    def (test_\w+)", self.tests, re.MULTILINE))


def read(path: Path) -> Patch:
    """Divides the diff of a patch. Raises ``ValueError`` for one without a change or a test."""
    _, *parts = re.split(r"^(?=diff --git )", path.read_text(), flags=re.MULTILINE)
    tests = "".join(part for part in parts if part.startswith("diff --git a/nova/tests/"))
    change = "".join(part for part in parts if not part.startswith("diff --git a/nova/tests/"))
    if not tests or not change:
        raise ValueError(f"expected a change and its tests in {path}")
    return Patch(path, change, tests)


def _paths(diff: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(\S+)", diff, re.MULTILINE)


def _lay_out(top: Path, patch: Patch) -> None:
    spec = importlib.util.find_spec("nova")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).parent
    shutil.copytree(source, top / "nova", copy_function=os.symlink)
    for path in _paths(patch.change + patch.tests):
        target = top / path
        text = target.read_text()
        target.unlink()
        target.write_text(text)


def _apply(top: Path, diff: str) -> None:
    argv = ["git", "apply", "-p1", "-"]
    subprocess.run(argv, cwd=top, input=diff, text=True, check=True)


def _run(top: Path, modules: list[str]) -> tuple[int, set[str]]:
    """How many tests ran, and which did not pass."""
    # Nova's tests run with native threads, as its own tox does by default from 34 on.
    env = os.environ | {"PYTHONPATH": str(top), "OS_NOVA_DISABLE_EVENTLET_PATCHING": "true"}
    argv = [sys.executable, "-m", "unittest", *modules]
    done = subprocess.run(argv, cwd=top, env=env, capture_output=True, text=True, check=False)
    ran = _RAN.search(done.stderr)
    if ran is None:
        raise RuntimeError(f"expected tests to run, found: {done.stderr[-2000:]}")
    return int(ran[1]), {name.rpartition(".")[2] for name in _BAD.findall(done.stderr)}


def check(patch: Patch) -> str:
    """Why the patch is not what it says; empty when it is."""
    with tempfile.TemporaryDirectory(prefix="upstream-") as directory:
        top = Path(directory)
        _lay_out(top, patch)
        _apply(top, patch.tests)
        ran, red = _run(top, patch.modules)
        if not red or not red <= patch.added:
            return f"expected some of {sorted(patch.added)} to fail without it, found {sorted(red)}"
        _apply(top, patch.change)
        ran, bad = _run(top, patch.modules)
    if bad:
        return f"expected {ran} tests to pass with it, found {sorted(bad)} failing"
    print(f"{patch.path.name}: red without ({', '.join(sorted(red))}), {ran} green with it")
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when each patch is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="of the patches (default: all)")
    wanted = parser.parse_args(argv).numbers
    troubles = 0
    for path in sorted(PATCHES.glob("*.patch")):
        if not wanted or int(path.name[:4]) in wanted:
            trouble = check(read(path))
            if trouble:
                print(f"{path.name}: {trouble}", file=sys.stderr)
                troubles += 1
    return 1 if troubles else 0


if __name__ == "__main__":
    raise SystemExit(main())
