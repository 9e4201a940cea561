"""What is sold: the flavors that capacity is counted in."""

from __future__ import annotations

from dataclasses import dataclass

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "capacity",
    title="What is sold",
    help="""
Capacity is counted in whole flavors, each of drives on one host: four drives that are free on two
hosts are no flavor of four.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.ListOpt(
        "flavors",
        default=["i1-45:1", "i1-90:2", "i1-180:4"],
        help="""
The flavors, each as NAME:DRIVES or NAME:DRIVES:RESOURCE_CLASS. Nova is not asked: counting has to
work while it is away. Without a resource class a flavor is of the one that all enrolled slots have.

When to change: where your flavors have other names or sizes than those that 'nvme-quarantine flavor
create' makes, and where there are several resource classes.
""",
    ),
]


@dataclass(frozen=True)
class SoldFlavor:
    """A flavor as capacity is counted in it."""

    name: str
    drives: int
    """Whole drives, all on one host."""
    resource_class: str = ""
    """Empty: the one that all enrolled slots have."""


def sold(texts: list[str]) -> tuple[SoldFlavor, ...]:
    """``[capacity]flavors``. Raises ``ValueError``."""
    found = tuple(map(_one, texts))
    if len({flavor.name for flavor in found}) != len(found):
        raise ValueError("expected each name of [capacity]flavors once, found one twice")
    return found


def _one(text: str) -> SoldFlavor:
    name, _, rest = text.partition(":")
    # A blank after a colon would make a class that no slot has, of which nothing can ever be sold.
    name, drives, resource_class = map(str.strip, (name, *rest.partition(":")[::2]))
    number = int(drives) if drives.isdecimal() and len(drives) < 5 else 0
    if not (name and name.isprintable() and number):
        raise ValueError(
            "expected [capacity]flavors as NAME:DRIVES or NAME:DRIVES:RESOURCE_CLASS, as in "
            f"i1-180:4, found {text[:200]!r}"
        )
    return SoldFlavor(name, number, resource_class)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
