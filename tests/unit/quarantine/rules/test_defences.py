"""What hosts say of their last gate, and what that means for each of their slots."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from eraser.defences import assessment
from eraser.protocol.report import Hello
from eraser.protocol.ticket import (
    AllowanceUsed,
    Defence,
    DefenceSeen,
    DefenceStanding,
    DomainSeen,
    Exemption,
    GateTestimony,
    TicketSeen,
    TicketState,
)
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record.words.facts import HostRecord, SlotRecord
from quarantine.record.words.states import State
from quarantine.rules import defences
from quarantine.rules.action import ServiceLimits, SlotContext
from tests.unit.quarantine.testimony import NOW, ORDER, RECORD, SLOT

LIFE = "incarnation-00001"
LIMITS = ServiceLimits()
ALL_WELL = tuple(DefenceSeen(name, DefenceStanding.PRESENT, "") for name in Defence)
TICKET = TicketSeen(SLOT.address, ORDER.order_id, ORDER.generation, TicketState.VALID, "")
GATE = GateTestimony(ALL_WELL, (), (TICKET,), ())
DOMAIN = DomainSeen(RECORD.consumer or "", "instance-1", (SLOT.address,), True, True)
ON_OFFER = replace(RECORD, state=State.AVAILABLE, ticket_ready=True, ticket_incarnation=LIFE)


def host(gate: GateTestimony | None = GATE, *, after: float = 3600, **changes: Any) -> HostRecord:
    """A host whose hello came so many seconds after the slot's last step."""
    hello = Hello(SLOT.host, LIFE, 7, "0.1.0", (), (), (), gate)
    known = HostRecord(
        name=SLOT.host,
        key=PrivateKey.generate().public,
        incarnation=LIFE,
        sequence=7,
        hello=hello,
        registered_at=NOW,
        heard_at=NOW + timedelta(seconds=after),
    )
    return replace(known, **changes)


def standing(defence: Defence, how: DefenceStanding) -> GateTestimony:
    """All is well but this."""
    seen = [each for each in ALL_WELL if each.defence is not defence]
    return replace(GATE, defences=(*seen, DefenceSeen(defence, how, "run host-setup")))


def weigh(
    record: SlotRecord = ON_OFFER, known: HostRecord | None = None, limits: ServiceLimits = LIMITS
) -> SlotContext:
    return defences.weigh(record, known or host(), limits)


def test_a_host_with_everything_is_no_trouble() -> None:
    known = host(replace(GATE, tickets=(TICKET,)))
    no_trouble = SlotContext(incarnation=LIFE, host_heard_at=known.heard_at)
    assert weigh(known=known) == no_trouble


def test_a_host_that_nobody_registered_has_not_greeted() -> None:
    past = defences.weigh(ON_OFFER, None, LIMITS)
    assert (past.incarnation, past.greeted) == (None, False)
    assert past.recall == "host cmp1 is registered no more", "what it testified counts no more"
    assert defences.weigh(ON_OFFER, None, replace(LIMITS, tickets=False)).recall == ""
    for state in set(State) - {State.AVAILABLE}:
        assert defences.weigh(replace(ON_OFFER, state=state), None, LIMITS).recall == ""


@pytest.mark.parametrize("how", DefenceStanding)
@pytest.mark.parametrize("defence", Defence)
def test_a_required_defence(defence: Defence, how: DefenceStanding) -> None:
    past = weigh(known=host(standing(defence, how)))
    required = defence in (Defence.HOOK, Defence.LOADED, Defence.PATCH)
    bad = required and how in (DefenceStanding.ABSENT, DefenceStanding.UNKNOWN)
    assert bool(past.unguarded) is bad
    # Only a plain word takes back what is on offer.
    assert bool(past.recall) is (required and how is DefenceStanding.ABSENT)
    assert past.doubtful is (required and how is DefenceStanding.UNKNOWN)
    assert bool(past.said) is past.doubtful
    for text in filter(None, (past.unguarded, past.recall)):
        assert f"{defence} is {how}" in text
    # What stands on the record does not change with each hello's details.
    assert "run host-setup" not in past.unguarded


