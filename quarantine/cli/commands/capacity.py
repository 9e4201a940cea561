"""``capacity``: what can be sold now, what is missing, and what comes back when."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any, Final

from quarantine.cli.base import Lister
from quarantine.cli.output import Lines, until
from quarantine.cli.sources.source import Columns

WIDTH: Final = 64
"""Characters of a line of the sentence in a table: beside the figures it fits a terminal of 132."""


class CapacityShow(Lister):
    """What can be sold now in whole flavors, what is missing for more, and what comes back when.

    Flavors take from the same drives: each figure is for when only that flavor is sold.
    """

    table = ("flavor", "host", "sellable", "free", "coming", "held", "next_at", "says")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "flavor", nargs="?", metavar="FLAVOR", help="this one: on all hosts, then on each"
        )
        parser.add_argument("--host", help="only on this host")

    def human(self, name: str, value: Any) -> Any:
        if name == "next_at" and value is not None:
            return until(value)
        if name == "says":
            return Lines("\n".join(textwrap.wrap(value, WIDTH)))
        return "all" if name == "host" and not value else value

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return self.source.capacity(flavor=parsed_args.flavor, host=parsed_args.host)
