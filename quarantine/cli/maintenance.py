"""``maintenance``: for a time nobody is called for a host's or a slot's delays."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Final

from quarantine.cli.base import Columns, Lister, Members, ShowOne, slot
from quarantine.errors import BadInputError
from quarantine.operations import maintenance
from quarantine.operations.maintenance import Initiator, Maintenance, Subject

MOST: Final = 1000
"""Entries that are listed."""

_NAMES: Final = ("subject", "until", "reason", "by", "at", "version")


def _said(one: Maintenance) -> list[object]:
    return [str(one.subject), one.until, one.reason, one.by.user, one.at, one.version]


class _Subject(ShowOne):
    """What is decided of one host or slot."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "subject", metavar="HOST|SLOT", help="cmp1, or one slot as in cmp1/0000:01:00.0"
        )
        parser.add_argument(
            "--reason", required=True, help="for the history, and for your successor"
        )
        parser.add_argument("--by", required=True, metavar="NAME", help="who decides")


class MaintenanceBegin(_Subject):
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
        if parsed_args.hours is not None:
            until = maintenance.ends_in(parsed_args.hours * 3600, self.plane)
        else:
            until = a_time(parsed_args.until, "--until")
        found = maintenance.begin(
            self.plane,
            _subject(parsed_args.subject),
            until=until,
            reason=parsed_args.reason,
            by=Initiator(parsed_args.by),
        )
        return _NAMES, _said(found)


class MaintenanceEnd(_Subject):
    """End the maintenance of a host or a slot before its time."""

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        found = maintenance.end(
            self.plane,
            _subject(parsed_args.subject),
            reason=parsed_args.reason,
            by=Initiator(parsed_args.by),
        )
        return _NAMES, _said(found)


class MaintenanceList(Lister):
    """List the maintenances that are in effect, or all that was ever said of one."""

    ages = frozenset({"at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--history", metavar="HOST|SLOT", help="who said what of this one, oldest first"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        if parsed_args.history is not None:
            subject = _subject(parsed_args.history)
            found = maintenance.history(self.plane, subject, limit=MOST)
        else:
            found = maintenance.page(self.plane, limit=MOST)
        return _NAMES, [_said(one) for one in found]


def _subject(words: str) -> Subject:
    if "/" not in words:
        return Subject(words)
    place = slot(words)
    return Subject(place.host, place.address)


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
