"""The gate at work: locks, looks, asks the rules, and writes the book before anybody starts."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from eraser.clock import Clock
from eraser.controller.lock import SlotLock
from eraser.errors import BusyError, EraserError
from eraser.gate import rules
from eraser.gate.read_drives import look
from eraser.host import domains
from eraser.host.sysfs import Host
from eraser.ownership import audit, revocation
from eraser.ownership import store as books
from eraser.ownership.cases import read_case
from eraser.ownership.facts import CaseSeen, DriveSeen, SlotFacts, Starting
from eraser.ownership.model import Book, SteadyTime

START_SECONDS = 24.0
"""For a whole decision where nobody says how long it may take; the hook does."""

LOOK_SHARE = 0.8
"""Of a decision's time, for its drives to become ready and answer. The rest is for the book, which
other guests may be writing."""

LOOK_SECONDS = 4.0
"""For a drive that the worker or a person asks about: they come again."""

LOCK_PATIENCE = LOOK_SECONDS + 1.0
"""Seconds. The worker holds a slot's lock for one look at the most: to take in a ticket, and to
note the counters of a drive whose owner is off. An erase holds it for long."""

_POLL = 0.01


class GateRefusedError(EraserError):
    """The guest must not start on its drives."""

    exit_code = 11


@dataclass(frozen=True)
class StartPassed:
    """A start was let in; ``admissions`` is empty where no drive of ours is concerned."""

    domain: str
    admissions: tuple[rules.StartAdmission, ...]


def check(
    state_dir: Path, run_dir: Path, host: Host, document: bytes, seconds: float = START_SECONDS
) -> StartPassed:
    """Lets a domain start on all of its NVMe drives, or on none, within ``seconds``.

    What is let in stands in the book when this returns. Raises :class:`GateRefusedError` naming
    every drive that speaks against it.
    """
    try:
        named = domains.named(document)
    except ValueError as error:
        raise GateRefusedError(
            f"refused: expected a libvirt domain on standard input, found {error}"
        ) from error
    starting = Starting(named.uuid, named.domain)
    # Whatever goes wrong from here on is a refusal in one line: nobody starts in doubt.
    try:
        return _check(state_dir, run_dir, host, starting, named.addresses, seconds)
    except GateRefusedError:
        raise
    except EraserError as error:
        raise refused(starting, str(error)) from error
    except OSError as error:
        raise refused(
            starting,
            f"expected to read the host's files, and to write to {state_dir} and {run_dir}, found "
            f"{error}; is a disk full?",
        ) from error


def refused(starting: Starting, why: str) -> GateRefusedError:
    """One line for libvirt's caller."""
    return GateRefusedError(f"refused the start of domain {starting.name!r}: {why}")


def _check(
    state_dir: Path,
    run_dir: Path,
    host: Host,
    starting: Starting,
    named: frozenset[str],
    seconds: float,
) -> StartPassed:
    classes = {address: pci_class(host, address) for address in named}
    others = {a: code for a, code in classes.items() if code not in (rules.NVME_CLASS, None)}
    needed = rules.needing(named, classes, frozenset())
    if others:
        needed += rules.misplaced(_readable(state_dir), others, starting)
    # The exemptions are read only where some function needs an admission.
    if needed:
        exempt = audit.exemptions(state_dir).addresses
        needed = tuple(sorted(address for address in needed if address not in exempt))
    if not needed:
        # A guest without drives starts, whatever is wrong with exemptions, book or locks.
        return StartPassed(starting.name, ())
    clock = host.clock
    ends = clock.monotonic() + seconds
    # The book knows owners by uuid; without one nobody could be written down.
    if not starting.uuid:
        raise refused(starting, "expected a uuid in its definition, found none")
    with locked_slots(host, needed, run_dir) as locked:
        cases: dict[str, CaseSeen] = {}

        def read_cases() -> None:
            cases.update({address: read_case(state_dir, address) for address in needed})

        # A slot that somebody works on is not asked: its drive may be in the middle of an erase.
        free = [each for each in needed if each not in locked and each not in others]
        left = max(0.0, ends - clock.monotonic())
        drives = look(host, free, LOOK_SHARE * left, read_cases)
        # After the drives were read: a mute one must not keep every other guest from the book.
        with books.opened(state_dir, seconds=max(0.0, ends - clock.monotonic())) as book:
            facts = [
                dataclasses.replace(
                    facts_of(book.book, address, drives.get(address), cases[address], locked),
                    other_class=others.get(address) or "",
                )
                for address in needed
            ]
            # All are decided before anything is written: a guest gets all of its drives or none.
            found = [rules.admit(each, starting) for each in facts]
            admissions = tuple(each for each in found if isinstance(each, rules.StartAdmission))
            refusals = [each for each in found if isinstance(each, rules.StartRefusal)]
            if refusals:
                # What can never be good again is told with the next hello, and erased again.
                book.write(_voided(book.book, refusals))
                _tell(state_dir, book.book, refusals, starting, host)
                raise refused(starting, " | ".join(map(str, refusals)))
            # Before the answer: a crash in between costs this start, and never lets a second guest
            # in.
            book.write(
                rules.consume(book.book, admissions, starting, SteadyTime.now(host), clock.utc())
            )
    return StartPassed(starting.name, admissions)


