"""``slot enrol``: one slot, a host, a resource class, or all that a running cloud has."""

from __future__ import annotations

import argparse
from collections import Counter

from eraser.protocol.identity import host_name, pci_address
from quarantine.cli.base import Columns, Lister
from quarantine.cli.output import warn
from quarantine.errors import BadInputError, IllegalTransitionError
from quarantine.operations.enrol import EnrolmentFate, EnrolmentRequest, take


class SlotEnrol(Lister):
    """Take slots into care; a free one is erased first, a used one is not touched."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", help="compute host, as Nova names it; alone: all its slots")
        parser.add_argument("--pci", help="one slot of it, as in 0000:01:00.0")
        parser.add_argument("--resource-class", metavar="CLASS", help="all slots of this class")
        parser.add_argument(
            "--all", action="store_true", help="every one-time-use slot of the cloud"
        )
        parser.add_argument("--profile", required=True, help="name of the approved profile")
        parser.add_argument("--policy", help="name of the policy; default: [erase]policy")
        parser.add_argument(
            "--plan", action="store_true", help="say what would be done, change nothing"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        done = take(self.plane, _wish(parsed_args), plan=parsed_args.plan)
        if done.refused:
            self.exit_code = IllegalTransitionError.exit_code
        counts = Counter(one.fate for one in done.slots)
        words = ", ".join(f"{counts[fate]} {fate}" for fate in EnrolmentFate if counts[fate])
        rest = "the running service goes on from here"
        if done.unacted:
            rest += f" ({done.unacted})"
        warn(f"{words}; {'nothing was changed' if parsed_args.plan else rest}")
        names = ("slot", "fate", "resource_class", "consumer", "reason")
        return names, [[getattr(one, name) for name in names] for one in done.slots]


def _wish(args: argparse.Namespace) -> EnrolmentRequest:
    """What is asked for. Raises :class:`BadInputError`."""
    given = [args.all, args.host is not None, args.resource_class is not None]
    if not any(given) or (args.all and any(given[1:])):
        raise BadInputError(
            "enrol: expected --host, --resource-class or --all; see nvme-quarantine slot enrol "
            "--help"
        )
    if args.pci is not None and (args.host is None or args.resource_class is not None):
        raise BadInputError("enrol: expected --pci together with --host alone")
    try:
        return EnrolmentRequest(
            profile=args.profile,
            policy=args.policy,
            host=None if args.host is None else host_name(args.host),
            address=None if args.pci is None else pci_address(args.pci),
            resource_class=args.resource_class,
        )
    except ValueError as error:
        raise BadInputError(f"enrol: {error}") from error
