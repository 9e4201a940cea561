"""Who may start on which drive, and what is written down then. Pure.

A start needs one of three things for each drive: the domain's own record of this very drive, a
ticket that nothing has happened to since, or a person's word. None of them helps against a running
erase, or with a drive that cannot be read.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from eraser.controller.spec import SanitizeState
from eraser.ownership.counters import since_intake, since_rest
from eraser.ownership.facts import CaseStanding, SlotFacts, Starting, left_slot
from eraser.ownership.model import Allowance, Book, Owner, PciIds, SlotEntry, SteadyTime
from eraser.ownership.revocation import forgotten, parted, voided
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import AllowanceUsed, TicketState

NVME_CLASS = "0x010802"
"""PCI class code: mass storage, non-volatile memory, NVM Express (PCI Code and ID, 1.1)."""

_OTHER_DRIVE = (
    "put its drive back, or after a new installation run 'nvme-eraser gate adopt'; if this drive "
    "is meant, see 'nvme-eraser gate allow --once'"
)
_LOOK_FIRST = (
    "another's data may be on it: find out where it was; 'nvme-eraser gate allow --once' lets the "
    "domain start on it as it is"
)
_SAY_AGAIN = (
    "find out whose it is; if it is meant all the same, say so again ('nvme-eraser gate allow "
    "--once')"
)
_RELEASE = (
    "have the slot erased ('nvme-quarantine slot release'), or see 'nvme-eraser gate allow --once'"
)


class AdmittedBy(enum.StrEnum):
    """By what a start was let in."""

    OWNER = "owner"
    TICKET = "ticket"
    ALLOWANCE = "allowance"


@dataclass(frozen=True)
class StartAdmission:
    """The domain may have this drive."""

    address: str
    way: AdmittedBy
    identity: ControllerIdentity


@dataclass(frozen=True)
class StartRefusal:
    """It may not: what was found, and what a person can do."""

    address: str
    found: str
    do: str
    void: str = ""
    """Why the slot's ticket is no good any more; empty where it still may be."""
    of_owner: bool = False
    """The domain has the slot, and the drive is not as it left it: a person has to look."""
    untold: bool = False
    """It has the slot, and the drive did not tell its counters this time. The next start may pass,
    so a person has to look where none does."""

    def __str__(self) -> str:
        return f"{self.address}: {self.found}; {self.do}"


def needing(
    named: Iterable[str], classes: Mapping[str, str | None], exempt: Collection[str]
) -> tuple[str, ...]:
    """The addresses that need an admission: NVMe functions, and such as are not there now.

    ``classes`` has the PCI class code of each, None where no function answers at the address.
    """
    return tuple(
        sorted(
            address
            for address in set(named)
            if address not in exempt and classes.get(address) in (NVME_CLASS, None)
        )
    )


def misplaced(book: Book, classes: Mapping[str, str | None], starting: Starting) -> tuple[str, ...]:
    """The addresses at which the domain has a drive by the book, or anybody may have one by its
    ticket, and at which some other function is: a boot may have dealt the addresses out anew.

    libvirt would take that function from its driver, with all that the host or another guest has
    behind it.
    """
    return tuple(
        sorted(
            address
            for address, code in classes.items()
            if code not in (NVME_CLASS, None) and _has_drive(book.entry(address), starting)
        )
    )


def _has_drive(entry: SlotEntry, starting: Starting) -> bool:
    if entry.owner is not None:
        return entry.owner.domain == starting.uuid
    # A void one too: the watcher sees what is there, and a guest may be on its way.
    return entry.ticket is not None and entry.ticket.state is not TicketState.USED


