"""Runs tests of Nova in this process and writes what became of each, one JSON object a line.

Usage: python -m tests.novasuites.runner OUT ONLY NAME...

ONLY are names of test methods with commas between them, or "" for all. OUT's first line says
whether our patch is in this process; each other line is one test. All NAMEs are Nova's unit tests,
or all are its functional tests: the package that they are in chooses between eventlet and threads,
so it is imported first. Exit code 0 however the tests end.
"""

from __future__ import annotations

import importlib
import json
import sys
import unittest
from pathlib import Path
from typing import Any, TextIO

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Recorder(unittest.TestResult):
    """Writes each test's outcome as it ends: what dies later does not take it along."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self.out = out

    def _write(self, test: Any, outcome: str, why: str = "") -> None:
        self.out.write(json.dumps({"test": test.id(), "outcome": outcome, "why": why}) + "\n")
        self.out.flush()

    def _failed(self, test: Any, error: Any) -> None:
        # testtools gives the whole log and the traceback as one text; what was raised ends it.
        why = f"{error[0].__name__}: {error[1]}".strip().splitlines()
        self._write(test, FAILED, why[-1])

    def addSuccess(self, test: Any) -> None:
        """Passed."""
        self._write(test, PASSED)

    def addError(self, test: Any, err: Any) -> None:
        """Ended by an exception, its import or a class's set-up included."""
        self._failed(test, err)

    def addFailure(self, test: Any, err: Any) -> None:
        """An assertion does not hold."""
        self._failed(test, err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        """A part of a test; one that failed makes the whole fail."""
        del subtest
        if err is not None:
            self._failed(test, err)

    def addSkip(self, test: Any, reason: str) -> None:
        """Not run."""
        self._write(test, SKIPPED, reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        """Failed as Nova's authors expect."""
        self._write(test, PASSED)

    def addUnexpectedSuccess(self, test: Any) -> None:
        """Passed where Nova's authors expect a failure."""
        self._write(test, FAILED, "unexpected success")


def main(out: Path, only: list[str], names: list[str]) -> None:
    """Runs them."""
    importlib.import_module(".".join(names[0].split(".")[:3]))
    # Our patch comes into a process with this module, which some of the tests would not import.
    importlib.import_module("nova.compute.manager")
    provider = importlib.import_module("nova.compute.pci_placement_translator").PciResourceProvider
    with out.open("w") as stream:
        patched = hasattr(provider.update_provider_tree, "__wrapped__")
        stream.write(json.dumps({"patched": patched}) + "\n")
        loader = unittest.TestLoader()
        if only:
            loader.testNamePatterns = [f"*.{name}" for name in only]
        loader.loadTestsFromNames(names).run(Recorder(stream))


if __name__ == "__main__":
    main(Path(sys.argv[1]), list(filter(None, sys.argv[2].split(","))), sys.argv[3:])
