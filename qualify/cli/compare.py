"""``nvme-bench compare``: did anything get slower? Its exit code is for CI."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from qualify.cli.output import EXIT_SLOWER, add_format, percent
from qualify.errors import BadInputError
from qualify.report import table, words
from qualify.results import reading
from qualify.results.compare import compare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("before", type=Path, metavar="A", help="the older result")
    parser.add_argument("after", type=Path, metavar="B", help="the newer one")
    parser.add_argument(
        "--tolerance",
        type=percent,
        default=0.10,
        metavar="PERCENT",
        help="of its IOPS that a cell may lose (default: 10, what steady state allows anyway). "
        "Raise it for short runs, lower it for long ones on the same machine",
    )
    parser.add_argument(
        "--p99-tolerance",
        type=percent,
        metavar="PERCENT",
        help="that a cell's 99th percentile may gain (default: shown, not judged). Set it where "
        "runs are long enough for steady tails",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write both side by side as one page"
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 where nothing got slower. Raises :class:`BadInputError`."""
    before, after = reading.read(arguments.before), reading.read(arguments.after)
    try:
        found = compare(
            before,
            after,
            tolerance=arguments.tolerance,
            p99_tolerance=arguments.p99_tolerance,
        )
    except ValueError as error:
        raise BadInputError(str(error)) from error
    if arguments.html is not None:
        from qualify.report import page

        page.write_comparison(arguments.html, before, after, found)
    if arguments.format == "json":
        # asdict() leaves properties out, and programs want the verdict.
        plain = asdict(found) | {"worst": asdict(found.worst), "passed": found.passed}
        print(json.dumps(plain))
    else:
        for line in table.comparison_lines(found):
            print(words.printable(line))
    return 0 if found.passed else EXIT_SLOWER
