"""What log 81h says about *our* sanitize: decided without I/O.

A success alone proves nothing: it may be an older one's (the classic false pass), or another
host's. Ours is a success with our SCDW10 in a log that was seen to change after our command.
Numbers: NVM Express Base 2.0, 5.16.1.25 (Sanitize Status log).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from eraser.controller.spec import SanitizeLog, SanitizeState
from eraser.erase.plan import PURGE_REQUIRED
from eraser.protocol.report import Verdict

SPROG_FULL = 65536
"""SPROG counts in parts of this; FFFFh stands when no sanitize is running."""


class SanitizeStanding(enum.StrEnum):
    """How the newest sanitize in the log relates to our command."""

    RUNNING = "running"
    """Ours, not at its end."""
    FOREIGN = "foreign"
    """Running, with another SCDW10: somebody else's."""
    SUCCEEDED = "succeeded"
    """Ours, at its end, and the log changed after our command."""
    STALE = "stale"
    """The log does not show our command: an older or another's end, unchanged."""
    FAILED = "failed"
    """Ended in failure (SSTAT 3)."""
    CLEARED = "cleared"
    """Ours, at its end, and the drive does not report the purge that it was asked for."""
    NOTHING = "nothing"
    """The log says that no sanitize ever ran."""


@dataclass(frozen=True)
class Assessment:
    """A standing, whether the log changed after our command, and one line for people."""

    standing: SanitizeStanding
    changed: bool
    reason: str


def _running(log: SanitizeLog) -> bool:
    return log.state is SanitizeState.RUNNING


def changed_since(before: SanitizeLog | None, now: SanitizeLog, *, running_seen: bool) -> bool:
    """Whether ``now`` must be about a command sent after ``before`` was read.

    Seen running with our SCDW10, another SCDW10 or state than before, or Global Data Erased
    gone from 0 to 1. Without ``before`` only a look at it running counts.
    """
    if running_seen:
        return True
    if before is None:
        return False
    return (
        before.cdw10 != now.cdw10
        or before.state is not now.state
        or (not before.global_data_erased and now.global_data_erased)
    )


def assess(
    cdw10: int, before: SanitizeLog | None, now: SanitizeLog, *, running_seen: bool
) -> Assessment:
    """Holds the log against our command ``cdw10``; ``before`` was read just before it was sent."""
    # SCDW10 is all that the log tells of the sender.
    ours = now.cdw10 == cdw10
    if _running(now):
        if ours:
            return Assessment(SanitizeStanding.RUNNING, True, "log 81h: running")
        return Assessment(
            SanitizeStanding.FOREIGN,
            False,
            f"log 81h: another sanitize is running (SCDW10 {now.cdw10:#x}, ours {cdw10:#x})",
        )
    # Our dword 10 alone proves nothing: an older sanitize of the same plan left the same one.
    changed = ours and changed_since(before, now, running_seen=running_seen)
    if now.state is SanitizeState.NEVER:
        return Assessment(
            SanitizeStanding.NOTHING,
            False,
            "log 81h: expected our sanitize, found that none ever ran (SSTAT 0)",
        )
    if now.state is SanitizeState.FAILED:
        return Assessment(
            SanitizeStanding.FAILED,
            changed,
            f"log 81h: sanitize failed (SSTAT 3, SCDW10 {now.cdw10:#x})",
        )
    # The drive was asked to purge or to fail: a success without PRGD contradicts itself.
    if changed and now.cdw10 & PURGE_REQUIRED and not now.purged:
        return Assessment(
            SanitizeStanding.CLEARED,
            True,
            "log 81h: expected the drive to report that it purged (PRGD), as it was asked, found "
            "not",
        )
    if changed:
        return Assessment(SanitizeStanding.SUCCEEDED, True, "")
    return Assessment(
        SanitizeStanding.STALE,
        False,
        "log 81h: expected a success newer than our command, found "
        + ("an older one, unchanged" if ours else f"one of another command ({now.cdw10:#x})"),
    )


