"""How many commands of a case write to its drive, at the most. Pure.

Some drives bring their health log (02h) up to date late: its counters go on growing after the
report, by what the case itself wrote. Whoever looks then has to know how much that may be.
Each of these commands carries 4 KiB or less.

The figures are those of :mod:`eraser.case.probes` and :mod:`eraser.proof.visit`, and of all that a
case sends besides nothing writes user data. Tests count what a drive was sent, and hold this
against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.protocol.policy import Verification
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import EraseReport

_BLOCK = 4096
_ENDS = 2
"""The first and the last block of a namespace, where none of the drawn ones is."""
_SMALL = 8
"""Of so many canaries one is written sector by sector; and to so many comes one more, which is
deallocated."""
_ROUNDS = 2
"""Of a visit, each with all of the acts below."""
_ACTS = (1, 1, 4, 8)
"""So many canaries there are for each block of an act that writes: single sectors, with FUA, Write
Zeroes, 4 KiB. Host Write Commands count what writes user data, and need not transfer it (Base 2.1,
1.6.6), so a drive may count Write Zeroes too."""
_SPARE = 16
"""One in so many on top: the temporary namespaces of a layout that was changed are in no report,
and each has ends of its own."""
_RESUMED, _ATTEMPTS = 8, 16
"""More is not counted of either, or a host's word would allow for any number of writes: no case
sends a command more often (:mod:`eraser.case.sanitize` and :mod:`eraser.case.format`: eight times
that were interrupted, and a few that met others' or failed), and what more runs left without an
entry is counted by the time of the report."""


def at_most(asked: Verification, report: EraseReport) -> int:
    """The User Data Out commands (Base 2.1, 1.6.6) of the case that a report is about; 0 for one
    that tells of no namespace.

    A run that died may have planted, and have visited, without an entry in any journal.
    """
    cases = [_Writes.of(asked, layouts) for layouts in _layouts(report)]
    resumed = min(report.resumed, _RESUMED)
    plantings = _plantings(report) + resumed
    visits = sum(visit.wrote for visit in report.visits) + resumed
    most = plantings * max(each.planting for each in cases)
    most += visits * max(each.visit for each in cases)
    return most + -(-most // _SPARE)


def _plantings(report: EraseReport) -> int:
    """How often canaries were planted in all namespaces: before each command, for Format once for
    all namespaces."""
    sanitized, formatted = 0, Counter[int]()
    for method in report.methods:
        if method.method.is_sanitize:
            sanitized += min(method.attempts, _ATTEMPTS)
        else:
            formatted[method.nsid] += min(method.attempts, _ATTEMPTS)
    rounds = max(formatted.values(), default=0)
    before, after = (
        {each.nsid for each in (facts.namespaces if facts else ())}
        for facts in (report.facts_before, report.facts_after)
    )
    # A layout that was restored is formatted by itself, and may have none of the numbers of before.
    return sanitized + rounds + (bool(formatted) and before != after)


def _layouts(report: EraseReport) -> Iterator[tuple[NamespaceLayout, ...]]:
    """What canaries may have stood in: the namespaces before, and those after the erase."""
    read = () if report.verification is None else report.verification.namespaces
    temporary = tuple(
        # Which sectors they had, no report tells: the smallest are the most commands.
        NamespaceLayout(each.nsid, each.blocks * _BLOCK // 512, 512, 0)
        for each in read
        if each.temporary
    )
    for facts in (report.facts_before, report.facts_after):
        yield (*(facts.namespaces if facts else ()), *temporary)


@dataclass(frozen=True)
class _Writes:
    """Commands of one planting and of one visit, over all namespaces of a layout."""

    planting: int = 0
    visit: int = 0

    @classmethod
    def of(cls, asked: Verification, layouts: tuple[NamespaceLayout, ...]) -> _Writes:
        # One that does not describe itself gets no canary.
        sizes = [(-(-each.size // _BLOCK), each.block_bytes) for each in layouts if each.size > 0]
        total = sum(blocks for blocks, _bytes in sizes)
        planting = visit = 0
        for blocks, block_bytes in sizes:
            # As eraser.proof.sampling.share has it: at least one in each namespace.
            wanted = -(-asked.canaries * blocks // total)
            standing, others = _drawn(blocks, wanted), _drawn(blocks, wanted // _SMALL)
            pieces = max(1, _BLOCK // block_bytes)
            # The first one by sectors is the second of all.
            by_sector = -(-standing // _SMALL)
            planting += standing + by_sector * (pieces - 1) + others
            places = -(-asked.visit * blocks // total)
            canaries = standing + others
            acts = sum(_ENDS + min(places, canaries // each) for each in _ACTS)
            visit += _ROUNDS * acts if canaries and places else 0
        return cls(planting, visit)


def _drawn(blocks: int, wanted: int) -> int:
    """The places of ``wanted`` among ``blocks``: :func:`eraser.proof.sampling.places` draws one
    from each stratum, and adds the ends."""
    if not wanted:
        return 0
    return min(blocks, -(-blocks // max(1, blocks // wanted)) + _ENDS)
