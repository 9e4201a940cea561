"""What a host's own testimony means for one of its slots. Pure.

A host that cannot say how a defence stands counts as one that lacks it: nothing is given back to
it. Slots that are on offer already are taken back only on a plain "absent": a look that took too
long on a busy host, or a hello that is missing, must not empty the pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from eraser.protocol.report import Hello
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding, GateTestimony, TicketState
from quarantine.record.words.facts import HostRecord, SlotRecord
from quarantine.record.words.states import State
from quarantine.record.words.texts import ALARM_LENGTH, storable
from quarantine.rules.action import ServiceLimits, SlotContext

_SETTLED_SECONDS: Final = 60.0
"""A hello may have been on its way for so long: what it says is of before the slot's last step."""

_FINE: Final = frozenset({DefenceStanding.PRESENT, DefenceStanding.NOT_APPLICABLE})


def weigh(record: SlotRecord, host: HostRecord | None, limits: ServiceLimits) -> SlotContext:
    """What the host adds to the past of one of its slots."""
    if host is None:
        # Nobody's word counts there any more: what it testified keeps no drive on offer.
        offered = record.state is State.AVAILABLE and limits.tickets
        return SlotContext(
            greeted=False,
            recall=f"host {record.slot.host} is registered no more" if offered else "",
        )
    hello, heard = host.hello, host.heard_at
    since = _seconds(record.entered_at, heard)
    # A hello of before the slot's state names domains of its last tenant. One of just after it may
    # have been on its way: it is good enough to let an order wait, not to call anybody.
    domains = hello.gate.domains if hello and hello.gate and since >= 0 else ()
    named = tuple(d for d in domains if record.slot.address in d.addresses)
    doubtful = bool(hello and limits.tickets and _doubtful(hello, limits))
    return SlotContext(
        incarnation=host.incarnation,
        greeted=hello is not None,
        host_heard_at=heard,
        unguarded=_of_slot(record, hello, limits) if hello and limits.tickets else "",
        doubtful=doubtful,
        said=hello.sequence if hello and doubtful else 0,
        recall=_recall(record, host, limits, since) if limits.tickets else "",
        claimed=(
            f"domain {named[0].name!r} ({named[0].uuid}) names the drive on its host; the order "
            "waits until it is gone"
            if named
            else ""
        ),
        running=tuple(d for d in named if d.running) if since > _SETTLED_SECONDS else (),
    )


def settled(record: SlotRecord, host: HostRecord) -> bool:
    """Whether the slot's last step was well before the host's last hello: the same word about the
    same slot means the same from then on."""
    return _seconds(record.entered_at, host.heard_at) > _SETTLED_SECONDS


def wants_look(record: SlotRecord, context: SlotContext) -> bool:
    """Whether a hello gives reason to look at a slot that a sweep would pass over."""
    if record.state is State.IN_USE:
        odd = any(not d.recorded or d.uuid != record.consumer for d in context.running)
        return odd or bool(record.alarm)
    if record.state is State.AVAILABLE and not context.running:
        # What is lacking stands as its alarm: what has been told is not looked at with each hello.
        return bool(context.recall) or record.alarm != storable(context.unguarded, ALARM_LENGTH)
    return bool(context.running) or bool(record.alarm)


def news(old: GateTestimony | None, new: GateTestimony | None) -> Iterator[tuple[str | None, str]]:
    """What a hello says for the first time and people must hear: a slot's address or None, text."""
    if new is None:
        return
    before = {} if old is None else {seen.defence: seen for seen in old.defences}
    for seen in new.defences:
        was = before.get(seen.defence)
        # Unknown is the word of a minute after each start: where it lasts its slots tell of it.
        absent = seen.standing is DefenceStanding.ABSENT
        if absent and (was is None or was.standing is not DefenceStanding.ABSENT):
            yield None, _name(seen)
        if seen.scanners and (was is None or _told_other(was, seen)):
            yield (
                None,
                f"no rule of host-setup keeps these programs off tenants' drives: {seen.scanners}; "
                "'nvme-eraser host-setup --check' there says what they do and how to end it",
            )
    known = set() if old is None else {(used.at, used.address) for used in old.allowances}
    for used in new.allowances:
        if (used.at, used.address) not in known:
            yield (
                used.address,
                f"{used.by} let domain {used.domain} in past the gate at {used.at}: {used.reason}",
            )
    # By guest and slot: each further try of the same one is no news.
    turned = set() if old is None else {(each.address, each.domain) for each in old.refused}
    for one in new.refused:
        if (one.address, one.domain) not in turned:
            yield (
                one.address,
                f"the gate refused domain {one.name!r} ({one.domain}) the drive that it has, at "
                f"{one.at}: {one.found}",
            )
    # By the address alone: all else a host may say anew with each hello.
    given = set() if old is None else {each.address for each in old.exemptions}
    for each in new.exemptions:
        if each.address not in given:
            yield each.address, f"{each.by} exempted it from the gate at {each.at}: {each.reason}"


def _told_other(was: DefenceSeen, seen: DefenceSeen) -> bool:
    """The programs that a host named before were others. A look that failed names none, which says
    nothing of what was told before it."""
    unknown = was.standing is DefenceStanding.UNKNOWN and not was.scanners
    return was.scanners != seen.scanners and not unknown