def test_a_defence_that_is_not_named_or_no_testimony_at_all_is_not_there() -> None:
    rest = replace(GATE, defences=ALL_WELL[1:])
    assert "hook is unknown" in weigh(known=host(rest)).unguarded
    assert "upgrade" in weigh(known=host(None)).unguarded
    for gate in (rest, None):
        assert weigh(known=host(gate)).recall == ""
    nothing = replace(LIMITS, defences=frozenset())
    assert weigh(known=host(None), limits=nothing).unguarded == ""
    assert weigh(known=host(None), limits=replace(LIMITS, tickets=False)).unguarded == ""


def test_a_host_without_a_hello_yet_is_waited_for_and_loses_nothing() -> None:
    past = weigh(known=host(hello=None, heard_at=None))
    assert (past.greeted, past.unguarded, past.recall) == (False, "", "")


@pytest.mark.parametrize(
    ("changes", "seen", "word"),
    [
        ({"ticket_ready": False}, (TICKET,), "no ticket"),
        ({"ticket_incarnation": "incarnation-00000"}, (TICKET,), "incarnation-00000"),
        ({}, (replace(TICKET, state=TicketState.VOID, reason="vanished"),), "vanished"),
        ({}, (replace(TICKET, state=TicketState.USED),), "let a guest in"),
    ],
)
def test_a_slot_on_offer_whose_ticket_is_not_good_is_recalled(
    changes: dict[str, Any], seen: tuple[TicketSeen, ...], word: str
) -> None:
    record, known = replace(ON_OFFER, **changes), host(replace(GATE, tickets=seen))
    assert word in weigh(record, known).recall
    assert weigh(record, known, replace(LIMITS, tickets=False)).recall == ""
    for state in set(State) - {State.AVAILABLE, State.CERTIFIED}:
        assert weigh(replace(record, state=state), known).recall == ""


@pytest.mark.parametrize("state", [TicketState.VOID, TicketState.USED])
def test_a_ticket_that_was_receipted_and_died_keeps_a_certified_slot_from_the_pool(
    state: TicketState,
) -> None:
    """It waits for something else, for days perhaps; meanwhile its drive vanished."""
    certified = replace(ON_OFFER, state=State.CERTIFIED)
    known = host(replace(GATE, tickets=(replace(TICKET, state=state),)))
    assert weigh(certified, known).recall
    assert weigh(certified, host(replace(GATE, tickets=(TICKET,)))).recall == ""
    # Without a receipt yet: that one says it, with its reason, and a person decides.
    assert weigh(replace(certified, ticket_ready=False), known).recall == ""
    # What else takes back a slot on offer only lets this one wait.
    assert weigh(certified, host(standing(Defence.HOOK, DefenceStanding.ABSENT))).recall == ""
    assert weigh(replace(certified, ticket_incarnation="before"), host()).recall == ""


def test_a_slot_given_back_before_there_were_tickets_waits_for_its_hosts_gate() -> None:
    """An upgrade of the control plane alone must not empty the pool of the whole cloud."""
    before = replace(ON_OFFER, ticket_ready=False, ticket_incarnation=None)
    assert weigh(before, host(None)).recall == ""
    assert weigh(before, host(None)).unguarded
    assert "no ticket" in weigh(before, host()).recall


@pytest.mark.parametrize(
    "changes",
    [{"generation": ORDER.generation - 1}, {"order_id": "other"}, {"address": "0000:7f:00.0"}],
)
def test_another_cases_ticket_says_nothing(changes: dict[str, Any]) -> None:
    void = replace(GATE, tickets=(replace(TICKET, state=TicketState.VOID, **changes),))
    assert "void" not in weigh(known=host(void)).recall
    certified = replace(ON_OFFER, state=State.CERTIFIED)
    assert weigh(certified, known=host(void)).recall == ""


def test_a_ticket_that_the_hosts_book_has_lost_takes_its_slot_back() -> None:
    """``gate adopt --renew``, or a book from a backup: no guest would start on what is on offer."""
    lost = replace(GATE, tickets=())
    assert "no ticket for it any more" in weigh(known=host(lost)).recall
    assert weigh(known=host(lost, after=30)).recall == "", "told before the slot was given back"
    for word in (DefenceStanding.UNKNOWN, DefenceStanding.ABSENT):
        unread = replace(standing(Defence.HOOK, word), tickets=())
        assert bool(weigh(known=host(unread)).recall) is (word is DefenceStanding.ABSENT)
    older = replace(GATE, tickets=(replace(TICKET, generation=ORDER.generation - 1),))
    assert weigh(known=host(older)).recall


