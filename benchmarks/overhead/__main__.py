"""Overhead of the control plane per slot, and memory of the worker, on the emulated rack.

Four drives are enrolled and erased at once, which gives the memory. Then a server comes and goes,
with a bell and without, again and again. Real Placement, Redis, control plane and worker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.overhead import memory, rounds
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import worst_case_detection
from tests.lab.errors import LabError
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.process import wait_until
from tests.lab.site import Site, Timing

_MIB: Final = 1 << 20
_AIMS: Final = {rounds.TO_COMMAND: 1.0, rounds.TO_POOL: 1.0}
"""Seconds, with a bell."""
_MEMORY_AIM_MIB: Final = 150
_SLOTS: Final = 4
_QUIET: Final = 3600.0
"""A hello looks at the drives, so the only one is that of the worker's start."""


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _set_up(site: Site, size: int) -> ComputeGuest:
    drives = [site.rack.drive(slot, size=size) for slot in range(_SLOTS)]
    site.start()
    compute = site.rack.compute()
    site.add_host(compute)
    site.nova.start_compute(compute.name, [drive.address for drive in drives])
    site.approve(compute, drives[0])
    memory.make(compute)
    site.start_worker(compute, prefix=memory.INSIDE)
    rounds.wait_known(site, drives)
    return compute


def _steady(look: Callable[[], int], seconds: float = 60.0) -> int:
    """The value once two looks a second apart agree within 1 %."""
    seen = [look()]

    def same() -> bool:
        seen.append(look())
        return abs(seen[-1] - seen[-2]) <= seen[-1] / 100

    wait_until(same, "the idle worker's memory to settle", seconds, every=1.0)
    return seen[-1]


def _memory(site: Site, compute: ComputeGuest) -> dict[str, Any]:
    """Enrols all drives, which erases them at once."""
    idle = _steady(lambda: memory.current(compute))
    idle_anonymous = memory.anonymous(compute)
    start_peak = memory.peak(compute)
    memory.start_sampling(compute)
    for drive in site.rack.drives:
        site.enrol(drive)
    most = 0

    def watch() -> None:
        nonlocal most
        working = (State.ERASING, State.VERIFYING)
        most = max(most, sum(site.slot(drive).state in working for drive in site.rack.drives))

    settled = (State.AVAILABLE, State.HELD)
    site.wait(site.rack.drives, settled, seconds=rounds.PATIENCE, watch=watch)
    rounds.check_offered(site, site.rack.drives)
    peak, peak_anonymous = memory.peak(compute), memory.stop_sampling(compute)
    sizes = {
        "idle": idle,
        "peak_at_start": start_peak,
        "peak": peak,
        "above_idle": peak - idle,
        "idle_anonymous": idle_anonymous,
        "peak_anonymous": peak_anonymous,
        "above_idle_anonymous": peak_anonymous - idle_anonymous,
    }
    found: dict[str, Any] = {f"{name}_mib": round(size / _MIB, 1) for name, size in sizes.items()}
    return found | {"drives_at_once": most}


def _summary(found: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {
        name: {
            "median": round(statistics.median(slot[name] for slot in found), 3),
            "max": round(max(slot[name] for slot in found), 3),
        }
        for name in (found[0] if found else ())
    }


def _detection(site: Site, found: Sequence[Mapping[str, float]], slots: int) -> dict[str, float]:
    used = ServiceLimits(
        sweep_interval=site.timing.sweep,
        list_interval=site.timing.listing,
        in_use_reread=site.timing.reread,
    )
    return {
        "configured_s": round(worst_case_detection(used, slots), 3),
        "measured_max_s": round(max(slot[rounds.DETECTION] for slot in found), 3),
        "measured_median_s": round(statistics.median(s[rounds.DETECTION] for s in found), 3),
        "default_configuration_s": round(worst_case_detection(ServiceLimits(), slots), 1),
    }


def measure(directory: Path, count: int, size: int) -> dict[str, Any]:
    """Everything. Raises ``LabError`` where the cycle itself does not work."""
    with contextlib.ExitStack() as stack:
        _say("the rack and the services")
        rack = stack.enter_context(Rack(directory / "rack"))
        site = stack.enter_context(
            Site(directory / "site", rack, timing=Timing(hello=_QUIET, resend=600))
        )
        try:
            compute = _set_up(site, size)
            _say(f"{_SLOTS} drives erased at once, for the worker's memory")
            found: dict[str, Any] = {"memory": _memory(site, compute)}
            results: dict[str, list[Mapping[str, float]]] = {}
            for name, drives, bell in (
                ("bell", 1, True),
                ("bell, 4 slots at once", _SLOTS, True),
                ("no bell", 1, False),
            ):
                results[name] = []
                for number in range(count):
                    slots = rounds.hand_out(site, drives, bell=bell)
                    worst = {aim: round(max(slot[aim] for slot in slots), 3) for aim in _AIMS}
                    _say(f"{name}, round {number + 1} of {count}: {worst}")
                    results[name] += slots
            rounds.check_offered(site, rack.drives)
        except LabError:
            for title, text in (*rack.diagnostics(), *site.diagnostics()):
                print(f"--- {title}\n{text}", file=sys.stderr)
            raise
    found["seconds"] = {name: _summary(slots) for name, slots in results.items()}
    found["detection_without_bell"] = _detection(site, results["no bell"], 1)
    return found


def _print(found: Mapping[str, Any]) -> None:
    for name, stretches in found["seconds"].items():
        print(f"{name} (seconds: median, max)")
        for stretch, value in stretches.items():
            mark = "*" if stretch in _AIMS else " "
            print(f"  {mark} {stretch:34} {value['median']:8.3f} {value['max']:8.3f}")
    for name in ("detection_without_bell", "memory"):
        print(name.replace("_", " "))
        for key, value in found[name].items():
            print(f"    {key:34} {value:8}")


def _short_of(found: Mapping[str, Any]) -> list[str]:
    bell = found["seconds"]["bell"]
    short = [
        f"{name}: {bell[name]['median']} s, aim {aim} s"
        for name, aim in _AIMS.items()
        if bell[name]["median"] > aim
    ]
    above = found["memory"]["above_idle_mib"]
    if above > _MEMORY_AIM_MIB:
        short.append(f"memory above idle: {above} MiB, aim {_MEMORY_AIM_MIB} MiB")
    return short


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__)
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=5, help="of each kind")
    parser.add_argument("--size-mib", type=int, default=128, help="of each drive")
    parser.add_argument("--strict", action="store_true", help="exit code 1 short of the aims")
    chosen = parser.parse_args()
    if chosen.rounds < 1 or chosen.size_mib < 64:
        parser.error("expected at least 1 round and drives of at least 64 MiB")
    with tempfile.TemporaryDirectory(prefix="nvq-bench-") as directory:
        found = measure(Path(directory), chosen.rounds, chosen.size_mib * _MIB)
    if chosen.format == "json":
        print(json.dumps(found, indent=2))
    else:
        _print(found)
    short = _short_of(found)
    for line in short:
        print(f"short of the aim: {line}", file=sys.stderr)
    return 1 if chosen.strict and short else 0


if __name__ == "__main__":
    sys.exit(main())
