"""NVMe drives of this host that host-setup has no rules for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from eraser.controller import unique
from eraser.defences import removedslots
from eraser.defences.removedslots import Drops
from eraser.errors import EraserError
from eraser.host import openers, usage
from eraser.host.functions import nvme_functions
from eraser.host.openers import MountLine
from eraser.host.sysfs import Host, Node, PciFunction
from eraser.ownership import audit
from eraser.ownership import store as books
from eraser.ownership.model import SlotEntry
from eraser.state import hostcard


@dataclass(frozen=True)
class WithoutRules:
    """By PCI address. Neither has drives of the running system, nor those that a person exempted or
    dropped (:mod:`eraser.defences.removedslots`).

    An empty slot is in none: one that is gone for good stays in the gate's book.
    """

    slots: tuple[str, ...] = ()
    """A tenant had the drive there, or will: the gate knows a guest or a ticket, or an order came.
    Not where the host itself uses a drive that no guest has: addresses may be dealt out anew."""
    others: tuple[str, ...] = ()
    """Nobody said anything of them here."""

    @property
    def line(self) -> str:
        """What is wrong with the slots; empty where nothing is."""
        if not self.slots:
            return ""
        # Not an exemption: that would let any guest in on the host's own drive.
        return (
            f"{', '.join(self.slots)}: expected rules for each drive that a guest gets, found none "
            "for these; name them too ('nvme-eraser host-setup' with all slots), or give "
            "'host-setup --fewer' with the others alone where these are no slots any more"
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


def find(
    host: Host, state_dir: Path, given: Collection[str], drops: Drops | None = None
) -> WithoutRules:
    """What is there and not among the slots that are ``given``; ``drops`` go before those on disk.

    Raises ``OSError`` and ``EraserError`` where the book, the exemptions or the drops cannot be
    read.
    """
    entries = books.load(state_dir).entries
    exempt = audit.exemptions(state_dir).addresses
    drops = removedslots.load(state_dir) if drops is None else drops
    there = [each for each in nvme_functions(host) if each not in given and each not in exempt]
    mounts = _mounts(host) if there else ()
    system = _system_disks(host, mounts) if there else frozenset()
    there = [each for each in there if not _carries(host, each, system)]
    guests = _guests(host, entries) if there else frozenset()
    # A guest's drive is one whatever else is said: the host may have assembled what lies on it.
    covered = {each for each in there if each not in guests and drops.covers(state_dir, each)}
    there = [each for each in there if each not in covered]
    known = {each.address for each in entries if _was_given(each)}
    slots = tuple(
        each
        for each in there
        if each in guests
        or (
            (each in known or hostcard.order_file(state_dir, each).exists())
            and not _used(host, each, mounts)
        )
    )
    return WithoutRules(slots, tuple(each for each in there if each not in slots))


def _was_given(entry: SlotEntry) -> bool:
    """A guest got the drive, or may get it. An erase by hand alone has an entry too, of any drive
    of the host."""
    return any((entry.owner, entry.last_owner, entry.ticket, entry.allowance))


def _guests(host: Host, entries: Iterable[SlotEntry]) -> frozenset[str]:
    """Where drives are that somebody has, wherever they were before: a boot may deal out the
    addresses anew, and the gate learns of it as late as its owner starts. Also where one was that
    nobody ever read: whatever is there may be it."""
    owners = {entry.address: entry.owner for entry in entries if entry.owner is not None}
    unread = {address for address, owner in owners.items() if owner.identity is None}
    read = [owner.identity for owner in owners.values() if owner.identity is not None]
    return frozenset(unread) | frozenset(
        seen.address
        for seen in unique.controllers(host)
        if any(unique.same(identity, seen) for identity in read)
    )


def _mounts(host: Host) -> tuple[MountLine, ...]:
    """What process 1 has mounted: this one may have a mount namespace of its own. None where that
    cannot be told: to name a drive of the host's to a person does no harm."""
    try:
        return openers.mounts(host, [1])[1]
    except (EraserError, OSError, KeyError):
        return ()


def _system_disks(host: Host, mounts: Iterable[MountLine]) -> frozenset[str]:
    try:
        return usage.system_disks(host, mounts)
    except OSError:
        return frozenset()


def _carries(host: Host, address: str, disks: frozenset[str]) -> bool:
    return any(node.block and node.name in disks for node in _nodes(host, address))


def _used(host: Host, address: str, mounts: Iterable[MountLine]) -> bool:
    """The host itself has mounted it, swaps on it, or has something on top of it (md, dm)."""
    nodes = _nodes(host, address)
    try:
        # any() stops at the first reason.
        return (
            any(usage.mounted(nodes, mounts, usage.kinds_without_device(host)))
            or any(usage.held(host, nodes))
            or any(usage.swapping(host, nodes))
        )
    except OSError:
        return False


def _nodes(host: Host, address: str) -> tuple[Node, ...]:
    try:
        return PciFunction(host, address).nodes()
    except (EraserError, OSError):
        return ()
