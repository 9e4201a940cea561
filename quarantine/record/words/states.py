"""The states of a slot, what can happen to it, and the named sets that code asks about."""

from __future__ import annotations

import enum


class State(enum.StrEnum):
    """Where a slot stands between two tenants."""

    IN_USE = "in_use"
    """A consumer that is not ours holds the drive in Placement. We only look."""
    RELEASED = "released"
    """Nobody holds the drive, nobody has erased it. Nova's ``reserved`` is all that guards it."""
    QUARANTINED = "quarantined"
    """Our own consumer holds the provider in Placement; the drive waits for its erase order."""
    ERASING = "erasing"
    """An order is out: the host proves the drive idle, prepares it and erases it."""
    VERIFYING = "verifying"
    """The host says the erase has ended and it reads back. Only a report can certify."""
    CERTIFIED = "certified"
    """A signed certificate for this case is in the store. The slot is given back when its host has
    taken the ticket that lets the drive start once."""
    AVAILABLE = "available"
    """Given back to the pool under a certificate; Nova may hand the drive out once."""
    HELD = "held"
    """A person must decide; the reason says what about. The drive stays out of the pool."""
    RETIRED = "retired"
    """The drive is to be pulled and never handed out again; only a new enrolment leads on."""


class Event(enum.StrEnum):
    """What moves a slot from one state to another."""

    ENROLLED_FREE = "enrolled_free"
    """An operator enrols a slot that nobody holds: its drive is unknown, so it is erased first."""
    ENROLLED_IN_USE = "enrolled_in_use"
    """An operator enrols a slot whose drive a tenant has: it is never touched."""
    RELEASE_SEEN = "release_seen"
    """The consumer's allocation is gone, or the drive was used and let go between two looks."""
    CLAIM_SEEN = "claim_seen"
    """A consumer that is not ours holds an allocation."""
    CUSTODY_TAKEN = "custody_taken"
    """Our consumer holds the provider, ``reserved`` is back on top: a new case begins."""
    ORDERED = "ordered"
    """The signed order is stored; from here on the host may have it."""
    VERIFYING_SEEN = "verifying_seen"
    """The host's progress says that the erase has ended and verification runs."""
    CERTIFIED = "certified"
    """The report was checked and the certificate is written in the same transaction."""
    RETURNED = "returned"
    """Placement accepted the return: nothing reserved, our allocation gone."""
    POSTPONED = "postponed"
    """The host says the drive is in use, or nothing was heard in time: the order comes again."""
    RECALLED = "recalled"
    """A certified drive cannot be given back as it is, and nobody but us is needed to settle that:
    it is erased again."""
    HELD = "held"
    """Something is wrong or unknown, and no automatic step can decide it."""
    RELEASED_BY_OPERATOR = "released_by_operator"
    """A person settled the reason of a hold: through quarantine again, never straight back."""
    RETIRED = "retired"
    """A person, or the policy's table of health, gives the drive up."""


class Custody(enum.StrEnum):
    """How far our own allocation in Placement is, by our record of it."""

    NONE = "none"
    """We have none, and want none."""
    TAKING = "taking"
    """Its uuid is written down; the request may have been made, half or whole."""
    HELD = "held"
    """Placement has it, and reserved = total on top. We wrote to the provider after anybody had
    begun to give the slot back: Placement refuses what may still be under way of that."""
    RETURNING = "returning"
    """We had begun to give the slot back: it may be gone, and that may be our own doing."""

    @classmethod
    def left(cls, consumer: str | None) -> Custody:
        """Of an allocation of ours that may be there without our having finished it."""
        return cls.NONE if consumer is None else cls.TAKING


CASE_OPEN = frozenset({State.QUARANTINED, State.ERASING, State.VERIFYING, State.CERTIFIED})
"""A case with a generation of its own is under way."""

WORKING = frozenset({State.ERASING, State.VERIFYING})
"""An order is out: the host may have its hands on the drive."""

FREE_TO_SCHEDULE = frozenset({State.AVAILABLE})
"""The only state in which Placement may offer the slot to Nova."""

WAITING_FOR_PEOPLE = frozenset({State.HELD, State.RETIRED})
"""No automatic step leads out."""
