"""What the patch adds to nova-compute's start and to a periodic, on a host with 24 drives.

Run it with Nova's own Python: tools/nova-env 34.0.0 -m benchmarks.novapatch

Start: a process up to its manager's import, CPU seconds, with the patch installed and without, in
turn; nova-compute needs more than that, so the ratio is an upper bound. Periodic: the resource
tracker's audit against Nova's own Placement in process, with the patch and without, in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from unittest import mock

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "true")

# The first of Nova's modules: this is where it chooses between eventlet and threads.
import nova.tests.functional  # noqa: F401
from nova import context
from nova.compute import pci_placement_translator as translator

from nova_patch import born_reserved, install
from tests.nova.patchcase import HOST, VERSION, PatchCase
from tests.nova.patchenv import PatchEnvironment

DRIVES: Final = 24
AIM: Final = 0.01
"""Of the time without the patch."""

_START: Final = "import nova.cmd.compute, nova.compute.manager"
_LOADED: Final = f"""
{_START}
import sys, json
print(json.dumps([n for n in sys.modules if n.partition(".")[0] in sys.stdlib_module_names]))
"""
_INSIDE: Final = """
import importlib, sys, time
# What nova-compute imports anyway is no cost of the patch, whoever asks for it first.
for name in {shared!r}:
    importlib.import_module(name)
boot = sys.modules["{copy}.boot"]
spent = []
for name in ("_admit", "_apply"):
    def timed(original=getattr(boot, name)):
        began = time.process_time()
        original()
        spent.append(time.process_time() - began)
    setattr(boot, name, timed)
import nova.cmd.compute, nova.compute.manager
print(sum(spent))
"""


_NEEDED: Final = ("ast", "dataclasses", "hashlib", "importlib.metadata", "json", "pathlib")
"""The larger modules of the standard library that the patch uses."""


def main(argv: Sequence[str] | None = None) -> int:
    """0 when both ratios meet the aim."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.novapatch", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="starts of each kind (default: 7)")
    parser.add_argument("--periodics", type=int, default=60, help="of each kind (default: 60)")
    parser.add_argument("-f", "--format", choices=("text", "json"), default="text")
    options = parser.parse_args(argv)
    results: dict[str, Any] = {"nova": VERSION, "drives": DRIVES, "aim": AIM}
    results["start"] = start(options.rounds)
    results["periodic"] = periodic(options.periodics)
    if options.format == "json":
        print(json.dumps(results))
    else:
        for name in ("start", "periodic"):
            print(f"{name}: {results[name]}")
    met = all(results[name]["ratio"] < AIM for name in ("start", "periodic"))
    return 0 if met else 1


def start(rounds: int) -> dict[str, float]:
    """CPU seconds of a start, and of the patch's own part in it."""
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as patched:
        without, with_ = PatchEnvironment(Path(plain)), PatchEnvironment(Path(patched))
        install.install(with_.python)
        loaded = json.loads(without.code(_LOADED).splitlines()[-1])
        shared = [name for name in loaded if name in _NEEDED]
        inside = _INSIDE.format(copy=install.look(with_.python).copies[0].name, shared=shared)
        seconds: dict[str, list[float]] = {"without": [], "with": [], "added": []}
        for number in range(rounds + 1):
            found = {
                "without": _cpu(without.python, _START),
                "with": _cpu(with_.python, _START),
                "added": float(with_.code(inside).splitlines()[-1])
                + _cpu(with_.python, "")
                - _cpu(without.python, ""),
            }
            if number:  # The first writes bytecode and fills the page cache.
                for name, value in found.items():
                    seconds[name].append(value)
    return _summary(seconds)


def periodic(rounds: int) -> dict[str, float]:
    """CPU seconds of an audit of 24 drives, and of the patch's own part in it."""
    _Periodic.rounds = rounds
    outcome = unittest.TestResult()
    _Periodic("measure").run(outcome)
    for _, text in outcome.errors + outcome.failures:
        raise SystemExit(text)
    return _summary(_Periodic.seconds)


class _Periodic(PatchCase):
    rounds = 1
    seconds: dict[str, list[float]]

    def measure(self) -> None:
        self.start(DRIVES)
        provider = translator.PciResourceProvider
        wrapped = provider.update_provider_tree
        original = wrapped.__wrapped__
        seconds: dict[str, list[float]] = {"without": [], "with": [], "added": []}
        for _ in range(self.rounds):
            for name, function in (("without", original), ("with", wrapped)):
                with mock.patch.object(provider, "update_provider_tree", function):
                    seconds[name].append(self._audit())
            seconds["added"].append(self._inside(original, wrapped))
        type(self).seconds = seconds

    def _audit(self) -> float:
        tracker = self.computes[HOST].manager.rt
        began = time.process_time()
        tracker.update_available_resource(context.get_admin_context(), HOST)
        return time.process_time() - began

    def _inside(self, original: Any, wrapped: Any) -> float:
        """The wrapper's time less that of what it wraps, over one audit."""
        spent = {"inner": 0.0, "outer": 0.0}

        def timed(name: str, function: Any) -> Any:
            def call(*args: Any, **kwargs: Any) -> None:
                began = time.perf_counter()
                try:
                    function(*args, **kwargs)
                finally:
                    spent[name] += time.perf_counter() - began

            return call

        outer = timed("outer", born_reserved.wrap(timed("inner", original)))
        with mock.patch.object(translator.PciResourceProvider, "update_provider_tree", outer):
            self._audit()
        return spent["outer"] - spent["inner"]


def _cpu(python: str, code: str) -> float:
    """CPU seconds of that Python with this code, in user and system mode."""
    with subprocess.Popen([python, "-c", code], stderr=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"expected {python} to run {code!r}, it ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _summary(seconds: dict[str, list[float]]) -> dict[str, float]:
    """Medians. The ratio is of the patch's own time: less than what a difference of two noisy
    totals could show."""
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        "without_seconds": round(medians["without"], 5),
        "with_seconds": round(medians["with"], 5),
        "added_seconds": round(medians["added"], 6),
        "ratio": round(medians["added"] / medians["without"], 5),
        "ratio_of_totals": round(medians["with"] / medians["without"] - 1, 4),
        "rounds": len(seconds["without"]),
    }


if __name__ == "__main__":
    sys.exit(main())
