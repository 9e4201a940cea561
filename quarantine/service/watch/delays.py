"""How long after Nova had let go of a drive that was seen here. For people alone: nothing waits for
it, and nothing is decided by it."""

from __future__ import annotations

import bisect
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from quarantine.cloud.novafacts import InstanceAction
from quarantine.doors import Clock
from quarantine.errors import QuarantineError
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow
from quarantine.record.words.states import Event

LOG = logging.getLogger(__name__)

EDGES: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800)
"""Seconds. Nova's times have whole ones, so a bell's few tenths are at most 1."""

SETTLED_SECONDS: Final = 60.0
"""After a release was seen until Nova is asked: by then it has ended what it was about."""

GIVEN_UP_SECONDS: Final = 3600.0
"""For how long Nova is asked about a release again."""

PASS_SECONDS: Final = 15.0
"""Between two turns."""

MOST: Final = 50
"""Releases of one turn: each is a request or two of Nova, which has other things to do."""

LETS_GO: Final = frozenset({"shelve", "shelveOffload", "confirmResize", "revertResize"})
"""Actions of a server that is still there, by ``nova/compute/instance_actions.py`` of Nova 34."""


class DatesReleases(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def deleted_at(self, server: str) -> datetime | None:
        """When a server was deleted; None where it was not."""

    def last_action(self, server: str) -> InstanceAction | None:
        """The newest action of a server."""


@dataclass
class Delays:
    """What was measured since the start. Threads may share it."""

    within: list[int] = field(default_factory=lambda: [0] * len(EDGES))
    """How many took no longer than each of :data:`EDGES`."""
    count: int = 0
    seconds: float = 0.0
    unknown: int = 0
    """Releases of which Nova does not tell when they were."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, seconds: float | None) -> None:
        """One release; None where Nova does not tell."""
        with self._lock:
            if seconds is None:
                self.unknown += 1
                return
            for place in range(bisect.bisect_left(EDGES, seconds), len(EDGES)):
                self.within[place] += 1
            self.count += 1
            self.seconds += seconds

    def read(self) -> Delays:
        """All of it at one moment."""
        with self._lock:
            return Delays(list(self.within), self.count, self.seconds, self.unknown)


class DelayMeter:
    """Asks Nova about releases that were seen, by whichever process; for a thread of its own."""

    def __init__(self, store: Store, nova: DatesReleases, clock: Clock) -> None:
        self._store = store
        self._nova = nova
        self._clock = clock
        self._known: int | None = None
        """The number of the last line of history that was asked about."""
        self.delays = Delays()

    def run_forever(self, stop: threading.Event) -> None:
        """Turn after turn until ``stop`` is set; nothing but ``stop`` ends it."""
        while not stop.is_set():
            try:
                self.turn()
            except QuarantineError as error:
                LOG.info("not measured how late releases are seen: %s", error)
            except Exception:
                LOG.exception("not measured how late releases are seen")
            stop.wait(PASS_SECONDS)

    def turn(self) -> None:
        """What was seen since the last one; of very many at once the newest.

        Raises ``UnavailableError`` where Nova or the record does not answer: those that are left
        are asked about in the next turn. What else asking about one raises keeps no other.
        """
        for line in self._new():
            try:
                seconds = self._delay(line)
            except QuarantineError:
                if self._clock() - line.at < timedelta(seconds=GIVEN_UP_SECONDS):
                    raise
                # One that Nova never answers for must not keep the later ones for ever.
                seconds = None
            except Exception:
                LOG.exception("not measured how late release %d was seen", line.seq)
                seconds = None
            self.delays.add(seconds)
            self._known = line.seq

    def _new(self) -> Iterator[HistoryRow]:
        """Releases that nobody has asked about yet and that are old enough, the oldest first."""
        lines, _more = self._store.fleet_history(limit=MOST, event=Event.RELEASE_SEEN)
        if self._known is None:
            # What came before the start was counted by the process before, or by nobody.
            self._known = max((line.seq for line in lines), default=0)
        known, now = self._known, self._clock()
        settling = timedelta(seconds=SETTLED_SECONDS)
        for line in reversed(lines):
            if line.seq <= known:
                continue
            # One of a time long to come is of a clock that was ahead; no other waits for it.
            if now - settling < line.at <= now + settling:
                return
            yield line

    def _delay(self, line: HistoryRow) -> float | None:
        server = line.detail.get("consumer")
        if not isinstance(server, str):
            # It came and went between two looks.
            return None
        if line.at > self._clock():
            # When it was seen, nobody knows.
            return None
        consumer, server = server, self._store.server_behind(server)
        let_go = self._nova.deleted_at(server)
        # One that had moved away may have been deleted since.
        if let_go is None or (server != consumer and let_go > line.at):
            let_go = self._acted(server, line.at)
        return None if let_go is None else max((line.at - let_go).total_seconds(), 0.0)

    def _acted(self, server: str, seen: datetime) -> datetime | None:
        """When the server's last action ended, where that is one that lets go of drives."""
        action = self._nova.last_action(server)
        if action is None or action.kind not in LETS_GO or action.started is None:
            return None
        return action.changed if action.started <= seen else None


def cumulative(delays: Delays) -> Sequence[tuple[str, float]]:
    """As a histogram of Prometheus has them: edge and how many were within it."""
    edges = zip(EDGES, delays.within, strict=True)
    return [*((str(float(edge)), float(n)) for edge, n in edges), ("+Inf", float(delays.count))]
