"""``alarm``: what people were called for."""

from __future__ import annotations

import argparse

from quarantine.cli.base import Columns, Lister, list_arguments


class AlarmList(Lister):
    """What people were called for, in the order of the first calls."""

    table = ("last_at", "code", "subject", "count", "over_at", "text")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only of this host and its slots")
        parser.add_argument("--code", help="only this kind's, as in on-offer")
        parser.add_argument(
            "--open", action="store_true", help="only those of which nobody said that they are over"
        )
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        words = parsed_args
        return self.listed(
            words,
            lambda limit: self.source.alarms(
                host=words.host, code=words.code, is_open=words.open, limit=limit
            ),
        )
