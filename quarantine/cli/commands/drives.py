"""``drive``: each one's life across hosts and slots."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from quarantine.cli.base import Lister, ShowOne, list_arguments
from quarantine.cli.sources.source import Columns, Members


class DriveList(Lister):
    """List drives that were ever seen."""

    table = ("digest", "model", "serial", "firmware", "host", "address", "dirty", "retired")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--model", help="only this model's")
        parser.add_argument("--serial", help="only with this serial number")
        parser.add_argument(
            "--firmware", help="only those that ran this revision at their last certificate"
        )
        list_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        args = parsed_args
        return self.listed(
            args,
            lambda limit: self.source.drives(
                model=args.model, serial=args.serial, firmware=args.firmware, limit=limit
            ),
        )


class DriveShow(ShowOne):
    """Show one drive: where it is, and where it was erased, and after which server."""

    ages = frozenset({"changed_at", "certified_at", "dirty_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("digest", metavar="DIGEST", help="as drive list has it")

    def human(self, name: str, value: Any) -> Any:
        if name == "slots":
            return tuple(f"{one.host}/{one.address} {one.state}" for one in value)
        if name == "cases":
            return tuple(
                f"{_minute(one.created_at)} {one.host}/{one.address} after {_user(one)}: "
                f"{one.digest}"
                for one in value
            )
        return super().human(name, value)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.source.drive(parsed_args.digest)


class DriveHistory(Lister):
    """List one drive's certificates, the newest first: where and when, and after which server."""

    table = ("number", "created_at", "host", "address", "server", "owner", "digest")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("digest", metavar="DIGEST", help="as drive list has it")

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        # By the names and not by their places: an API says less of some things.
        names, values = self.source.drive(parsed_args.digest)
        cases = dict(zip(names, values, strict=True))["cases"]
        return self.table, [[getattr(one, name) for name in self.table] for one in cases]


def _user(one: Any) -> str:
    """Who had it. The record's word is Placement's; a host's own is no more than that."""
    if one.server:
        return str(one.server)
    return f"{one.owner} by the host's word" if one.owner else "nobody known"


def _minute(at: datetime | None) -> str:
    """None stands for a time in a damaged row."""
    return "unknown" if at is None else f"{at:%Y-%m-%d %H:%M}"
