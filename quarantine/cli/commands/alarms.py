"""``alarm``: what people were called for."""

from __future__ import annotations

import argparse

from quarantine.cli.base import Lister, choices, list_arguments
from quarantine.cli.sources.source import AlarmsWanted, Columns
from quarantine.operations.names import Severity


class AlarmList(Lister):
    """What people were called for, in the order of the first calls, or the last call first."""

    table = ("last_at", "code", "subject", "count", "over_at", "text")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only of this host and its slots")
        parser.add_argument("--slot", metavar="SLOT", help="only of this slot")
        parser.add_argument("--code", help="only this kind's, as in on-offer")
        parser.add_argument(
            "--severity",
            choices=choices(Severity),
            help="only what is that bad; critical wakes people",
        )
        over = parser.add_mutually_exclusive_group()
        over.add_argument(
            "--open", action="store_true", help="only those of which nobody said that they are over"
        )
        over.add_argument(
            "--over", action="store_true", help="only those that were said to be over"
        )
        parser.add_argument("--newest", action="store_true", help="the last call first")
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        words = parsed_args
        wanted = AlarmsWanted(
            host=words.host,
            slot=words.slot,
            code=words.code,
            severity=words.severity,
            is_over=words.over if words.open or words.over else None,
            newest=words.newest,
        )
        return self.listed(words, lambda limit: self.source.alarms(wanted, limit))
