"""Works off campaigns: a few slots at a time, each through the door that people use.

Who dies in the midst leaves lines and records of which each says enough: a hold has the campaign's
own reason, so whoever comes next ends it.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot
from quarantine.errors import (
    BrokerAwayError,
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    UnavailableError,
    UnreadableError,
)
from quarantine.record.store import Store
from quarantine.record.words.campaign_facts import (
    Campaign,
    CampaignSlot,
    CampaignSlotLine,
    CampaignState,
    CampaignStep,
)
from quarantine.record.words.facts import NextHold, SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode, HoldCode
from quarantine.record.words.states import Event, State
from quarantine.record.words.texts import storable
from quarantine.rules import holds
from quarantine.rules.alarmbook import StandingAlarms
from quarantine.rules.campaign import (
    CampaignAct,
    CampaignMove,
    CampaignTerms,
    learned,
    next_move,
    reason_of,
    spare,
)
from quarantine.service.turns import TimeBox

LOG = logging.getLogger(__name__)

LEASE_SECONDS: Final = 60.0
STEPS: Final = 20
"""Slots that are acted on in one turn."""

_CHUNK: Final = 200
"""Lines that are looked at in one."""

_PATIENCE: Final = 3
"""Slots in a row that Placement may fail before the turn ends: each may cost a timeout."""


def held_because(campaign: Campaign) -> str:
    """The reason of its holds, by which it knows them again."""
    return storable(reason_of(campaign.id, campaign.reason))


class CampaignWork:
    """One process's hands; several may work, each campaign is one's at a time."""

    def __init__(
        self,
        store: Store,
        look: Callable[[Slot], SlotRecord | None],
        consumers: Callable[[SlotRecord], Sequence[str]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``consumers``: who but us holds a slot in Placement now."""
        self._store = store
        self._look = look
        self._consumers = consumers
        self._now = monotonic
        self._after: dict[str, tuple[str, str]] = {}
        self._last = ""
        self._unread = _Unread()

    def advance_all(self, steps: int = STEPS, *, seconds: float = math.inf) -> int:
        """A turn of each that has something to do, for so long: whom it does not reach is first in
        the next. How many slots were acted on. Raises ``UnavailableError`` for a record that does
        not answer; what breaks one campaign stops no other."""
        # Sorted by us: a database may pass over hyphens and case, and the circle would not close.
        found = sorted(self._store.open_campaigns())
        self._unread.end_others(found)
        box, done = TimeBox(seconds, self._now), 0
        # In a circle, from behind the one that had the last turn.
        for name in [n for n in found if n > self._last] + [n for n in found if n <= self._last]:
            self._last = name
            try:
                done += self.advance(name, steps, box)
            except UnreadableError as error:
                self._unread.tell(name, f"it does nothing more ({error})")
            except QuarantineError as error:
                LOG.warning("campaign %s: %s", name, error)
            except Exception:
                LOG.exception("campaign %s: unexpected", name)
            if box.over:
                break
        return done

    def advance(self, name: str, steps: int = STEPS, box: TimeBox | None = None) -> int:
        """A turn of one; 0 where it does not run, or somebody else works on it."""
        until = self._store.lease_campaign(name, LEASE_SECONDS)
        if until is None:
            return 0
        # Half of the lease: the slot in hand has the other half to be finished in.
        own = TimeBox(LEASE_SECONDS / 2, self._now)
        try:
            return self._turn(name, steps, (own,) if box is None else (own, box))
        finally:
            self._store.unlease_campaign(name, until)

    def _turn(self, name: str, steps: int, boxes: Collection[TimeBox]) -> int:
        """Some lines, from where the last turn ended: there may be thousands that wait."""
        campaign = self._store.campaign(name)
        if campaign is None:
            return 0
        done = failures = 0
        page, unread = self._store.campaign_slots(
            name, limit=_CHUNK, after=self._after.get(name, ("", "")), open_only=True
        )
        self._unread.lines(name, unread)
        pool = _Pool(self._store, campaign)
        for line in page:
            # Before the act: a line that fails is passed by, and comes again after all others.
            self._after[name] = line.host, line.address
            try:
                done += self._one(campaign, line, pool)
                failures = 0
            except BrokerAwayError as error:
                # Of its look, whoever tried has said so. The next slot meets nothing of it.
                LOG.info("campaign %s: %s/%s: %s", name, line.host, line.address, error)
                failures = 0
            except UnavailableError as error:
                LOG.warning("campaign %s: %s/%s: %s", name, line.host, line.address, error)
                failures += 1
                if failures >= _PATIENCE:
                    raise
            except QuarantineError as error:
                # A row that cannot be read: the sweep tells of it.
                LOG.warning("campaign %s: %s/%s: %s", name, line.host, line.address, error)
            except Exception:
                LOG.exception("campaign %s: %s/%s: unexpected", name, line.host, line.address)
            if done >= steps or any(box.over for box in boxes):
                break
        else:
            # All of the page was worked on. A short one was the last: the next turn begins in
            # front.
            if len(page) + len(unread) < _CHUNK:
                self._after.pop(name, None)
                self._unread.end_of(name)
            elif unread:
                # Lines that cannot be read move the place too: a page full of them would come for
                # ever.
                odd = ((line.host, line.address) for line in unread)
                self._after[name] = max(self._after.get(name, ("", "")), *odd)
        # A stopped one ends what it took, and stays stopped: it is over for good as it is.
        if campaign.state is not CampaignState.STOPPED:
            self._end(campaign)
        return done

    def _end(self, campaign: Campaign) -> None:
        if self._store.is_campaign_open(campaign.id):
            return
        self._after.pop(campaign.id, None)
        try:
            self._store.set_campaign(
                campaign.id,
                CampaignState.DONE,
                (campaign.version,),
                reason="each of its slots has its result",
            )
        except ConflictError as error:
            LOG.info("%s", error)

    def _one(self, campaign: Campaign, line: CampaignSlot, pool: _Pool) -> bool:
        """Whether something was done."""
        slot = Slot(line.host, line.address)
        try:
            record = self._store.slot(slot)
            if (drive := learned(line, record)) is not None:
                line = self._store.write_campaign_slot(line, replace(line, drive=drive))
            if _claimed_in_vain(line, record, campaign):
                line = self._store.write_campaign_slot(line, replace(line, was_free=False))
            move = next_move(line, record, _terms(campaign))
            # Nothing is done to the slot by these: they need neither a look nor the campaign read
            # anew.
            if move.act in (CampaignAct.NOTHING, CampaignAct.END):
                return self._carry_out(campaign, line, record, move)
            # Asked before the look: where the pool is spent, it would be made in vain for each
            # line.
            if move.act is CampaignAct.HOLD and record is not None and not pool.spares(record):
                return False
            # A person may have stopped it since the turn began.
            campaign = self._store.campaign(campaign.id) or campaign
            if move.act in (CampaignAct.HOLD, CampaignAct.RELEASE):
                # A server may have it since the record was written; and before a hold ends,
                # Placement has it reserved.
                record = self._look(slot)
            move = next_move(line, record, _terms(campaign))
            if record is not None and move.act is CampaignAct.HOLD:
                # Claimed before it is counted, and counted before it is held: of two that take the
                # pool's last at once each sees the other.
                line = self._write(line, move, was_free=True)
                if not pool.spares(record, claimed=True):
                    self._write(line, move, was_free=False)
                    return False
                why = holds.because(HoldCode.BY_PERSON, held_because(campaign))
                self._store.hold(record, why, by=campaign.by)
                line = self._write(line, replace(move, result="held"))
                # A hold locks nothing in Placement: this look reserves the slot there.
                record = self._look(slot)
                move = next_move(line, record, _terms(campaign))
            # A server may have been quicker than the hold. To end it under that server would have
            # its drive called claimed without an erase, so the hold waits for the server's release.
            held = record if move.act is CampaignAct.RELEASE else None
            if held is not None and (holders := self._consumers(held)):
                LOG.warning("campaign %s: %s: %s has the drive", campaign.id, slot, holders[0])
                return False
            return self._carry_out(campaign, line, record, move)
        except (ConflictError, IllegalTransitionError) as error:
            # It moved on: the next turn sees where to.
            LOG.info("campaign %s: %s", campaign.id, error)
            return False

    def _carry_out(
        self,
        campaign: Campaign,
        line: CampaignSlot,
        record: SlotRecord | None,
        move: CampaignMove,
    ) -> bool:
        reason, by = held_because(campaign), campaign.by
        if move.act is CampaignAct.ASK and record is not None:
            changes = SlotChanges(next_hold=NextHold(reason, by))
            note = f"to be held at its next release: {reason}"
            self._store.amend(record, changes, note=note, by=by)
        elif move.act is CampaignAct.TAKE_BACK and record is not None:
            note = f"not to be held at its next release any more: {move.result}"
            self._store.amend(record, SlotChanges(next_hold=None), note=note, by=by)
        elif move.act not in (CampaignAct.END, CampaignAct.RELEASE):
            return False
        # The line before the release: who dies in between leaves a hold that the next turn ends,
        # and no slot that is erased twice.
        self._write(line, move)
        if move.act is CampaignAct.RELEASE and record is not None:
            event = Event.RELEASED_BY_OPERATOR
            self._store.transition(record, event, reason=reason, by=by)
            try:
                self._look(record.slot)
            except BrokerAwayError as error:
                # It is released: its order goes out on a later round.
                LOG.info("campaign %s: %s: %s", campaign.id, record.slot, error)
        return True

    def _write(
        self, line: CampaignSlot, move: CampaignMove, *, was_free: bool | None = None
    ) -> CampaignSlot:
        new = replace(
            line,
            step=move.step,
            result=move.result,
            generation=move.generation,
            certificate=move.certificate,
            was_free=line.was_free if was_free is None else was_free,
        )
        return self._store.write_campaign_slot(line, new)


