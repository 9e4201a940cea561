"""Words that people type, without what the operations load."""

from __future__ import annotations

from typing import Final

from quarantine.record.states import State as State
from quarantine.rules.alarmbook import Severity as Severity

KEEP: Final = 0.9
"""The share of the pool that stays on offer during a campaign where none is named."""
