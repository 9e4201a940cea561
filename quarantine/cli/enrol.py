"""``enrol``: one slot, a host, a resource class, or all that a running cloud has."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

from eraser.protocol.identity import Slot, host_name, pci_address
from quarantine.cli.command import Verb
from quarantine.cli.output import show_json, show_table, warn
from quarantine.cli.slots import look_and_show
from quarantine.errors import BadInputError, IllegalTransitionError
from quarantine.operations.enrol import EnrolmentFate, SlotPlan, enrol, enrol_all, survey
from quarantine.service.container import Assembly


def _enrol(assembly: Assembly, args: argparse.Namespace) -> int:
    host, address = _place(args)
    store = assembly.store
    if store.profile(args.profile) is None:
        raise BadInputError(
            f"enrol: expected an approved profile {args.profile!r}; "
            "nvme-quarantine profile approve FILE --by NAME"
        )
    policy = args.policy or assembly.conf.erase.policy
    if assembly.dispatcher.policy(policy) is None:
        raise BadInputError(f"enrol: expected an approved policy {policy!r}, found none")
    if address is not None and host is not None and not args.plan:
        record = enrol(
            store, assembly.placement, Slot(host, address), profile=args.profile, policy=policy
        )
        return look_and_show(assembly, record, args.format)
    planned = survey(store, assembly.placement, host=host, resource_class=args.resource_class)
    if address is not None:
        planned = tuple(one for one in planned if one.slot.address == address)
        if not planned:
            raise BadInputError(f"enrol: expected {host}/{address} in Placement, found none")
    if not args.plan:
        planned = enrol_all(store, assembly.placement, planned, profile=args.profile, policy=policy)
    _show(planned, args.format, plan=args.plan)
    return IllegalTransitionError.exit_code if _count(planned)[EnrolmentFate.REFUSED] else 0


def _place(args: argparse.Namespace) -> tuple[str | None, str | None]:
    """Host and address that are asked for. Raises :class:`BadInputError`."""
    given = [args.all, args.host is not None, args.resource_class is not None]
    if not any(given) or (args.all and any(given[1:])):
        raise BadInputError(
            "enrol: expected --host, --resource-class or --all; see nvme-quarantine enrol --help"
        )
    if args.pci is not None and (args.host is None or args.resource_class is not None):
        raise BadInputError("enrol: expected --pci together with --host alone")
    try:
        host = None if args.host is None else host_name(args.host)
        return host, None if args.pci is None else pci_address(args.pci)
    except ValueError as error:
        raise BadInputError(f"enrol: {error}") from error


def _count(planned: Iterable[SlotPlan]) -> Counter[EnrolmentFate]:
    return Counter(one.fate for one in planned)


def _show(planned: tuple[SlotPlan, ...], form: str, *, plan: bool) -> None:
    if form == "json":
        show_json(
            [
                {
                    "slot": str(one.slot),
                    "fate": one.fate,
                    "reason": one.reason,
                    "consumer": one.consumer,
                    "resource_class": one.resource_class,
                }
                for one in planned
            ]
        )
        return
    head = ("SLOT", "FATE", "CLASS", "USED BY", "WHY")
    show_table(head, ((o.slot, o.fate, o.resource_class, o.consumer, o.reason) for o in planned))
    counts = _count(planned)
    words = ", ".join(f"{counts[fate]} {fate}" for fate in EnrolmentFate if counts[fate])
    warn(f"{words}; {'nothing was changed' if plan else 'the running service goes on from here'}")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="compute host, as Nova names it; alone: all its slots")
    parser.add_argument("--pci", help="one slot of it, as in 0000:01:00.0")
    parser.add_argument("--resource-class", metavar="CLASS", help="all slots of this class")
    parser.add_argument("--all", action="store_true", help="every one-time-use slot of the cloud")
    parser.add_argument("--profile", required=True, help="name of the approved profile")
    parser.add_argument("--policy", help="name of the policy; default: [erase]policy")
    parser.add_argument(
        "--plan", action="store_true", help="say what would be done, change nothing"
    )


VERBS = (
    Verb(
        "enrol",
        "take slots into care; a free one is erased first, a used one is not touched",
        _enrol,
        _arguments,
    ),
)