def _claimed_in_vain(line: CampaignSlot, record: SlotRecord | None, campaign: Campaign) -> bool:
    """Who claimed it did not come to hold it: it died, or a tenant was quicker."""
    if not line.was_free or line.step is not CampaignStep.WAITING:
        return False
    if record is None or record.state is not State.HELD:
        return True
    return record.reason != held_because(campaign)


class _Unread:
    """Campaigns that cannot go on, as a whole or with some slots: people hear of each once."""

    def __init__(self) -> None:
        self._told = StandingAlarms()
        self._odd: set[str] = set()
        """Those with an odd line since their first one was read last."""

    def tell(self, name: str, what: str) -> None:
        """Of one."""
        self._odd.add(name)
        self._told.tell(
            _subject(name),
            AlarmCode.RECORD_UNREADABLE,
            f"{what}; was it written by a newer release? What is held in its name, or will be at "
            "its next release, stays held until a person releases it (slot release)",
        )

    def lines(self, name: str, found: Sequence[CampaignSlotLine]) -> None:
        """Of some lines."""
        if found:
            first = found[0]
            why = ", ".join(first.damaged) or f"step {first.step}"
            said = f"{len(found)} of its lines cannot be read, the first of {first.host}/"
            self.tell(name, f"{said}{first.address} ({why}): those slots are left as they are")

    def end_of(self, name: str) -> None:
        """All its lines were read."""
        if name not in self._odd:
            self._told.end(_subject(name), AlarmCode.RECORD_UNREADABLE, "it can be read again")
        self._odd.discard(name)

    def end_others(self, names: Collection[str]) -> None:
        """None of the others has anything to do."""
        self._odd &= set(names)
        there = [_subject(name) for name in names]
        self._told.end_others(there, AlarmCode.RECORD_UNREADABLE, "it is over, or gone")