def admit(facts: SlotFacts, starting: Starting) -> StartAdmission | StartRefusal:
    """Decides about one drive."""
    # Ahead of owner, ticket and a person's word: none of them makes a drive whole in mid-erase.
    barred = _misplaced(facts, starting) or _barred(facts)
    if barred is not None or facts.drive.identity is None:
        return barred or _refused(facts, "found a drive without identity", "see the kernel's log")
    identity = facts.drive.identity
    owned = _by_owner(facts, starting, identity)
    away = "" if owned else _away(facts)
    if not owned and not away:
        return StartAdmission(facts.address, AdmittedBy.OWNER, identity)
    ticket = _by_ticket(facts, identity)
    if ticket is None:
        return StartAdmission(facts.address, AdmittedBy.TICKET, identity)
    allowance = facts.entry.allowance
    if allowance is not None and allowance.domain in ("", starting.uuid):
        if another := _of_another(facts, allowance, identity):
            owner = facts.entry.owner
            own = owner is not None and owner.domain == starting.uuid
            return StartRefusal(facts.address, another, _SAY_AGAIN, ticket.void, of_owner=own)
        return StartAdmission(facts.address, AdmittedBy.ALLOWANCE, identity)
    if facts.entry.owner is not None and facts.entry.owner.domain == starting.uuid:
        # Refused by all three ways. What is told is what helps this domain.
        do = _OTHER_DRIVE if owned else _LOOK_FIRST
        untold = not owned and _untold(facts)
        found = owned or away
        return StartRefusal(facts.address, found, do, of_owner=not untold, untold=untold)
    if not facts.adopted and facts.entry.owner is None and facts.entry.ticket is None:
        return _refused(
            facts,
            "found that this host's gate was never set up",
            "run 'nvme-eraser gate adopt', which records who has which drive now",
        )
    return ticket


def _refused(facts: SlotFacts, found: str, do: str, void: str = "") -> StartRefusal:
    return StartRefusal(facts.address, found, do, void)


def _misplaced(facts: SlotFacts, starting: Starting) -> StartRefusal | None:
    """What is there is no drive."""
    if not facts.other_class:
        return None
    owner = facts.entry.owner
    return StartRefusal(
        facts.address,
        f"expected an NVMe drive, found a function of PCI class {facts.other_class}",
        "has the host other addresses than before ('Renumbered addresses' in the operators' "
        "guide)? If this function is meant, 'nvme-eraser gate exempt' it",
        of_owner=owner is not None and owner.domain == starting.uuid,
    )


def _barred(facts: SlotFacts) -> StartRefusal | None:
    """What keeps everybody from the drive."""
    case, drive = facts.case, facts.drive
    if facts.locked:
        return _refused(
            facts,
            f"expected a free slot, found it locked by {facts.locked}",
            "an erase works on it: wait until it has ended",
        )
    if case.standing is CaseStanding.OPEN:
        return _refused(
            facts,
            f"found an erase that has not ended{case.detail and f' ({case.detail})'}",
            "wait until it has, and until the slot is certified",
        )
    if drive.driver is None:
        return _refused(
            facts, "expected a drive, found no PCI function", "is the drive in its slot?"
        )
    if drive.driver != "nvme":
        owner = facts.entry.owner
        has_it = "" if owner is None else f"unless {owner.name!r} ({owner.domain}) runs with it, "
        node = "pci_" + facts.address.replace(":", "_").replace(".", "_")
        return _refused(
            facts,
            f"expected the nvme driver, found {drive.driver or 'none'}",
            f"{has_it}bind it to nvme ('virsh nodedev-reattach {node}'), and start it again: a "
            "drive that cannot be read cannot be let through",
        )
    if drive.trouble:
        return _refused(
            facts,
            f"the drive does not answer: {drive.trouble}",
            "'nvme-eraser inspect' shows when it does again",
        )
    # Of all that bars this alone ends the ticket: the drive is no longer as it was certified,
    # however the sanitize ends.
    if drive.sanitize in (SanitizeState.RUNNING, SanitizeState.FAILED):
        return _refused(
            facts,
            f"expected a drive at rest, found its sanitize {drive.sanitize.value}",
            "wait for its end, then " + _RELEASE,
            f"its sanitize is {drive.sanitize.value}",
        )
    return None


