"""``nvme-eraser plan``: what a policy would send to this drive."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from eraser.cli import policyfile
from eraser.cli.output import EXIT_NO_METHOD, add_format, show, tell_blind
from eraser.controller.nvme import open_controller
from eraser.drive.inspect import described
from eraser.erase.plan import Capabilities, FormatTarget, make_plan
from eraser.errors import BadInputError
from eraser.host.sysfs import Host
from eraser.protocol.conclusions.applied import apply
from eraser.protocol.identity import ControllerIdentity, pci_address
from eraser.protocol.policy import Limits, Method, Policy


@dataclass(frozen=True)
class Command:
    """One command that would be sent."""

    method: Method
    opcode: int
    nsid: int
    cdw10: int
    patience_seconds: float
    """A sanitize that stands still for so long is given up; a Format is, whatever it does."""


@dataclass(frozen=True)
class ShownPlan:
    """What would be done. Nothing was sent but questions."""

    policy: str
    model: str
    firmware: str
    asked: str
    achieved: str
    """Empty where the policy allows nothing that the drive offers."""
    downgraded: bool
    refusal: str
    commands: tuple[Command, ...]
    quirks: tuple[str, ...]
    """The reason of each that fits."""
    limits: Limits


def describe(
    policy: Policy,
    identity: ControllerIdentity,
    firmware: str,
    caps: Capabilities,
    targets: tuple[FormatTarget, ...],
) -> ShownPlan:
    """The plan for one drive, as a case would make it."""
    applied = apply(policy, identity.vendor_id, identity.model, firmware)
    plan = make_plan(policy, caps, targets, applied)
    commands = []
    for each in plan.commands:
        # A sanitize is watched by its progress; a Format counts nothing, so its time is limited.
        patience = applied.limits.stuck if each.method.is_sanitize else applied.limits.format
        commands.append(Command(each.method, each.opcode, each.nsid, each.cdw10, patience))
    return ShownPlan(
        policy=policy.name,
        model=identity.model,
        firmware=firmware,
        asked=policy.label.value,
        achieved="" if plan.achieved is None else plan.achieved.value,
        downgraded=plan.downgraded,
        refusal=plan.refusal,
        commands=tuple(commands),
        quirks=tuple(f"{quirk.model} {quirk.firmware}: {quirk.reason}" for quirk in applied.quirks),
        limits=applied.limits,
    )


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--pci", required=True, metavar="ADDRESS", help="such as 0000:01:00.0")
    policyfile.add_argument(parser, "JSON; without it the built-in one")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads and shows; exit code 10 where the policy allows nothing.

    Raises ``BadInputError`` for a wrong address, and any other ``EraserError``.
    """
    try:
        address = pci_address(arguments.pci)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    policy = policyfile.policy(arguments)
    policyfile.tell(policy)
    limit, host = policy.limits.command, Host()
    tell_blind(host)
    with open_controller(host, address, timeout=limit, command_timeout=limit) as controller:
        identify = controller.identify()
        targets = tuple(
            FormatTarget.of(nsid, namespace)
            for nsid, namespace in described(controller, controller.active_namespaces())
        )
        shown = describe(
            policy,
            controller.identity(),
            identify.firmware,
            Capabilities.of(identify),
            targets,
        )
    show(shown if arguments.format == "json" else _lines(shown), arguments.format)
    return EXIT_NO_METHOD if shown.refusal else 0


def _lines(shown: ShownPlan) -> dict[str, object]:
    """For people: one line for each command and limit."""
    commands = []
    for each in shown.commands:
        still = " without progress" if each.method.is_sanitize else ""
        commands.append(
            f"{each.method} (opcode {each.opcode:#04x}, NSID {each.nsid:#x}, CDW10 "
            f"{each.cdw10:#x}), given up after {each.patience_seconds:g} s{still}"
        )
    return {
        "policy": shown.policy,
        "drive": f"{shown.model}, firmware {shown.firmware}",
        "asked": shown.asked,
        "achieved": f"{shown.achieved or 'nothing'}{', downgraded' if shown.downgraded else ''}",
        "refusal": shown.refusal or "none",
        "commands": commands,
        "quirks": list(shown.quirks),
        "limits": {name: f"{value:g} s" for name, value in vars(shown.limits).items()},
    }