def _readable(state_dir: Path) -> Book:
    """The book, without its lock; an empty one where it cannot be read: a broken gate must keep no
    guest without drives."""
    try:
        return books.load(state_dir)
    except EraserError:
        return Book("")


def _voided(book: Book, refusals: list[rules.StartRefusal]) -> Book:
    for each in refusals:
        if each.void:
            book = revocation.void(book, each.address, each.void)
    return book


def _tell(
    state_dir: Path,
    book: Book,
    refusals: list[rules.StartRefusal],
    starting: Starting,
    host: Host,
) -> None:
    """People hear of owners that were refused their own drive, by the host's hellos."""
    owners = [each for each in refusals if each.of_owner or each.untold]
    if not owners:
        return
    # A guest that is let in does not wait for it to be loaded.
    from eraser.ownership import turned_away
    from eraser.protocol.ticket import OwnerRefused

    at = host.clock.utc()

    def said(those: list[rules.StartRefusal]) -> list[OwnerRefused]:
        return [
            OwnerRefused(each.address, starting.uuid, starting.name, f"{each.found}; {each.do}", at)
            for each in those
        ]

    mute = said([each for each in owners if each.untold])
    untold = turned_away.Untold(tuple(mute), SteadyTime.now(host)) if mute else None
    turned_away.note(state_dir, book, said([each for each in owners if each.of_owner]), untold)


def pci_class(host: Host, address: str) -> str | None:
    """The class code of a function; None where none is there. Raises other ``OSError``."""
    try:
        return host.text(f"/sys/bus/pci/devices/{address}/class")
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def locked_slots(host: Host, addresses: tuple[str, ...], run_dir: Path) -> Iterator[dict[str, str]]:
    """The locks of all slots, in their order; yields who holds those that we could not have."""
    deadline = host.clock.monotonic() + LOCK_PATIENCE
    held: list[SlotLock] = []
    locked: dict[str, str] = {}
    try:
        # One order for everybody: two guests that name the same drives would wait for each other.
        for address in sorted(addresses):
            lock = SlotLock(address, run_dir)
            holder = _acquire(host.clock, lock, deadline)
            if holder:
                locked[address] = holder
            else:
                held.append(lock)
        yield locked
    finally:
        for lock in held:
            lock.release()


def _acquire(clock: Clock, lock: SlotLock, deadline: float) -> str:
    """Takes a lock; who holds it where that does not work in time."""
    while True:
        try:
            lock.acquire()
            return ""
        except BusyError:
            if clock.monotonic() >= deadline:
                return f"process {lock.holder()}"
        clock.sleep(_POLL)


def facts_of(
    book: Book, address: str, drive: DriveSeen | None, case: CaseSeen, locked: dict[str, str]
) -> SlotFacts:
    return SlotFacts(
        address=address,
        entry=book.entry(address),
        drive=drive or DriveSeen(None),
        case=case,
        incarnation=book.incarnation,
        adopted=bool(book.adopted_at),
        locked=locked.get(address, ""),
        elsewhere=revocation.known_elsewhere(book, address, drive.identity if drive else None),
    )
