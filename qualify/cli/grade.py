"""``nvme-bench grade``: the performance level that figures from anywhere reach."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict

from qualify.cli.output import EXIT_NO_LEVEL, add_format, percent
from qualify.report import words
from qualify.results.levels import LEVELS, TOLERANCE, grade


def _above_zero(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # A NaN is above nothing: it is refused here as well.
    if not 0 < value < 1e18:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "--size",
        type=_above_zero,
        required=True,
        metavar="GB",
        help="of the volume, in 10**9 bytes",
    )
    parser.add_argument(
        "--iops", type=_above_zero, required=True, help="operations a second with 4K blocks"
    )
    parser.add_argument(
        "--throughput",
        type=_above_zero,
        required=True,
        metavar="MB/S",
        help="with the best block size, in 10**6 bytes a second",
    )
    parser.add_argument(
        "--tolerance",
        type=percent,
        default=TOLERANCE,
        metavar="PERCENT",
        help=f"that a measurement may miss a promise by (default: {TOLERANCE * 100:g}, a little "
        "more than the sources' own figures do). 0 takes each promise by its word",
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 where there is a level."""
    # A size above 0 that rounds to 0 bytes would be no size for grade().
    size = max(1, round(arguments.size * 1e9))
    found = grade(
        size,
        arguments.iops,
        arguments.throughput * 1e6,
        tolerance=min(arguments.tolerance, 1.0),
    )
    if arguments.format == "json":
        print(json.dumps(None if found is None else asdict(found)))
    else:
        print(_line(size) if found is None else f"{found}: promises {_promise(found.vpu, size)}")
    return 0 if found else EXIT_NO_LEVEL


def _line(size: int) -> str:
    return f"below every level: the smallest promises {_promise(LEVELS[0].vpu, size)}"


def _promise(vpu: int, size: int) -> str:
    level = next(level for level in LEVELS if level.vpu == vpu)
    return (
        f"{level.iops(size):,.0f} IOPS and {words.throughput(level.throughput(size))} "
        f"to {words.size(size)}"
    )
