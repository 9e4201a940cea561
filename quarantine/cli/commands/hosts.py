"""``host`` and ``broker``: whose word is believed, and their accounts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from eraser.protocol import codec
from quarantine.cli.base import ControlCommand, Lister, ShowOne, file_argument, list_arguments
from quarantine.cli.output import warn
from quarantine.cli.sources.columns import members_of
from quarantine.cli.sources.source import Columns, Members
from quarantine.inputfile import read_file

DEFAULT_PASSWORDS = Path("/etc/nvme-quarantine/broker-passwords.json")


class HostList(Lister):
    """Registered hosts."""

    table = (
        *("host", "incarnation", "heard_at", "version", "drives", "cases", "lacks", "maintenance"),
    )
    ages = frozenset({"heard_at"})

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--silent",
            action="store_true",
            help="those alone that were not heard for [detection]silent_after seconds",
        )
        list_arguments(parser)

    def human(self, name: str, value: Any) -> Any:
        return len(value) if name in ("drives", "cases") else super().human(name, value)

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        silent = parsed_args.silent
        return self.listed(parsed_args, lambda limit: self.source.hosts(silent=silent, limit=limit))


class _HostMembers(ShowOne):
    """One host and what it sees."""

    def human(self, name: str, value: Any) -> Any:
        if value is None:
            return super().human(name, value)
        if name == "defences":
            return tuple(" ".join(map(str, each.values())) for each in map(codec.plain, value))
        if name == "exemptions":
            told = map(codec.plain, value)
            return tuple(f"{e['address']} by {e['by']} at {e['at']}: {e['reason']}" for e in told)
        if name != "drives":
            return super().human(name, value)
        named = ((d, d.identity) for d in value)
        return tuple(
            f"{d.address} {d.driver or ''} {one.model if one else ''} {one.serial if one else ''}"
            for d, one in named
        )


class HostShow(_HostMembers):
    """One host and what it sees."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="HOST")

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        return self.source.host(parsed_args.host)


class HostRegister(_HostMembers):
    """Believe a host's key from now on."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        file_argument(parser, "the host's host.json")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="the host was installed anew: its older orders and reports are void",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        from quarantine.operations import hosts

        raw, where = read_file(parsed_args.file, "host card"), str(parsed_args.file)
        return members_of(hosts.register(self.plane, raw, where, replace=parsed_args.replace))


class HostRemove(ShowOne):
    """Believe a host no more."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", metavar="HOST")

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        from quarantine.operations import hosts

        removed = hosts.remove(self.plane, parsed_args.host)
        for slot in removed.taken_back:
            warn(f"{slot} is on offer: taken back by the running service with its next sweep")
        return members_of(removed)


class BrokerAcl(ControlCommand):
    """Print the accounts of Redis for its aclfile: one for each host, one for this program."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            action="append",
            default=[],
            metavar="NAME",
            help="a host that is not registered yet, beside those that are; repeatable",
        )
        parser.add_argument(
            "--passwords",
            type=Path,
            default=DEFAULT_PASSWORDS,
            metavar="FILE",
            help="the accounts' passwords; those that are missing are made (default: %(default)s)",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from quarantine.operations import hosts

        others, passwords = parsed_args.host, parsed_args.passwords
        self.app.stdout.write(hosts.accounts(self.plane, passwords, others=others))
