"""The three workloads, with the source text's options but for what two processors cannot do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tests.lab.guest.vm import Guest

_JOBS: Final = 2
_DEPTH: Final = 32
_FILE_MIB: Final = 64


@dataclass(frozen=True)
class Workload:
    """One fio call. ``unit`` says what :func:`measure` returns for it."""

    name: str
    pattern: str
    block: str
    unit: str

    @property
    def direction(self) -> str:
        """The part of fio's report with the figures."""
        return "write" if "write" in self.pattern else "read"


WORKLOADS: Final = (
    Workload("4k randread", "randread", "4k", "IOPS"),
    Workload("4k randwrite", "randwrite", "4k", "IOPS"),
    Workload("1M read", "read", "1M", "MB/s"),
)


def measure(guest: Guest, directory: str, workload: Workload, seconds: int) -> float:
    """IOPS, or MB/s of 10^6 bytes. Raises ``LabError`` when fio fails."""
    argv = ["fio", "--output-format=json", "--direct=1", "--ioengine=libaio", "--time_based"]
    argv += [f"--bs={workload.block}", f"--rw={workload.pattern}", "--randrepeat=0"]
    argv += [f"--iodepth={_DEPTH}", f"--numjobs={_JOBS}", f"--filesize={_FILE_MIB}m"]
    argv += [f"--runtime={seconds}", "--group_reporting", f"--name={directory}/test"]
    done = guest.run(argv, timeout=seconds + 300)
    report = json.loads(done.stdout)["jobs"][0][workload.direction]
    return float(report["iops"] if workload.unit == "IOPS" else report["bw_bytes"] / 1e6)
