"""Three ways to have a filesystem on NVMe drives, measured with fio in one guest, in turn.

By hand: what the source text's customer types (mdadm --create /dev/md1, mkfs.xfs, mount). Ours: the
program that the role's logic is in. Linear: one drive with our XFS, times four. Under emulation two
processors serve all drives, so nothing scales: only ours against by hand means something there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.raid.fio import WORKLOADS, Workload, measure
from tests.lab.errors import LabError
from tests.lab.guest.payload import REPOSITORY
from tests.lab.rack import Rack, TenantGuest
from tests.lab.tenant.flavour import TENANT

_DRIVES: Final = 4
_SIZE: Final = 1 << 30
_HAND: Final = range(_DRIVES)
_OURS: Final = range(_DRIVES, 2 * _DRIVES)
_BY_HAND: Final = """
mdadm --create /dev/md1 --run --level 0 --raid-devices {count} {devices} 2>/dev/null
udevadm settle
mkfs.xfs -q /dev/md1
mkdir -p {point}
mount /dev/md1 {point}
"""
_POINTS: Final = {"one drive": "/mnt/one", "by hand": "/mnt/hand", "ours": "/mnt/ours"}
_FREE: Final = """
umount {point}
sed -i '\\|{point}|d' /etc/fstab
wipefs -q -a {device}
blkdiscard -f {device}
"""


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _address(slot: int) -> str:
    return f"0000:{slot + 1:02x}:00.0"


def _ours(guest: TenantGuest, slots: Sequence[int], name: str) -> None:
    argv = ["/root/nvme-raid", "--drives", str(len(slots)), "--mount", _POINTS[name]]
    for slot in slots:
        argv += ["--only", _address(slot)]
    # The guest's initramfs is not what it boots from, and making it is not what is measured.
    guest.run([*argv, "--no-initramfs", "--no-trim"], timeout=300)


def _by_hand(guest: TenantGuest) -> None:
    devices = " ".join(guest.block_device(_address(slot)) for slot in _HAND)
    script = _BY_HAND.format(count=_DRIVES, devices=devices, point=_POINTS["by hand"])
    guest.sh(script)


def run(directory: Path, rounds: int, seconds: int) -> dict[str, Any]:
    """Everything. Raises ``LabError``."""
    program = directory / "nvme-raid"
    subprocess.run([REPOSITORY / "tools/nvme-raid-script", program], check=True)
    found: dict[str, dict[str, list[float]]] = {
        name: {workload.name: [] for workload in WORKLOADS} for name in _POINTS
    }
    with Rack(directory / "rack") as rack:
        drives = [rack.drive(slot, size=_SIZE) for slot in range(2 * _DRIVES)]
        guest = rack.tenant(drives, flavour=TENANT)
        guest.put("/root/nvme-raid", program.read_bytes(), mode=0o755)

        def all_workloads(name: str) -> None:
            for workload in WORKLOADS:
                value = measure(guest, _POINTS[name], workload, seconds)
                found[name][workload.name].append(value)
            _say(f"{name}: {[round(values[-1]) for values in found[name].values()]}")

        single = _OURS[0]
        _ours(guest, [single], "one drive")
        for _ in range(rounds):
            all_workloads("one drive")
        device = guest.block_device(_address(single))
        guest.sh(_FREE.format(point=_POINTS["one drive"], device=device))
        _by_hand(guest)
        _ours(guest, _OURS, "ours")
        for number in range(rounds):
            # In turn, and the other way round the next time: neither is always the warmer one.
            order = ["by hand", "ours"]
            for name in order[:: -1 if number % 2 else 1]:
                all_workloads(name)
    return {"rounds": rounds, "seconds": seconds, "drives": _DRIVES, **_summary(found)}


def _summary(found: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    medians = {
        name: {workload: statistics.median(values) for workload, values in by.items()}
        for name, by in found.items()
    }
    ratios = {
        workload.name: {
            "ours / by hand": medians["ours"][workload.name] / medians["by hand"][workload.name],
            "ours / linear": medians["ours"][workload.name]
            / (_DRIVES * medians["one drive"][workload.name]),
        }
        for workload in WORKLOADS
    }
    return {"median": medians, "ratio": ratios, "all": found}


def _table(result: dict[str, Any]) -> str:
    lines = ["| | one drive | by hand | ours | ours / by hand | ours / linear |"]
    lines.append("|---|---|---|---|---|---|")
    for workload in WORKLOADS:
        cells = [_cell(result["median"][name][workload.name], workload) for name in _POINTS]
        ratio = result["ratio"][workload.name]
        cells += [f"{ratio['ours / by hand']:.2f}", f"{ratio['ours / linear']:.2f}"]
        lines.append(f"| {workload.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(value: float, workload: Workload) -> str:
    return f"{value:,.0f} {workload.unit}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.raid", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each; medians are told")
    parser.add_argument("--seconds", type=int, default=5, help="per measurement")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="nvq-raid-") as directory:
        try:
            result = run(Path(directory), chosen.rounds, chosen.seconds)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print(json.dumps(result, indent=1) if chosen.format == "json" else _table(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
