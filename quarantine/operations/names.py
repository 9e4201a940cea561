"""Words that people type, without what the operations load."""

from __future__ import annotations

from quarantine.record.states import State as State
