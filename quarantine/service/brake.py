"""How many drives are erased because their providers moved and nothing says why.

Each such drive may have had a user. But a script that writes to all providers, or a Placement that
was restored from a backup, must not take the whole pool away: then they are erased in turn.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Final

from eraser.protocol.identity import Slot
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import CASE_OPEN, FREE_TO_SCHEDULE, State
from quarantine.rules.action import Action, ActionKind
from quarantine.rules.alarmbook import alarm

FEW: Final = 8
"""Drives that are always taken off offer at once: two servers of four drives come and go."""

SHARE: Final = 1 / 4
"""Of the drives on offer, where that is more."""

OFTEN: Final = 3
"""Times that one drive is erased for this in a day: it must not be worn out."""

_DAY_SECONDS: Final = 86400.0
_MANY: Final = (
    "the providers of very many drives on offer moved without a reason: they are erased in turn; "
    "were they all written to, or was Placement restored?"
)
_AT_WORK: Final = CASE_OPEN | {State.RELEASED}


class Brake:
    """Of one process, since its start. The service and its worker have one each, as has each
    further control plane: all together may take so many times as many drives off offer."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._most = FEW
        self._erasing: set[Slot] = set()
        self._refreshed = -math.inf
        self._times: dict[Slot, list[float]] = {}
        self._told: set[str] = set()
        """What people know: words, each until it is over."""

    def refresh(self, records: Iterable[SlotRecord]) -> None:
        """The slots as they are: who is done makes room."""
        self._refreshed = self._now()
        states = {record.slot: record.state for record in records}
        self._erasing = {slot for slot in self._erasing if states.get(slot) in _AT_WORK}
        free = sum(state in FREE_TO_SCHEDULE for state in states.values())
        self._most = max(FEW, int(SHARE * free))
        # Over when all are done, and not when there is room for the next: that is one alarm each.
        if not self._erasing:
            self._told.discard(_MANY)

    @property
    def room(self) -> int:
        """How many more drives may be taken off offer now."""
        return max(0, self._most - len(self._erasing))

    def is_stale(self, seconds: float) -> bool:
        """Whether it holds drives back by what was true so long ago: some may be done since."""
        return not self.room and self._now() - self._refreshed >= seconds

    def waits(self, slot: Slot) -> str:
        """Why a drive whose provider moved stays on offer for now; empty when it need not."""
        if len(self._recent(slot)) >= OFTEN:
            return (
                f"the provider of {slot} moved {OFTEN} times in a day without a reason, and the "
                "drive was erased each time; it stays on offer: what writes to the provider?"
            )
        return "" if self.room else _MANY

    def note(self, slot: Slot, action: Action) -> None:
        """What followed for a slot whose traits were asked for; of a wait people hear once.

        A drive that Placement failed to reserve is erased by nobody: that does not count.
        """
        if action.act is ActionKind.RESERVE and slot not in self._erasing:
            self._erasing.add(slot)
            self._times[slot] = [*self._recent(slot), self._now()]
            # The slot moves again: a later wait of it is news.
            self._told = {words for words in self._told if str(slot) not in words}
        elif action.act is ActionKind.WAIT and action.reason not in self._told:
            self._told.add(action.reason)
            if action.reason == _MANY:
                alarm("Placement", AlarmCode.MOVED_MANY, action.reason)
            else:
                alarm(slot, AlarmCode.MOVED_OFTEN, action.reason)

    def _recent(self, slot: Slot) -> list[float]:
        return [at for at in self._times.get(slot, ()) if self._now() - at < _DAY_SECONDS]
