"""``nvme-bench show``: a result on the terminal, or as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from qualify.cli.output import add_format
from qualify.report import table, words
from qualify.results import reading


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("result", type=Path, help="the JSON that 'run' wrote")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write one page with all pictures, that needs nothing else: to read, print or send",
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Shows. Raises :class:`~qualify.errors.BadInputError`."""
    found = reading.read(arguments.result)
    if arguments.html is not None:
        from qualify.report import page

        page.write(arguments.html, found)
    if arguments.format == "json":
        print(found.text(), end="")
    else:
        for line in table.lines(found):
            print(words.printable(line))
    return 0