@pytest.mark.parametrize(
    ("after", "claimed", "running"), [(-1, False, False), (0, True, False), (61, True, True)]
)
def test_an_old_hello_speaks_of_the_guest_before(
    after: float, claimed: bool, running: bool
) -> None:
    past = weigh(known=host(replace(GATE, domains=(DOMAIN,)), after=after))
    assert (bool(past.claimed), bool(past.running)) == (claimed, running)


def test_a_domain_that_does_not_run_still_claims_and_one_elsewhere_does_not() -> None:
    stopped = replace(DOMAIN, running=False)
    past = weigh(known=host(replace(GATE, domains=(stopped,))))
    assert DOMAIN.name in past.claimed
    assert past.running == ()
    elsewhere = replace(DOMAIN, addresses=("0000:7f:00.0",))
    assert weigh(known=host(replace(GATE, domains=(elsewhere,)))).claimed == ""


QUIET, LOUD = SlotContext(), SlotContext(running=(DOMAIN,))
UNKNOWN = replace(DOMAIN, recorded=False)


@pytest.mark.parametrize(
    ("state", "past", "alarm", "wanted"),
    [
        (State.AVAILABLE, QUIET, "", False),
        (State.AVAILABLE, SlotContext(recall="x"), "", True),
        (State.AVAILABLE, SlotContext(unguarded="x"), "", True),
        # Known: a cloud without gates is not read again with each hello.
        (State.AVAILABLE, SlotContext(unguarded="x"), "x", False),
        (State.AVAILABLE, SlotContext(unguarded="x" * 2000), "x" * 997 + "...", False),
        (State.AVAILABLE, SlotContext(unguarded="y"), "x", True),
        (State.AVAILABLE, SlotContext(recall="x", unguarded="y"), "y", True),
        (State.AVAILABLE, LOUD, "", True),
        (State.AVAILABLE, QUIET, "an alarm", True),
        (State.IN_USE, LOUD, "", False),
        (State.IN_USE, SlotContext(running=(UNKNOWN,)), "", True),
        (State.IN_USE, SlotContext(running=(replace(DOMAIN, uuid="other"),)), "", True),
        (State.IN_USE, QUIET, "an alarm", True),
        (State.IN_USE, SlotContext(unguarded="x"), "", False),
        (State.HELD, LOUD, "", True),
        (State.HELD, QUIET, "", False),
    ],
)
def test_a_hello_has_slots_looked_at_that_a_sweep_passes_over(
    state: State, past: SlotContext, alarm: str, wanted: bool
) -> None:
    assert defences.wants_look(replace(RECORD, state=state, alarm=alarm), past) is wanted


EXEMPT = Exemption(SLOT.address, "a scratch disk", "ada", "2026-11-20T03:00:00Z")


def test_a_slot_that_its_hosts_gate_leaves_to_any_guest_has_no_gate() -> None:
    """Whatever is in it would start with whoever comes first: after a boot that deals the addresses
    out anew that may be a predecessor's drive."""
    known = host(replace(GATE, exemptions=(EXEMPT,)))
    past = weigh(known=known)
    assert past.unguarded == past.recall != ""
    assert f"exempt --remove --pci {SLOT.address}" in past.unguarded
    again = replace(EXEMPT, by="bob", at="later", reason="another")
    assert weigh(known=host(replace(GATE, exemptions=(again,)))) == past, "it stands on the record"
    assert not past.doubtful
    certified = weigh(replace(ON_OFFER, state=State.CERTIFIED), known)
    assert (certified.unguarded, certified.recall) == (past.unguarded, "")
    other = host(replace(GATE, exemptions=(replace(EXEMPT, address="0000:99:00.0"),)))
    assert (weigh(known=other).unguarded, weigh(known=other).recall) == ("", "")
    for demanded in (
        replace(LIMITS, tickets=False),
        replace(LIMITS, defences=frozenset({Defence.PATCH})),
    ):
        past = weigh(known=known, limits=demanded)
        assert (past.unguarded, past.recall) == ("", "")


