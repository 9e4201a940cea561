"""What cases of a model take, by its own certificates: when one is due, and when late. Pure.

A host reports how long it read back, and chooses when it reports: it can make its model's figures
longer, never so long that nobody is called, for ``[erase]overdue_after`` stands above them all.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from quarantine.record.words.states import State

SAMPLES: Final = 64
"""Of the newest cases of a model."""

ENOUGH: Final = 5
"""So many cases before one is called late by its model."""

FACTOR: Final = 2.0
"""Twice what nearly all cases took is late."""

NEARLY_ALL: Final = 0.95

LEAST_SECONDS: Final = 300.0
"""What is quick may be this much slower: a host erases some of its drives at once."""

SETTLE_SECONDS: Final = 600.0
"""A slot that waits for its order, or for its host's receipt, for longer waits for something that
no figure of its model tells."""


@dataclass(frozen=True)
class Pace:
    """Of one model; seconds."""

    cases: int
    erase: float
    """From the order until the host begins to read back, in half of the cases."""
    verify: float
    late_erase: float | None
    """An erase that takes longer is late; None where too few cases are known."""
    late_verify: float | None


def pace(cases: Sequence[tuple[float, float]]) -> Pace | None:
    """From seconds of erasing and of verifying, of the newest cases; None without any."""
    if not cases:
        return None
    erases, verifies = zip(*cases, strict=True)
    enough = len(cases) >= ENOUGH
    return Pace(
        cases=len(cases),
        erase=statistics.median(erases),
        verify=statistics.median(verifies),
        late_erase=_late(erases) if enough else None,
        late_verify=_late(verifies) if enough else None,
    )


def stuck_after(erases: Sequence[tuple[str, float]], configured: float) -> float:
    """Seconds that a sanitize of a model may stand still, from hosts and seconds of its newest
    cases; 0 where ``configured`` is as good.

    The host of the slowest is left out: none makes others wait.
    """
    if not erases:
        return 0.0
    slowest = max(erases, key=lambda erase: erase[1])[0]
    others = [seconds for host, seconds in erases if host != slowest]
    found = FACTOR * max(others, default=0.0)
    return found if found > configured else 0.0


def late_after(state: State, known: Pace | None, overdue: float) -> float:
    """Seconds in a state after which a slot is late; ``overdue`` where its model does not tell."""
    limit = None
    if known is not None:
        limit = {State.ERASING: known.late_erase, State.VERIFYING: known.late_verify}.get(state)
    return overdue if limit is None else min(limit, overdue)


def due(state: str, since: datetime, now: datetime, known: Pace | None) -> datetime | None:
    """When a drive can be expected back that came into its state at ``since``.

    None where nobody can say: no case of its model is known, or it takes longer than usual.
    """
    if known is None:
        return None
    whole = timedelta(seconds=known.erase + known.verify)
    settles = since + timedelta(seconds=SETTLE_SECONDS)
    match state:
        case State.RELEASED | State.QUARANTINED:
            # Nothing has begun yet: a whole case from now on.
            return now + whole if settles > now else None
        case State.ERASING:
            at = since + whole
        case State.VERIFYING:
            at = since + timedelta(seconds=known.verify)
        case State.CERTIFIED:
            return now if settles > now else None
        case _:
            return None
    return at if at > now else None


def _late(seconds: Sequence[float]) -> float:
    ordered = sorted(seconds)
    # The shortest time within which nearly all cases ended.
    usual = ordered[math.ceil(NEARLY_ALL * len(ordered)) - 1]
    return max(FACTOR * usual, usual + LEAST_SECONDS)
