"""A drive that another consumer holds than the one on record: a move that Nova knows, or not.

A cold migration hands the drive's allocation from the server to its migration, a revert hands it
back. Nova is asked before a person is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from quarantine.cloud.novafacts import Migration, Server
from quarantine.doors import utc_now
from quarantine.errors import QuarantineError, UnavailableError
from quarantine.rules.handover import Handover

LOG = logging.getLogger(__name__)

AWAY_SECONDS: Final = 20.0
"""A Nova that did not answer is not asked again for so long."""

FORGOTTEN_SECONDS: Final = 86400.0
"""A question that nobody put for so long is a new one, whatever it met before."""


class CellAwayError(QuarantineError):
    """Nova answers, and the database of one of its cells does not."""


class MigrationsNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def migrations_of(self, server: str) -> list[Migration]:
        """Every migration of a server, ended or not."""

    def server(self, server: str) -> Server | None:
        """A server; None where Nova has it no more."""


class Handovers:
    """Asks Nova about two consumers; where it is away for long, people are asked instead."""

    def __init__(
        self,
        nova: MigrationsNova,
        grace: float,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], datetime] = utc_now,
        *,
        note: Callable[[str, str], None] | None = None,
    ) -> None:
        """``grace``: seconds for which a Nova that does not answer is waited for, and in which a
        host hears of the end of a migration. ``note`` hears of each migration and its server."""
        self._nova = nova
        self._grace = grace
        self._now = monotonic
        self._clock = clock
        self._note = note
        self._unanswered: dict[tuple[str, str], tuple[float, float]] = {}
        """When each question first and last had no answer; those to others say nothing of it."""
        self._away_until = -float("inf")

    def between(self, before: str, now: str) -> Handover:
        """Whether the drive went from one to the other by a migration. Never raises for Nova; what
        ``note`` raises goes on, for nothing is decided by a migration that nobody has noted."""
        if self._now() >= self._away_until:
            try:
                moves = self._moves(before, now)
                if not moves:
                    # Nova leaves out, with a 200, what is in a cell whose database is away.
                    self._expect_both_cells(before, now)
                    moves = self._moves(before, now)
            except (QuarantineError, LookupError, TypeError, ValueError) as error:
                LOG.warning("Nova cannot be asked for the migrations of %s: %s", before, error)
                if isinstance(error, UnavailableError):
                    # Each try may cost a timeout. What Nova refuses is about this question alone.
                    self._away_until = self._now() + AWAY_SECONDS
            else:
                self._unanswered.pop((before, now), None)
                if not moves:
                    return Handover.STRANGE
                if self._note is not None:
                    for each in moves:
                        self._note(each.uuid, each.server)
                over = all(self._is_over(each) for each in moves)
                return Handover.OVER if over else Handover.MOVED
        at = self._now()
        # Questions that nobody puts any more go, or the table would grow without end.
        self._unanswered = {
            each: times
            for each, times in self._unanswered.items()
            if at - times[1] < FORGOTTEN_SECONDS
        }
        first, _ = self._unanswered.get((before, now), (at, at))
        self._unanswered[before, now] = first, at
        return Handover.STRANGE if at - first >= self._grace else Handover.UNKNOWN

    def _moves(self, before: str, now: str) -> list[Migration]:
        return [
            migration
            # Either may be the server: a migration takes the drive from it, a revert hands it back.
            for server, other in ((before, now), (now, before))
            for migration in self._nova.migrations_of(server)
            if migration.uuid == other
        ]

    def _expect_both_cells(self, *consumers: str) -> None:
        """Raises ``QuarantineError`` where one is a server in a cell that does not answer."""
        for consumer in consumers:
            server = self._nova.server(consumer)
            if server is not None and not server.readable:
                raise CellAwayError(
                    f"expected Nova to know server {consumer}, its cell does not answer"
                )

    def _is_over(self, migration: Migration) -> bool:
        """Its end is older than the grace, so whoever still runs beside it does not stop by it."""
        if migration.unfinished or migration.changed is None:
            return False
        return self._clock() - migration.changed > timedelta(seconds=self._grace)
