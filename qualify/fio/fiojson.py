"""fio's JSON (``--output-format=json+``) as facts. What it says is judged, not believed."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from qualify.errors import FioError
from qualify.fio.histogram import Histogram

MAX_TEXT: Final = 32 * 2**20
"""Bytes. A run with group reporting prints well under one MiB."""

_MAX_BINS: Final = 10_000
"""fio has 1,856 (29 groups of 64)."""


@dataclass(frozen=True)
class Side:
    """The reads, or the writes, of one run."""

    iops: float
    throughput: float
    """Bytes a second."""
    count: int
    """Commands."""
    mean: float
    """Completion latency in nanoseconds."""
    longest: int
    """Nanoseconds."""
    latency: Histogram


@dataclass(frozen=True)
class Sample:
    """One run of fio."""

    read: Side
    write: Side
    seconds: float
    cpu: float
    """CPU seconds of all its jobs."""
    version: str
    utilization: Mapping[str, float]
    """Disk to percent of the time in which it had work."""

    @property
    def iops(self) -> float:
        """Reads and writes a second."""
        return self.read.iops + self.write.iops

    @property
    def throughput(self) -> float:
        """Bytes a second, both ways."""
        return self.read.throughput + self.write.throughput


def parse(text: str) -> Sample:
    """The one job group in fio's output.

    fio prints notes before its object. Raises :class:`FioError` where there is no such object, a
    value is missing or impossible, or the job failed.
    """
    if len(text) > MAX_TEXT:
        raise FioError(f"expected at most {MAX_TEXT} bytes from fio, found {len(text)}")
    start = 0 if text.startswith("{") else text.find("\n{") + 1
    try:
        # raw_decode: what fio prints after its object is left alone. NaN and Infinity are refused.
        document = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, start)[0]
    except (ValueError, RecursionError) as error:
        raise FioError(
            f"expected one JSON object from fio, found {text[:80]!r}; fio 3 is needed"
        ) from error
    root = _Branch(document, "fio's answer")
    jobs = root.get("jobs")
    # --group_reporting makes one group of all jobs.
    if not isinstance(jobs, list) or len(jobs) != 1:
        raise FioError("expected one group of jobs in fio's answer, found another number of them")
    job = _Branch(jobs[0], "jobs[0]")
    failed = job.whole("error")
    if failed:
        raise FioError(f"fio's job failed: {os.strerror(failed)}")
    read, write = _side(job.branch("read")), _side(job.branch("write"))
    # The side that had no commands has a run time of 0.
    seconds = max(job.branch(side).number("runtime") for side in ("read", "write")) / 1000
    # The shares are of the group's time, which is that of all its jobs together.
    busy = job.number("job_runtime") / 1000
    cpu = busy * (job.number("usr_cpu") + job.number("sys_cpu")) / 100
    return Sample(read, write, seconds, cpu, root.text("fio version"), _disks(root))


def _side(side: _Branch) -> Side:
    count = side.whole("total_ios")
    if count == 0:
        return Side(0.0, 0.0, 0, 0.0, 0, Histogram({}))
    latency = side.branch("clat_ns")
    bins = latency.branch("bins").value
    if len(bins) > _MAX_BINS:
        raise FioError(f"expected at most {_MAX_BINS} bins in {latency.name}, found {len(bins)}")
    counts: dict[int, int] = {}
    for name, entry in bins.items():
        if not (name.isascii() and name.isdecimal() and len(name) < 20):
            raise FioError(f"expected nanoseconds in {latency.name}.bins, found {name[:40]!r}")
        counts[int(name)] = _count(entry, f"{latency.name}.bins")
    return Side(
        iops=side.number("iops"),
        throughput=side.number("bw_bytes"),
        count=count,
        mean=latency.number("mean"),
        longest=latency.whole("max"),
        latency=Histogram(counts),
    )


def _disks(root: _Branch) -> dict[str, float]:
    disks = root.value.get("disk_util", [])
    if not isinstance(disks, list):
        raise FioError(f"expected a list of disks in fio's answer, found {type(disks).__name__}")
    found = (_Branch(disk, "disk_util") for disk in disks[:64])
    return {disk.text("name"): disk.number("util") for disk in found}


class _Branch:
    """An object in the document that knows what it is called."""

    def __init__(self, value: object, name: str) -> None:
        if not isinstance(value, dict):
            raise FioError(f"expected an object for {name}, found {type(value).__name__}")
        self.value: dict[str, object] = value
        self.name = name

    def get(self, key: str) -> object:
        if key not in self.value:
            raise FioError(f"expected {key!r} in {self.name}, found none; fio 3 is needed")
        return self.value[key]

    def branch(self, key: str) -> _Branch:
        return _Branch(self.get(key), f"{self.name}.{key}")

    def number(self, key: str) -> float:
        """Finite and not below 0."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise FioError(f"expected a number for {self.name}.{key}, found {str(value)[:40]!r}")
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if not math.isfinite(found) or found < 0:
            raise FioError(f"expected 0 or more for {self.name}.{key}, found {str(value)[:40]}")
        return found

    def whole(self, key: str) -> int:
        return _count(self.get(key), f"{self.name}.{key}")

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str) or len(value) > 100:
            raise FioError(f"expected a short text for {self.name}.{key}")
        return value


def _count(value: object, name: str) -> int:
    # To Python JSON's true is the number 1.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
        raise FioError(f"expected a count for {name}, found {str(value)[:40]!r}")
    return value


def _refuse(name: str) -> float:
    raise ValueError(name)
