"""The unfinished run beside the result: one line of JSON per run of fio, so that it can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from qualify.errors import BadInputError
from qualify.fio.fiojson import Sample, Side
from qualify.fio.histogram import Histogram
from qualify.fio.workload import Cell

MAX_BYTES: Final = 512 * 2**20

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One cell of one round; rounds count from 1. The bins of older rounds are let go of."""

    round: int
    cell: Cell
    sample: Sample
    wall: float = 0.0
    """Seconds since the entry before, or since the run began or went on."""
    own_cpu: float = 0.0
    """CPU seconds of the bench itself in that time."""


@dataclass(frozen=True)
class RunJournal:
    """A file that is only ever added to."""

    path: Path

    def check_absent(self) -> None:
        """Raises :class:`BadInputError` where there is one already."""
        if self.path.exists():
            raise BadInputError(
                f"found an unfinished run in {self.path}; go on with it by --resume, or remove it"
            )

    def begin(self, header: Mapping[str, object]) -> None:
        """Makes the file. Raises :class:`BadInputError` where there is one already."""
        try:
            descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            # It came since. A link to nothing passes this look: then the kernel's words are told.
            self.check_absent()
            raise
        except OSError as error:
            raise BadInputError(f"cannot write {self.path}: {error.strerror}") from error
        os.close(descriptor)
        self._append(header)

    def add(self, entry: Entry) -> None:
        """One more run of fio is safe once this returns."""
        self._append(
            {
                "round": entry.round,
                "block": entry.cell.block,
                "reads": entry.cell.reads,
                "read": _plain(entry.sample.read),
                "write": _plain(entry.sample.write),
                "seconds": entry.sample.seconds,
                "cpu": entry.sample.cpu,
                "version": entry.sample.version,
                "utilization": dict(entry.sample.utilization),
                "wall": entry.wall,
                "own_cpu": entry.own_cpu,
            }
        )

    def _append(self, value: Mapping[str, object]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def load(self, header: Mapping[str, object]) -> Iterator[Entry]:
        """What was measured already; a last line that is torn never happened, and is cut off.

        Raises :class:`BadInputError` where the run was another one, or the file is not ours.
        """
        whole = 0
        try:
            with self.path.open("rb") as file:
                if (size := os.fstat(file.fileno()).st_size) > MAX_BYTES:
                    raise BadInputError(
                        f"expected at most {MAX_BYTES} bytes in {self.path}, found {size}"
                    )
                # Each line when it is wanted: the bins of all at once would fill the memory.
                for line in file:
                    # A line counts once its end is there: what a crash cut short was not added.
                    if not line.endswith(b"\n"):
                        break
                    if whole:
                        yield self._parsed(line, _entry)
                    else:
                        self._require_same(self._parsed(line, lambda found: found), header)
                    whole += len(line)
        except OSError as error:
            raise BadInputError(f"nothing to resume: {self.path}: {error.strerror}") from error
        if not whole:
            self._require_same(None, header)
        # Cut only now: a file that turned out to be none of ours is left as it was.
        if whole != size:
            os.truncate(self.path, whole)

    def _require_same(self, found: object, header: Mapping[str, object]) -> None:
        # Cells of another target or load would be mixed with these.
        if found != dict(header):
            raise BadInputError(
                f"{self.path} belongs to another run (preset, target, size, load; drives change "
                "their names when a machine starts); give the options of that one, or remove the "
                "file"
            )

    def _parsed(self, line: bytes, make: Callable[[Any], T]) -> T:
        try:
            return make(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadInputError(
                f"expected the journal of a run in {self.path}, found something else; remove it"
            ) from error


def _plain(side: Side) -> dict[str, object]:
    return {
        "iops": side.iops,
        "throughput": side.throughput,
        "count": side.count,
        "mean": side.mean,
        "longest": side.longest,
        "bins": [number for pair in sorted(side.latency.bins.items()) for number in pair],
    }


def _side(plain: dict[str, object]) -> Side:
    bins = plain["bins"]
    if not isinstance(bins, list) or len(bins) % 2:
        raise ValueError("bins")
    return Side(
        float(str(plain["iops"])),
        float(str(plain["throughput"])),
        int(str(plain["count"])),
        float(str(plain["mean"])),
        int(str(plain["longest"])),
        Histogram({int(ns): int(n) for ns, n in zip(bins[::2], bins[1::2], strict=True)}),
    )


def _entry(plain: dict[str, object]) -> Entry:
    read, write, disks = plain["read"], plain["write"], plain["utilization"]
    if not (isinstance(read, dict) and isinstance(write, dict) and isinstance(disks, dict)):
        raise ValueError("entry")
    return Entry(
        int(str(plain["round"])),
        Cell(int(str(plain["block"])), int(str(plain["reads"]))),
        Sample(
            _side(read),
            _side(write),
            float(str(plain["seconds"])),
            float(str(plain["cpu"])),
            str(plain["version"]),
            {str(name): float(busy) for name, busy in disks.items()},
        ),
        float(str(plain["wall"])),
        float(str(plain["own_cpu"])),
    )
