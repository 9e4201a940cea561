"""Who is let in: every reason for and against, one by one."""

from __future__ import annotations

import dataclasses

import pytest

from eraser.controller.spec import SanitizeState
from eraser.gate import rules
from eraser.gate.rules import AdmittedBy, StartAdmission, StartRefusal, admit, consume
from eraser.ownership.facts import CaseStanding, SlotFacts
from eraser.ownership.model import Owner, PciIds, SlotEntry
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.ticket import Counters, LastOwner, TicketState
from tests.unit.ownership.parts import (
    ADDRESS,
    ALLOWED,
    ANOTHER,
    AT,
    DRIVE,
    EMPTY,
    FACTS,
    KEPT,
    LATER,
    MINE,
    NOW,
    OTHER_ADDRESS,
    OWNED,
    OWNER,
    REPORTED,
    STARTING,
    THEIRS,
    TICKET,
    facts,
    kept,
    owner,
    ticket,
)

BY_WORD = facts(entry=SlotEntry(ADDRESS, allowance=ALLOWED))
NOBODY = facts(entry=SlotEntry(ADDRESS))
WAYS = {AdmittedBy.TICKET: FACTS, AdmittedBy.OWNER: OWNED, AdmittedBy.ALLOWANCE: BY_WORD}


def refused(given: SlotFacts, *words: str) -> StartRefusal:
    found = admit(given, STARTING)
    assert isinstance(found, StartRefusal), found
    for word in words:
        assert word in str(found), str(found)
    assert ADDRESS in str(found)
    assert found.do
    return found


@pytest.mark.parametrize("way", WAYS)
def test_each_way_in(way: AdmittedBy) -> None:
    assert admit(WAYS[way], STARTING) == StartAdmission(ADDRESS, way, DRIVE)