def stand(host: HostRecord, limits: ServiceLimits) -> tuple[DefenceSeen, ...]:
    """How each defence that is required of a host stands; none where it never said so."""
    gate = host.hello.gate if host.hello else None
    return tuple(_required(gate, limits)) if gate and limits.tickets else ()


def lacking(host: HostRecord, limits: ServiceLimits) -> str:
    """What it lacks of them, in words; empty where it lacks nothing, or never said anything."""
    if not limits.tickets:
        return ""
    if host.hello is not None:
        return _unguarded(host.hello, limits)
    return "what it said last cannot be read" if host.heard_at is not None else ""


def _of_slot(record: SlotRecord, hello: Hello, limits: ServiceLimits) -> str:
    """What the host lacks, or the slot alone."""
    return _unguarded(hello, limits) or _exempt(record, hello.gate, limits)


def _exempt(record: SlotRecord, gate: GateTestimony | None, limits: ServiceLimits) -> str:
    """That the gate is not asked when a guest gets the slot's drive, by a person's word."""
    for each in gate.exemptions if gate and Defence.HOOK in limits.defences else ():
        if each.address == record.slot.address:
            # Without who and why, which a host may change with each hello: this stands on the
            # record.
            return (
                "its host's gate leaves the slot to any guest; 'nvme-eraser gate exempt --remove "
                f"--pci {each.address}' there ends that"
            )
    return ""


def _unguarded(hello: Hello, limits: ServiceLimits) -> str:
    if not limits.defences:
        return ""
    if hello.gate is None:
        return (
            f"host {hello.host} says nothing of its last gate: expected a newer nvme-eraser than "
            f"{hello.version} there; upgrade it"
        )
    stand = _required(hello.gate, limits)
    # Without the details, which may change with each hello: this stands on the record.
    lacking = [f"{each.defence} is {each.standing}" for each in stand if each.standing not in _FINE]
    if not lacking:
        return ""
    return (
        f"host {hello.host}: {', '.join(lacking)}; 'nvme-eraser gate status' there says what to do"
    )


def _doubtful(hello: Hello, limits: ServiceLimits) -> bool:
    """The host does not know how some of its defences stand, and lacks none for certain."""
    stand = {each.standing for each in _required(hello.gate, limits)} if hello.gate else set()
    return DefenceStanding.UNKNOWN in stand and DefenceStanding.ABSENT not in stand


def _required(gate: GateTestimony, limits: ServiceLimits) -> list[DefenceSeen]:
    seen = {each.defence: each for each in gate.defences}
    return [
        seen.get(name, DefenceSeen(name, DefenceStanding.UNKNOWN, "its hello does not name it"))
        for name in Defence
        if name in limits.defences
    ]


def _recall(record: SlotRecord, host: HostRecord, limits: ServiceLimits, since: float) -> str:
    gate = host.hello.gate if host.hello else None
    if record.state is State.CERTIFIED and record.ticket_ready:
        # Its receipt said valid; since then it waits for something else.
        return _dead(record, gate)
    if record.state is not State.AVAILABLE:
        return ""
    if not record.ticket_ready:
        # A host that knows no tickets yet would take none for the drive's next case either: the
        # slots of a whole cloud would wait for its hosts to be upgraded.
        return "its host was given no ticket for it" if gate else ""
    if record.ticket_incarnation != host.incarnation:
        return (
            f"its ticket is of incarnation {record.ticket_incarnation} of the host, which is "
            f"{host.incarnation} now"
        )
    for seen in gate.defences if gate else ():
        if seen.defence in limits.defences and seen.standing is DefenceStanding.ABSENT:
            return f"on host {host.name} {_name(seen)}"
    if exempt := _exempt(record, gate, limits):
        return exempt
    if dead := _dead(record, gate):
        return dead
    return _forgotten(record, gate) if since > _SETTLED_SECONDS else ""


def _forgotten(record: SlotRecord, gate: GateTestimony | None) -> str:
    """The host's book was put aside or is an older one: its gate lets nobody in on the drive.

    Not where the book cannot be read: then the gate's hook is unknown, and no ticket is named.
    """
    known = gate and any(
        seen.defence is Defence.HOOK and seen.standing is not DefenceStanding.UNKNOWN
        for seen in gate.defences
    )
    if gate is None or not known:
        return ""
    case = (record.slot.address, record.order_id, record.generation)
    if any((each.address, each.order_id, each.generation) == case for each in gate.tickets):
        return ""
    return "its host's gate has no ticket for it any more"


def _dead(record: SlotRecord, gate: GateTestimony | None) -> str:
    """What became of the ticket of this very case, where nobody can start with it any more."""
    for ticket in gate.tickets if gate else ():
        if (ticket.address, ticket.order_id, ticket.generation) != (
            record.slot.address,
            record.order_id,
            record.generation,
        ):
            continue
        if ticket.state is TicketState.VOID:
            return f"its host calls the ticket void: {ticket.reason or 'without a reason'}"
        if ticket.state is TicketState.USED:
            return "its host let a guest in on it, and nobody holds it in Placement"
    return ""


def _name(seen: DefenceSeen) -> str:
    return f"{seen.defence} is {seen.standing}: {seen.detail or 'no detail'}"


def _seconds(since: datetime, until: datetime | None) -> float:
    """Both on our own clock; without a hello it was before everything."""
    return -float("inf") if until is None else (until - since).total_seconds()