def _subject(name: str) -> str:
    return f"campaign {name}"


class _Pool:
    """What a turn may take, by class. How large the pool is is counted once in it: that reads every
    slot, and one for each slot would make a campaign grow with the square."""

    def __init__(self, store: Store, campaign: Campaign) -> None:
        self._store = store
        self._campaign = campaign
        self._whole: Counter[str] = Counter()
        self._gone: dict[str, int] | None = None

    def spares(self, record: SlotRecord, *, claimed: bool = False) -> bool:
        """Whether one more of its class may go; with ``claimed`` it is among those that are gone,
        which are counted anew: others take as well."""
        if self._gone is None:
            # By all: whoever begins one for each host means the share of the pool all the same.
            # Before what is free: what is taken in between is counted as neither.
            self._whole.update(self._store.taken_from_the_pool())
            self._whole.update(self._store.free_of_each_class())
        if self._gone is None or claimed:
            self._gone = self._store.taken_from_the_pool(claimed=True)
        of = record.resource_class
        gone = self._gone.get(of, 0) - claimed
        return spare(self._whole[of] - gone, gone, self._campaign.keep) > 0


def _terms(campaign: Campaign) -> CampaignTerms:
    return CampaignTerms(
        held_because(campaign), _hold_code(campaign), campaign.created_at, campaign.state
    )


def _hold_code(campaign: Campaign) -> str | None:
    try:
        found: Any = codec.parse(campaign.query.encode(), f"campaign {campaign.id}")
    except BadWireError:
        return None
    code = found.get("hold_code") if isinstance(found, dict) else None
    return code if isinstance(code, str) else None
