"""Every named drive of the lab: written by a tenant, left as a tenant leaves it, erased by the
real `nvme-eraser erase` in a compute guest, and audited on its backing file from outside.

Results are kept in a file as they come; the same command goes on where an earlier one ended, and
runs again what other code found. Exit code 1: a leak, an honest drive held, a bad one released,
or a hang.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.zoo import page, result
from benchmarks.zoo.eraser import erase
from benchmarks.zoo.scene import scene
from tests.lab.errors import LabError
from tests.lab.guest import build
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.presetkind import Preset
from tests.lab.nvme.presets import PRESETS, preset

_KEPT: Final = Path(".zoo/results.jsonl")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def run_one(chosen: Preset, version: str) -> result.Result:
    """One drive. Raises ``LabError`` where the rack fails, which is no verdict on anybody."""
    with scene(chosen) as made:
        answer = erase(made)
        left = made.count_left()
        return result.Result(
            preset=chosen.name,
            about=chosen.about,
            expected=chosen.expected,
            verdict=answer.verdict,
            fit=answer.fit,
            seconds=round(answer.seconds, 2),
            commands=made.count_commands(),
            leaked_blocks=left if answer.released else 0,
            left_blocks=left,
            tenant_blocks=len(made.known),
            outcome=answer.outcome,
            achieved=answer.achieved,
            resumed=answer.resumed,
            hung=answer.hung,
            steps=answer.steps,
            destructive=made.destructive(),
            reasons=list(answer.reasons),
            version=version,
        )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.add_argument("-f", "--format", choices=("table", "json", "markdown"), default="table")
    parser.add_argument("--only", nargs="+", metavar="PRESET", help="these drives alone")
    parser.add_argument(
        "--results", type=Path, default=_KEPT, help="where results are kept (%(default)s)"
    )
    parser.add_argument("--anew", action="store_true", help="run what is kept as well")
    parser.add_argument(
        "--kept", action="store_true", help="run nothing, show what is kept, of any version"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="drives at a time, each in a guest of its own"
    )
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
    if options.jobs < 1:
        print(f"zoo: expected at least one job, found {options.jobs}", file=sys.stderr)
        return 2
    try:
        chosen = [preset(name) for name in options.only or PRESETS]
    except DriveError as error:
        print(f"zoo: {error}", file=sys.stderr)
        return 2
    version = result.version()
    found = result.load(options.results, only=None if options.kept else version)
    failed = False
    if not options.kept:
        failed = not _run(options, chosen, found, version)
    results = [found[one.name] for one in chosen if one.name in found]
    if options.format == "json":
        print(json.dumps([asdict(one) for one in results], indent=1))
    elif options.format == "markdown":
        print(page.page(results), end="")
    else:
        print(result.table(results))
        print(", ".join(f"{name} {value}" for name, value in result.summary(results).items()))
    return 1 if failed or any(one.wrong for one in results) else 0


def _run(
    options: argparse.Namespace,
    chosen: Sequence[Preset],
    found: dict[str, result.Result],
    version: str,
) -> bool:
    """Fills ``found``; whether every drive has its result."""
    waiting = [one for one in chosen if options.anew or one.name not in found]
    end = time.monotonic() + options.at_most
    build.ensure(progress=_say)

    def work(one: Preset) -> result.Result | None:
        if time.monotonic() > end:
            return None
        try:
            return run_one(one, version)
        except LabError as error:
            _say(f"{one.name}: the rack failed, not counted: {error}")
            return None

    done = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(work, one) for one in waiting]):
            row = future.result()
            if row is None:
                continue
            done += 1
            result.append(options.results, row)
            found[row.preset] = row
            _say(
                f"{done}/{len(waiting)} {row.preset}: {row.verdict}, "
                f"{'fit' if row.fit else 'held'}, {row.seconds:.1f} s, "
                f"{row.leaked_blocks} leaked, {row.left_blocks} left"
                + (f"  WRONG: {row.wrong}" if row.wrong else "")
            )
    if done < len(waiting):
        _say(f"{len(waiting) - done} drives are left for the next call")
    return done == len(waiting)


if __name__ == "__main__":
    sys.exit(main())
