"""Works off campaigns: a few slots at a time, each through the door that people use.

Who dies in the midst leaves lines and records of which each says enough: a hold has the campaign's
own reason, so whoever comes next ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import Slot
from quarantine.errors import ConflictError, IllegalTransitionError
from quarantine.record.campaign_facts import (
    ENDED,
    Campaign,
    CampaignSlot,
    CampaignState,
    CampaignStep,
)
from quarantine.record.facts import NextHold, SlotChanges, SlotRecord
from quarantine.record.reasons import HoldCode
from quarantine.record.states import Event, State
from quarantine.record.store import Store
from quarantine.record.texts import storable
from quarantine.rules import holds
from quarantine.rules.campaign import CampaignAct, CampaignMove, next_move, spare

LOG = logging.getLogger(__name__)

LEASE_SECONDS: Final = 60.0
STEPS: Final = 20
"""Slots that are acted on in one turn."""

_CHUNK: Final = 200
"""Lines that are looked at in one."""

_OPEN: Final = tuple(step for step in CampaignStep if step not in ENDED)


def held_because(campaign: Campaign) -> str:
    """The reason of its holds, by which it knows them again."""
    return storable(f"campaign {campaign.id}: {campaign.reason}")


class CampaignWork:
    """One process's hands; several may work, each campaign is one's at a time."""

    def __init__(self, store: Store, look: Callable[[Slot], SlotRecord | None]) -> None:
        self._store = store
        self._look = look
        self._after: dict[str, tuple[str, str]] = {}

    def advance_all(self, steps: int = STEPS) -> int:
        """A turn of each that runs; how many slots were acted on. Raises ``UnavailableError``."""
        return sum(self.advance(name, steps) for name in self._store.running_campaigns())

    def advance(self, name: str, steps: int = STEPS) -> int:
        """A turn of one; 0 where it does not run, or somebody else works on it."""
        if not self._store.lease_campaign(name, LEASE_SECONDS):
            return 0
        try:
            return self._turn(name, steps)
        finally:
            self._store.unlease_campaign(name)

    def _turn(self, name: str, steps: int) -> int:
        """Some lines, from where the last turn ended: there may be thousands that wait."""
        campaign = self._store.campaign(name)
        if campaign is None:
            return 0
        done, after = 0, self._after.pop(name, ("", ""))
        page = self._store.campaign_slots(name, limit=_CHUNK, after=after, steps=_OPEN)
        for line in page:
            if done >= steps:
                break
            done += self._one(campaign, line)
            after = line.host, line.address
        if (page and after != (page[-1].host, page[-1].address)) or len(page) == _CHUNK:
            self._after[name] = after
        if not self._store.campaign_counts(name).keys() - set(ENDED):
            try:
                self._store.set_campaign(
                    name,
                    CampaignState.DONE,
                    (campaign.version,),
                    reason="each of its slots has its result",
                )
            except ConflictError as error:
                LOG.info("%s", error)
        return done

    def _one(self, campaign: Campaign, line: CampaignSlot) -> bool:
        """Whether something was done."""
        slot = Slot(line.host, line.address)
        reason, code = held_because(campaign), _hold_code(campaign)
        try:
            record = self._store.slot(slot)
            move = next_move(line, record, reason, code)
            if record is not None and move.act is CampaignAct.HOLD:
                if not self._can_spare(campaign, record):
                    return False
                why = holds.because(HoldCode.BY_PERSON, reason)
                self._store.hold(record, why, by=campaign.by)
                line = self._write(line, replace(move, result="held"), was_free=True)
                move = replace(move, act=CampaignAct.RELEASE)
            if move.act is CampaignAct.RELEASE:
                # Placement has it reserved before the hold ends.
                record = self._look(slot)
                move = next_move(line, record, reason, code)
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
        elif move.act not in (CampaignAct.END, CampaignAct.RELEASE):
            return False
        # The line before the release: who dies in between leaves a hold that the next turn ends,
        # and no slot that is erased twice.
        self._write(line, move)
        if move.act is CampaignAct.RELEASE and record is not None:
            event = Event.RELEASED_BY_OPERATOR
            self._store.transition(record, event, reason=reason, by=by)
            self._look(record.slot)
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

    def _can_spare(self, campaign: Campaign, record: SlotRecord) -> bool:
        stock = self._store.stock()
        of = record.resource_class
        free = sum(
            row.slots
            for row in stock
            if row.resource_class == of and row.state == State.AVAILABLE.value
        )
        taken = self._store.taken_from_the_pool(campaign.id).get(of, 0)
        return spare(free, taken, campaign.keep)


def _hold_code(campaign: Campaign) -> str | None:
    try:
        found: Any = codec.parse(campaign.query.encode(), f"campaign {campaign.id}")
    except BadWireError:
        return None
    code = found.get("hold_code") if isinstance(found, dict) else None
    return code if isinstance(code, str) else None
