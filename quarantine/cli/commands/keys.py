"""``key``: the controller's own keys. Public halves are printed as JWK, for hosts and auditors."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from quarantine.cli.base import ControlCommand
from quarantine.cli.output import warn
from quarantine.operations.papers import keys
from quarantine.operations.papers.keys import KeyUse


class _PublicKey(ControlCommand):
    """A command that prints a public key."""

    def put(self, jwk: dict[str, str]) -> None:
        """As a file has it."""
        self.app.stdout.write(json.dumps(jwk, indent=2, sort_keys=True) + "\n")


class KeyCreate(_PublicKey):
    """Make the controller's signing key; prints the public half (JWK) for hosts and auditors."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--output", type=Path, metavar="FILE", help="default: [evidence]signing_key"
        )

    def configured(self, parsed_args: argparse.Namespace) -> bool:
        return parsed_args.output is None

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        made = keys.create(self.plane, parsed_args.output)
        # On stderr: stdout has the key alone, for a file on hosts and with auditors.
        warn(
            f"key create: {made.path} has mode 0600; the service has to run as its owner, "
            f"{made.owner}"
        )
        self.put(made.jwk)


class KeyShow(_PublicKey):
    """Print the public half of the signing key (JWK)."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--orders",
            dest="use",
            action="store_const",
            const=KeyUse.ORDERS,
            default=KeyUse.CERTIFICATES,
            help="of the key that signs orders ([erase]order_key), for hosts' controller.jwk; with "
            "[erase]former_order_keys a set of keys",
        )
        which.add_argument(
            "--tickets",
            dest="use",
            action="store_const",
            const=KeyUse.TICKETS,
            default=KeyUse.CERTIFICATES,
            help="of the key that signs tickets ([erase]ticket_key), for hosts' tickets.jwk; with "
            "[erase]former_ticket_keys a set of keys",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.put(keys.show(self.plane, parsed_args.use))


class KeyRotate(_PublicKey):
    """Have another key sign what comes next, said by both.

    Before [evidence]signing_key changes.
    """

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            type=Path,
            metavar="FILE",
            required=True,
            help="the new key, as key create made it",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        done = keys.rotate(self.plane, parsed_args.to)
        where = f", and in {done.where}"
        if done.unwritten:
            where = ""
            warn(
                f"key rotate: not written to {done.where}: {done.unwritten}; certificate export "
                "does it"
            )
        warn(
            f"key rotate: it stands in the record{where}; nothing is certified until "
            f"[evidence]signing_key is {done.key} and the service runs with it"
        )
        self.put(done.jwk)
