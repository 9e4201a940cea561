"""Reads an owner's drive while the owner is off, and writes down what it counted.

One that was adopted unread is known from then on, wherever a boot or a person puts it.
"""

from __future__ import annotations

from pathlib import Path

from eraser.controller.lock import SlotLock
from eraser.gate.admit import LOOK_SECONDS
from eraser.gate.read_drives import look, pci_ids
from eraser.host import domains, slotwatch
from eraser.host.sysfs import Host, PciFunction
from eraser.ownership import atrest
from eraser.ownership import store as books
from eraser.ownership.cases import read_case
from eraser.ownership.facts import CaseStanding, DriveSeen, is_untouched
from eraser.ownership.model import Owner, PciIds, SteadyTime
from eraser.ownership.revocation import START_GRACE_SECONDS
from eraser.protocol.ticket import Counters


def note(state_dir: Path, run_dir: Path, host: Host, address: str) -> str:
    """Notes, or forgets, the counters at rest of a slot's drive; why not, empty where it did.

    Holds the slot's lock, so that no start is let in meanwhile. Raises ``EraserError`` (among them
    :class:`BusyError` for a slot that somebody works on) and ``OSError``.
    """
    with SlotLock(address, run_dir):
        book = books.load(state_dir)
        owner = book.entry(address).owner
        function = PciFunction(host, address)
        action = atrest.idle_action(owner, function.driver, book.incarnation, function.place)
        if action is None or owner is None:
            return "there is no need to"
        # No look at the drive: it is in a guest.
        if action is atrest.IdleAction.FORGET:
            if not _runs(host, owner):
                return "its owner does not run"
            return _write(state_dir, host, address, owner, None)
        if action is atrest.IdleAction.PLACE:
            return _place(state_dir, host, address, owner, function.place)
        if read_case(state_dir, address).standing is CaseStanding.OPEN:
            return "an erase has not ended"
        # With the slot's lock held: a start waits for it a little longer than one look takes.
        drive = look(host, [address], LOOK_SECONDS)[address]
        if owner.identity is None:
            return _know(state_dir, address, owner, drive)
        if drive.identity != owner.identity:
            return drive.trouble or "the drive is not its owner's"
        if drive.counters is None:
            return "the drive did not tell its counters (log 02h)"
        if atrest.stand_still(book.entry(address), drive.counters):
            return "the drive counts nothing, so its counters would tell of no use"
        # After the look: what was read is at rest only if nobody had begun to use it by then.
        if owner.let_in is not None and SteadyTime.now(host).within(
            START_GRACE_SECONDS, owner.let_in
        ):
            return "its owner was let in a moment ago"
        if _runs(host, owner):
            return "its owner runs"
        return _write(state_dir, host, address, owner, drive.counters)


def _know(state_dir: Path, address: str, owner: Owner, drive: DriveSeen) -> str:
    """Its counters are noted the next time."""
    if drive.identity is None:
        return drive.trouble or "the drive told no identity"
    if not is_untouched(owner, drive.place):
        return "the drive left its slot meanwhile"
    if owner.pci not in (None, PciIds.of(drive.identity)):
        return "the drive is not its owner's"
    with books.opened(state_dir) as book:
        if book.book.entry(address).owner != owner:
            return "its owner's record changed meanwhile"
        book.write(atrest.known(book.book, address, drive.identity))
    return ""


def _place(state_dir: Path, host: Host, address: str, owner: Owner, place: str) -> str:
    """What its guest runs with is its drive: nobody can take it out and leave the guest with it."""
    # With this very address: it may have left the drive and run with its others.
    runs = any(
        each.running and each.named.uuid == owner.domain and address in each.named.addresses
        for each in domains.listed(host)
    )
    if not runs:
        return "its owner does not run with it"
    if owner.pci not in (None, pci_ids(host, address)):
        return "the drive is not its owner's"
    with books.opened(state_dir) as book:
        if book.book.entry(address).owner != owner:
            return "its owner's record changed meanwhile"
        book.write(atrest.placed(book.book, address, place))
    return ""


def _runs(host: Host, owner: Owner) -> bool:
    return any(each.running and each.named.uuid == owner.domain for each in domains.listed(host))


def _write(
    state_dir: Path, host: Host, address: str, owner: Owner, counters: Counters | None
) -> str:
    with books.opened(state_dir) as book:
        # Decided without the book's lock: it must still be the record that was decided on.
        if book.book.entry(address).owner != owner:
            return "its owner's record changed meanwhile"
        if counters is not None and not _watched(state_dir, host, address):
            return "the watcher has not looked at the slot as it is now"
        book.write(atrest.rested(book.book, address, counters))
    return ""


def _watched(state_dir: Path, host: Host, address: str) -> bool:
    """The drive is on nvme, and every vanish before stands in the book.

    The watcher remembers a slot only once it has written down what happened there.
    """
    memory, now = slotwatch.load(state_dir), slotwatch.see(host, address)
    known = {each.address: each.directory for each in memory.slots}
    return (
        now.driver == "nvme"
        and memory.boot == host.boot_id()
        and known.get(address) == now.directory
    )
