"""One round in the guest: ``inguest.py DEVICE PLACES`` prints one JSON object.

Reads the device as the verifier does after an erase, all of it and ``PLACES`` random blocks, and
between them as fio does. Wall time of the reading alone, processor time of everything it needed.
"""

import json
import os
import resource
import subprocess
import sys
import time

from eraser.proof.reader import BATCH, BATCHES, Device
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.wire.policy import VerificationMode

_CONFIDENCE = 0.999


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def _ours(path: str, size: int, mode: VerificationMode, places: int) -> dict[str, float]:
    residual = 1 - (1 - _CONFIDENCE) ** (1 / places)
    plan = VerifyPlan(
        mode,
        os.urandom(32),
        _CONFIDENCE,
        residual,
        (NamespacePlan(1, path, size),),
        per_random=0,
    )
    cpu, start = _cpu(resource.RUSAGE_SELF), time.monotonic()
    result = Verifier(plan).run()
    seconds = time.monotonic() - start
    if result is None or result.done is not mode or result.namespaces[0].unreadable:
        raise SystemExit(f"expected a clean {mode.value} read, found {result}")
    return _figures(result.bytes_read, seconds, _cpu(resource.RUSAGE_SELF) - cpu)


def _fio(path: str, *options: str) -> dict[str, float]:
    argv = ["fio", "--name=read", f"--filename={path}", "--readonly", "--direct=1"]
    argv += ["--ioengine=libaio", "--thread", "--output-format=json", *options]
    cpu = _cpu(resource.RUSAGE_CHILDREN)
    done = subprocess.run(argv, capture_output=True, check=True)
    [job] = json.loads(done.stdout)["jobs"]
    # fio's own percentages: its start, which reads no byte, would count against it otherwise.
    seconds = job["read"]["runtime"] / 1000
    spent = (job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds
    if _cpu(resource.RUSAGE_CHILDREN) - cpu < spent * 0.5:
        raise SystemExit("fio's own account of its processor time does not fit the kernel's")
    return _figures(job["read"]["io_bytes"], seconds, spent)


def _figures(size: int, seconds: float, cpu: float) -> dict[str, float]:
    return {
        "mb_per_s": size / seconds / 1e6,
        "reads_4k_per_s": size / 4096 / seconds,
        "cpu_s_per_gb": cpu / size * 1e9,
        "seconds": seconds,
    }


def main() -> None:
    """Ours and fio's turn by turn, so that a noisy minute hits both."""
    path, places = sys.argv[1], int(sys.argv[2])
    with Device(path) as device:
        size = device.size
    deep = str(BATCH * BATCHES)
    random = ("--rw=randread", "--bs=4k", "--norandommap", f"--number_ios={places}")
    found = {
        "sequential": _ours(path, size, VerificationMode.FULL, places),
        "fio_sequential": _fio(path, "--rw=read", "--bs=1m", "--iodepth=4", f"--size={size}"),
        "random": _ours(path, size, VerificationMode.STATISTICAL, places),
        "fio_random": _fio(path, *random, f"--iodepth={deep}"),
        "fio_random_32": _fio(path, *random, "--iodepth=32"),
    }
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rounds": found, "peak_rss_mib": memory}))


if __name__ == "__main__":
    main()
