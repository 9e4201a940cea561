"""NVMe drives of this host that host-setup has no rules for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from eraser.controller import unique
from eraser.errors import EraserError
from eraser.host import openers, usage
from eraser.host.functions import nvme_functions
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import audit
from eraser.ownership import store as books
from eraser.ownership.model import SlotEntry
from eraser.state import hostcard


@dataclass(frozen=True)
class LeftOut:
    """By PCI address. Neither has drives of the running system, nor those that a person exempted.

    An empty slot is in none: one that is gone for good stays in the gate's book.
    """

    slots: tuple[str, ...] = ()
    """The gate knows them, or the drive that is in one as somebody's, or an order came for them: a
    tenant had the drive, or will."""
    others: tuple[str, ...] = ()
    """Nobody said anything of them here."""

    @property
    def line(self) -> str:
        """What is wrong with the slots; empty where nothing is."""
        if not self.slots:
            return ""
        return (
            f"{', '.join(self.slots)}: expected rules for each drive that a guest gets, found none "
            "for these; name them too ('nvme-eraser host-setup' with all slots), or 'nvme-eraser "
            "gate exempt' those that are no slots"
        )

    @property
    def question(self) -> str:
        """For a person who names slots; empty where there is nothing to ask."""
        if not self.others:
            return ""
        return (
            f"{', '.join(self.others)}: NVMe drives without rules, which this host looks into: is "
            "one of them a slot? Name it too then"
        )


def find(host: Host, state_dir: Path, given: Collection[str]) -> LeftOut:
    """What is there and not among the slots that are ``given``.

    Raises ``OSError`` and ``EraserError`` where the book or the exemptions cannot be read.
    """
    entries = books.load(state_dir).entries
    known = {entry.address for entry in entries}
    exempt = audit.exemptions(state_dir).addresses
    there = [each for each in nvme_functions(host) if each not in given and each not in exempt]
    disks = _system_disks(host) if there else frozenset()
    there = [each for each in there if not _carries(host, each, disks)]
    moved = _moved(host, entries) if there else frozenset()
    slots = tuple(
        each
        for each in there
        if each in known or each in moved or hostcard.order_file(state_dir, each).exists()
    )
    return LeftOut(slots, tuple(each for each in there if each not in slots))


def _moved(host: Host, entries: Iterable[SlotEntry]) -> frozenset[str]:
    """Where drives are that somebody has, wherever they were before: a boot may deal out the
    addresses anew, and the gate learns of it as late as its owner starts."""
    owners = [entry.owner.identity for entry in entries if entry.owner is not None]
    return frozenset(
        seen.address
        for seen in unique.controllers(host)
        if any(identity is not None and unique.same(identity, seen) for identity in owners)
    )


def _system_disks(host: Host) -> frozenset[str]:
    """None where that cannot be told: to name the system's drive to a person does no harm."""
    try:
        # What process 1 has mounted: this one may have a mount namespace of its own.
        return usage.system_disks(host, openers.mounts(host, [1])[1])
    except (EraserError, OSError, KeyError):
        return frozenset()


def _carries(host: Host, address: str, disks: frozenset[str]) -> bool:
    try:
        nodes = PciFunction(host, address).nodes()
    except (EraserError, OSError):
        return False
    return any(node.block and node.name in disks for node in nodes)