BARRIERS = [
    ({"locked": "process 77"}, "process 77"),
    ({"case__standing": CaseStanding.OPEN, "case__detail": "order x"}, "order x"),
    ({"drive__driver": None}, "no PCI function"),
    ({"drive__driver": ""}, "found none"),
    ({"drive__driver": "vfio-pci"}, "found vfio-pci"),
    ({"drive__driver": "vfio-pci"}, "nodedev-reattach pci_0000_01_00_0'), and start it again"),
    ({"drive__trouble": "no answer in 2 s"}, "no answer in 2 s"),
    ({"drive__identity": None}, "without identity"),
    ({"drive__sanitize": SanitizeState.RUNNING}, "sanitize running"),
    ({"drive__sanitize": SanitizeState.FAILED}, "sanitize failed"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("changes", "said"), BARRIERS)
def test_what_keeps_everybody_out(way: AdmittedBy, changes: dict[str, object], said: str) -> None:
    refused(facts(WAYS[way], **changes), said)


@pytest.mark.parametrize(
    "standing", [CaseStanding.NONE, CaseStanding.IN_USE, CaseStanding.ENDED, CaseStanding.ERASED]
)
def test_the_owner_passes_whatever_became_of_an_ended_case(standing: CaseStanding) -> None:
    found = admit(facts(OWNED, case__standing=standing), STARTING)
    assert isinstance(found, StartAdmission)
    assert found.way is AdmittedBy.OWNER


@pytest.mark.parametrize("sanitize", [None, SanitizeState.NEVER, SanitizeState.SUCCESS_NO_DEALLOC])
@pytest.mark.parametrize("way", WAYS)
def test_a_sanitize_at_rest_hinders_nobody(way: AdmittedBy, sanitize: SanitizeState | None) -> None:
    assert isinstance(admit(facts(WAYS[way], drive__sanitize=sanitize), STARTING), StartAdmission)


def test_an_owner_needs_no_counters() -> None:
    assert isinstance(admit(facts(OWNED, drive__counters=None), STARTING), StartAdmission)


AT_REST = owner(rest=REPORTED)


USED = dataclasses.replace(REPORTED, host_write_commands=REPORTED.host_write_commands + 1)


@pytest.mark.parametrize(
    ("changes", "called"),
    [
        ({"drive__counters": USED}, True),
        # It may be told the next time.
        ({"drive__counters": None}, False),
        ({"drive__counters": None, "drive__identity": ANOTHER}, True),
    ],
)
def test_people_are_called_for_what_does_not_pass_by_itself(
    changes: dict[str, object], called: bool
) -> None:
    refusal = refused(facts(facts(entry=SlotEntry(ADDRESS, owner=AT_REST)), **changes))
    assert refusal.of_owner is called


AWAY = [
    (AT_REST, {"drive__counters": Counters(1001, 40, 7, True)}, "went from 1000 to 1001"),
    (AT_REST, {"drive__counters": Counters(1000, 41, 7, True)}, "went from 40 to 41"),
    (AT_REST, {"drive__counters": Counters(999, 40, 7, True)}, "went back"),
    (AT_REST, {"drive__counters": Counters(1000, 40, 6, True)}, "Power Cycles went back"),
    (AT_REST, {"drive__counters": None}, "log 02h"),
    (owner(left="it vanished"), {}, "it vanished"),
]


@pytest.mark.parametrize(("mine", "changes", "said"), AWAY)
def test_an_owners_drive_that_may_have_served_another(
    mine: Owner, changes: dict[str, object], said: str
) -> None:
    """Its owner was off, it was pulled and used elsewhere, and came back."""
    given = facts(OWNED, entry__owner=mine, **changes)
    refused(given, said, "another's data may be on it", "gate allow --once")
    word = facts(given, entry__allowance=ALLOWED)
    admission = admit(word, STARTING)
    assert admission == StartAdmission(ADDRESS, AdmittedBy.ALLOWANCE, DRIVE), (
        "after a person looked"
    )
    after = consume(EMPTY.with_entry(word.entry), [admission], STARTING, NOW, LATER)
    found = after.entry(ADDRESS).owner
    assert found is not None
    assert (found.rest, found.left) == (None, ""), "its own writes must not speak against it"


@pytest.mark.parametrize("seal", [True, False, None])
def test_an_owners_drive_that_stood_still(seal: bool | None) -> None:
    """The host was rebooted meanwhile; its data on the drive says nothing about the seal."""
    still = Counters(1000, 40, 9, seal)
    given = facts(OWNED, entry__owner=AT_REST, drive__counters=still)
    admission = admit(given, STARTING)
    assert admission == StartAdmission(ADDRESS, AdmittedBy.OWNER, DRIVE)
    after = consume(EMPTY.with_entry(given.entry), [admission], STARTING, NOW, LATER)
    assert after.entry(ADDRESS).owner == OWNER, "and nothing is left of its rest"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"domain": THEIRS}, THEIRS),
        ({"identity": ANOTHER}, "'SN2'"),
        ({"incarnation": "2" * 32}, "earlier installation"),
        ({"identity": None, "pci": dataclasses.replace(PciIds.of(DRIVE), device_id=1)}, "PCI ids"),
    ],
)
def test_only_the_owner_of_this_very_drive(changes: dict[str, object], said: str) -> None:
    refused(facts(OWNED, entry__owner=owner(**changes)), said)


def test_an_owner_who_finds_another_drive_is_told_to_put_its_own_back() -> None:
    said = str(refused(facts(OWNED, entry__owner=owner(identity=ANOTHER))))
    assert "put its drive back" in said
    assert "another's data" not in said


@pytest.mark.parametrize("pci", [None, PciIds.of(DRIVE)])
def test_an_owner_that_was_adopted_unread(pci: PciIds | None) -> None:
    adopted = owner(identity=None, pci=pci, adopted=True, let_in=None)
    admission = admit(facts(OWNED, entry__owner=adopted), STARTING)
    assert isinstance(admission, StartAdmission)
    book = consume(
        EMPTY.with_entry(SlotEntry(ADDRESS, owner=adopted)), [admission], STARTING, NOW, LATER
    )
    found = book.entry(ADDRESS).owner
    assert found == dataclasses.replace(
        adopted, identity=DRIVE, pci=PciIds.of(DRIVE), let_in=NOW
    ), "the first look fills it in, and it stays adopted since then"


@pytest.mark.parametrize(
    ("here", "admitted"),
    [
        ("boot-1/7", True),  # it was in its place all the time, whatever else the book says
        ("boot-1/8", False),
        ("boot-2/7", True),  # what a boot put there cannot be told
        ("", True),
    ],
)
def test_an_owner_that_was_adopted_unread_by_its_drives_place(here: str, admitted: bool) -> None:
    adopted = owner(
        identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None, place="boot-1/7"
    )
    found = facts(OWNED, entry__owner=adopted, drive__place=here)
    assert isinstance(admit(found, STARTING), StartAdmission) is admitted
    if not admitted:
        assert "left its slot" in str(refused(found))