def test_an_exemption_is_told_once() -> None:
    exempt = replace(GATE, exemptions=(EXEMPT,))
    ((address, text),) = defences.news(GATE, exempt)
    assert address == SLOT.address
    assert "ada exempted it" in text
    assert list(defences.news(None, exempt)) == [(address, text)]
    assert list(defences.news(exempt, exempt)) == []
    assert list(defences.news(exempt, GATE)) == []
    others = {"at": "2026-11-21T03:00:00Z", "by": "eve", "reason": "another"}
    again = replace(GATE, exemptions=(replace(EXEMPT, **others),))
    assert list(defences.news(exempt, again)) == [], "a host may say that anew with each hello"


def test_programs_that_no_rule_keeps_off_are_told_once() -> None:
    def named(*programs: str) -> GateTestimony:
        seen = standing(Defence.RULES, DefenceStanding.PRESENT)
        told = assessment.rules(("0000:01:00.0",), (), (), ("x: y; z",), programs)
        return replace(seen, defences=(*seen.defences[:-1], told))

    one = named("cloud-init", "os-prober")
    ((address, text),) = defences.news(GATE, one)
    assert address is None
    assert "tenants' drives: cloud-init, os-prober; 'nvme-eraser host-setup --check'" in text
    assert list(defences.news(None, one)) == [(None, text)]
    assert list(defences.news(one, one)) == []
    assert list(defences.news(one, named())) == []
    assert len(list(defences.news(one, named("cloud-init")))) == 1
    assert weigh(known=host(one)) == weigh(known=host(GATE)), "it costs the host nothing"


@pytest.mark.parametrize(
    "between",
    [
        assessment.unknown(Defence.RULES, "no answer within 10 s"),
        assessment.rules(("0000:01:00.0",), ("x",), (), (), ("cloud-init",)),
        assessment.rules(("0000:01:00.0",), ("x" * 999,), (), (), ("cloud-init",)),
        assessment.rules(("0000:01:00.0",), (), ("udevadm x",), (), ("cloud-init",)),
        assessment.rules(("0000:01:00.0",), (), ("udevadm x" * 99,), (), ("cloud-init",)),
    ],
)
def test_programs_are_not_told_anew_because_a_look_or_the_rules_failed_between(
    between: DefenceSeen,
) -> None:
    def gate(rules: DefenceSeen) -> GateTestimony:
        others = [each for each in GATE.defences if each.defence is not Defence.RULES]
        return replace(GATE, defences=(*others, rules))

    assert len(between.detail) <= 500
    one = gate(assessment.rules(("0000:01:00.0",), (), (), (), ("cloud-init",)))
    of_programs = [
        text
        for old, new in ((one, gate(between)), (gate(between), one))
        for _, text in defences.news(old, new)
        if "no rule of host-setup" in text
    ]
    assert of_programs == []
    two = gate(assessment.rules(("0000:01:00.0",), (), (), (), ("glean",)))
    assert bool(list(defences.news(gate(between), two))) is bool(between.scanners)


USED = AllowanceUsed(SLOT.address, "uuid-1", "ada", "3 a.m.", "2026-11-20T03:00:00Z")


def test_what_is_new_is_told_once() -> None:
    bad = standing(Defence.WATCHER, DefenceStanding.ABSENT)
    assert [text for _, text in defences.news(None, bad)] == ["watcher is absent: run host-setup"]
    assert [text for _, text in defences.news(GATE, bad)] == ["watcher is absent: run host-setup"]
    # The minute after a start of nova-compute; where it lasts the slots tell of it.
    assert list(defences.news(GATE, standing(Defence.PATCH, DefenceStanding.UNKNOWN))) == []
    assert list(defences.news(bad, bad)) == []
    assert list(defences.news(bad, GATE)) == []
    assert list(defences.news(bad, None)) == []
    used = replace(GATE, allowances=(USED,))
    ((address, text),) = defences.news(GATE, used)
    assert address == SLOT.address
    assert "ada" in text
    assert "3 a.m." in text
    assert list(defences.news(used, used)) == []
    again = replace(used, allowances=(USED, replace(USED, at="2026-11-21T03:00:00Z")))
    assert len(list(defences.news(used, again))) == 1
