"""``flavor``: what tenants ask for drives with, and the configuration that belongs to it."""

from __future__ import annotations

import argparse
from typing import Any

from quarantine.cli.base import MACHINES, ControlCommand, Lister, ShowOne
from quarantine.cli.output import Lines
from quarantine.cli.sources.columns import rows_of, slot
from quarantine.cli.sources.source import Columns, Members
from quarantine.errors import BadInputError
from quarantine.operations.setup import flavors
from quarantine.operations.setup.flavors import FlavorRequest, FlavorView


class _FlavorArguments(ControlCommand):
    """Arguments of all three."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--alias", default=FlavorRequest.alias, help=f"default: {FlavorRequest.alias}"
        )
        parser.add_argument(
            "--resource-class",
            metavar="CLASS",
            help=f"default: the enrolled slots', else {flavors.FlavorTerms.resource_class}",
        )
        parser.add_argument(
            "--device-type",
            choices=("type-PCI", "type-PF"),
            default=FlavorRequest.device_type,
            help="type-PF for drives with SR-IOV; default: type-PCI",
        )
        parser.add_argument(
            "--numa-policy",
            choices=("legacy", "preferred", "required", "socket"),
            default=FlavorRequest.numa_policy,
            help=f"default: {FlavorRequest.numa_policy}",
        )
        parser.add_argument(
            "--flavor",
            action="append",
            default=[],
            metavar="NAME:DRIVES:VCPUS:RAM:DISK",
            help="instead of i1-45, i1-90 and i1-180; ram in MiB, disk in GiB; repeatable",
        )
        parser.add_argument(
            "--property",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="another extra spec",
        )
        parser.add_argument(
            "--slot",
            action="append",
            default=[],
            metavar="SLOT",
            help="HOST/PCI-ADDRESS for device_spec; repeatable; default: the enrolled slots",
        )

    def wish(self, args: argparse.Namespace) -> FlavorRequest:
        """What is asked for. Raises :class:`BadInputError`."""
        return FlavorRequest(
            alias=args.alias,
            resource_class=args.resource_class,
            device_type=args.device_type,
            numa_policy=args.numa_policy,
            sizes=flavors.sizes(args.flavor),
            extra_specs=_properties(args.property),
            slots=tuple(map(slot, args.slot)),
        )


class _FlavorRows(Lister, _FlavorArguments):
    """Flavors, one a line."""

    def human(self, name: str, value: Any) -> Any:
        return " ".join(f"{k}={v}" for k, v in value.items()) if name == "extra_specs" else value


class FlavorList(_FlavorRows):
    """List the flavors as they would be made."""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(FlavorView, flavors.plan(self.plane, self.wish(parsed_args)))


class FlavorCreate(_FlavorRows):
    """Make the flavors in Nova; the same again changes nothing."""

    def take_action(self, parsed_args: argparse.Namespace) -> Columns:
        return rows_of(FlavorView, flavors.make(self.plane, self.wish(parsed_args)))


class FlavorConfig(ShowOne, _FlavorArguments):
    """Print the lines of nova.conf that belong to the flavors, for each service and host."""

    formatter_default = "value"  # lines to be pasted into files, without a table's frame

    def take_action(self, parsed_args: argparse.Namespace) -> Members:
        texts = flavors.configuration(self.plane, self.wish(parsed_args))
        if parsed_args.formatter in MACHINES:
            return self.dict2columns(texts)
        return self.dict2columns({name: _headed(name, text) for name, text in texts.items()})


def _headed(name: str, text: str) -> Lines:
    file = "placement.conf" if name == "placement" else "nova.conf"
    return Lines(f"# {file} of {name}\n{text}")


def _properties(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise BadInputError(f"--property: expected KEY=VALUE, found {text[:200]!r}")
        found[name] = value
    return found
