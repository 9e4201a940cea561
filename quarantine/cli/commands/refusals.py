"""``refusal``: messages that were refused."""

from __future__ import annotations

import argparse

from quarantine.cli.base import Lister, list_arguments
from quarantine.cli.sources.source import Columns


class RefusalList(Lister):
    """Messages that were refused, and alarms about drives."""

    table = ("last_at", "kind", "host", "count", "reason")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only this host's")
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        host = parsed_args.host
        return self.listed(parsed_args, lambda limit: self.source.refusals(host=host, limit=limit))
