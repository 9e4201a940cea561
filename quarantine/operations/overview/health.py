"""Whether the control plane can do its work, by what can be seen from outside its own process."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from quarantine.errors import BadInputError, QuarantineError
from quarantine.logs import audit_file, require_audit
from quarantine.operations.plane import Plane
from quarantine.record.words.clock import is_to_come
from quarantine.record.words.facts import BROKER, PLACEMENT, SWEEP, GoodPass

LOG = logging.getLogger(__name__)

AUDIT: Final = "audit file"
"""This process's audit file; a process without one has no such check."""

SAID: Final = (PLACEMENT, BROKER, AUDIT)
"""Checks that are reported and never make the API failing: its reads do not need them."""

SAME_SECONDS: Final = 1.0
"""Whoever asks again so soon gets the same answer."""

LOOK_SECONDS: Final = 5.0
"""For a look: who asks for health, a load balancer say, waits for no longer."""


@dataclass(frozen=True)
class HealthCheck:
    """One thing that was looked at. ``problem`` is empty where it is well."""

    name: str
    problem: str
    seconds: float | None = None
    """How old, where it has an age."""


@dataclass(frozen=True)
class ServiceHealth:
    """What is well and what is not. No text in it quotes a configuration or an address."""

    checks: tuple[HealthCheck, ...]
    at: datetime

    @property
    def good(self) -> bool:
        """The API can do its work: what is wrong, if anything, is only said."""
        return not any(check.problem for check in self.checks if check.name not in SAID)

    @property
    def status(self) -> str:
        """``ok``, ``degraded`` where something is wrong that is only said, or ``failing``."""
        if not self.good:
            return "failing"
        return "degraded" if any(check.problem for check in self.checks) else "ok"


def look(plane: Plane) -> ServiceHealth:
    """Looks at the record, and at what the running service wrote into it. Raises nothing."""
    now = plane.doors.now()
    try:
        with plane.parts() as parts:
            passes = {one.name: one for one in parts.store.passes()}
    except QuarantineError as error:
        # The text may have the database's address in it: that is for the log.
        LOG.warning("health: %s", error)
        problem = "does not answer, or has the schema of another release; the log says more"
        return ServiceHealth((*_unknown(problem), *_audit()), now)
    checks = (_last(passes.get(name), name, now) for name in _PASSES)
    return ServiceHealth((HealthCheck("database", ""), *checks, *_audit()), now)


_PASSES: Final = (SWEEP, PLACEMENT, BROKER)


def _last(last: GoodPass | None, name: str, now: datetime) -> HealthCheck:
    if last is None:
        return HealthCheck(name, "none has gone well yet: see 'nvme-quarantine run'")
    # The service notes one each minute. A time that is far to come was noted before our clock was
    # set back, and a service that died since would pass for a living one until that time is here.
    if is_to_come(last.at, now):
        return HealthCheck(name, "the last good one is noted for a time to come: not known")
    # Another process wrote the time, maybe on another machine: its clock may be ahead of ours.
    age = max(0.0, (now - last.at).total_seconds())
    late = f"the last good one was {age:.0f} s ago, expected one in {last.within:.0f} s"
    return HealthCheck(name, late if age > last.within else "", round(age, 1))


def _audit() -> tuple[HealthCheck, ...]:
    file = audit_file()
    if file is None:
        return ()
    problem = f"{file.missing} lines are missing in it; the log has them" if file.missing else ""
    try:
        # Asked anew: the file may have become unwritable since the last line.
        require_audit()
    except BadInputError as error:
        LOG.warning("health: %s", error)
        problem = "cannot be written, and acts of people are refused; the log says more"
    return (HealthCheck(AUDIT, problem),)


def _unknown(problem: str) -> tuple[HealthCheck, ...]:
    """Where the record does not tell."""
    return HealthCheck("database", problem), *(HealthCheck(name, "not known") for name in _PASSES)


class SharedLook:
    """For a process that many ask: one look at a time, whose answer all of them get, in time.

    Else each one's look would wait for a connection of its own to a record that hangs.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        """Never held while something is looked at."""
        self._running: Future[ServiceHealth] | None = None
        self._last: tuple[float, ServiceHealth] | None = None

    def look(self) -> ServiceHealth:
        """As :func:`look`."""
        now = self._plane.doors.monotonic()
        with self._lock:
            if self._last is not None and now - self._last[0] < SAME_SECONDS:
                return self._last[1]
            running = self._running
            # A daemon, and not the caller's thread: it may hang with the record for as long as it
            # likes, and whoever asks meanwhile waits for this one look and begins no other.
            if running is None:
                running = Future()
                threading.Thread(
                    target=self._run, args=[running], name="health", daemon=True
                ).start()
                self._running = running
        try:
            return running.result(LOOK_SECONDS)
        except TimeoutError:
            # The look goes on. Its result is for whoever asks soon after it.
            problem = f"did not answer within {LOOK_SECONDS:g} s"
            return ServiceHealth(_unknown(problem), self._plane.doors.now())

    def _run(self, running: Future[ServiceHealth]) -> None:
        try:
            found = look(self._plane)
        except BaseException as error:
            # A look that dies without an answer would be waited for by all who ask later.
            with self._lock:
                self._running = None
            running.set_exception(error)
            return
        with self._lock:
            self._running = None
            self._last = self._plane.doors.monotonic(), found
        running.set_result(found)


_SHARED: Final[weakref.WeakKeyDictionary[Plane, tuple[int, SharedLook]]] = (
    weakref.WeakKeyDictionary()
)
_SHARING: Final = threading.Lock()


def shared_look(plane: Plane) -> ServiceHealth:
    """As :func:`look`, by the one :class:`SharedLook` of this plane in this process."""
    with _SHARING:
        process, shared = _SHARED.get(plane, (0, None))
        if shared is None or process != os.getpid():
            # Forked off: the thread of a look that was under way stayed behind.
            shared = SharedLook(plane)
            _SHARED[plane] = os.getpid(), shared
    return shared.look()
