"""Shows that each patch of docs/upstream is red without its change of Nova, and green with it.

Usage: tools/nova-env 34.0.0 -m tests.novasuites.upstream [--added] [NUMBER...]

For each patch Nova's package is laid out anew, link by link, in a temporary directory. Some of the
tests that it adds must fail there without the change; with it all tests of the same files pass.
Nova's environment is not touched, and nothing is sent.
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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.novasuites.suites import Seen, run

PATCHES = Path(__file__).resolve().parents[2] / "docs" / "upstream"


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
    # Functional tests look for etc/nova/api-paste.ini beside the package.
    (top / "etc").symlink_to(source.parent / "etc")
    for path in _paths(patch.change + patch.tests):
        target = top / path
        text = target.read_text()
        target.unlink()
        target.write_text(text)


def _apply(top: Path, diff: str) -> None:
    argv = ["git", "apply", "-p1", "-"]
    subprocess.run(argv, cwd=top, input=diff, text=True, check=True)


def _run(top: Path, patch: Patch, only: Iterable[str] = ()) -> Seen:
    seen = run(sys.executable, patch.modules, only=only, nova=top)
    if seen.failed and not only:
        # Nova's functional tests wait for their services in real time: once more, alone.
        names = {name.rpartition(".")[2] for name in seen.failed}
        seen = seen.but(run(sys.executable, patch.modules, only=names, nova=top))
    return seen


def check(patch: Patch, *, all_tests: bool = True) -> str:
    """Why the patch is not what it says; empty when it is."""
    with tempfile.TemporaryDirectory(prefix="upstream-") as directory:
        top = Path(directory)
        _lay_out(top, patch)
        _apply(top, patch.tests)
        seen = _run(top, patch, patch.added)
        red = {name.rpartition(".")[2] for name in seen.failed}
        if not red:
            return f"expected some of {sorted(patch.added)} to fail without it, found none"
        _apply(top, patch.change)
        seen = _run(top, patch, () if all_tests else patch.added)
    if seen.failed:
        return f"expected {len(seen.outcomes)} tests to pass with it, found {sorted(seen.failed)}"
    green = len(seen.outcomes)
    print(f"{patch.path.name}: red without ({', '.join(sorted(red))}), {green} green with it")
    return ""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0 when each patch is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="of the patches (default: all)")
    parser.add_argument("--added", action="store_true", help="only the tests that they add")
    options = parser.parse_args(argv)
    troubles = 0
    for path in sorted(PATCHES.glob("*.patch")):
        if not options.numbers or int(path.name[:4]) in options.numbers:
            trouble = check(read(path), all_tests=not options.added)
            if trouble:
                print(f"{path.name}: {trouble}", file=sys.stderr)
                troubles += 1
    return 1 if troubles else 0


if __name__ == "__main__":
    raise SystemExit(main())