def _by_owner(facts: SlotFacts, starting: Starting, identity: ControllerIdentity) -> str:
    """Why the domain does not own this drive; empty where it does."""
    owner = facts.entry.owner
    if owner is None:
        return "nobody has it"
    if owner.domain != starting.uuid:
        return f"domain {owner.name!r} ({owner.domain}) has it since {owner.since}"
    # A host that was installed anew may have other drives at these addresses.
    if owner.incarnation != facts.incarnation:
        return "its record is of an earlier installation of this host"
    # The whole identity: a drive of the same model, or with the same serial number, is another.
    if owner.identity is not None and owner.identity != identity:
        differences = "; ".join(owner.identity.differences(identity))
        return f"expected the drive that this domain has, found another ({differences})"
    if owner.identity is None:
        return _not_adopted(facts, owner, identity)
    return ""


def _not_adopted(facts: SlotFacts, owner: Owner, identity: ControllerIdentity) -> str:
    """Why this is not the drive that the domain was adopted with, which nobody has read since."""
    if owner.pci not in (None, PciIds.of(identity)):
        return "expected a drive with the PCI ids that this domain has, found others"
    if left_slot(owner.place, facts.drive.place):
        return "expected the drive that this domain was adopted with, found that it left its slot"
    if facts.elsewhere:  # a boot deals the addresses out anew
        return f"expected a drive of this domain's, found {facts.elsewhere}"
    return ""


def _away(facts: SlotFacts) -> str:
    """Why its owner's drive may have served another while that was off; empty where it did not."""
    owner = facts.entry.owner
    if owner is None:
        return ""
    # Its counters were not noted, so what the watcher saw is all that is known.
    if owner.rest is None:
        return owner.left and f"expected a drive that never left its owner, found: {owner.left}"
    if facts.drive.counters is None:
        return "expected the drive's counters (log 02h) as they were at rest, found none"
    # Nothing of the drive's content is read here: its own counters are the witness.
    if written := since_rest(owner.rest, facts.drive.counters):
        return f"the drive was used while its domain was off: {written}"
    return ""


def _untold(facts: SlotFacts) -> bool:
    """The counters were noted at rest, and the drive did not tell them this time."""
    owner = facts.entry.owner
    return owner is not None and owner.rest is not None and facts.drive.counters is None


def _of_another(facts: SlotFacts, word: Allowance, identity: ControllerIdentity) -> str:
    """Why a person's word is not about this drive; empty where it is."""
    # A boot may deal the addresses out anew, and bays be changed: the word was about a drive.
    if word.drive is not None and word.drive != identity:
        differences = "; ".join(word.drive.differences(identity))
        return f"expected the drive that a person allowed, found another ({differences})"
    if word.drive is None and facts.elsewhere:
        return (
            f"expected a drive that nobody else has, found {facts.elsewhere}; nobody could read it "
            "when a person allowed the start"
        )
    return ""


