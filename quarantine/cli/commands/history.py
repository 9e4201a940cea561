"""``history``: what happened in the whole fleet."""

from __future__ import annotations

import argparse

from quarantine.cli.base import Lister, choices, list_arguments
from quarantine.cli.sources.source import Columns
from quarantine.operations.names import Event


class HistoryList(Lister):
    """What happened to slots, the last first. 'slot history' has all of one slot's life."""

    table = ("at", "slot", "event", "target", "reason")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="only to slots of this host")
        parser.add_argument(
            "--event",
            choices=choices(Event),
            metavar="EVENT",
            help="only lines of this event, as in certified, held or released_by_operator",
        )
        list_arguments(parser, bounded=True)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        words = parsed_args
        return self.listed(
            words,
            lambda limit: self.source.fleet_history(
                host=words.host, event=words.event, limit=limit
            ),
            bounded=True,
        )
