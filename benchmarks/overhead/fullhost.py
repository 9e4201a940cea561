"""A host with 24 drives that are all erased at once by one worker, within its unit's memory.

Real worker, runners, kernel driver and nvme-cli in one compute guest; the worker and its children
stand in a cgroup with the limit of the unit as shipped (``MemoryMax=``), which the kernel enforces
as it would under systemd. All sanitizes run on until every drive has begun: so all cases are open
at the same time, and then all read at the same time. What the kernel counted is printed, and
whether it ended anybody.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.overhead import memory, rounds
from quarantine.record.words.states import State
from tests.lab.errors import LabError
from tests.lab.guest.argv import MOST_SLOTS, Flavour
from tests.lab.guest.payload import REPOSITORY
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.process import wait_until
from tests.lab.site import WORKER_CONF, Site, Timing

_MIB: Final = 1 << 20
_PATIENCE: Final = 2400.0
"""Seconds. Two emulated cores start 24 Pythons; only a broken host takes this long."""
_FULL: Final = Flavour("full-host", memory_mib=2560, slots=MOST_SLOTS)
_UNIT: Final = REPOSITORY / "docs/samples/nvme-eraser-worker.service"
_UNTIL_TOLD: Final = Faults(sanitize_seconds=3600)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def limit() -> int:
    """Bytes that the unit as shipped allows."""
    found = re.search(r"^MemoryMax=(\d+)M$", _UNIT.read_text(), re.MULTILINE)
    if found is None:
        raise LabError(f"expected MemoryMax= in MiB in {_UNIT}, found none")
    return int(found.group(1)) * _MIB


def _set_up(site: Site, drives: int, size: int) -> ComputeGuest:
    racked = [site.rack.drive(slot, size=size) for slot in range(drives)]
    site.start()
    compute = site.rack.compute(flavour=_FULL)
    _say(f"{drives} drives are on the kernel's driver")
    site.add_host(compute)
    site.nova.start_compute(compute.name, [drive.address for drive in racked])
    site.approve(compute, racked[0])
    memory.make(compute, limit())
    configured = compute.get(WORKER_CONF).decode()
    compute.put(WORKER_CONF, f"{configured}max_running = {drives}\n".encode())
    began = time.monotonic()
    site.start_worker(compute, prefix=memory.INSIDE)
    rounds.wait_known(site, racked)
    _say(f"all drives are named {time.monotonic() - began:.0f} s after the worker's start")
    return compute


def _erase(site: Site, compute: ComputeGuest) -> None:
    """All at once. Raises ``LabError`` where one of them does not come back certified."""
    drives = site.rack.drives
    for drive in drives:
        drive.set_faults(_UNTIL_TOLD)
    memory.start_sampling(compute)
    for drive in drives:
        site.enrol(drive)
    _say("all slots are enrolled")

    def sanitizing() -> bool:
        return all(drive.commands("sanitize") for drive in drives)

    wait_until(sanitizing, "a sanitize on every drive", _PATIENCE, every=1.0)
    _say("all drives sanitize")
    for drive in drives:
        drive.set_faults(HEALTHY)
    site.wait(drives, (State.AVAILABLE, State.HELD), seconds=_PATIENCE)
    rounds.check_offered(site, drives)


def measure(directory: Path, drives: int, size: int) -> dict[str, float]:
    """Bytes, seconds and counts by name."""
    with contextlib.ExitStack() as stack:
        _say("the rack and the services")
        rack = stack.enter_context(Rack(directory / "rack"))
        # A hello looks at each drive, which takes its time where 24 share two emulated cores.
        timing = Timing(hello=30, resend=600, reread=60, listing=30)
        site = stack.enter_context(Site(directory / "site", rack, timing=timing))
        try:
            compute = _set_up(site, drives, size)
            began = time.monotonic()
            _erase(site, compute)
            seconds = time.monotonic() - began
        except LabError:
            for title, text in (*rack.diagnostics(), *site.diagnostics()):
                print(f"--- {title}\n{text}", file=sys.stderr)
            raise
        return {
            "drives": drives,
            "seconds": seconds,
            "limit": limit(),
            "most": memory.peak(compute),
            "most that cannot be dropped": memory.stop_sampling(compute),
            "processes ended for memory": memory.ended_by_kernel(compute),
        }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.fullhost", description=__doc__
    )
    parser.add_argument("--drives", type=int, default=MOST_SLOTS, help="(%(default)s)")
    parser.add_argument("--size-mib", type=int, default=64, help="of each drive (%(default)s)")
    chosen = parser.parse_args()
    if not 1 <= chosen.drives <= MOST_SLOTS or chosen.size_mib < 64:
        parser.error(f"expected 1 to {MOST_SLOTS} drives of at least 64 MiB")
    with tempfile.TemporaryDirectory(prefix="nvq-bench-") as directory:
        found = measure(Path(directory), chosen.drives, chosen.size_mib * _MIB)
    ended = found["processes ended for memory"]
    print(
        f"{found['drives']} drives erased at once in {found['seconds']:.0f} s: at most "
        f"{found['most'] / _MIB:.0f} MiB charged, "
        f"{found['most that cannot be dropped'] / _MIB:.0f} of it not to be dropped, of "
        f"{found['limit'] // _MIB} MiB; {ended} processes ended for memory"
    )
    return 1 if ended else 0


if __name__ == "__main__":
    sys.exit(main())
