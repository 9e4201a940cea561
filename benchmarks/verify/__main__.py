"""Verification reading against fio: on this machine's files, or in the rack's compute guest.

Ours and fio's rounds alternate; medians are printed, ratios are of each round by itself. The aims
are 0.95 of fio for everything in a row and 0.9 of it at random. In the guest the devices are the
rack's own drive (attached by vfio-user) and QEMU's stock NVMe device, the faster one; with several
drives at once they are stock ones, eight functions in a slot. With --native they are files in a
directory, read past the page cache: a processor's own speed, and a real device's behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.lab.guest.argv import root_port, slot_address
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest

_AIMS = {"full": 0.95, "random": 0.9}
_SCRIPT = "/run/verify-rounds.py"
_FIRST_STOCK_SLOT = 1
_FUNCTIONS = 8
"""Of one PCI slot."""
_ROUND_SECONDS = 900

Round = Callable[[Sequence[str]], str]
"""Runs ``rounds.py`` with arguments where the devices are; its output."""


def _content(path: Path, size: int, kind: str) -> None:
    with Path("/dev/urandom").open("rb") as noise, path.open("wb") as file:
        for _ in range(size >> 20):
            file.write(noise.read(1 << 20) if kind == "noise" else bytes(1 << 20))


def _plug_stock(compute: ComputeGuest, images: Sequence[Path]) -> list[str]:
    """Stock drives, as many as there are images; their paths in the guest."""
    monitor, addresses = compute.machine.monitor, []
    for number, image in enumerate(images):
        file = {
            "driver": "file",
            "filename": str(image),
            "aio": "threads",
            "cache": {"direct": True, "no-flush": False},
        }
        monitor.execute(
            "blockdev-add", **{"driver": "raw", "node-name": f"s{number}", "file": file}
        )
    for first in range(0, len(images), _FUNCTIONS):
        slot = _FIRST_STOCK_SLOT + first // _FUNCTIONS
        # The guest looks at a slot when its function 0 appears: the others have to be there.
        for number in reversed(range(first, min(first + _FUNCTIONS, len(images)))):
            function = number - first
            monitor.execute(
                "device_add", driver="nvme", id=f"stock{number}", bus=root_port(slot),
                addr=f"0.{function}", multifunction=True, drive=f"s{number}", serial=f"S{number}",
            )  # fmt: skip
            addresses.append(slot_address(slot)[:-1] + str(function))
    for address in addresses:
        compute.wait_drive(address)
    return [compute.block_device(address) for address in addresses]


def _measure(run: Round, paths: Sequence[str], places: int, rounds: int) -> dict[str, Any]:
    runs = []
    for number in range(rounds + 1):
        found = json.loads(run([str(places), *paths]))
        if number:  # the first one warms the host's caches for both
            runs.append(found)
    kinds = runs[0]
    figures: dict[str, Any] = {
        kind: {
            name: round(statistics.median(run[kind][name] for run in runs), 3)
            for name in kinds[kind]
        }
        for kind in kinds
    }
    fastest = max(("fio_random", "fio_random_32"), key=lambda k: figures[k]["mb_per_s"])
    for ours, theirs in (("full", "fio_full"), ("random", fastest)):
        # Of each round by itself: neighbours on this machine change from minute to minute.
        ratio = statistics.median(r[ours]["mb_per_s"] / r[theirs]["mb_per_s"] for r in runs)
        figures[f"{ours}_ratio"] = round(ratio, 3)
    return figures


def _print(device: str, found: dict[str, Any]) -> None:
    print(f"{device}:")
    for kind, figures in found.items():
        if isinstance(figures, dict):
            peak = figures.get("peak_rss_mib")
            print(
                f"  {kind:15} {figures['mb_per_s']:9.1f} MB/s {figures['reads_4k_per_s']:10.0f}"
                f" x 4 KiB/s {figures['cpu_s_per_gb']:7.2f} CPU s/GB"
                + (f" {peak:6.1f} MiB" if peak else "")
            )
        else:
            print(f"  {kind:15} {figures}")


@contextlib.contextmanager
def _native(directory: Path, size: int, content: str) -> Iterator[Callable[[int], Any]]:
    script = Path(__file__).with_name("rounds.py")
    top = str(Path(__file__).parents[2])

    def run(arguments: Sequence[str]) -> str:
        argv = [sys.executable, str(script), *arguments]
        env = {**os.environ, "PYTHONPATH": top}
        done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, env=env,
                              timeout=_ROUND_SECONDS)  # fmt: skip
        return done.stdout

    with tempfile.TemporaryDirectory(prefix="nvq-bench-", dir=directory) as scratch:

        def devices(count: int) -> dict[str, tuple[Round, list[str]]]:
            images = [Path(scratch) / f"drive-{n}" for n in range(count)]
            for image in images:
                if not image.exists():
                    _content(image, size, content)
            return {"files": (run, [str(image) for image in images])}

        yield devices


@contextlib.contextmanager
def _guest(size: int, content: str, most: int) -> Iterator[Callable[[int], Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="nvq-bench-") as scratch,
        Rack(Path(scratch) / "rack") as rack,
    ):
        drive = rack.drive(0, size=size)
        images = [Path(scratch) / f"stock-{n}.img" for n in range(most)]
        for image in images:
            _content(image, size, content)
        compute = rack.compute()
        compute.put(_SCRIPT, Path(__file__).with_name("rounds.py").read_bytes())
        stock = _plug_stock(compute, images)
        own = compute.block_device(drive.address)
        if content == "noise":
            compute.sh(f"dd if=/dev/urandom of={own} bs=1M oflag=direct 2>/dev/null || true",
                       timeout=_ROUND_SECONDS)  # fmt: skip

        def run(arguments: Sequence[str]) -> str:
            done = compute.run(
                ["python3", _SCRIPT, *arguments],
                env={"PYTHONPATH": "/opt/src"},
                timeout=_ROUND_SECONDS,
            )
            return done.stdout

        def devices(count: int) -> dict[str, tuple[Round, list[str]]]:
            found: dict[str, tuple[Round, list[str]]] = {"stock NVMe": (run, stock[:count])}
            return {"vfio-user drive": (run, [own]), **found} if count == 1 else found

        yield devices


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verify", description=__doc__)
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    parser.add_argument("--rounds", type=int, default=5, help="of which medians are taken")
    parser.add_argument("--size-mib", type=int, default=512, help="of each drive")
    parser.add_argument("--places", type=int, default=20000, help="random blocks per round")
    parser.add_argument(
        "--drives", type=int, nargs="+", default=[1], metavar="N",
        help="drives at once, a process each: such as 1 4 24 (in the guest: at most 56)",
    )  # fmt: skip
    parser.add_argument(
        "--native", type=Path, metavar="DIR",
        help="files in DIR in place of the guest's drives; DIR must be able to do O_DIRECT",
    )  # fmt: skip
    parser.add_argument(
        "--content", choices=("zeros", "noise"), default="zeros",
        help="what the drives hold: blank, or as some crypto erases leave them",
    )  # fmt: skip
    parser.add_argument(
        "--strict", action="store_true", help="fail where one drive is read below the aims"
    )
    chosen = parser.parse_args()
    size, found = chosen.size_mib << 20, dict[str, Any]()
    place = (
        _native(chosen.native, size, chosen.content)
        if chosen.native is not None
        else _guest(size, chosen.content, max(chosen.drives))
    )
    with place as devices:
        for count in chosen.drives:
            for device, (run, paths) in devices(count).items():
                name = f"{device} x {count}"
                found[name] = _measure(run, paths, chosen.places, chosen.rounds)
                if chosen.format == "table":
                    _print(f"{name}, {chosen.content}", found[name])
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
    alone = ("stock NVMe x 1", "files x 1")
    return 1 if chosen.strict and any(line.startswith(alone) for line in short) else 0


if __name__ == "__main__":
    sys.exit(main())
