"""``maintenance``: for a time nobody is called for a host's or a slot's delays."""

from __future__ import annotations

import argparse
from datetime import datetime, timedelta

from quarantine.cli.base import Lister, ShowOne, by_argument, list_arguments
from quarantine.cli.sources.source import Columns, MaintenanceWord, Members
from quarantine.doors import MACHINE
from quarantine.errors import BadInputError


class _Subject(ShowOne):
    """What is decided of one host or slot."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "subject", metavar="HOST|SLOT", help="cmp1, or one slot as in cmp1/0000:01:00.0"
        )
        parser.add_argument(
            "--reason", required=True, help="for the history, and for your successor"
        )
        parser.add_argument(
            "--seen",
            type=int,
            metavar="VERSION",
            help="only where 'maintenance list' still has this version; 0: none is in effect",
        )
        by_argument(parser, remote=self.remote)

    def word(self, args: argparse.Namespace, until: datetime | None = None) -> MaintenanceWord:
        """As it was typed."""
        return MaintenanceWord(args.subject, args.reason, args.by, until, args.seen)


class MaintenanceSet(_Subject):
    """Have nobody called for delays of a host or a slot until a time; nothing else changes by it.

    One that is in effect gets another end and reason.
    """

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        super().arguments(parser)
        ends = parser.add_mutually_exclusive_group(required=True)
        ends.add_argument("--hours", type=float, help="how long it lasts from now on")
        ends.add_argument(
            "--until", metavar="TIME", help="when it ends by itself, as in 2026-11-24T18:00:00Z"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        if parsed_args.hours is None:
            until = a_time(parsed_args.until, "--until")
        else:
            # In the openstack program there is no control plane here, whose clock would count.
            now = MACHINE.now() if self.remote else self.plane.doors.now()
            until = ends_in(parsed_args.hours, now)
        return self.source.maintenances.begin(self.word(parsed_args, until))


class MaintenanceUnset(_Subject):
    """End the maintenance of a host or a slot before its time."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.source.maintenances.end(self.word(parsed_args))


class MaintenanceList(Lister):
    """List the maintenances that are in effect, or all that was ever said of one."""

    ages = frozenset({"at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--history", metavar="HOST|SLOT", help="who said what of this one, oldest first"
        )
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        found, subject = self.source.maintenances, parsed_args.history
        if subject is None:
            return self.listed(parsed_args, lambda limit: found.each(limit=limit))
        return self.listed(parsed_args, lambda limit: found.history(subject, limit=limit))


def ends_in(hours: float, now: datetime) -> datetime:
    """The time that is so far away. Raises :class:`BadInputError`."""
    try:
        return now + timedelta(hours=hours)
    except (OverflowError, ValueError) as error:
        raise BadInputError(f"--hours: expected a number of them, found {hours:g}") from error


def a_time(words: str, option: str) -> datetime:
    """A time with its zone. Raises :class:`BadInputError`."""
    try:
        found = datetime.fromisoformat(words)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise BadInputError(
            f"{option}: expected a time with its zone, as in 2026-11-24T18:00:00Z, found "
            f"{words[:40]!r}"
        )
    return found