def test_a_drive_that_is_anothers_is_not_the_one_that_was_adopted_unread() -> None:
    """A boot dealt the addresses out anew, and there is a drive of another guest at this one."""
    adopted = owner(identity=None, pci=PciIds.of(DRIVE), adopted=True, let_in=None)
    found = facts(OWNED, entry__owner=adopted, elsewhere="that of domain 'x'")
    said = str(refused(found, "found that of domain 'x'"))
    assert "put its drive back" in said


def test_a_ticket_of_a_slot_that_somebody_has_lets_nobody_in() -> None:
    refused(facts(entry__owner=owner(domain=THEIRS)), THEIRS, "remove that domain")


TICKET_FAULTS = [
    ({"entry__ticket": None}, "no ticket", False),
    ({"entry__ticket": kept(state=TicketState.USED)}, "used: a guest was let in", False),
    ({"entry__ticket": kept(state=TicketState.VOID, reason="it vanished")}, "it vanished", False),
    ({"entry__ticket": kept(ticket=ticket(incarnation="2" * 32))}, "earlier installation", True),
    ({"entry__ticket": kept(ticket=ticket(generation=4))}, "newest order", True),
    ({"entry__ticket": kept(ticket=ticket(order_id="order-0000-0000-0002"))}, "newest order", True),
    ({"case__generation": 6}, "newest order", True),
    ({"case__order_id": "order-0000-0000-0002"}, "newest order", True),
    ({"case__standing": CaseStanding.ENDED}, "stands at ended", True),
    ({"case__standing": CaseStanding.IN_USE}, "stands at in_use", True),
    ({"case__standing": CaseStanding.NONE}, "stands at none", True),
    ({"drive__identity": ANOTHER}, "'SN2'", True),
    ({"entry__place": "boot-1/70", "drive__place": "boot-1/71"}, "left its slot", True),
    ({"drive__namesake": "another SN1 at 0000:03:00.0"}, "another SN1", False),
    ({"drive__counters": None}, "log 02h", False),
    ({"entry__ticket": kept(counters=None)}, "log 02h", False),
    ({"drive__counters": Counters(1000, 40, 7, False)}, "Global Data Erased", True),
    ({"drive__counters": Counters(5000, 40, 7, True)}, "went from 1000 to 5000", True),
]


@pytest.mark.parametrize(("changes", "said", "void"), TICKET_FAULTS)
def test_a_ticket_that_is_not_good(changes: dict[str, object], said: str, void: bool) -> None:
    assert bool(refused(facts(**changes), said).void) is void


@pytest.mark.parametrize(("changes", "said", "void"), TICKET_FAULTS)
def test_a_persons_word_helps_where_a_ticket_does_not(
    changes: dict[str, object], said: str, void: bool
) -> None:
    assert admit(facts(entry__allowance=ALLOWED, **changes), STARTING) == StartAdmission(
        ADDRESS,
        AdmittedBy.ALLOWANCE,
        changes.get("drive__identity", DRIVE),  # type: ignore[arg-type]
    )


def test_a_persons_word_for_another_domain() -> None:
    word = dataclasses.replace(ALLOWED, domain=THEIRS)
    refused(facts(BY_WORD, entry__allowance=word), "no ticket")
    mine = dataclasses.replace(ALLOWED, domain=STARTING.uuid)
    assert isinstance(admit(facts(BY_WORD, entry__allowance=mine), STARTING), StartAdmission)


def test_a_ticket_is_used_before_a_persons_word() -> None:
    admission = admit(facts(entry__allowance=ALLOWED), STARTING)
    assert isinstance(admission, StartAdmission)
    assert admission.way is AdmittedBy.TICKET


def test_a_host_that_was_never_adopted_says_so() -> None:
    refused(facts(NOBODY, adopted=False), "nvme-eraser gate adopt")


