"""``flavors``: what tenants ask for drives with, and the configuration that belongs to it."""

from __future__ import annotations

import argparse

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.cli.command import Verb, slot
from quarantine.cli.output import clean, show_json, show_table
from quarantine.errors import BadInputError
from quarantine.operations.flavors import FlavorFate, FlavorTerms, create, nova_conf, sizes
from quarantine.record.states import State
from quarantine.service.container import Assembly

_DEFAULT_CLASS = FlavorTerms().resource_class


def _flavors(assembly: Assembly, args: argparse.Namespace) -> int:
    drives, classes = _drives(assembly, args)
    terms = FlavorTerms(
        alias=_plain("--alias", args.alias),
        resource_class=_plain("--resource-class", args.resource_class or _one(classes)),
        device_type=args.device_type,
        numa_policy=args.numa_policy,
        sizes=sizes(args.flavor),
        extra_specs=_properties(args.property),
    )
    fates = {size.name: FlavorFate.PLANNED for size in terms.sizes}
    if args.create:
        fates = create(assembly.compute, terms)
    _show(terms, fates, nova_conf(terms, drives.items()), args.format)
    return 0


def _drives(
    assembly: Assembly, args: argparse.Namespace
) -> tuple[dict[Slot, ControllerIdentity | None], set[str]]:
    """The slots to be written into device_spec, and the classes of those that are enrolled."""
    if args.slot:
        return {slot(text): None for text in args.slot}, set()
    records = [r for r in assembly.store.slots() if r.state is not State.RETIRED]
    if args.resource_class:
        records = [r for r in records if r.resource_class == args.resource_class]
    return {r.slot: r.identity for r in records}, {r.resource_class for r in records}


def _one(classes: set[str]) -> str:
    if len(classes) > 1:
        raise BadInputError(
            f"flavors: expected one resource class, found {', '.join(sorted(classes))} enrolled; "
            "name one with --resource-class"
        )
    return next(iter(classes), _DEFAULT_CLASS)


def _plain(option: str, text: str) -> str:
    """A name that fits a line of nova.conf and an extra spec."""
    if not text or not all(c.isascii() and (c.isalnum() or c in "._-") for c in text):
        raise BadInputError(f"{option}: expected letters, digits, '.', '_' and '-', found {text!r}")
    return text


def _properties(texts: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise BadInputError(f"--property: expected KEY=VALUE, found {text[:200]!r}")
        found[name] = value
    return found


def _show(
    terms: FlavorTerms, fates: dict[str, FlavorFate], texts: dict[str, str], form: str
) -> None:
    if form == "json":
        show_json(
            {
                "flavors": [
                    {**vars(size), "extra_specs": terms.specs(size), "fate": fates[size.name]}
                    for size in terms.sizes
                ],
                "nova_conf": texts,
            }
        )
        return
    head = ("FLAVOR", "FATE", "DRIVES", "VCPUS", "RAM MiB", "DISK GiB", "EXTRA SPECS")
    show_table(
        head,
        (
            (
                s.name,
                fates[s.name],
                s.drives,
                s.vcpus,
                s.ram,
                s.disk,
                " ".join(f"{name}={value}" for name, value in terms.specs(s).items()),
            )
            for s in terms.sizes
        ),
    )
    for name, text in texts.items():
        print(f"\n# {'placement.conf' if name == 'placement' else 'nova.conf'} of {name}")
        for line in text.splitlines():
            print(clean(line))


def _arguments(parser: argparse.ArgumentParser) -> None:
    plain = FlavorTerms()
    parser.add_argument("--create", action="store_true", help="make them in Nova; idempotent")
    parser.add_argument("--alias", default=plain.alias, help=f"default: {plain.alias}")
    parser.add_argument(
        "--resource-class",
        metavar="CLASS",
        help=f"default: the enrolled slots', else {plain.resource_class}",
    )
    parser.add_argument(
        "--device-type",
        choices=("type-PCI", "type-PF"),
        default=plain.device_type,
        help="type-PF for drives with SR-IOV; default: type-PCI",
    )
    parser.add_argument(
        "--numa-policy",
        choices=("legacy", "preferred", "required", "socket"),
        default=plain.numa_policy,
        help=f"default: {plain.numa_policy}",
    )
    parser.add_argument(
        "--flavor",
        action="append",
        default=[],
        metavar="NAME:DRIVES:VCPUS:RAM:DISK",
        help="instead of i1-45, i1-90 and i1-180; ram in MiB, disk in GiB; repeatable",
    )
    parser.add_argument(
        "--property", action="append", default=[], metavar="KEY=VALUE", help="another extra spec"
    )
    parser.add_argument(
        "--slot",
        action="append",
        default=[],
        metavar="SLOT",
        help="HOST/PCI-ADDRESS for device_spec; repeatable; default: the enrolled slots",
    )


VERBS = (
    Verb(
        "flavors",
        "print, or create, flavors with drives, and the nova.conf lines that belong to them",
        _flavors,
        _arguments,
    ),
)
