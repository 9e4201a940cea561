"""``drive``: each one's life across hosts and slots."""

from __future__ import annotations

import argparse
from typing import Any, Final

from quarantine.cli.base import Columns, Lister, Members, ShowOne, members_of, rows_of
from quarantine.operations import drives
from quarantine.operations.drives import DriveLine, DriveQuery

CHUNK: Final = 500
"""Drives that are read at a time."""


class DriveList(Lister):
    """List drives that were ever seen."""

    table = ("digest", "model", "serial", "firmware", "host", "address", "dirty", "retired")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--model", help="only this model's")
        parser.add_argument("--serial", help="only with this serial number")
        parser.add_argument(
            "--firmware", help="only those that ran this revision at their last certificate"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        query = DriveQuery(parsed_args.model, parsed_args.serial, parsed_args.firmware)
        found: list[DriveLine] = []
        while more := drives.page(
            self.plane, query, limit=CHUNK, after=found[-1].digest if found else ""
        ):
            found += more
        return rows_of(DriveLine, found)


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
                f"{one.created_at:%Y-%m-%d %H:%M} {one.host}/{one.address} after "
                f"{one.server or one.owner or 'nobody known'}: {one.digest}"
                for one in value
            )
        return super().human(name, value)

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return members_of(drives.show(self.plane, parsed_args.digest))
