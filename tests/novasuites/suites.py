"""Nova's own tests in a process of their own, and what became of each."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.novasuites.runner import FAILED

TOP = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Seen:
    """What one run saw: outcome and the last line of why, by the test's id."""

    patched: bool
    outcomes: dict[str, str]
    why: dict[str, str]

    @property
    def failed(self) -> set[str]:
        """The tests that did not pass."""
        return {test for test, outcome in self.outcomes.items() if outcome == FAILED}

    def but(self, other: Seen) -> Seen:
        """The same with the other's outcomes in place of its own."""
        outcomes, why = self.outcomes | other.outcomes, self.why | other.why
        return Seen(self.patched, outcomes, why)


def read(lines: Iterable[str]) -> Seen:
    """What :mod:`tests.novasuites.runner` wrote. A test with several errors is one that failed."""
    first, *rest = [json.loads(line) for line in lines]
    outcomes: dict[str, str] = {}
    why: dict[str, str] = {}
    for row in rest:
        if outcomes.get(row["test"]) != FAILED:
            outcomes[row["test"]], why[row["test"]] = row["outcome"], row["why"]
    return Seen(first["patched"], outcomes, why)


def run(
    python: str, names: Iterable[str], *, only: Iterable[str] = (), nova: Path | None = None
) -> Seen:
    """Runs tests with that Python.

    ``only``: no other methods than these; ``nova``: the directory of another Nova than its own.
    Raises ``RuntimeError`` where nothing ran to its end.
    """
    path = [str(nova), str(TOP)] if nova else [str(TOP)]
    # Nova's tests run with native threads from 34 on, as its own tox does by default.
    threads = int(importlib.metadata.version("nova").split(".")[0]) >= 34
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OS_NOVA_DISABLE_EVENTLET_PATCHING": str(threads).lower(),
    }
    with tempfile.TemporaryDirectory(prefix="novasuites-") as directory:
        out = Path(directory, "out")
        argv = [python, "-m", "tests.novasuites.runner", str(out), ",".join(only), *names]
        with Path(directory, "log").open("w+b") as log:
            done = subprocess.run(argv, cwd=directory, env=env, stdout=log, stderr=log, check=False)
            if done.returncode or not out.exists():
                log.seek(max(0, log.tell() - 2000))
                tail = log.read().decode(errors="replace")
                raise RuntimeError(f"expected Nova's tests to run, found: {tail}")
        with out.open() as stream:
            return read(stream)
