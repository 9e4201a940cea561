"""``slot enrol``: one slot, a host, a resource class, or all that a running cloud has."""

from __future__ import annotations

import argparse
import shlex
from typing import Final

from eraser.protocol.identity import host_name, pci_address
from quarantine.cli.base import Lister, version
from quarantine.cli.output import warn
from quarantine.cli.sources.columns import rows_of
from quarantine.cli.sources.source import Columns, EnrolmentLine, EnrolmentWish
from quarantine.errors import BadInputError, ConflictError, IllegalTransitionError
from quarantine.operations.names import EnrolmentFate

_IN_CARE: Final = frozenset({EnrolmentFate.FREE, EnrolmentFate.IN_USE, EnrolmentFate.KNOWN})


class SlotEnrol(Lister):
    """Take slots into care; a free one is erased first, a used one is not touched."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--host",
            required=self.remote,
            help="compute host, as Nova names it; alone: all its slots",
        )
        parser.add_argument("--pci", help="one slot of it, as in 0000:01:00.0")
        parser.add_argument("--resource-class", metavar="CLASS", help="all slots of this class")
        if self.remote:  # the API has a plan for each host
            parser.set_defaults(all=False)
        else:
            parser.add_argument(
                "--all", action="store_true", help="every one-time-use slot of the cloud"
            )
        parser.add_argument("--profile", required=True, help="name of the approved profile")
        parser.add_argument("--policy", help="name of the policy; default: [erase]policy")
        parser.add_argument(
            "--reason",
            default="",
            help="for the history; needed with --seen, and in the openstack program",
        )
        group = parser.add_mutually_exclusive_group()
        group.add_argument(
            "--plan", action="store_true", help="say what would be done, change nothing"
        )
        group.add_argument(
            "--seen",
            type=version,
            metavar="VERSION",
            help="only where the plan is still the one that --plan had under this version",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        wish = self._wish(parsed_args)
        if parsed_args.plan:
            done = self.source.enrolment.plan(wish)
            words = f"; --seen {shlex.quote(done.version)} does just this"  # typed into a shell
            warn(f"{done}; nothing was changed{words if done.version else ''}")
        else:
            done = self.source.enrolment.take(wish)
            # A host's slots are a list, in which each has its fate. One that is named is an error
            # where it is not taken.
            if wish.address is not None:
                _require_taken(done.slots)
            rest = f" ({done.unacted})" if done.unacted else ""
            warn(f"{done}; the running service goes on from here{rest}")
        if not all(one.fate in _IN_CARE for one in done.slots):
            self.exit_code = IllegalTransitionError.exit_code
        return rows_of(EnrolmentLine, done.slots)

    def _wish(self, args: argparse.Namespace) -> EnrolmentWish:
        """What is asked for. Raises :class:`BadInputError`."""
        given = [args.all, args.host is not None, args.resource_class is not None]
        # Nothing named must not mean the whole cloud: that has to be said.
        if not any(given) or (args.all and any(given[1:])):
            raise BadInputError(
                "enrol: expected --host, --resource-class or --all; see nvme-quarantine slot enrol "
                "--help"
            )
        if args.pci is not None and (args.host is None or args.resource_class is not None):
            raise BadInputError("enrol: expected --pci together with --host alone")
        # The API takes no act without a reason; a plan changes nothing and needs none.
        if (args.seen or (self.remote and not args.plan)) and not args.reason.strip():
            raise BadInputError("enrol: expected --reason, for the history; or --plan")
        try:
            return EnrolmentWish(
                profile=args.profile,
                policy=args.policy,
                host=None if args.host is None else host_name(args.host),
                address=None if args.pci is None else pci_address(args.pci),
                resource_class=args.resource_class,
                reason=args.reason,
                seen=args.seen or "",
            )
        except ValueError as error:
            raise BadInputError(f"enrol: {error}") from error


def _require_taken(slots: tuple[EnrolmentLine, ...]) -> None:
    """Who names one slot wants that one taken: what stands in the way is an error."""
    for one in slots:
        if one.fate == EnrolmentFate.KNOWN:
            raise ConflictError(
                f"{one.slot}: expected a slot that is not enrolled, found it {one.reason}; "
                "retire it first or leave it"
            )
        if one.fate == EnrolmentFate.REFUSED:
            raise BadInputError(one.reason)