def _by_ticket(facts: SlotFacts, identity: ControllerIdentity) -> StartRefusal | None:
    """Why the slot's ticket does not let anybody in; None where it does."""
    # Void is for good, and has the drive erased again. So a reason that can pass (a namesake that
    # is taken out, a log that is read the next time) refuses this start and leaves the ticket.
    kept, case, owner = facts.entry.ticket, facts.case, facts.entry.owner
    if owner is not None:
        return _refused(
            facts,
            f"domain {owner.name!r} ({owner.domain}) has it since {owner.since}",
            "remove that domain if it is gone for good, then " + _RELEASE,
        )
    if kept is None:
        return _refused(facts, "found no ticket: not certified since its last use", _RELEASE)
    ticket = kept.ticket
    if kept.state is not TicketState.VALID:
        why = kept.reason or "a guest was let in on it"
        return _refused(facts, f"found its ticket {kept.state.value}: {why}", _RELEASE)
    if ticket.incarnation != facts.incarnation:
        return _void(facts, "its ticket is for an earlier installation of this host")
    # The slot had a newer order since: the ticket is of an erase before that.
    if (ticket.generation, ticket.order_id) != (case.generation, case.order_id):
        return _void(facts, "its ticket is not of the newest order")
    if case.standing is not CaseStanding.ERASED:
        return _void(facts, f"the newest order's case stands at {case.standing.value}")
    if ticket.identity != identity:
        differences = "; ".join(ticket.identity.differences(identity))
        return _void(facts, f"not the certified drive is in the slot ({differences})")
    if facts.came_back:
        return _void(facts, "the drive left its slot since its erase began, and came back")
    if facts.drive.namesake:
        return _refused(facts, facts.drive.namesake, "take one of the two out of this host")
    # A log that is not told this time may be told the next: the ticket stays.
    if kept.counters is None or facts.drive.counters is None:
        return _refused(
            facts,
            "expected the drive's counters (log 02h), found none",
            "see the kernel's log, then " + _RELEASE,
        )
    if written := since_intake(kept.counters, facts.drive.counters, ticket.own_writes):
        return _void(facts, f"the drive was used since it was certified: {written}")
    return None


def _void(facts: SlotFacts, why: str) -> StartRefusal:
    return _refused(facts, why, _RELEASE, why)


def consume(
    book: Book, admissions: Iterable[StartAdmission], starting: Starting, now: SteadyTime, at: str
) -> Book:
    """The book after a start was let in on all of its drives."""
    for admission in admissions:
        entry = book.entry(admission.address)
        # Somebody else had it until now: older entries do not tell any more who had it last.
        before = entry.owner
        if before is not None and before.domain != starting.uuid:
            book = forgotten(book, before.identity, {entry.address})
        if admission.way is AdmittedBy.ALLOWANCE and entry.allowance is not None:
            allowance = entry.allowance
            book = book.with_used(
                AllowanceUsed(admission.address, starting.uuid, allowance.by, allowance.reason, at)
            )
        owner = _owner(book, admission, starting, now, at)
        book = book.with_entry(_given(entry, admission, owner, at))
    return book


def _owner(
    book: Book, admission: StartAdmission, starting: Starting, now: SteadyTime, at: str
) -> Owner:
    """The record of who has the drive from now on; its own restart keeps when that began."""
    before = book.entry(admission.address).owner
    keeps = before is not None and admission.way is AdmittedBy.OWNER
    return Owner(
        # Without rest, left and place: the guest writes from here on, so these begin anew.
        domain=starting.uuid,
        name=starting.name,
        identity=admission.identity,
        pci=PciIds.of(admission.identity),
        incarnation=book.incarnation,
        since=before.since if before is not None and keeps else at,
        adopted=before is not None and keeps and before.adopted,
        let_in=now,
    )


def _given(entry: SlotEntry, admission: StartAdmission, owner: Owner, at: str) -> SlotEntry:
    before = entry.owner
    if before is not None and before.domain != owner.domain:
        entry = parted(entry, before, at)
    entry = dataclasses.replace(entry, owner=owner)
    if admission.way is AdmittedBy.TICKET and entry.ticket is not None:
        used = dataclasses.replace(entry.ticket, state=TicketState.USED, reason="")
        # Nobody wrote to that very drive since it was certified. Of another one that was here
        # before the ticket says nothing: what was doubted of it goes with the doubt.
        if entry.doubted and entry.last_identity not in (None, admission.identity):
            entry = dataclasses.replace(entry, last_owner=None, last_identity=None)
        entry = dataclasses.replace(entry, ticket=used, doubted=False)
    else:
        entry = voided(entry, f"domain {owner.name!r} was let in by its {admission.way.value}")
    word = entry.allowance
    if word is not None and (
        admission.way is not AdmittedBy.OWNER or word.domain in ("", owner.domain)
    ):
        # This was the start that it was for, needed or not; left over it would let another in.
        entry = dataclasses.replace(entry, allowance=None)
    return entry