class AfterLoss(enum.StrEnum):
    """What to do about an intent whose result was lost: killed, or the power went."""

    WATCH = "watch"
    """It is running: poll on, send nothing."""
    TAKE = "take"
    """It ended: take what the log says."""
    SEND = "send"
    """The log is as it was before the intent: the command never reached the drive."""
    WAIT = "wait"
    """Somebody else's sanitize is running: wait for its end, then decide again."""


def after_loss(cdw10: int, before: SanitizeLog, now: SanitizeLog) -> AfterLoss:
    """Decides from the log alone whether a command of unknown fate was executed."""
    # Nothing that the lost run saw is known here, so only the two logs count.
    found = assess(cdw10, before, now, running_seen=False)
    if found.standing is SanitizeStanding.RUNNING:
        return AfterLoss.WATCH
    if found.standing is SanitizeStanding.FOREIGN:
        return AfterLoss.WAIT
    if found.standing in (SanitizeStanding.SUCCEEDED, SanitizeStanding.CLEARED) or (
        # An unchanged failure is one of before our intent: the command has still to be sent.
        found.standing is SanitizeStanding.FAILED and found.changed
    ):
        return AfterLoss.TAKE
    return AfterLoss.SEND


def attach(cdw10s: tuple[int, ...], now: SanitizeLog) -> int | None:
    """Which planned sanitize (by place) a running one is, when no journal knows of it.

    ``None`` when nothing runs, or something that the plan would not send. The last place that
    fits is taken: what stands before it cannot have been left out by an eraser.
    """
    if not _running(now):
        return None
    fitting = [place for place, cdw10 in enumerate(cdw10s) if cdw10 == now.cdw10]
    return fitting[-1] if fitting else None


MAX_STRETCH = 8.0
"""What an order says of its model counts up to so many times the policy's limit."""


def patience(configured: float, said: float) -> float:
    """Seconds that a sanitize may stand still, by the policy's limit and the order's word of the
    model. Never less than ``configured``."""
    return max(configured, min(said, MAX_STRETCH * configured))


@dataclass
class Watchdog:
    """Our own patience, because estimates of drives are FFFFFFFFh where it matters most.

    All times are seconds of one monotonic clock. ``stuck`` counts from the last movement of
    SPROG, ``limit`` from the start.
    """

    started: float
    limit: float
    stuck: float
    _progress: int = -1
    _moved: float = 0.0

    def allow(self, estimate: int | None) -> None:
        """A drive that says how long it takes may stand still for that long: some never count.

        ``limit`` stays what it is, so that no estimate makes anybody wait for ever.
        """
        self.stuck = max(self.stuck, estimate or 0)

    def still(self, now: float) -> str:
        """:meth:`look` at a drive that told nothing new."""
        # No SPROG was seen yet, so the time without movement counts from the start.
        if self._progress < 0:
            self._moved = max(self._moved, self.started)
        return self._over(now)

    def look(self, progress: int, now: float) -> str:
        """One line when patience is over, else nothing."""
        if progress != self._progress:
            self._progress, self._moved = progress, now
        return self._over(now)

    def _over(self, now: float) -> str:
        progress = max(self._progress, 0)
        if now - self._moved >= self.stuck:
            return (
                f"sanitize stuck: SPROG stands at {progress} of {SPROG_FULL} for "
                f"{now - self._moved:.0f} s (limit {self.stuck:g} s); it goes on in the drive"
            )
        if now - self.started >= self.limit:
            return (
                f"sanitize not at its end after {now - self.started:.0f} s (limit {self.limit:g} "
                f"s), SPROG {progress} of {SPROG_FULL}; it goes on in the drive"
            )
        return ""


def verdict(assessment: Assessment) -> Verdict:
    """The method's own verdict at its end."""
    if assessment.standing is SanitizeStanding.SUCCEEDED:
        return Verdict.ERASED
    if assessment.standing is SanitizeStanding.FAILED:
        return Verdict.NOT_ERASED
    return Verdict.UNKNOWN
