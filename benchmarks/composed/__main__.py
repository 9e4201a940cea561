"""Composed drives by seed, in guests: a first tenant fills each, the real `nvme-eraser erase` runs
in a compute guest, and what it released goes to a second tenant. Each seed is tried in process too
(`python -m tests.lab.nvme.composed --erase`), and the two are held against each other.

Results are kept in a file as they come; the same command goes on where an earlier one ended.
Exit code 1: a liar that can be found was let through, an honest drive was held, or one hung.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.composed import rows
from benchmarks.composed.both import one
from benchmarks.composed.rows import Row
from benchmarks.composed.workers import workers
from benchmarks.zoo.result import version
from tests.lab.guest import build
from tests.lab.guest.argv import SHORT_TIMEOUTS
from tests.lab.nvme.composed.trial import Outcome

_KEPT: Final = Path(".zoo/composed.jsonl")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.composed", description=__doc__)
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    parser.add_argument("--seeds", default="1:100", metavar="A:B", help="from A to B, with B")
    parser.add_argument(
        "--results", type=Path, default=_KEPT, help="where results are kept (%(default)s)"
    )
    parser.add_argument(
        "--kept", action="store_true", help="run nothing, show what is kept, of any version"
    )
    parser.add_argument("--jobs", type=int, default=1, help="drives at a time")
    parser.add_argument(
        "--at-most",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="begin no further drive after so long; call again for the rest",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = _parse(arguments)
    first, _, last = options.seeds.partition(":")
    if not first.isdigit() or not (last or first).isdigit() or options.jobs < 1:
        print("composed: expected seeds such as 1:100, and at least one job", file=sys.stderr)
        return 2
    seeds = range(int(first), int(last or first) + 1)
    judged = version(rows.JUDGED)
    found = rows.load(options.results, only=None if options.kept else judged)
    whole = options.kept or _run(options, seeds, found, judged)
    shown = [found[seed] for seed in seeds if seed in found]
    if options.format == "json":
        print(json.dumps([asdict(row) for row in shown], indent=1))
    else:
        print("\n".join([rows.table(shown), "", *rows.through(shown)]))
    return 0 if whole and not any(_wrong(row) for row in shown) else 1


def _wrong(row: Row) -> bool:
    missed = row.outcome == Outcome.LET_THROUGH and not row.undetectable
    return missed or row.hung or row.outcome == Outcome.HELD_FOR_NOTHING


def _run(options: argparse.Namespace, seeds: range, found: dict[int, Row], judged: str) -> bool:
    """Fills ``found``; whether every seed has its row."""
    waiting = [seed for seed in seeds if seed not in found]
    end = time.time() + options.at_most
    build.ensure(progress=_say).saved(SHORT_TIMEOUTS)
    done = 0
    with workers(options.jobs) as pool:
        tasks = {pool.submit(one, seed, judged, end): seed for seed in waiting}
        for task in as_completed(tasks):
            row = task.result()
            if isinstance(row, str):
                _say(f"{tasks[task]}: the rack failed, not counted: {row}")
            if not isinstance(row, Row):
                continue
            done += 1
            rows.append(options.results, row)
            found[row.seed] = row
            _say(
                f"{done}/{len(waiting)} seed {row.seed}: {row.outcome}, {row.seconds:.0f} s, "
                f"guest got {sum(row.guest_got.values())}, host {sum(row.host_got.values())}"
                + (f"  DIFFERS: {row.differs}" if row.differs else "")
            )
    if done < len(waiting):
        _say(f"{len(waiting) - done} seeds are left for the next call")
    return done == len(waiting)


if __name__ == "__main__":
    sys.exit(main())
