"""Every row: what the record says, what Placement shows, and the one step that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest

from eraser.protocol.identity import Slot
from eraser.protocol.ticket import DomainSeen
from quarantine.cloud.facts import (
    CONSUMER_TYPE,
    Allocation,
    Inventory,
    Provider,
    View,
    provider_name,
    slot_of,
)
from quarantine.record.database.rows import custody_stage
from quarantine.record.words.facts import UNSET, Initiator, SlotChanges, SlotRecord
from quarantine.record.words.lifecycle import target
from quarantine.record.words.states import Custody, Event, State
from quarantine.record.words.texts import USED_AGAIN
from quarantine.rules.action import Action, ActionKind, ServiceLimits, SlotContext
from quarantine.rules.decide import decide
from quarantine.rules.handover import Handover

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LIMITS = ServiceLimits(
    resend_after=100, retry_in_use_after=300, max_attempts=3, burn_grace=60, overdue_after=100_000
)
SLOT = Slot("cmp_1", "0000:81:00.0")
RC = "CUSTOM_NVME_I1"
CUSTODY = "c0000000-0000-4000-8000-000000000000"
LIFE = "incarnation-00001"
SERVER = "50000000-0000-4000-8000-000000000000"
STRANGER = "f0000000-0000-4000-8000-000000000000"

RECORD = SlotRecord(
    id=1,
    slot=SLOT,
    provider="rp",
    resource_class=RC,
    state=State.IN_USE,
    generation=7,
    revision=1,
    reason="why",
    profile="p",
    policy="q",
    identity=None,
    consumer=SERVER,
    custody=CUSTODY,
    custody_stage=Custody.HELD,
    order_id=None,
    nonce=None,
    order_token=None,
    ordered_at=NOW,
    heard_at=None,
    attempts=1,
    step=None,
    fraction=0.0,
    detail="",
    certificate="digest",
    ticket_token="ticket",
    ticket_incarnation=LIFE,
    ticket_at=NOW,
    ticket_ready=True,
    alarm="",
    provider_generation=3,
    offered_as=None,
    read_at=NOW,
    entered_at=NOW - timedelta(hours=1),
    created_at=NOW - timedelta(days=1),
)


def allocation(consumer: str, consumer_type: str = "unknown") -> Allocation:
    return Allocation(consumer, {RC: 1}, 1, consumer_type, "project", "user")


OURS = allocation(CUSTODY, CONSUMER_TYPE)
ORPHAN = allocation(STRANGER, CONSUMER_TYPE)
TENANT = allocation(SERVER)
OTHER = allocation(STRANGER)


def view(
    *allocations: Allocation, reserved: int = 1, uuid: str = "rp", resource_class: str = RC
) -> View:
    inventory = Inventory(resource_class, 1, reserved, 1, 1, 1, 1.0)
    return View(Provider(uuid, provider_name(SLOT), 3), RC, (inventory,), allocations)


LOCKED, FREE = view(), view(reserved=0)
HELD_BY_US, HALF = view(OURS), view(OURS, reserved=0)
USED, LOWERED = view(TENANT), view(TENANT, reserved=0)
STOLEN = view(OTHER)
EMPTY = replace(LOCKED, inventories=())

OPEN = (State.QUARANTINED, State.ERASING, State.VERIFYING)
WORKING = (State.ERASING, State.VERIFYING)
PARKED = (State.HELD, State.RETIRED)


CLEAN = SlotContext(incarnation=LIFE)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    states: tuple[State, ...]
    seen: View | None
    act: ActionKind
    event: Event | None = None
    alarm: bool = False
    new_case: bool = False
    past: SlotContext = CLEAN
    ready: bool = True
    ticket: bool = True
    sent: float | None = 0
    life: str | None = LIFE
    detail: str = ""
    alarmed: str = ""
    ordered: float = 0
    heard: float | None = None
    entered: float = 3600
    custody: str | None = CUSTODY


MOVE = ActionKind.TRANSITION
BACK = replace(CLEAN, host_heard_at=NOW - timedelta(seconds=30))


def guest(uuid: str = SERVER, *, recorded: bool = True) -> SlotContext:
    """A host that says that this domain runs with the drive."""
    seen = DomainSeen(uuid, "instance-1", (SLOT.address,), True, recorded)
    return replace(CLEAN, running=(seen,))


LACKING = replace(CLEAN, unguarded="host cmp_1: hook is absent: run host-setup")
RECALLED = replace(CLEAN, recall="its host calls the ticket void: the drive vanished")
CLAIMED = replace(CLEAN, claimed="domain 'x' names the drive on its host")
UNASKED, HAUNTED = replace(CLEAN, ghosts=None), replace(CLEAN, ghosts=("server s runs",))
SILENT = "its host has said nothing of the order for more than 27.7778 h"
UNENDED = "its host has not finished the order in more than 75.7778 h"
STUCK = "no step for more than 27.7778 h; its detail or the log says why"
UNCHECKED, UNBURNABLE = replace(CLEAN, burns=None), replace(CLEAN, burns=False)
BY_ADA = replace(CLEAN, held_by=Initiator("ada"))
FIRST = SlotContext(lacks="the slot has no certificate")

TABLE = (
    # A tenant has it.
    Row("still used", (State.IN_USE,), USED, ActionKind.NOTHING),
    Row("reserved lowered in use", (State.IN_USE,), LOWERED, ActionKind.RESERVE, alarm=True),
    Row("claimed, about to be burned", (State.IN_USE,), LOWERED, ActionKind.NOTHING, entered=5),
    Row("another consumer", (State.IN_USE,), STOLEN, ActionKind.AMEND, alarm=True),
    Row("released", (State.IN_USE,), LOCKED, MOVE, Event.RELEASE_SEEN),
    Row("released and free", (State.IN_USE,), FREE, ActionKind.RESERVE, alarm=True),
    Row("released, custody there", (State.IN_USE,), HALF, MOVE, Event.RELEASE_SEEN),
    # Nobody has it, and nobody erased it.
    Row("take it", (State.RELEASED,), LOCKED, ActionKind.TAKE),
    Row("free", (State.RELEASED,), FREE, ActionKind.RESERVE, alarm=True),
    Row("half taken", (State.RELEASED,), HALF, ActionKind.ENSURE),
    Row("taken", (State.RELEASED,), HELD_BY_US, MOVE, Event.CUSTODY_TAKEN),
    Row("taken by a lost store", (State.RELEASED,), view(ORPHAN), MOVE, Event.CUSTODY_TAKEN),
    Row("claimed", (State.RELEASED,), USED, MOVE, Event.CLAIM_SEEN, alarm=True),
    # Under custody.
    Row("order it at once", (State.QUARANTINED,), HELD_BY_US, ActionKind.ORDER, entered=0),
    Row("found custody", (State.QUARANTINED,), HELD_BY_US, ActionKind.FENCE, ready=False),
    # Of a case that the record forgot: a restored backup must not finish the older one.
    Row(
        "other custody",
        (State.QUARANTINED,),
        view(ORPHAN),
        ActionKind.AMEND,
        alarm=True,
        new_case=True,
    ),
    Row("other custody", WORKING, view(ORPHAN), MOVE, Event.POSTPONED, alarm=True, new_case=True),
    Row(
        "other custody",
        (State.CERTIFIED,),
        view(ORPHAN),
        MOVE,
        Event.HELD,
        alarm=True,
        new_case=True,
    ),
    Row("custody to come", (State.QUARANTINED,), LOCKED, ActionKind.TAKE, ready=False),
    Row(
        "custody vanished",
        (State.QUARANTINED,),
        LOCKED,
        ActionKind.AMEND,
        alarm=True,
        new_case=True,
    ),
    Row(
        "custody vanished",
        WORKING,
        LOCKED,
        MOVE,
        Event.POSTPONED,
        alarm=True,
        new_case=True,
    ),
    Row("both locks gone", (*OPEN, State.CERTIFIED), FREE, ActionKind.RESERVE, alarm=True),
    Row("one lock gone", (*OPEN, State.CERTIFIED), HALF, ActionKind.ENSURE, alarm=True),
    Row("stolen", (*OPEN, State.CERTIFIED), STOLEN, MOVE, Event.HELD, alarm=True, new_case=True),
    Row(
        "stolen, not burned",
        (*OPEN, State.CERTIFIED),
        view(OTHER, reserved=0),
        MOVE,
        Event.HELD,
        alarm=True,
        new_case=True,
    ),
    Row(
        "came back, too soon",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.NOTHING,
        entered=299,
        past=SlotContext(postponed=1),
    ),
    Row(
        "came back, due",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.ORDER,
        entered=301,
        past=SlotContext(postponed=2),
    ),
    Row(
        "came back too often",
        (State.QUARANTINED,),
        HELD_BY_US,
        MOVE,
        Event.HELD,
        alarm=True,
        new_case=True,
        past=SlotContext(postponed=3),
    ),
    Row("at work", WORKING, HELD_BY_US, ActionKind.NOTHING, ordered=99),
    Row("overdue", WORKING, HELD_BY_US, ActionKind.RESEND, ordered=101, entered=101),
    Row("silent for a day", WORKING, HELD_BY_US, ActionKind.NOTHING, ordered=8000, entered=86400),
    Row(
        "silent for a day, due", WORKING, HELD_BY_US, ActionKind.RESEND, ordered=8700, entered=86400
    ),
    Row(
        "long, heard of lately",
        WORKING,
        HELD_BY_US,
        ActionKind.RESEND,
        ordered=86400,
        heard=101,
        entered=86400,
    ),
    # Our clock was set back by a day: nothing waits for tomorrow.
    Row("ordered tomorrow", WORKING, HELD_BY_US, ActionKind.RESEND, ordered=-86400, entered=-86400),
    Row(
        "ordered now, entered tomorrow",
        WORKING,
        HELD_BY_US,
        ActionKind.NOTHING,
        ordered=0,
        entered=-86400,
    ),
    Row(
        "ordered by a clock a bit ahead",
        WORKING,
        HELD_BY_US,
        ActionKind.NOTHING,
        ordered=-30,
        entered=0,
    ),
    Row(
        "came back tomorrow",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.ORDER,
        entered=-86400,
        past=SlotContext(postponed=1),
    ),
    Row("heard of lately", WORKING, HELD_BY_US, ActionKind.NOTHING, ordered=900, heard=10),
    Row("not heard of lately", WORKING, HELD_BY_US, ActionKind.RESEND, ordered=900, heard=101),
    Row(
        "not heard of for a day", WORKING, HELD_BY_US, ActionKind.NOTHING, ordered=900, heard=86400
    ),
    Row(
        "not heard of for a day, its host is back",
        WORKING,
        HELD_BY_US,
        ActionKind.RESEND,
        ordered=900,
        heard=86400,
        past=BACK,
    ),
    Row(
        "not heard of for a day, its host is back, just sent",
        WORKING,
        HELD_BY_US,
        ActionKind.NOTHING,
        ordered=99,
        heard=86400,
        past=BACK,
    ),
    Row(
        "a receipt that is long wanted, its host is back",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.TICKET,
        ticket=False,
        sent=101,
        entered=86400,
        past=BACK,
    ),
    # Certified.
    Row("give back", (State.CERTIFIED,), HELD_BY_US, ActionKind.GIVE_BACK),
    Row("trait not asked for", (State.CERTIFIED,), HELD_BY_US, ActionKind.CHECK, past=UNCHECKED),
    Row(
        "the trait is gone",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.TRANSITION,
        Event.HELD,
        past=UNBURNABLE,
        alarm=True,
        new_case=True,
    ),
    Row(
        "the trait is gone, no receipt yet",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.NOTHING,
        past=UNBURNABLE,
        ticket=False,
    ),
    Row(
        "no ticket out", (State.CERTIFIED,), HELD_BY_US, ActionKind.TICKET, ticket=False, sent=None
    ),
    Row(
        "no receipt yet",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.NOTHING,
        ticket=False,
        sent=99,
        entered=99,
    ),
    Row(
        "no receipt for long",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.TICKET,
        ticket=False,
        sent=101,
        entered=101,
    ),
    Row(
        "a new life of the host",
        (State.CERTIFIED,),
        HELD_BY_US,
        MOVE,
        Event.RECALLED,
        life="incarnation-00000",
    ),
    Row(
        "certified without a ticket",
        (State.CERTIFIED,),
        HELD_BY_US,
        MOVE,
        Event.RECALLED,
        life=None,
    ),
    Row("no host", (State.CERTIFIED,), HELD_BY_US, ActionKind.WAIT, past=SlotContext()),
    Row(
        "no receipt, stolen",
        (State.CERTIFIED,),
        STOLEN,
        MOVE,
        Event.HELD,
        alarm=True,
        new_case=True,
        ticket=False,
    ),
    Row(
        "no receipt, one lock gone",
        (State.CERTIFIED,),
        HALF,
        ActionKind.ENSURE,
        alarm=True,
        ticket=False,
    ),
    Row("give back again", (State.CERTIFIED,), HELD_BY_US, ActionKind.GIVE_BACK, ready=False),
    Row("given back", (State.CERTIFIED,), FREE, MOVE, Event.RETURNED, ready=False),
    Row("given back, claimed", (State.CERTIFIED,), USED, MOVE, Event.RETURNED, ready=False),
    Row("given back, used", (State.CERTIFIED,), LOCKED, MOVE, Event.RETURNED, ready=False),
    Row("burned again", (State.CERTIFIED,), LOCKED, MOVE, Event.HELD, alarm=True, new_case=True),
    Row(
        "dirty meanwhile",
        (State.CERTIFIED,),
        HELD_BY_US,
        MOVE,
        Event.HELD,
        alarm=True,
        new_case=True,
        past=FIRST,
    ),
    Row(
        "given back, dirty",
        (State.CERTIFIED,),
        FREE,
        ActionKind.RESERVE,
        alarm=True,
        ready=False,
        past=FIRST,
    ),
    Row(
        "given back, dirty, locked",
        (State.CERTIFIED,),
        LOCKED,
        MOVE,
        Event.HELD,
        alarm=True,
        new_case=True,
        ready=False,
        past=FIRST,
    ),
    # In the pool.
    Row("on offer", (State.AVAILABLE,), FREE, ActionKind.NOTHING),
    Row(
        "on offer, uncertified",
        (State.AVAILABLE,),
        FREE,
        ActionKind.RESERVE,
        alarm=True,
        past=FIRST,
    ),
    Row("claimed", (State.AVAILABLE,), USED, MOVE, Event.CLAIM_SEEN),
    Row("claimed, to be burned", (State.AVAILABLE,), LOWERED, MOVE, Event.CLAIM_SEEN),
    Row("used between two looks", (State.AVAILABLE,), LOCKED, MOVE, Event.RELEASE_SEEN),
    Row(
        "used between two looks, uncertified",
        (State.AVAILABLE,),
        LOCKED,
        MOVE,
        Event.RELEASE_SEEN,
        alarm=True,
        past=FIRST,
    ),
    Row("custody there", (State.AVAILABLE,), HELD_BY_US, MOVE, Event.RELEASE_SEEN, alarm=True),
    # What the host itself says.
    Row(
        "not greeted",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.WAIT,
        past=replace(CLEAN, greeted=False),
    ),
    Row("unguarded", (State.CERTIFIED,), HELD_BY_US, ActionKind.AMEND, alarm=True, past=LACKING),
    Row(
        "unguarded, known",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.WAIT,
        past=LACKING,
        alarmed=LACKING.unguarded,
    ),
    Row(
        "guarded again",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.TICKET,
        alarmed="",
        ticket=False,
        sent=None,
    ),
    Row("alarm over", (State.AVAILABLE,), FREE, ActionKind.AMEND, alarmed="something"),
    # Only a plain word takes back what is on offer: a look that failed is told.
    Row("unguarded on offer", (State.AVAILABLE,), FREE, ActionKind.AMEND, alarm=True, past=LACKING),
    Row("recalled", (State.AVAILABLE,), FREE, ActionKind.RESERVE, alarm=True, past=RECALLED),
    # People heard of it when it was reserved.
    Row("recalled, reserved", (State.AVAILABLE,), LOCKED, MOVE, Event.RELEASE_SEEN, past=RECALLED),
    Row("recalled in time", (State.CERTIFIED,), HELD_BY_US, MOVE, Event.RECALLED, past=RECALLED),
    Row("recalled, claimed", (State.AVAILABLE,), USED, MOVE, Event.CLAIM_SEEN, past=RECALLED),
    Row("named by a domain", (State.QUARANTINED,), HELD_BY_US, ActionKind.WAIT, past=CLAIMED),
    Row(
        "named by a domain",
        WORKING,
        HELD_BY_US,
        ActionKind.WAIT,
        past=CLAIMED,
        ordered=1e6,
        entered=1e4,
    ),
    # Nova is asked before each order, and before it is sent again.
    Row("ask first", (State.QUARANTINED,), HELD_BY_US, ActionKind.ASK, past=UNASKED),
    Row("ask again", WORKING, HELD_BY_US, ActionKind.ASK, past=UNASKED, ordered=1e6, entered=1e4),
    Row(
        "at work, nothing to ask", WORKING, HELD_BY_US, ActionKind.NOTHING, past=UNASKED, ordered=99
    ),
    Row("haunted", (State.QUARANTINED,), HELD_BY_US, ActionKind.WAIT, past=HAUNTED),
    Row("haunted", WORKING, HELD_BY_US, ActionKind.WAIT, past=HAUNTED, ordered=1e6, entered=1e4),
    # A guest that should not have the drive.
    Row("its own guest", (State.IN_USE,), USED, ActionKind.NOTHING, past=guest()),
    Row("another guest", (State.IN_USE,), USED, ActionKind.AMEND, alarm=True, past=guest(STRANGER)),
    Row(
        "past the gate",
        (State.IN_USE,),
        USED,
        ActionKind.AMEND,
        alarm=True,
        past=guest(recorded=False),
    ),
    Row("a ghost on offer", (State.AVAILABLE,), FREE, ActionKind.RESERVE, alarm=True, past=guest()),
    Row(
        "a ghost in care",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        past=guest(),
    ),
    Row(
        "a ghost in care",
        (*WORKING, *PARKED),
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        past=guest(),
    ),
    # Too long without a step.
    Row(
        "host silent",
        WORKING,
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        ordered=9e4,
        entered=1e5 + 1,
    ),
    Row(
        "host silent, known",
        WORKING,
        HELD_BY_US,
        ActionKind.RESEND,
        ordered=9e4,
        entered=1e5 + 1,
        alarmed=SILENT,
    ),
    Row(
        "host heard again",
        WORKING,
        HELD_BY_US,
        ActionKind.AMEND,
        entered=1e5 + 1,
        heard=5,
        alarmed=SILENT,
    ),
    # Its case dies before it reports, again and again: each hello names the order all the same.
    Row(
        "host names it, and never ends it",
        WORKING,
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        ordered=9e4,
        entered=272_801,
        heard=5,
    ),
    Row(
        "host takes all the time that it has",
        WORKING,
        HELD_BY_US,
        ActionKind.NOTHING,
        entered=272_799,
        heard=5,
    ),
    # One alarm for one trouble, whether the host speaks meanwhile or not.
    Row(
        "host never ends it, and is silent again",
        WORKING,
        HELD_BY_US,
        ActionKind.RESEND,
        ordered=9e4,
        entered=272_801,
        alarmed=UNENDED,
    ),
    Row(
        "host names it, and never ends it, known",
        WORKING,
        HELD_BY_US,
        ActionKind.NOTHING,
        entered=272_801,
        heard=5,
        alarmed=UNENDED,
    ),
    Row(
        "waiting for long",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        entered=1e5 + 1,
        past=HAUNTED,
        detail="server s runs",
    ),
    Row(
        "waiting since tomorrow",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.WAIT,
        entered=-86400,
        past=HAUNTED,
        detail="server s runs",
    ),
    Row(
        "waiting for long, known",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.WAIT,
        entered=1e5 + 1,
        past=HAUNTED,
        detail="another reason now",
        alarmed=STUCK,
    ),
    # Placement or the broker fails each look: no look got so far as to say what it waits for.
    Row(
        "refused for long", (State.RELEASED,), LOCKED, ActionKind.AMEND, alarm=True, entered=1e5 + 1
    ),
    Row(
        "refused for long, known",
        (State.RELEASED,),
        LOCKED,
        ActionKind.TAKE,
        entered=1e5 + 1,
        alarmed=STUCK,
    ),
    Row(
        "no order for long",
        (State.QUARANTINED,),
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        entered=1e5 + 1,
    ),
    Row(
        "no ticket for long",
        (State.CERTIFIED,),
        HELD_BY_US,
        ActionKind.AMEND,
        alarm=True,
        entered=1e5 + 1,
        ticket=False,
        sent=None,
    ),
    # People must decide.
    Row("parked", PARKED, LOCKED, ActionKind.NOTHING),
    Row("parked under custody", PARKED, HELD_BY_US, ActionKind.NOTHING),
    Row("parked and free", PARKED, FREE, ActionKind.RESERVE, alarm=True),
    Row("parked, one lock gone", PARKED, HALF, ActionKind.ENSURE, alarm=True),
    Row("parked and used", PARKED, STOLEN, ActionKind.AMEND, alarm=True),
    Row("parked and known to be used", PARKED, USED, ActionKind.NOTHING),
    # A server was quicker than a person.
    Row("held and claimed", (State.HELD,), STOLEN, MOVE, Event.CLAIM_SEEN, past=BY_ADA),
    Row(
        "held and claimed, to be burned",
        (State.HELD,),
        view(OTHER, reserved=0),
        MOVE,
        Event.CLAIM_SEEN,
        past=BY_ADA,
    ),
    Row("held and free", (State.HELD,), FREE, ActionKind.RESERVE, alarm=True, past=BY_ADA),
    Row("held and locked", (State.HELD,), LOCKED, ActionKind.NOTHING, past=BY_ADA),
    Row(
        "held, half ours",
        (State.HELD,),
        view(OURS, OTHER),
        ActionKind.AMEND,
        alarm=True,
        past=BY_ADA,
    ),
    Row("parked, no provider", PARKED, None, ActionKind.NOTHING),
    # No provider, or none with stock: it is not on offer, and what comes back is judged.
    *(
        Row("absent", tuple(s for s in State if s not in PARKED), seen, ActionKind.WAIT)
        for seen in (None, EMPTY)
    ),
)


def moved(*allocations: Allocation, reserved: int) -> tuple[View, View]:
    """Another provider under the name, and another resource class on ours."""
    return (
        view(*allocations, reserved=reserved, uuid="other"),
        view(*allocations, reserved=reserved, resource_class="CUSTOM_B"),
    )


MOVED = tuple(
    row
    for seen, states, act, event, new_case in (
        (moved(reserved=0), tuple(State), ActionKind.RESERVE, None, False),
        (moved(reserved=1), PARKED, ActionKind.AMEND, None, False),
        (moved(reserved=1), (State.RELEASED,), ActionKind.AMEND, None, False),
        (moved(reserved=1), (State.IN_USE, State.AVAILABLE), MOVE, Event.RELEASE_SEEN, False),
        (moved(reserved=1), (*OPEN, State.CERTIFIED), MOVE, Event.HELD, True),
        (moved(OTHER, reserved=1), (State.IN_USE,), ActionKind.AMEND, None, False),
        (moved(OTHER, reserved=1), (State.AVAILABLE,), MOVE, Event.CLAIM_SEEN, False),
        # About to be burned: reserving now would only be in Nova's way.
        (moved(OTHER, reserved=0), (State.IN_USE,), ActionKind.AMEND, None, False),
        (moved(OTHER, reserved=0), (State.AVAILABLE,), MOVE, Event.CLAIM_SEEN, False),
        (moved(OTHER, reserved=1), (State.RELEASED,), MOVE, Event.CLAIM_SEEN, False),
        (moved(OTHER, reserved=1), (*OPEN, State.CERTIFIED), MOVE, Event.HELD, True),
    )
    for row in (Row("moved", states, s, act, event, True, new_case) for s in seen)
)

CASES = [(row, state) for row in (*TABLE, *MOVED) for state in row.states]


def record_of(row: Row, state: State) -> SlotRecord:
    return replace(
        RECORD,
        state=state,
        custody=row.custody,
        custody_stage=custody_stage(state, row.custody, ready=row.ready),
        ticket_ready=row.ticket,
        ticket_at=None if row.sent is None else NOW - timedelta(seconds=row.sent),
        ticket_incarnation=row.life,
        detail=row.detail,
        alarm=row.alarmed,
        ordered_at=NOW - timedelta(seconds=row.ordered),
        heard_at=None if row.heard is None else NOW - timedelta(seconds=row.heard),
        entered_at=NOW - timedelta(seconds=row.entered),
    )


def decided(row: Row, state: State) -> Action:
    return decide(record_of(row, state), row.seen, NOW, LIMITS, row.past)


@pytest.mark.parametrize("state", PARKED)
@pytest.mark.parametrize("read", [None, NOW - timedelta(hours=2)])
def test_a_decision_to_keep_a_drive_on_offer_alarms_nobody(
    state: State, read: datetime | None
) -> None:
    """The first look after it takes the drive out of the pool: that was asked for."""
    record = replace(RECORD, state=state, read_at=read, custody=None, custody_stage=Custody.NONE)
    action = decide(record, FREE, NOW, LIMITS, CLEAN)
    assert (action.act, bool(action.alarm)) == (ActionKind.RESERVE, False)
    again = decide(replace(record, read_at=NOW), FREE, NOW, LIMITS, CLEAN)
    assert (again.act, bool(again.alarm)) == (ActionKind.RESERVE, True)


def test_an_absent_slot_says_whether_its_provider_is_gone_or_empty() -> None:
    record = replace(RECORD, state=State.RELEASED)
    empty = replace(LOCKED, inventories=())
    for seen, said in ((None, "no resource provider"), (empty, "a provider without inventory")):
        action = decide(record, seen, NOW, LIMITS)
        assert action.reason.startswith(f"Placement shows {said} for the slot")


@pytest.mark.parametrize(
    ("answer", "act", "alarm"),
    [
        (Handover.UNASKED, ActionKind.ASK, False),
        (Handover.UNKNOWN, ActionKind.WAIT, False),
        (Handover.MOVED, ActionKind.AMEND, False),
        (Handover.OVER, ActionKind.AMEND, False),
        (Handover.STRANGE, ActionKind.AMEND, True),
    ],
)
def test_nova_is_asked_about_another_consumer_before_a_person_is(
    answer: Handover, act: ActionKind, alarm: bool
) -> None:
    past = replace(CLEAN, handover=answer)
    action = decide(RECORD, STOLEN, NOW, LIMITS, past)
    assert (action.act, bool(action.alarm)) == (act, alarm)
    # Who tells under which certificate a server got the drive goes by these words.
    assert action.reason.endswith(USED_AGAIN) == alarm
    # Whoever had no consumer on record before is no news.
    first = decide(replace(RECORD, consumer=None), STOLEN, NOW, LIMITS, past)
    assert (first.act, bool(first.alarm)) == (ActionKind.AMEND, False)


@pytest.mark.parametrize(
    ("answer", "act", "alarm"),
    [
        (Handover.UNASKED, ActionKind.ASK, False),
        (Handover.UNKNOWN, ActionKind.NOTHING, False),
        (Handover.MOVED, ActionKind.NOTHING, False),
        (Handover.OVER, ActionKind.AMEND, True),
        (Handover.STRANGE, ActionKind.AMEND, True),
    ],
)
def test_a_guest_whose_drive_its_migration_holds_alarms_nobody(
    answer: Handover, act: ActionKind, alarm: bool
) -> None:
    """Nova hands the drive to the migration while the guest still runs at its source."""
    past = replace(guest(), handover=answer)
    moved = replace(RECORD, consumer=STRANGER)
    action = decide(moved, STOLEN, NOW, LIMITS, past)
    assert (action.act, bool(action.alarm)) == (act, alarm)


def test_a_stranger_that_was_told_of_is_not_over_because_nova_is_away() -> None:
    record = replace(RECORD, consumer=STRANGER)
    told = decide(record, STOLEN, NOW, LIMITS, guest()).changes.alarm
    assert isinstance(told, str)
    away = replace(guest(), handover=Handover.UNKNOWN)
    record = replace(record, alarm=told)
    assert decide(record, STOLEN, NOW, LIMITS, away).act is ActionKind.NOTHING
    past = replace(away, handover=Handover.MOVED)
    assert decide(record, STOLEN, NOW, LIMITS, past).changes.alarm == ""


def test_a_host_in_doubt_calls_nobody_before_it_lasts() -> None:
    """And what was told of is not over because another process has just begun to wait."""
    young = replace(LACKING, doubtful=True)
    offered = replace(RECORD, state=State.AVAILABLE, custody=None)
    assert decide(offered, FREE, NOW, LIMITS, young).act is ActionKind.NOTHING
    assert decide(offered, FREE, NOW, LIMITS, LACKING).alarm
    told = replace(offered, alarm=LACKING.unguarded)
    assert decide(told, FREE, NOW, LIMITS, young).act is ActionKind.NOTHING
    certified = replace(RECORD, state=State.CERTIFIED)
    action = decide(certified, HELD_BY_US, NOW, LIMITS, young)
    assert (action.act, bool(action.alarm)) == (ActionKind.WAIT, False), (
        "nothing is given back meanwhile"
    )


@pytest.mark.parametrize("state", [*PARKED, State.RELEASED, State.IN_USE, State.AVAILABLE])
def test_a_provider_that_was_away_is_made_anew_without_an_alarm(state: State) -> None:
    away = replace(RECORD, state=state, provider_generation=None)
    for seen in moved(reserved=1):
        action = decide(away, seen, NOW, LIMITS)
        assert action == replace(
            decide(replace(RECORD, state=state), seen, NOW, LIMITS), alarm=None
        )
    for seen in moved(reserved=0):
        assert decide(away, seen, NOW, LIMITS).act is ActionKind.RESERVE
        assert decide(away, seen, NOW, LIMITS).alarm


@pytest.mark.parametrize(("row", "state"), CASES, ids=lambda x: x.what if isinstance(x, Row) else x)
def test_the_step(row: Row, state: State) -> None:
    action = decided(row, state)
    assert (action.act, action.event) == (row.act, row.event), action.reason
    assert bool(action.alarm) is row.alarm
    assert action.changes.new_case is row.new_case


@pytest.mark.parametrize(("row", "state"), CASES, ids=lambda x: x.what if isinstance(x, Row) else x)
def test_every_transition_is_legal_and_says_why_where_that_is_demanded(
    row: Row, state: State
) -> None:
    action = decided(row, state)
    if action.event is not None:
        target(state, action.event)
    if action.alarm or action.event in (Event.HELD, Event.POSTPONED):
        assert action.reason


@pytest.mark.parametrize("state", [*OPEN, State.CERTIFIED])
def test_a_custody_that_the_record_does_not_know_is_kept_and_the_order_voided(
    state: State,
) -> None:
    changes = decide(replace(RECORD, state=state), view(ORPHAN), NOW, LIMITS).changes
    assert (changes.custody, changes.new_case) == (STRANGER, True)


SEEN = [
    view(*allocations, reserved=reserved, uuid=uuid, resource_class=name)
    for allocations in ((), (OURS,), (ORPHAN,), (TENANT,), (OTHER,))
    for reserved in (0, 1)
    for uuid in ("rp", "other")
    for name in (RC, "CUSTOM_B")
]


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("lacks", ["", "the slot has no certificate"])
@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize("ticket", [True, False])
@pytest.mark.parametrize("present", [LIFE, "incarnation-00002", None])
def test_only_a_certified_slot_under_our_custody_alone_is_ever_freed(
    state: State, lacks: str, ready: bool, ticket: bool, present: str | None
) -> None:
    """Over every combination of record and view, not only those of the table."""
    past = SlotContext(lacks=lacks, incarnation=present)
    for seen in SEEN:
        record = replace(
            RECORD,
            state=state,
            custody_stage=custody_stage(state, CUSTODY, ready=ready),
            ticket_ready=ticket,
        )
        action = decide(record, seen, NOW, LIMITS, past)
        if action.act is ActionKind.GIVE_BACK:
            assert state is State.CERTIFIED
            assert not lacks
            assert record.ticket_ready
            assert record.ticket_incarnation == past.incarnation
            assert seen.locked
            assert [a.consumer for a in seen.allocations] == [record.custody]
        if action.event is Event.RETURNED:
            assert not lacks
            assert not ready


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("ready", [True, False])
def test_what_is_on_offer_without_a_certificate_is_reserved_before_anything_else(
    state: State, ready: bool
) -> None:
    for uuid in ("rp", "other"):
        seen = view(reserved=0, uuid=uuid)
        record = replace(
            RECORD,
            state=state,
            custody_stage=custody_stage(state, CUSTODY, ready=ready),
            certificate=None,
        )
        action = decide(record, seen, NOW, LIMITS, SlotContext(lacks="the slot has no certificate"))
        assert action.act is ActionKind.RESERVE
        assert action.alarm


@pytest.mark.parametrize("state", State)
def test_a_drive_that_somebody_holds_gets_no_order_and_no_custody(state: State) -> None:
    for holder in (TENANT, OTHER):
        for reserved in (0, 1):
            seen = view(holder, reserved=reserved)
            action = decide(replace(RECORD, state=state), seen, NOW, LIMITS)
            assert action.act not in (
                ActionKind.TAKE,
                ActionKind.ENSURE,
                ActionKind.ORDER,
                ActionKind.RESEND,
                ActionKind.GIVE_BACK,
            )


def test_where_no_tickets_are_required_a_certificate_is_enough() -> None:
    record = replace(RECORD, state=State.CERTIFIED, ticket_ready=False, ticket_incarnation=None)
    limits = replace(LIMITS, tickets=False)
    assert decide(record, HELD_BY_US, NOW, limits, SlotContext()).act is ActionKind.GIVE_BACK
    assert decide(record, HELD_BY_US, NOW, limits, FIRST).event is Event.HELD


@pytest.mark.parametrize("past", [UNCHECKED, UNBURNABLE])
@pytest.mark.parametrize("tickets", [True, False])
def test_nothing_is_given_back_that_nova_would_not_burn(past: SlotContext, tickets: bool) -> None:
    limits = replace(LIMITS, tickets=tickets)
    for state in State:
        for seen in SEEN:
            act = decide(replace(RECORD, state=state), seen, NOW, limits, past).act
            assert act is not ActionKind.GIVE_BACK


@pytest.mark.parametrize("state", State)
def test_where_the_past_cannot_be_read_the_drive_is_kept_out_and_nothing_else_is_done(
    state: State,
) -> None:
    past = SlotContext(unknown="stored key of host x", lacks="the record cannot be read")
    kept = set()
    for seen in SEEN:
        record = replace(RECORD, state=state, alarm=past.unknown)
        known = decide(record, seen, NOW, LIMITS, replace(past, unknown=""))
        action = decide(record, seen, NOW, LIMITS, past)
        if seen.provider.uuid != record.provider or seen.inventory is None:
            continue
        if known.act in (ActionKind.RESERVE, ActionKind.ENSURE):
            assert action == known
            kept.add(action.act)
        else:
            assert action == Action(ActionKind.WAIT, past.unknown)
    assert ActionKind.RESERVE in kept
    told = decide(replace(RECORD, state=state), LOCKED, NOW, LIMITS, past)
    assert (told.act, bool(told.alarm)) == (ActionKind.AMEND, True)


def test_without_tickets_the_hosts_defences_are_only_told() -> None:
    limits = replace(LIMITS, tickets=False)
    certified = replace(RECORD, state=State.CERTIFIED)
    assert decide(certified, HELD_BY_US, NOW, limits, LACKING).act is ActionKind.GIVE_BACK
    unrecorded = guest(recorded=False)
    assert decide(RECORD, USED, NOW, limits, unrecorded).act is ActionKind.NOTHING


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("past", [CLAIMED, HAUNTED, UNASKED])
def test_nothing_is_sent_to_a_drive_that_may_have_a_user(state: State, past: SlotContext) -> None:
    record = replace(RECORD, state=state, ordered_at=NOW - timedelta(days=300))
    for seen in SEEN:
        assert decide(record, seen, NOW, LIMITS, past).act not in (
            ActionKind.ORDER,
            ActionKind.RESEND,
        )


@pytest.mark.parametrize("past", [LACKING, replace(CLEAN, greeted=False)])
def test_nothing_is_given_to_a_host_that_lacks_a_defence(past: SlotContext) -> None:
    for ready in (True, False):
        for sent in (None, NOW - timedelta(days=300)):
            record = replace(
                RECORD,
                state=State.CERTIFIED,
                ticket_ready=ready,
                ticket_at=sent,
                alarm=past.unguarded,
            )
            for seen in SEEN:
                act = decide(record, seen, NOW, LIMITS, past).act
                assert act not in (ActionKind.TICKET, ActionKind.GIVE_BACK)


def test_a_recalled_drive_stays_under_the_custody_that_is_there() -> None:
    """And is under it again, for whoever has begun to give it back, before it is recalled."""
    record = replace(RECORD, state=State.CERTIFIED, custody_stage=Custody.RETURNING)
    for past in (SlotContext(incarnation="new"), RECALLED):
        first = decide(record, HELD_BY_US, NOW, LIMITS, past)
        assert first.act is ActionKind.FENCE
        assert first.changes == SlotChanges(custody_stage=Custody.HELD)
        held = replace(record, custody_stage=Custody.HELD)
        then = decide(held, HELD_BY_US, NOW, LIMITS, past)
        assert (then.event, then.changes) == (Event.RECALLED, SlotChanges())


FORGOT = [
    *((state, CUSTODY, view(ORPHAN)) for state in (*OPEN, State.CERTIFIED)),
    *((state, CUSTODY, LOCKED) for state in OPEN),
    *((state, None, view(ORPHAN)) for state in (State.IN_USE, State.RELEASED)),
]


@pytest.mark.parametrize(("state", "custody", "seen"), FORGOT)
def test_a_record_that_forgot_a_case_knows_no_last_user(
    state: State, custody: str | None, seen: View
) -> None:
    """One of a backup: in the case that it lacks another server may have had the drive."""
    record = replace(RECORD, state=state, custody=custody)
    assert record.consumer == SERVER
    assert decide(record, seen, NOW, LIMITS).changes.consumer is None


def test_a_claim_names_its_server_and_a_return_forgets_the_last_one() -> None:
    available = replace(RECORD, state=State.AVAILABLE, consumer=None)
    assert decide(available, USED, NOW, LIMITS).changes.consumer == SERVER
    certified = replace(RECORD, state=State.CERTIFIED, custody_stage=Custody.RETURNING)
    returned = decide(certified, FREE, NOW, LIMITS)
    assert returned.event is Event.RETURNED
    assert returned.changes.consumer is None
    assert returned.changes.custody is None
    # The certificate is for the server that had the drive, so the way there keeps it.
    released = decide(RECORD, LOCKED, NOW, LIMITS)
    assert released.event is Event.RELEASE_SEEN
    assert released.changes.consumer is UNSET


@pytest.mark.parametrize("state", State)
def test_a_moved_slot_takes_over_provider_and_class(state: State) -> None:
    seen = view(uuid="other", resource_class="CUSTOM_B")
    changes = decide(replace(RECORD, state=state), seen, NOW, LIMITS).changes
    assert (changes.provider, changes.resource_class) == ("other", "CUSTOM_B")
    assert changes.custody is None


@pytest.mark.parametrize("state", [*OPEN, State.CERTIFIED])
def test_a_hold_names_who_has_the_drive(state: State) -> None:
    action = decide(replace(RECORD, state=state), STOLEN, NOW, LIMITS)
    assert action.changes.consumer == STRANGER
    assert STRANGER in action.reason


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        ("cmp_1_0000:81:00.0", Slot("cmp_1", "0000:81:00.0")),
        ("cmp_0000:8A:1F.7", Slot("cmp", "0000:8a:1f.7")),
        ("cmp.example_0000:8a:1f.7", Slot("cmp.example", "0000:8a:1f.7")),
        ("cmp", None),
        ("cmp_VGPU", None),
        ("_0000:81:00.0", None),
    ],
)
def test_names_of_providers(name: str, slot: Slot | None) -> None:
    assert slot_of(name) == slot
    if slot is not None:
        assert slot_of(provider_name(slot)) == slot


def running(*domains: tuple[str, str]) -> SlotContext:
    """A host that says that these domains run with the drive."""
    seen = tuple(DomainSeen(uuid, name, (SLOT.address,), True, True) for name, uuid in domains)
    return replace(CLEAN, running=seen, handover=Handover.STRANGE)


@pytest.mark.parametrize("order", [1, -1])
def test_each_guest_that_should_not_run_with_the_drive_is_named(order: int) -> None:
    past = running(*[("first", "a"), ("second", "b"), ("mine", SERVER)][::order])
    action = decide(RECORD, USED, NOW, LIMITS, past)
    named = (
        f"domains 'first' (a), 'second' (b) run with the drive, and Placement has it for {SERVER}"
    )
    assert (action.changes.alarm, bool(action.alarm)) == (named, True)
    told = replace(RECORD, alarm=named)
    assert decide(told, USED, NOW, LIMITS, past).act is ActionKind.NOTHING
    # Until Nova says whether one of them moves, what people were told of stands.
    waiting = replace(past, handover=Handover.UNKNOWN)
    assert decide(told, USED, NOW, LIMITS, waiting).act is ActionKind.NOTHING


def test_very_many_guests_fit_into_one_alarm() -> None:
    past = running(*((f"{n:04}" + "x" * 500, f"u{n:04}") for n in range(1000)))
    alarm = decide(RECORD, USED, NOW, LIMITS, past).changes.alarm
    assert isinstance(alarm, str)
    assert len(alarm) < 1000
    assert " and more run with the drive" in alarm
    odd = tuple(replace(each, recorded=False) for each in past.running)
    past = replace(past, running=past.running[::2] + odd[1::2])
    alarm = decide(RECORD, USED, NOW, LIMITS, past).changes.alarm
    assert isinstance(alarm, str)
    assert alarm.endswith(f"Placement has it for {SERVER}") or alarm.endswith("past the hook")
    told, waiting = replace(RECORD, alarm=alarm), replace(past, handover=Handover.UNKNOWN)
    assert decide(told, USED, NOW, LIMITS, waiting).act is ActionKind.NOTHING
