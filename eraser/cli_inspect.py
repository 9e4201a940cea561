"""``nvme-eraser inspect``: what a drive is, and the profile that drives of its model should fit."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from eraser.cli_output import add_format, show
from eraser.drive import health
from eraser.drive.features import features
from eraser.drive.inspect import facts
from eraser.drive.nvme import open_controller
from eraser.drive.profile import propose
from eraser.drive.spec import SanitizeLog
from eraser.drive.sysfs import Host
from eraser.erase.plan import Capabilities, offers
from eraser.errors import BadInputError
from eraser.journal import replace_durably
from eraser.wire import codec
from eraser.wire.identity import ControllerIdentity, pci_address
from eraser.wire.policy import Limits, Method
from eraser.wire.profile import FeatureRule
from eraser.wire.report import ControllerFacts, HealthRecord


@dataclass(frozen=True)
class Inspection:
    """Everything that was read. Nothing was changed."""

    address: str
    identity: ControllerIdentity
    facts: ControllerFacts
    features: tuple[FeatureRule, ...]
    health: HealthRecord
    methods: tuple[Method, ...]
    """What the drive says that it can do."""
    sanitize: str
    """The state in log 81h, empty on a drive without Sanitize."""
    profile: str | None
    """The file that the proposal was written to."""


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--pci", required=True, metavar="ADDRESS", help="such as 0000:01:00.0")
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write a profile, for a person to approve"
    )
    parser.add_argument("--name", default="", help="the profile's name (model and firmware)")
    parser.add_argument(
        "--command-timeout", type=float, default=Limits().command, metavar="SECONDS"
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Reads and shows. The drive must be on the ``nvme`` driver. Raises ``EraserError``."""
    try:
        address = pci_address(arguments.pci)
        limits = Limits(command=arguments.command_timeout)
    except ValueError as error:
        raise BadInputError(str(error)) from error
    controller = open_controller(
        Host(), address, timeout=limits.command, command_timeout=limits.command
    )
    with controller:
        identify, identity = controller.identify(), controller.identity()
        found, rules = facts(controller), features(controller)
        state = health.read(controller.smart_log())
        sanitize = ""
        if identify.can_sanitize:
            sanitize = SanitizeLog.parse(controller.sanitize_log()).state.value
    saved = None
    if arguments.save is not None:
        profile = propose(identity, found, rules, arguments.name)
        try:
            replace_durably(arguments.save, codec.canonical(profile) + b"\n", 0o644)
        except OSError as error:
            raise BadInputError(
                f"expected to write {arguments.save}, found {error.strerror}"
            ) from error
        saved = str(arguments.save)
    capabilities = Capabilities.of(identify)
    methods = tuple(method for method in Method if offers(method, capabilities))
    show(
        Inspection(address, identity, found, rules, state, methods, sanitize, saved),
        arguments.format,
    )
    return 0
