"""``refusal``: messages that were refused."""

from __future__ import annotations

import argparse

from quarantine.cli.base import Columns, Lister, rows_of
from quarantine.operations import refusals
from quarantine.operations.refusals import Refusal


class RefusalList(Lister):
    """Messages that were refused, and alarms about drives."""

    table = ("last_at", "kind", "host", "count", "reason")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only this host's")

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(Refusal, refusals.find(self.plane, host=parsed_args.host))
