"""What one look at a slot may ask for, and the durations that decide it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from oslo_config.cfg import ConfigOpts

from eraser.protocol.ticket import Defence, DomainSeen
from quarantine.record.words.facts import Initiator, SlotChanges
from quarantine.record.words.reasons import AlarmCode, HoldReason
from quarantine.record.words.states import Event
from quarantine.rules.handover import Handover

NO_CHANGES: Final = SlotChanges()


class ActionKind(StrEnum):
    """The kinds of step."""

    NOTHING = "nothing"
    """All is as it should be, or we wait for somebody."""
    WAIT = "wait"
    """The next step is not allowed yet; the record's ``detail`` shall say why."""
    RESERVE = "reserve"
    """``reserved = total`` at once: the slot must not be handed out."""
    TAKE = "take"
    """Our allocation instead of ``reserved``, then ``reserved`` on top."""
    ENSURE = "ensure"
    """Our allocation stands; put ``reserved`` back on top."""
    FENCE = "fence"
    """Write the lock that is there once more, so that who began to give the slot back before it was
    held is refused by the provider's generation."""
    GIVE_BACK = "give_back"
    """Take both locks away: the slot goes to the pool."""
    ORDER = "order"
    """Send an erase order for this case."""
    RESEND = "resend"
    """Send the same order again: nothing was heard of it."""
    ASK = "ask"
    """Ask Nova for ghosts first, then decide again with the answer in ``SlotContext.ghosts``."""
    CHECK = "check"
    """Ask Placement for the slot's traits first, then decide again with the answer in
    ``SlotContext.burns`` and ``SlotContext.traits``."""
    TICKET = "ticket"
    """Send the case's ticket, or the same one again: its host's receipt is wanted."""
    AMEND = "amend"
    """Write ``changes`` to the record; its state stays."""
    TRANSITION = "transition"
    """Move the record by ``event``."""


@dataclass(frozen=True)
class Action:
    """One step. ``alarm`` marks what an operator must hear of; ``hold`` goes with ``held``."""

    act: ActionKind
    reason: str = ""
    event: Event | None = None
    changes: SlotChanges = NO_CHANGES
    alarm: AlarmCode | None = None
    hold: HoldReason | None = None
    by: Initiator | None = None
    """Whose word a hold carries out."""


@dataclass(frozen=True)
class SlotContext:
    """What the store knows beyond the slot's own record."""

    unknown: str = ""
    """Why the record cannot be read; then nothing is done but to keep the drive out of the pool."""
    lacks: str = ""
    """Why the drive in the slot is not clean by the record's certificate; empty when it is. It
    matters only where the slot is, or is about to be, free to schedule."""
    held_by: Initiator | None = None
    """The person who held the drive while it was on offer, clean by its certificate, where it was
    not reserved since: until it is, a server may get it as rightly as before. Else None, also where
    the slot's host has named another drive there since."""
    postponed: int = 0
    """How often this case's order came back without an erase."""
    incarnation: str | None = None
    """The life of the host that we speak to now; None for a host that is not registered."""
    greeted: bool = True
    """The host has said hello in this life."""
    host_heard_at: datetime | None = None
    """When it said its last one, on our own clock."""
    unguarded: str = ""
    """What the host lacks of the defences that are required; empty when it has them all."""
    doubtful: bool = False
    """Nothing of ``unguarded`` is plainly absent, and it has not lasted: nobody is called yet."""
    said: int = 0
    """The number of the hello that makes it ``doubtful``."""
    recall: str = ""
    """Why a slot must not be on offer, by its host's own word or by the ticket it was given."""
    claimed: str = ""
    """The libvirt domain that names the slot on its host: nothing is erased before it is gone."""
    running: tuple[DomainSeen, ...] = ()
    """Domains that run with the slot's drive, by a word of the host that is not an old one."""
    handover: Handover = Handover.STRANGE
    """What Nova says where another consumer holds the drive than the one on record, or than the
    guest that runs with it."""
    copies: int = 0
    """How often the order or ticket was sent again to a host that speaks, and does not answer."""
    ghosts: tuple[str, ...] | None = ()
    """Why Nova's own records forbid an erase now; None where Nova has not been asked yet."""
    burns: bool | None = True
    """The slot has the one-time-use trait, so Nova reserves it at its next use; None where
    Placement has not been asked yet. Traits move the generation with which a slot is given back."""
    traits: frozenset[str] | None = None
    """All of the slot's traits at the view's generation; None where Placement was not asked."""
    attended_since: datetime | None = None
    """No sweep went through for long, until then: what waited for it is not late. None
    where that could change nothing, or no such break is known. No step depends on it."""
    quiet: bool = False
    """A person expects delays there: nobody is called for one. No step depends on it."""
    crowded: str = ""
    """Why a slot on offer that moved without a reason stays there for now
    (:mod:`quarantine.service.brake`)."""


@dataclass(frozen=True)
class ServiceLimits:
    """Durations in seconds on our own clock, and what is demanded before a slot is given back; the
    options of the same names explain them."""

    sweep_interval: float = 15.0
    list_interval: float = 60.0
    in_use_reread: float = 240.0
    resend_after: float = 120.0
    retry_in_use_after: float = 300.0
    max_attempts: int = 5
    burn_grace: float = 120.0
    """After a claim Nova itself is about to set ``reserved``; we step in only later."""
    tickets: bool = True
    """``[gate]required``: nothing is given back before its host has a valid ticket for it."""
    defences: frozenset[Defence] = frozenset({Defence.HOOK, Defence.LOADED, Defence.PATCH})
    """``[gate]required_defences``: what a host must have, where tickets are required."""
    unknown_grace: float = 300.0
    """A host may leave its defences unknown for so long before people are called."""
    overdue_after: float = 21600.0
    order_seconds: float = 172800.0
    safety_interval: float = 10.0
    request_timeout: float = 30.0
    """Of Placement: what a pass may take that was never measured."""
    silent_after: float = 420.0
    """People hear of a host that says nothing for so long while something depends on it."""
    absent_after: float = 900.0
    """People hear of a slot that Placement does not show for so long; nothing else follows."""

    @classmethod
    def from_conf(cls, conf: ConfigOpts) -> ServiceLimits:
        """From the groups ``detection``, ``erase`` and ``gate`` of the configuration."""
        return cls(
            sweep_interval=conf.detection.sweep_interval,
            list_interval=conf.detection.list_interval,
            in_use_reread=conf.detection.in_use_reread,
            resend_after=conf.erase.resend_after,
            retry_in_use_after=conf.erase.retry_in_use_after,
            max_attempts=conf.erase.max_attempts,
            tickets=conf.gate.required,
            defences=frozenset(map(Defence, conf.gate.required_defences)),
            unknown_grace=conf.gate.unknown_grace,
            overdue_after=conf.erase.overdue_after,
            order_seconds=conf.erase.order_seconds,
            safety_interval=conf.detection.safety_interval,
            request_timeout=conf.placement.request_timeout,
            silent_after=conf.detection.silent_after,
            absent_after=conf.detection.absent_after,
        )
