"""Everything that one decision may use, and the kinds of step as short words. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from quarantine.cloud.facts import View
from quarantine.record.words.facts import UNSET, NextHold, SlotChanges, SlotRecord, Unset
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.record.words.states import Custody, Event
from quarantine.record.words.texts import USED_AGAIN
from quarantine.rules.action import NO_CHANGES, Action, ActionKind, ServiceLimits, SlotContext
from quarantine.rules.alarmbook import only
from quarantine.rules.handover import Handover
from quarantine.rules.holds import because
from quarantine.rules.offermark import Mark

_SKEW_SECONDS: Final = 60.0
"""The control plane's processes may run on two machines: so far their clocks may be apart."""

_SILENCE_SHARE: Final = 0.1
"""An order that nobody answers is sent again less and less often: after a tenth of the host's
silence so far. A host that is down for weeks must not find thousands of copies, nor the broker keep
them; one that is back must not wait for days. Whoever greets takes what is in its queue: a worker
that no longer hears it ends itself, and says hello no more."""

_COPIES_SECONDS: Final = 1800.0
"""Of a host that speaks, and does not answer, each pause is twice the one before, up to this. A key
file of its own that is put right must not wait for longer."""

_MANY: Final = 20
"""Copies of which more make no pause longer."""


@dataclass(frozen=True)
class Observation:
    """Everything that one decision may use."""

    record: SlotRecord
    view: View
    now: datetime
    limits: ServiceLimits
    context: SlotContext

    @property
    def ours(self) -> str | None:
        held = self.view.custody(self.record.custody)
        return held.consumer if held else None

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(a.consumer for a in self.view.foreign(self.record.custody))

    @property
    def patience(self) -> float:
        """Seconds to wait for a word about an order or a ticket before it is sent again."""
        # Of the order or of anything else: without end is a time that is to come, or none.
        of_order = self.age(self.record.heard_at or self.record.entered_at)
        silence = min(of_order, self.age(self.context.host_heard_at))
        share = 0.0 if math.isinf(silence) else _SILENCE_SHARE * silence
        pause = self.limits.resend_after
        doubled = pause * (1 << min(self.context.copies, _MANY))
        return max(pause, share, min(doubled, _COPIES_SECONDS))

    @property
    def strange_custody(self) -> bool:
        """Known by its type alone. Consumers are new for each case and stored before they are used,
        so this one belongs to a case that our record forgot."""
        return self.ours is not None and self.ours != self.record.custody

    @property
    def begun_again(self) -> SlotChanges:
        """A new case under the custody that is there."""
        return SlotChanges(
            new_case=True,
            consumer=self.last_user,
            custody=self.ours,
            custody_stage=Custody.TAKING,
        )

    @property
    def last_user(self) -> Unset | None:
        """As a change of the record's consumer: forgotten where the record forgot a case, in which
        another may have had the drive. A certificate names nobody rather than the wrong one."""
        return None if self.strange_custody else UNSET

    @property
    def first(self) -> bool:
        return unseen(self.record)

    @property
    def outrun(self) -> bool:
        """A server rightly got the clean drive before a person's hold could keep it from it."""
        return bool(self.others) and self.ours is None and self.context.held_by is not None

    @property
    def lacks(self) -> str:
        return self.context.lacks

    @property
    def locked(self) -> bool:
        return self.view.locked

    @property
    def mark_of_return(self) -> str | None:
        """What tells of a use of the drive once it is back; None where a gate does that."""
        traits = self.context.traits
        return None if traits is None else str(Mark.given_back(self.view, traits))

    def age(self, since: datetime | None) -> float:
        """Seconds since then; without end when it never was, and when it is to come.

        A time to come was written before our clock was set back: to wait for it could take years.
        """
        seconds = float("inf") if since is None else (self.now - since) / timedelta(seconds=1)
        return float("inf") if seconds < -_SKEW_SECONDS else seconds


def unseen(record: SlotRecord) -> bool:
    """Placement was not looked at since the present state began."""
    return record.read_at is None or record.read_at < record.entered_at


def reserve(reason: str, *, alarm: AlarmCode | None = None) -> Action:
    return Action(ActionKind.RESERVE, reason, alarm=alarm)


def amend(reason: str, changes: SlotChanges, *, alarm: AlarmCode | None = None) -> Action:
    return Action(ActionKind.AMEND, reason, changes=changes, alarm=alarm)


def fence(reason: str) -> Action:
    """Before what must not meet the end of a return that another look, which may be dead, began."""
    text = f"{reason}: whoever began to give the slot back is kept from it"
    return Action(ActionKind.FENCE, text, changes=SlotChanges(custody_stage=Custody.HELD))


def move(
    event: Event,
    reason: str = "",
    changes: SlotChanges | None = None,
    *,
    alarm: AlarmCode | None = None,
) -> Action:
    return Action(ActionKind.TRANSITION, reason, event, changes or NO_CHANGES, alarm)


def hold(code: HoldCode, text: str, changes: SlotChanges | None = None) -> Action:
    """Held, and the case is over for good: no report or order of it counts any more."""
    changes = replace(changes or NO_CHANGES, new_case=True)
    return replace(move(Event.HELD, text, changes, alarm=AlarmCode.HELD), hold=because(code, text))


def hold_as_asked(wish: NextHold) -> Action:
    """What a person wanted while a server had the drive. Nobody is called: it was asked for."""
    why = because(HoldCode.BY_PERSON, wish.reason)
    return replace(move(Event.HELD, wish.reason), hold=why, by=wish.by)


def strangers(others: Iterable[str], context: SlotContext) -> tuple[str, ...]:
    """The guests that run with the drive while Placement has it for ``others``."""
    return tuple(d.uuid for d in context.running if d.uuid not in others)


def handed_over(seen: Observation) -> Action:
    """Another consumer holds the drive than the one on record."""
    before, now = seen.record.consumer, seen.others[0]
    changes = SlotChanges(consumer=now, detail="")
    found = f"held by {now} now, by {before or 'nobody known'} before"
    known = before is not None
    match seen.context.handover if known else Handover.STRANGE:
        case Handover.UNASKED:
            return Action(ActionKind.ASK, "Nova")
        case Handover.UNKNOWN:
            return Action(ActionKind.WAIT, f"{found}; Nova is asked whether that is a migration")
        case Handover.MOVED | Handover.OVER:
            return amend(f"{found}: a migration, by Nova's word", changes)
        case Handover.STRANGE:
            again = only(AlarmCode.USED_AGAIN, known)
            return amend(f"{found}: {USED_AGAIN}", changes, alarm=again)
