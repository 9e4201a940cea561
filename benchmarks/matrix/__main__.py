"""The bench's whole matrix in the rack: RAID 0 and XFS as the source's tenant makes them by hand.

The figures are of a drive model under an emulated processor. They show what the bench does, and
compare with each other; they say nothing of hardware. A run that takes longer than --budget is
interrupted as by Ctrl-C; the same command again goes on with it, on an array made anew.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from qualify.fio.presets import PRESETS
from tests.lab.rack import Rack
from tests.lab.rack.guests import TenantGuest

_ARRAY = """
mdadm --create /dev/md1 --run --level 0 --raid-devices {count} {drives} >/dev/null 2>&1
udevadm settle
mkfs.xfs -q /dev/md1
mkdir -p /mnt/array /run/bench
mount /dev/md1 /mnt/array
"""
_SLACK = 60.0
_INTERRUPTED = 130
_TIMED_OUT = 124


def array(tenant: TenantGuest) -> str:
    """Makes the array and its file system from all drives of the instance; where it is mounted."""
    names = tenant.sh("ls -d /sys/block/nvme*n1").stdout.split()
    drives = " ".join(f"/dev/{name.rpartition('/')[2]}" for name in names)
    tenant.sh(_ARRAY.format(count=len(names), drives=drives), timeout=180)
    return "/mnt/array"


def _run(tenant: TenantGuest, chosen: argparse.Namespace, journal: Path) -> bool:
    """Whether the run came to its end.

    If not, the journal has what was measured, and the result is that of the whole rounds so far.
    """
    target, inside = array(tenant), "/run/bench/result.json"
    argv = ["nvme-bench", "run", "matrix", target, "--emulated", "--label", chosen.label]
    argv += ["--size", f"{chosen.size_mib}M", "--seconds", f"{chosen.seconds}", "--jobs", "2"]
    budget = ["timeout", "--foreground", "-s", "INT", f"{chosen.budget}"]
    rounds = ["--rounds", f"{chosen.rounds}"]
    if journal.exists():
        tenant.put(f"{inside}.part", journal.read_bytes())
        rounds.append("--resume")

    def bench(before: list[str], *more: str) -> int:
        done = tenant.run(
            [*before, *argv, "--output", inside, *more],
            env={"PYTHONPATH": "/opt/src"},
            timeout=chosen.budget + _SLACK,
            check=False,
        )
        sys.stderr.write(done.stderr[-2000:])
        if done.returncode == 0:
            print(done.stdout)
            chosen.output.write_bytes(tenant.get(inside))
        elif done.returncode not in (_INTERRUPTED, _TIMED_OUT):
            raise SystemExit(f"expected nvme-bench to end, found exit code {done.returncode}")
        return done.returncode

    if bench(budget, *rounds) == 0:
        journal.unlink(missing_ok=True)
        return True
    journal.write_bytes(tenant.get(f"{inside}.part"))
    lines = journal.read_bytes().splitlines(keepends=True)
    whole = (len(lines) - 1) // len(PRESETS["matrix"].cells)
    if whole:
        tenant.put(f"{inside}.part", b"".join(lines[: 1 + whole * len(PRESETS["matrix"].cells)]))
        bench([], "--rounds", f"{whole}", "--resume")
    return False


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.matrix", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="the result's JSON")
    parser.add_argument("--drives", type=int, default=4)
    parser.add_argument("--size-mib", type=int, default=512, help="of the array that is worked on")
    parser.add_argument("--seconds", type=int, default=1, help="of each cell in each round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=3600, help="seconds of measuring")
    parser.add_argument("--label", default="Emulated array of 4 drives, RAID 0 and XFS")
    chosen = parser.parse_args()
    journal = chosen.output.with_name(chosen.output.name + ".part")
    with (
        tempfile.TemporaryDirectory(prefix="nvq-matrix-") as scratch,
        Rack(Path(scratch) / "rack") as rack,
    ):
        drives = [rack.drive(slot) for slot in range(chosen.drives)]
        finished = _run(rack.tenant(drives), chosen, journal)
    if not finished:
        print(f"not finished; the same command goes on from {journal}", file=sys.stderr)
    if not chosen.output.exists():
        return _INTERRUPTED
    page = chosen.output.with_suffix(".html")
    argv = [
        sys.executable,
        "-m",
        "qualify.cli.app",
        "show",
        str(chosen.output),
        "--html",
        str(page),
    ]
    return subprocess.run(argv, stdout=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