def test_all_drives_are_written_down_at_once() -> None:
    second = dataclasses.replace(
        KEPT, ticket=ticket(slot=dataclasses.replace(TICKET.slot, address=OTHER_ADDRESS))
    )
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=KEPT)).with_entry(
        SlotEntry(OTHER_ADDRESS, ticket=second, allowance=ALLOWED)
    )
    given = [StartAdmission(a, AdmittedBy.TICKET, DRIVE) for a in (ADDRESS, OTHER_ADDRESS)]
    after = consume(book, given, STARTING, NOW, LATER)
    for entry in after.entries:
        assert entry.ticket is not None
        assert entry.ticket.state is TicketState.USED
        assert entry.owner == dataclasses.replace(OWNER, since=LATER)
        assert entry.allowance is None, "left over, it would let somebody else in"
    assert after.used_allowances == ()


def test_a_ticket_lets_in_once() -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=KEPT))
    after = consume(book, [StartAdmission(ADDRESS, AdmittedBy.TICKET, DRIVE)], STARTING, NOW, LATER)
    again = facts(entry=after.entry(ADDRESS))
    assert isinstance(admit(again, STARTING), StartAdmission), "its own restart"
    refused_one = admit(again, rules.Starting(THEIRS, "another"))
    assert isinstance(refused_one, StartRefusal)


def test_an_owners_restart_keeps_since_when_it_has_the_drive() -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, owner=owner(let_in=None), allowance=ALLOWED))
    after = consume(book, [StartAdmission(ADDRESS, AdmittedBy.OWNER, DRIVE)], STARTING, NOW, LATER)
    assert after.entry(ADDRESS).owner == OWNER
    assert after.entry(ADDRESS).allowance is None, "it was for the next start"
    theirs = dataclasses.replace(ALLOWED, domain=THEIRS)
    book = EMPTY.with_entry(SlotEntry(ADDRESS, owner=owner(let_in=None), allowance=theirs))
    after = consume(book, [StartAdmission(ADDRESS, AdmittedBy.OWNER, DRIVE)], STARTING, NOW, LATER)
    assert after.entry(ADDRESS).allowance == theirs


@pytest.mark.parametrize(("domain", "named"), [(THEIRS, None), (STARTING.uuid, DRIVE)])
def test_who_lost_the_drive_before_is_not_its_last_owner_any_more(
    domain: str, named: ControllerIdentity | None
) -> None:
    """By a start of somebody else; its owner's own restart loses it to nobody."""
    old = SlotEntry(OTHER_ADDRESS, last_owner=LastOwner(MINE, "x", AT, AT), last_identity=DRIVE)
    book = EMPTY.with_entry(SlotEntry(ADDRESS, owner=owner(domain=domain))).with_entry(old)
    admission = StartAdmission(ADDRESS, AdmittedBy.ALLOWANCE, ANOTHER)
    after = consume(book, [admission], STARTING, NOW, LATER)
    assert after.entry(OTHER_ADDRESS).last_identity == named


def test_a_persons_word_is_used_up_and_remembered() -> None:
    before = SlotEntry(
        ADDRESS, owner=owner(domain=THEIRS, name="old"), ticket=KEPT, allowance=ALLOWED
    )
    book = EMPTY.with_entry(before)
    after = consume(
        book, [StartAdmission(ADDRESS, AdmittedBy.ALLOWANCE, ANOTHER)], STARTING, NOW, LATER
    )
    entry = after.entry(ADDRESS)
    assert entry.allowance is None
    assert entry.last_owner == LastOwner(THEIRS, "old", AT, LATER)
    assert entry.last_identity == DRIVE
    assert entry.owner is not None
    assert (entry.owner.domain, entry.owner.identity) == (STARTING.uuid, ANOTHER)
    assert entry.ticket is not None
    assert entry.ticket.state is TicketState.VOID
    (used,) = after.used_allowances
    assert (used.address, used.domain, used.by, used.at) == (
        ADDRESS,
        STARTING.uuid,
        "operator",
        LATER,
    )


def test_which_addresses_need_an_admission() -> None:
    classes = {"a": rules.NVME_CLASS, "b": "0x030000", "c": None, "d": rules.NVME_CLASS}
    assert rules.needing(["d", "c", "b", "a", "a"], classes, {"d"}) == ("a", "c")
    assert rules.needing(["gone"], {}, ()) == ("gone",)


def test_nothing_of_an_earlier_incarnation_lets_in() -> None:
    later = "2" * 32
    for way in (AdmittedBy.TICKET, AdmittedBy.OWNER):
        refused(facts(WAYS[way], incarnation=later), "earlier installation")
