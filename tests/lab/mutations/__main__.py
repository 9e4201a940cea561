"""Spoils guards, decisions and calls one after the other; says which of them no test misses.

python -m tests.lab.mutations --seed 1 --count 100           in a copy of this checkout
python -m tests.lab.mutations --seed 1 --count 100 --list    only say where
python -m tests.lab.mutations --former --seed 1              the rooms and kinds of former figures

The nearest test files run first: those of the spoilt module's own name, then those that import it,
directly or through others. A place is green when none of ``--files`` of them went red that is not
red without it. Results go to ``--out``, one JSON list a line; a run that was cut off goes on there.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.mutations.sites import (
    FORMER_KINDS,
    FORMER_ROOMS,
    KINDS,
    ROOMS,
    Kind,
    Site,
    choose,
    spoil,
)
from tests.lab.runs.closure import imports

TOP = Path(__file__).resolve().parents[3]
RED, LATE, GREEN = "red", "out of time", "GREEN"
LONG = ("campaign", "daemons", "install", "libvirt", "rack", "tenants")
PYTEST = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
PYTEST += ["-m", " and ".join(f"not {each}" for each in LONG)]
NOTHING_TO_RUN = 5
"""What pytest ends with where each test of the file is a long one."""


def main() -> int:
    """0 when no place stayed green."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument(
        "--kinds", nargs="+", type=Kind, choices=Kind, default=KINDS, help="of these alone"
    )
    parser.add_argument(
        "--former",
        action="store_true",
        help="decisions alone, of the rooms that were looked into before there were other kinds: "
        "a seed draws the places that it drew then",
    )
    parser.add_argument("--files", type=int, default=12, help="test files for one place")
    parser.add_argument("--limit", type=float, default=400, help="seconds for one place")
    parser.add_argument("--out", type=Path, help="keep results here, and go on from there")
    parser.add_argument("--list", action="store_true", help="only say which places")
    arguments = parser.parse_args()
    rooms = FORMER_ROOMS if arguments.former else ROOMS
    kinds = FORMER_KINDS if arguments.former else arguments.kinds
    chosen = choose(TOP, arguments.seed, arguments.count, rooms, kinds)
    if arguments.list:
        print(*chosen, sep="\n")
        return 0
    known = dict(_kept(arguments.out))
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        copy = Path(scratch) / "copy"
        shutil.copytree(TOP, copy, ignore=shutil.ignore_patterns(".git", ".tox", "__pycache__"))
        near, trial = Nearness(copy), Trial(copy, arguments.limit)
        for number, site in enumerate(chosen, 1):
            name = str(site)
            if name not in known:
                known[name] = trial.outcome(site, near.of(site.path)[: arguments.files])
                if arguments.out:
                    with arguments.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps([name, known[name]]) + "\n")
            print(f"{number}/{len(chosen)} {known[name]}: {name}", flush=True)
    outcomes = [known[str(site)] for site in chosen]
    print(", ".join(f"{outcomes.count(each)} {each}" for each in (RED, LATE, GREEN)))
    return 1 if GREEN in outcomes else 0


def _kept(out: Path | None) -> Iterator[tuple[str, str]]:
    if out and out.exists():
        for line in out.read_text(encoding="utf-8").splitlines():
            name, outcome = json.loads(line)
            yield name, outcome


@dataclass
class Trial:
    """A copy of the checkout, in which one place after the other is spoilt and mended again."""

    copy: Path
    limit: float
    """Seconds for one place."""
    _sound: dict[Path, bool] = field(default_factory=dict)
    """Test files that went red once, and whether they pass where nothing is spoilt."""

    def outcome(self, site: Site, files: Sequence[Path]) -> str:
        """How the tests end with this place spoilt."""
        ends = time.monotonic() + self.limit
        try:
            for each in files:
                if not self._passes_spoilt(site, each, ends) and self._is_sound(each):
                    return RED
        except subprocess.TimeoutExpired:
            return LATE
        return GREEN

    def _passes_spoilt(self, site: Site, tests: Path, ends: float) -> bool:
        file = self.copy / site.path
        source = file.read_text(encoding="utf-8")
        file.write_text(spoil(source, site), encoding="utf-8")
        try:
            return self._passes(tests, max(ends - time.monotonic(), 0.001))
        finally:
            file.write_text(source, encoding="utf-8")

    def _is_sound(self, tests: Path) -> bool:
        """A file that is red in the copy whatever is spoilt says nothing about a place."""
        if tests not in self._sound:
            self._sound[tests] = self._passes(tests, self.limit)
        return self._sound[tests]

    def _passes(self, tests: Path, seconds: float) -> bool:
        done = subprocess.run(
            [*PYTEST, str(tests)], cwd=self.copy, capture_output=True, timeout=seconds, check=False
        )
        return done.returncode in (0, NOTHING_TO_RUN)


class Nearness:
    """How far each test file is from a module, in imports."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._imports: dict[Path, frozenset[Path]] = {}
        self._tests = [
            path.relative_to(top)
            for room in ("unit", "model", "site")
            for path in sorted((top / "tests" / room).rglob("test_*.py"))
        ]

    def of(self, module: Path) -> list[Path]:
        """Test files that reach the module, the nearest first."""
        found = [(self._distance(test, module), test) for test in self._tests]
        named = module.stem.strip("_")
        return [
            test
            for distance, test in sorted(
                ((0 if named in test.stem else far, test) for far, test in found if far),
                key=lambda each: each[0],
            )
        ]

    def _distance(self, start: Path, wanted: Path) -> int:
        """Steps from one file to the other; 0 where there is no way."""
        seen, level, steps = {start}, {start}, 0
        while level:
            if wanted in level:
                return steps
            steps += 1
            level = {each for path in level for each in self._direct(path)} - seen
            seen |= level
        return 0

    def _direct(self, path: Path) -> frozenset[Path]:
        if path not in self._imports:
            self._imports[path] = imports(self._top, path)
        return self._imports[path]


if __name__ == "__main__":
    raise SystemExit(main())
