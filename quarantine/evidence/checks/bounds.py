"""Numbers and ids of a report that cannot be, whatever else it says.

Pure. What is signed stays in the chain for ever: a case that was resumed -1 times, a block that was
read twice as often as there are blocks, an EUI64 of words. Each bound is wider than any drive or
host that works; none is a limit of the policy's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from eraser.protocol import codec
from eraser.protocol.report import ControllerFacts, EraseReport, VerificationRecord

_LONGEST: Final = 10 * 365 * 86400.0
"""Seconds. No case, step or wait lasts ten years."""
_OFTEN: Final = 10**6
_BYTE: Final = 0xFF
_WORD: Final = 2**128
"""A counter of the SMART log at its most (Base 2.0, figure 207)."""
_BLOCKS: Final = 2**63
_HEX: Final = {"nguid": re.compile("([0-9a-f]{32})?"), "eui64": re.compile("([0-9a-f]{16})?")}
_SEED: Final = re.compile("([0-9a-f]{16,})?")


def contradictions(report: EraseReport) -> Iterator[str]:
    """A sentence for each."""
    for name, value, most in _numbers(report):
        if not 0 <= value <= most:
            yield f"{name}: expected a number from 0 to {most:g}, found {codec.shown(value)}"
    for facts in (report.facts_before, report.facts_after):
        if facts is not None:
            yield from _ids(facts)
    if report.verification is not None:
        yield from _reads(report.verification)


def _numbers(report: EraseReport) -> Iterator[tuple[str, float, float]]:
    yield "resumed", report.resumed, _OFTEN
    for record in report.methods:
        yield f"{record.method}: attempts", record.attempts, _OFTEN
        yield f"{record.method}: seconds", record.seconds, _LONGEST
    for name, facts in (("before", report.facts_before), ("after", report.facts_after)):
        if facts is not None:
            yield f"{name}: nvme_version", facts.nvme_version, 0xFFFFFFFF
            yield f"{name}: total_bytes", facts.total_bytes, _WORD
            yield f"{name}: unallocated_bytes", facts.unallocated_bytes, _WORD
            for what, value, most in _told(facts):
                yield f"{name}: {what}", value, most
    for visit in report.visits:
        yield "visit: idle", visit.idle, _LONGEST
        for act in visit.acts:
            yield f"{act.act}: done", act.done, _BLOCKS
            yield f"{act.act}: refused", act.refused, _BLOCKS
    if (health := report.health) is not None:
        yield "available_spare", health.available_spare, _BYTE
        yield "spare_threshold", health.spare_threshold, _BYTE
        yield "percentage_used", health.percentage_used, _BYTE
        yield "critical_warning", health.critical_warning, _BYTE
        # The smaller of both may not be negative; codec reads no number above the upper bound.
        yield "media errors", min(health.media_errors_before, health.media_errors_after), _WORD
        yield "data_units_written", health.data_units_written, _WORD
        yield "power_on_hours", health.power_on_hours, _WORD
    if (read := report.verification) is not None:
        yield "verification: seconds", read.seconds, _LONGEST
        yield "verification: bytes_read", read.bytes_read, _WORD
        yield "verification: sampled", read.sampled, sum(n.blocks for n in read.namespaces)


def _told(facts: ControllerFacts) -> Iterator[tuple[str, int, float]]:
    """Each by the width of its field (Base 2.0, figure 275; NVM Command Set 1.0, figure 97)."""
    yield "oacs", facts.oacs, 0xFFFF
    yield "fna", facts.fna, _BYTE
    yield "sanicap", facts.sanicap, 0xFFFFFFFF
    yield from (("dlfeat", each, _BYTE) for each in facts.dlfeat)
    for layout in (*facts.namespaces, *facts.detached):
        where = f"namespace {layout.nsid}"
        yield f"{where}: nsid", layout.nsid, 0xFFFFFFFF
        yield f"{where}: blocks", layout.blocks, 2**64 - 1
        yield f"{where}: block_bytes", layout.block_bytes, 2**63
        yield f"{where}: lba_format", layout.lba_format, 0x3F
        yield f"{where}: metadata_bytes", layout.metadata_bytes, 0xFFFF
        yield f"{where}: protection", layout.protection, _BYTE


def _ids(facts: ControllerFacts) -> Iterator[str]:
    if len({each.nsid for each in facts.ids}) != len(facts.ids):
        yield "expected the ids of each namespace once, found one twice"
    for each in facts.ids:
        for name, shape in _HEX.items():
            if shape.fullmatch(text := getattr(each, name)) is None:
                yield (
                    f"namespace {each.nsid}: expected {name} in hexadecimal or none, "
                    f"found {text[:40]!r}"
                )


def _reads(record: VerificationRecord) -> Iterator[str]:
    if _SEED.fullmatch(record.seed) is None:
        yield f"expected a seed in hexadecimal, found {record.seed[:40]!r}"
    for n in record.namespaces:
        # A rescue counts in each of both readings, and again where one was taken up again.
        for name, count, most in (
            ("read again", n.reread, n.blocks),
            ("by passthrough", n.by_passthrough, 16 * n.blocks),
        ):
            if count > most:
                yield f"namespace {n.nsid}: expected {most} blocks {name} at most, found {count}"
        if any(status.blocks < 0 for status in n.statuses):
            yield f"namespace {n.nsid}: expected counts by status of 0 or more, found fewer"
