"""Verification reading against fio, in the emulated rack's compute guest.

Two devices: the rack's own drive (attached by vfio-user) and QEMU's stock NVMe device, the faster
one. Ours and fio's rounds alternate; medians are printed. The aims are 0.9 of fio in sequence and
0.7 of it at random; with --strict a smaller ratio on the stock device ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.lab.guest.argv import root_port, slot_address
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest

_STOCK_SLOT = 1
_AIMS = {"sequential": 0.9, "random": 0.7}
_SCRIPT = "/run/verify-benchmark.py"


def _content(path: Path, size: int, kind: str) -> None:
    noise = Path("/dev/urandom").open("rb")  # noqa: SIM115 - closed below, used only for noise
    with noise, path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(noise.read(1 << 20) if kind == "noise" else bytes(1 << 20))


def _plug_stock(compute: ComputeGuest, image: Path) -> str:
    monitor = compute.machine.monitor
    monitor.execute(
        "blockdev-add",
        **{
            "driver": "raw",
            "node-name": "stock",
            "file": {
                "driver": "file",
                "filename": str(image),
                "aio": "threads",
                "cache": {"direct": True, "no-flush": False},
            },
        },
    )
    monitor.execute(
        "device_add", driver="nvme", id="stock0", bus=root_port(_STOCK_SLOT), drive="stock",
        serial="STOCK",
    )  # fmt: skip
    address = slot_address(_STOCK_SLOT)
    compute.wait_drive(address)
    return address


def _measure(compute: ComputeGuest, path: str, places: int, rounds: int) -> dict[str, Any]:
    runs = []
    for number in range(rounds + 1):
        done = compute.run(
            ["python3", _SCRIPT, path, str(places)], env={"PYTHONPATH": "/opt/src"}, timeout=900
        )
        if number:  # the first one warms the host's caches for both
            runs.append(json.loads(done.stdout))
    kinds = runs[0]["rounds"]
    found: dict[str, Any] = {
        kind: {
            figure: round(statistics.median(run["rounds"][kind][figure] for run in runs), 3)
            for figure in kinds[kind]
        }
        for kind in kinds
    }
    fastest = max(("fio_random", "fio_random_32"), key=lambda k: found[k]["mb_per_s"])
    for ours, theirs in (("sequential", "fio_sequential"), ("random", fastest)):
        # Of each round by itself: neighbours on this machine change from minute to minute.
        found[f"{ours}_ratio"] = round(
            statistics.median(
                run["rounds"][ours]["mb_per_s"] / run["rounds"][theirs]["mb_per_s"] for run in runs
            ),
            3,
        )
    found["peak_rss_mib"] = round(max(run["peak_rss_mib"] for run in runs), 1)
    return found


def _print(device: str, content: str, found: dict[str, Any]) -> None:
    print(f"{device}, {content}:")
    for kind, figures in found.items():
        if isinstance(figures, dict):
            print(
                f"  {kind:15} {figures['mb_per_s']:9.1f} MB/s {figures['reads_4k_per_s']:10.0f}"
                f" x 4 KiB/s {figures['cpu_s_per_gb']:7.2f} CPU s/GB"
            )
        else:
            print(f"  {kind:15} {figures}")


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=5, help="of which medians are taken")
    parser.add_argument("--size-mib", type=int, default=1024, help="of each drive")
    parser.add_argument("--places", type=int, default=20000, help="random blocks per round")
    parser.add_argument(
        "--content", choices=("zeros", "noise"), default="zeros",
        help="what the drives hold: blank, or as some crypto erases leave them",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="fail below the aims")
    chosen = parser.parse_args()
    size = chosen.size_mib << 20
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="nvq-bench-") as directory,
        Rack(Path(directory) / "rack") as rack,
    ):
        drive = rack.drive(0, size=size)
        image = Path(directory) / "stock.img"
        _content(image, size, chosen.content)
        compute = rack.compute()
        compute.put(_SCRIPT, Path(__file__).with_name("inguest.py").read_bytes())
        addresses = {"vfio-user drive": drive.address, "stock NVMe": _plug_stock(compute, image)}
        if chosen.content == "noise":
            path = compute.block_device(drive.address)
            compute.sh(f"dd if=/dev/urandom of={path} bs=1M oflag=direct 2>/dev/null || true",
                       timeout=900)  # fmt: skip
        for name, address in addresses.items():
            path = compute.block_device(address)
            found[name] = _measure(compute, path, chosen.places, chosen.rounds)
            if chosen.format == "table":
                _print(name, chosen.content, found[name])
    if chosen.format == "json":
        print(json.dumps({"content": chosen.content, "devices": found}, indent=2))
    short = [
        f"{name}: {kind} {found[name][f'{kind}_ratio']} of fio, aim {aim}"
        for name in found
        for kind, aim in _AIMS.items()
        if found[name][f"{kind}_ratio"] < aim
    ]
    for line in short:
        print(f"below the aim: {line}", file=sys.stderr)
    return 1 if chosen.strict and any(line.startswith("stock") for line in short) else 0


if __name__ == "__main__":
    sys.exit(main())
