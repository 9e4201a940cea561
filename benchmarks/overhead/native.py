"""Memory of one worker and the runners of many drives, on this machine, against its unit's limit.

Each runner is a process of its own that has loaded what a case loads and reads a device as after a
default erase: fingerprints, canaries, sample, second reading. The child that asks its drive is
beside it all the time. The device is one sparse file for all of them. The worker has loaded Celery
and made its application; it talks to no broker. What is counted is memory that the kernel cannot
drop (anonymous), at its most; of a child, what it does not share with its runner.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from eraser import cli
from eraser.agent import memory
from eraser.clock import MACHINE
from eraser.controller.passthru import IDENTIFY
from eraser.controller.probe_process import Asker, ReadCommand
from eraser.host.sysfs import Host

_SIZE = 8 << 30
_BLOCK = 4096


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    return _rollup("self", "Anonymous")


def _rollup(pid: int | str, field: str) -> int:
    """Bytes of one kind of a process's memory (proc_pid_smaps(5))."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise SystemExit(f"expected the kernel to tell of {field} memory, found nothing")


def _asking(path: str) -> Asker:
    """A child as it asks a drive. A file is none: the child lives on with the kernel's refusal."""
    asker = Asker(Host(), os.open(path, os.O_RDONLY))
    answer = asker.ask(ReadCommand(IDENTIFY, 0, 1, 0, 0, 4096, 5.0), 60.0)
    if answer is None or not answer.error:
        raise SystemExit(f"expected {path} to refuse a command, found {answer}")
    return asker


def _runner(path: str) -> None:
    """One case's reading, without the drive's commands."""
    importlib.import_module(cli.VERBS["case"][0])
    from eraser.media.reader import BlockDevice
    from eraser.proof.probes.canaries import Canaries
    from eraser.proof.probes.fingerprints import Fingerprints
    from eraser.proof.probes.probefile import KEY_BYTES
    from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
    from eraser.protocol.policy import Verification

    asker = _asking(path)
    asked, seed = Verification(), b"s" * 32
    bare = VerifyPlan(
        asked.mode, seed, asked.confidence, asked.residual, (NamespacePlan(1, path, _SIZE),)
    )
    prints = Fingerprints(os.urandom(KEY_BYTES), 1)
    with BlockDevice(path) as device:
        prints.take(device, bare.places(bare.namespaces[0]), lambda *_: None)
    canaries = Canaries(os.urandom(KEY_BYTES), 1, _SIZE // _BLOCK, asked.canaries)
    namespace = NamespacePlan(1, path, _SIZE, canaries, prints)
    plan = VerifyPlan(
        asked.mode, seed, asked.confidence, asked.residual, (namespace,), reread=asked.reread
    )
    most = 0

    def look(_fraction: float, _detail: str) -> None:
        nonlocal most
        most = max(most, anonymous() + _rollup(asker.pid, "Private_Dirty"))

    look(0.0, "")
    Verifier(plan, BlockDevice, MACHINE).run(look)
    look(1.0, "")
    print(most, flush=True)
    sys.stdin.read()


def _worker() -> None:
    importlib.import_module("eraser.agent.worker")
    from eraser.protocol.transport.messaging import make_app

    app = make_app("redis://127.0.0.1:1/0", "host")
    app.finalize()
    print(anonymous(), flush=True)
    sys.stdin.read()


def _device(path: Path) -> None:
    """Noise at every place that the fingerprints are taken from."""
    from eraser.proof.verify import NamespacePlan, VerifyPlan
    from eraser.protocol.policy import Verification

    asked = Verification()
    plan = VerifyPlan(
        asked.mode, b"s" * 32, asked.confidence, asked.residual,
        (NamespacePlan(1, str(path), _SIZE),),
    )  # fmt: skip
    noise = os.urandom(1 << 20)
    with path.open("wb") as file:
        file.truncate(_SIZE)
        for number, place in enumerate(plan.places(plan.namespaces[0])):
            file.seek(place * _BLOCK)
            at = number % 250 * _BLOCK
            file.write(number.to_bytes(8, "little") + noise[at : at + _BLOCK - 8])


def measure(drives: int, directory: Path | None) -> tuple[int, list[int]]:
    """Bytes of the worker, and of each of ``drives`` runners that are there at once."""
    with tempfile.TemporaryDirectory(prefix="nvq-bench-", dir=directory) as scratch:
        path = Path(scratch) / "drive"
        _device(path)
        argv = [sys.executable, "-m", "benchmarks.overhead.native", "--child"]
        children = [
            subprocess.Popen(
                [*argv, what, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for what in ("worker", *["runner"] * drives)
        ]
        try:
            found = [int(each.stdout.readline()) for each in children if each.stdout is not None]
        finally:
            for each in children:
                each.kill()
                each.wait()
    return found[0], found[1:]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.native", description=__doc__
    )
    parser.add_argument("--drives", type=int, default=24, help="erased at once (%(default)s)")
    parser.add_argument("--directory", type=Path, help="on a file system that can do O_DIRECT")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        if chosen.child[0] == "worker":
            _worker()
        else:
            _runner(chosen.child[1])
        return 0
    began = time.monotonic()
    worker, runners = measure(chosen.drives, chosen.directory)
    total, limit = worker + sum(runners), memory.needed(chosen.drives)
    print(
        f"worker {worker / memory.MIB:.1f} MiB, {len(runners)} runners with a child each, at most "
        f"{max(runners) / memory.MIB:.1f} MiB: {total / memory.MIB:.0f} of "
        f"{limit // memory.MIB} MiB ({time.monotonic() - began:.0f} s)"
    )
    return 0 if total <= limit else 1


if __name__ == "__main__":
    sys.exit(main())
