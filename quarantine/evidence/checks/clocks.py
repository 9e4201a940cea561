"""What times on a certificate can be held against each other. Pure.

Nothing is decided on any clock: one that was set back in the middle of a case, a host's or the
control plane's own, is said to have been, and holds no drive.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from quarantine.evidence.sections import (
    HistoryLine,
    MediumSource,
    Sanitization,
    VerificationStatement,
)

SLACK = timedelta(seconds=60)
"""A clock that is set right steps back by so much at most. More is no order of times."""

SET_BACK = "The host's clock was set back: its times are in no order."
"""Among a certificate's exceptions."""
OURS_SET_BACK = (
    "The control plane's clock was set back in this case, or since the certificate before it: its "
    "times are in no order."
)
"""Among them too. Positions and digests, and no times, say what followed what."""
READ_FIRST = (
    "By these times the verification ended before the last technique began: unless the clock was "
    "set back in between, what was read is not what that technique left."
)
"""The other reading of such times, beside it."""

Pair = tuple[str, str, str, str]
"""What was later and when, than what earlier and when: on one and the same clock."""


def moment(text: str) -> datetime | None:
    """UTC; None for what is no time of ours."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo is not None else None
    except (ValueError, OverflowError):  # the second: in UTC it would be in year 0, or 10000
        return None


def later(one: str, other: str) -> bool:
    """Whether ``one`` lies after ``other``; no order where either is no time."""
    first, second = moment(other), moment(one)
    return first is not None and second is not None and second > first


def earlier(after: str, before: str) -> bool:
    """Whether ``after`` lies before ``before`` by more than a clock's correction."""
    late, early = moment(after), moment(before)
    return late is not None and early is not None and early - late > SLACK


def reversed_pairs(pairs: Iterator[Pair]) -> Iterator[str]:
    """Those that are in the wrong order, a sentence each."""
    for what, after, than, before in pairs:
        if earlier(after, before):
            yield f"{what} at {after}, before {than} at {before}"


def of_host(
    source: MediumSource, done: Sanitization, verified: VerificationStatement
) -> Iterator[Pair]:
    """Times of the host's, as a case goes. What was not told is in no order with anything."""
    yield "the last owner's use ended", source.gate_until, "it began", source.gate_since
    yield "the sanitization finished", done.finished_at, "it started", done.started_at
    ends = [technique.ended_at for technique in done.techniques]
    for before, after in itertools.pairwise(ends):
        yield "a technique ended", after, "the one before it", before
    yield "the verification finished", verified.finished_at, "the sanitization", done.finished_at


def of_controller(history: Sequence[HistoryLine], issued_at: str) -> Iterator[Pair]:
    """Times of the control plane's, as a case goes."""
    told = [line.at for line in history]
    for before, after in itertools.pairwise(told):
        yield "the history goes on", after, "its line before", before
    if told:
        yield "it was issued", issued_at, "its history's end", told[-1]


def ours_was_set_back(history: Sequence[HistoryLine], issued_at: str, previous: str) -> bool:
    """Whether the control plane's own times contradict each other; ``previous`` is when the
    certificate before this one was issued, empty where there is none."""
    return earlier(issued_at, previous) or any(reversed_pairs(of_controller(history, issued_at)))


def was_set_back(source: MediumSource, done: Sanitization, verified: VerificationStatement) -> bool:
    """Whether the host's own times contradict each other."""
    return any(reversed_pairs(of_host(source, done, verified)))


def was_read_first(done: Sanitization, verified: VerificationStatement) -> bool:
    """Whether the verification ended, by the host's times, before the last technique began; or
    before its end, where no beginning was told."""
    if not done.techniques:
        return False
    last = done.techniques[-1]
    return earlier(verified.finished_at, last.started_at or last.ended_at)
