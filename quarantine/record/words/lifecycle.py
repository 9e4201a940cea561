"""The one table of what may happen to a slot. Everything else about the life cycle is read off it.

``tools/samples`` writes it into docs/states.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from quarantine.errors import IllegalTransitionError
from quarantine.record.words.states import CASE_OPEN, WORKING, Event, State


@dataclass(frozen=True)
class Transition:
    """One legal step. ``source`` None is a slot without a record."""

    source: State | None
    event: Event
    target: State
    guard: str
    """What must hold when the step is taken, for people; the caller has proved it."""


def _from(
    sources: tuple[State | None, ...], event: Event, target: State, guard: str
) -> tuple[Transition, ...]:
    return tuple(Transition(source, event, target, guard) for source in sources)


def _ordered(states: frozenset[State]) -> tuple[State, ...]:
    return tuple(state for state in State if state in states)


TRANSITIONS: tuple[Transition, ...] = (
    # A slot comes to us. A retired drive's slot may be enrolled again, with another drive in it.
    *_from(
        (None, State.RETIRED),
        Event.ENROLLED_FREE,
        State.RELEASED,
        "no allocation on the provider; reserved first",
    ),
    *_from(
        (None, State.RETIRED),
        Event.ENROLLED_IN_USE,
        State.IN_USE,
        "a consumer that is not ours holds an allocation",
    ),
    # Tenants come and go; a drive can be used and let go between two of our looks.
    *_from(
        (State.AVAILABLE, State.RELEASED),
        Event.CLAIM_SEEN,
        State.IN_USE,
        "a consumer that is not ours holds an allocation",
    ),
    *_from(
        (State.HELD,),
        Event.CLAIM_SEEN,
        State.IN_USE,
        "a person held the clean drive while it was on offer, and a consumer that is not ours got "
        "it before it was reserved; held at its next release",
    ),
    *_from(
        (State.IN_USE, State.AVAILABLE),
        Event.RELEASE_SEEN,
        State.RELEASED,
        "no allocation is left, and reserved = total or is put there at once",
    ),
    # The case: from custody to the pool.
    *_from(
        (State.RELEASED,),
        Event.CUSTODY_TAKEN,
        State.QUARANTINED,
        "our consumer holds the provider, reserved = total on top; generation + 1",
    ),
    *_from(
        (State.QUARANTINED,),
        Event.ORDERED,
        State.ERASING,
        "identity, host key, profile and policy known; the signed order is stored",
    ),
    *_from(
        (State.ERASING,),
        Event.VERIFYING_SEEN,
        State.VERIFYING,
        "signed progress of this order; shown to people, decides nothing",
    ),
    *_from(
        _ordered(WORKING),
        Event.CERTIFIED,
        State.CERTIFIED,
        "the report passed every check; certificate stored in the same transaction",
    ),
    *_from(
        _ordered(WORKING),
        Event.POSTPONED,
        State.QUARANTINED,
        "the host says in use and sent nothing, or the order is overdue",
    ),
    *_from(
        (State.CERTIFIED,),
        Event.RETURNED,
        State.AVAILABLE,
        "this case's certificate is stored, its host has a valid ticket; Placement accepted the "
        "return",
    ),
    *_from(
        (State.CERTIFIED,),
        Event.RECALLED,
        State.QUARANTINED,
        "its ticket is no good any more, or of a state that its host lost; generation + 1",
    ),
    # What only people can settle.
    *_from(
        (State.RELEASED, *_ordered(CASE_OPEN), State.AVAILABLE),
        Event.HELD,
        State.HELD,
        "a reason is given",
    ),
    *_from(
        (State.HELD,),
        Event.RELEASED_BY_OPERATOR,
        State.RELEASED,
        "a person gives a reason; the drive is erased again",
    ),
    *_from(
        (State.HELD, State.RELEASED, State.QUARANTINED, State.AVAILABLE),
        Event.RETIRED,
        State.RETIRED,
        "a person, or from held the policy's table of health, gives a reason; the slot is reserved",
    ),
)

_TARGETS = {(step.source, step.event): step.target for step in TRANSITIONS}

NEEDS_REASON = frozenset(
    {Event.HELD, Event.RELEASED_BY_OPERATOR, Event.RETIRED, Event.POSTPONED, Event.RECALLED}
)
"""A step off the straight road says why, or is not taken."""

NEW_CASE = frozenset({Event.CUSTODY_TAKEN, Event.RECALLED})
"""The generation grows: orders, reports and tickets of every earlier case are void."""

VOIDS_CERTIFICATE = frozenset(
    {
        Event.ENROLLED_FREE,
        Event.ENROLLED_IN_USE,
        Event.RELEASE_SEEN,
        Event.CUSTODY_TAKEN,
        Event.RECALLED,
        Event.RELEASED_BY_OPERATOR,
        Event.RETIRED,
    }
)
"""Whatever the drive was certified for is over; the record no longer names a certificate."""

DIRTIES_DRIVE = VOIDS_CERTIFICATE | {Event.CLAIM_SEEN}
"""From here on the drive that we know in the slot counts as holding somebody's data."""


def target(state: State | None, event: Event) -> State:
    """Where ``event`` leads from ``state``. Raises :class:`IllegalTransitionError`."""
    found = _TARGETS.get((state, event))
    if found is None:
        legal = ", ".join(step.event for step in TRANSITIONS if step.source is state) or "nothing"
        raise IllegalTransitionError(
            f"expected one of [{legal}] for a slot in state {state or 'none'}, found {event}; "
            "re-read the slot"
        )
    return found


def events(state: State | None) -> tuple[Event, ...]:
    """What may happen to a slot in ``state``, in the table's order."""
    return tuple(step.event for step in TRANSITIONS if step.source is state)
