"""Whether the control plane can do its work, by what can be seen from outside its own process."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quarantine.errors import QuarantineError
from quarantine.operations.plane import Plane

LOG = logging.getLogger(__name__)

SWEEP: Final = "sweep"
"""The pass that looks at everything (:mod:`quarantine.service.reconciler`)."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``problem`` is empty where it is well."""

    name: str
    problem: str
    seconds: float | None = None
    """How old, where it has an age."""


@dataclass(frozen=True)
class Health:
    """What is well and what is not. No text in it quotes a configuration or an address."""

    checks: tuple[Check, ...]
    at: datetime

    @property
    def good(self) -> bool:
        """Nothing is wrong."""
        return not any(check.problem for check in self.checks)


def look(plane: Plane) -> Health:
    """Looks at the record, and at what the running service wrote into it. Raises nothing."""
    now = plane.doors.now()
    try:
        with plane.parts() as parts:
            passes = {one.name: one for one in parts.store.passes()}
    except QuarantineError as error:
        # The text may have the database's address in it: that is for the log.
        LOG.warning("health: %s", error)
        problem = "does not answer, or has the schema of another release; the log says more"
        return Health((Check("database", problem), Check(SWEEP, "not known")), now)
    last = passes.get(SWEEP)
    if last is None:
        sweep = Check(SWEEP, "none has gone well yet: see 'nvme-quarantine run'")
    else:
        age = max(0.0, (now - last.at).total_seconds())
        late = f"the last good one was {age:.0f} s ago, expected one in {last.within:.0f} s"
        sweep = Check(SWEEP, late if age > last.within else "", round(age, 1))
    return Health((Check("database", ""), sweep), now)
