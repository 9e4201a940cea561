"""One round on the machine that has the drives: ``rounds.py PLACES DEVICE...`` prints one JSON.

Reads the devices as the verifier does after an erase, one process per device and all at once, as a
host does that erases several drives; and between them as fio does. Wall time from the moment that
all are ready, processor time of everything that the reading needed.
"""

import json
import os
import resource
import subprocess
import sys
import time

from eraser.clock import MACHINE
from eraser.media.reader import BATCH, BATCHES, BlockDevice
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.protocol.policy import VerificationMode

_CONFIDENCE = 0.999


def _plan(path: str, mode: VerificationMode, places: int) -> VerifyPlan:
    with BlockDevice(path) as device:
        size = device.size
    residual = 1 - (1 - _CONFIDENCE) ** (1 / places)
    namespace = NamespacePlan(1, path, size)
    return VerifyPlan(mode, os.urandom(32), _CONFIDENCE, residual, (namespace,), per_random=0)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def child(mode: str, places: int, path: str) -> None:
    """Verify one device when told to."""
    plan = _plan(path, VerificationMode(mode), places)
    print("ready", flush=True)
    sys.stdin.readline()
    cpu, start = _cpu(), time.monotonic()
    result = Verifier(plan, BlockDevice, MACHINE).run()
    seconds, cpu = time.monotonic() - start, _cpu() - cpu
    if result is None or result.done.value != mode or result.namespaces[0].unreadable:
        raise SystemExit(f"expected a clean {mode} read of {path}, found {result}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"bytes": result.bytes_read, "seconds": seconds, "cpu": cpu, "kib": peak}))


def _ours(mode: str, places: int, paths: list[str]) -> dict[str, float]:
    argv = [sys.executable, __file__, "child", mode, str(places)]
    children = [
        subprocess.Popen(
            [*argv, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for path in paths
    ]
    try:
        for one in children:
            if one.stdout is None or one.stdout.readline() != "ready\n":
                raise SystemExit("a reading process did not start")
        start = time.monotonic()
        for one in children:
            assert one.stdin is not None
            one.stdin.write("go\n")
        found = [json.loads(one.communicate()[0]) for one in children]
        wall = time.monotonic() - start
    finally:
        for one in children:
            one.kill()
            one.wait()
    # Of one device alone its own clock: the pipe's part of a short round is no reading.
    seconds = found[0]["seconds"] if len(found) == 1 else wall
    figures = _figures(
        sum(one["bytes"] for one in found), seconds, sum(one["cpu"] for one in found)
    )
    return {**figures, "peak_rss_mib": max(one["kib"] for one in found) / 1024}


def _fio(paths: list[str], *options: str) -> dict[str, float]:
    argv = ["fio", "--readonly", "--direct=1", "--ioengine=libaio", "--thread"]
    argv += ["--output-format=json", *options]
    for number, path in enumerate(paths):
        argv += [f"--name=read{number}", f"--filename={path}"]
    done = subprocess.run(argv, capture_output=True, check=True)
    jobs = json.loads(done.stdout)["jobs"]
    # fio's own percentages: its start, which reads no byte, would count against it otherwise.
    spent = [
        (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["read"]["runtime"] / 1000 for job in jobs
    ]
    seconds = max(job["read"]["runtime"] for job in jobs) / 1000
    return _figures(sum(job["read"]["io_bytes"] for job in jobs), seconds, sum(spent))


def _figures(size: int, seconds: float, cpu: float) -> dict[str, float]:
    return {
        "mb_per_s": size / seconds / 1e6,
        "reads_4k_per_s": size / 4096 / seconds,
        "cpu_s_per_gb": cpu / size * 1e9,
        "seconds": seconds,
    }


def main() -> None:
    """Ours and fio's turn by turn, so that a noisy minute hits both."""
    if sys.argv[1] == "child":
        child(sys.argv[2], int(sys.argv[3]), sys.argv[4])
        return
    places, paths = int(sys.argv[1]), sys.argv[2:]
    with BlockDevice(paths[0]) as device:
        size = device.size
    deep = str(BATCH * BATCHES)
    random = ("--rw=randread", "--bs=4k", "--norandommap", f"--number_ios={places}")
    found = {
        "full": _ours("full", places, paths),
        "fio_full": _fio(paths, "--rw=read", "--bs=1m", "--iodepth=4", f"--size={size}"),
        "random": _ours("statistical", places, paths),
        "fio_random": _fio(paths, *random, f"--iodepth={deep}"),
        "fio_random_32": _fio(paths, *random, "--iodepth=32"),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
