"""What a host may write and no erase can be: each was certified once, and is held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from eraser.protocol.policy import Policy, Verification
from eraser.protocol.report import (
    ActRecord,
    CommandRecord,
    EraseReport,
    NamespaceId,
    StatusCount,
    Verdict,
    VisitRecord,
)
from quarantine.evidence import display
from quarantine.evidence.certificate import Link
from quarantine.evidence.checks import bounds, clocks
from quarantine.rules.reports.check import Ruling, check
from tests.unit.quarantine.evidence.test_certificate import issue
from tests.unit.quarantine.evidence.test_check import CLEAR_POLICY, CLEARED, ruled
from tests.unit.quarantine.testimony import (
    BLOCK,
    BLOCKS,
    COUNTS,
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    ORDER,
    RECORD,
    REPORT,
    SAMPLED,
    VERIFICATION,
    command,
)

NOISE = replace(COUNTS, zeros=0, random=SAMPLED, uniform="", expected="unknown")
SILENT = replace(FACTS, dlfeat=(0,))


def read(**changes: Any) -> EraseReport:
    return replace(REPORT, verification=replace(VERIFICATION, **changes))


def counted(**changes: Any) -> EraseReport:
    return read(namespaces=(replace(COUNTS, **changes),))


def noisy(**changes: Any) -> EraseReport:
    """Noise where nothing is promised: known places bear the claim."""
    return replace(read(namespaces=(NOISE,), expected="unknown", **changes), facts_after=SILENT)


def test_an_honest_one_is_certified() -> None:
    assert ruled(REPORT) == (Ruling.CERTIFY, "")
    assert ruled(noisy()) == (Ruling.CERTIFY, "")


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (noisy(canaries_planted=10**12, canaries_checked=10**12), f"{BLOCKS} canaries"),
        (noisy(fingerprints_taken=2**120, fingerprints_checked=2**120), f"{BLOCKS} fingerprints"),
    ],
)
def test_no_more_places_are_known_than_there_are_blocks(report: EraseReport, word: str) -> None:
    """Their number is what the sentence over noise rests on."""
    ruling, reason = ruled(report)
    assert ruling is Ruling.HOLD
    assert f"expected {word} to be checked at most" in reason


def after(*sent: CommandRecord) -> EraseReport:
    return replace(REPORT, commands=(*REPORT.commands, *sent))


def before(**changes: Any) -> EraseReport:
    layout = replace(FACTS.namespaces[0], **changes)
    return replace(REPORT, facts_before=replace(FACTS, namespaces=(layout,)))


def io(opcode: int, status: int | None = 0) -> CommandRecord:
    argv = ("nvme", "io-passthru", "/dev/nvme0n1", f"--opcode={opcode:#x}")
    return replace(command(opcode, 0, status, nsid=1), argv=argv)


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        (io(0x01), "the I/O command 0x01"),
        (io(0x08), "the I/O command 0x08"),
        (io(0x01, None), "the I/O command 0x01"),
        (command(0x84, 4), "a Sanitize"),
        (command(0x84, 3, None), "a Sanitize"),
        (command(0x80, 0), "a Format"),
        (command(0x80, 0x200, None), "a Format"),
        (command(0x0D, 0), "a namespace that was created"),
        (command(0x10, 0), "a Firmware Commit"),
        (command(0x11, 0), "a Firmware Image Download"),
        (command(0x20, 0), "a Capacity Management"),
        (command(0x81, 0), "a Security Send"),
    ],
)
def test_nothing_is_written_after_the_last_technique(sent: CommandRecord, word: str) -> None:
    ruling, reason = ruled(after(sent))
    assert ruling is Ruling.HOLD
    assert f"after the last technique, found {word}" in reason


@pytest.mark.parametrize(
    "sent",
    [
        (command(0x09, 0x10),),
        (command(0x15, 0), command(0x15, 1)),
        (io(0x02), io(0x05), io(0x0C), io(0x00)),
        # Reservations: registered, acquired, released.
        (io(0x0D), io(0x11), io(0x15)),
        (command(0x0D, 1), command(0x84, 1), command(0x84, 5)),
        # What the drive refused has done nothing.
        (io(0x01, 0x120), command(0x80, 0, 0x10A), command(0x84, 4, 0x1D)),
    ],
)
def test_what_changes_nothing_on_the_medium_may_follow(sent: Sequence[CommandRecord]) -> None:
    assert ruled(after(*sent)) == (Ruling.CERTIFY, "")


def test_rounds_are_told_apart_by_place_and_not_by_a_clock_that_was_set_back() -> None:
    """The second round's commands stand last, and by the clock after their end."""
    late = tuple(replace(c, started_at="2026-11-20T12:00:00Z") for c in REPORT.commands)
    again = replace(REPORT, methods=2 * REPORT.methods, commands=(*REPORT.commands, *late))
    assert ruled(again) == (Ruling.CERTIFY, "")


BETWEEN = (command(0x0D, 0), command(0x0D, 1))
"""A namespace, as a next tenant makes one, between two rounds."""


@pytest.mark.parametrize(
    ("changes", "commands"),
    [
        # The second round's sender died before it could say so.
        ({"resumed": 1}, (*REPORT.commands, *BETWEEN, command(0x84, 4))),
        ({}, (*REPORT.commands, *BETWEEN, command(0x84, 4))),
        # It was answered that one runs (1Dh), and took that for its own.
        (
            {"methods": (CRYPTO, BLOCK, CRYPTO, replace(BLOCK, adopted=True))},
            (*REPORT.commands, *BETWEEN, command(0x84, 4), command(0x84, 2, 0x1D)),
        ),
        # Its first attempt's command is on record, its second's is not.
        (
            {"resumed": 1, "methods": (CRYPTO, replace(BLOCK, attempts=2))},
            (*REPORT.commands, *BETWEEN),
        ),
    ],
)
def test_what_came_between_two_rounds_came_not_after_the_last(
    changes: dict[str, Any], commands: tuple[CommandRecord, ...]
) -> None:
    rounds = {"methods": 2 * REPORT.methods, **changes}
    assert ruled(replace(REPORT, commands=commands, **rounds)) == (Ruling.CERTIFY, "")


def test_a_technique_whose_command_was_lost_with_its_sender_has_no_after() -> None:
    resumed = replace(REPORT, resumed=1, commands=(command(0x84, 4), command(0x09, 1)))
    assert ruled(resumed) == (Ruling.CERTIFY, "")


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (read(namespaces=(NOISE,)), "expected no noise after a block erase"),
        (replace(REPORT, facts_after=SILENT), "the promise of its DLFEAT, unknown, found zeros"),
        (
            replace(REPORT, facts_after=replace(FACTS, dlfeat=(2,))),
            "the promise of its DLFEAT, ones, found zeros",
        ),
        (read(expected="zeros, guaranteed by the maker"), "found 'zeros, guaranteed"),
        (counted(expected="nothing at all"), "found 'nothing at all'"),
    ],
)
def test_a_promise_is_what_the_drive_says(report: EraseReport, word: str) -> None:
    ruling, reason = ruled(report)
    assert ruling is Ruling.HOLD
    assert word in reason


def test_a_promise_that_no_byte_shows_needs_probes() -> None:
    """As where nothing is promised."""
    none = {
        "canaries_planted": 0, "canaries_checked": 0, "fingerprints_taken": 0,
        "fingerprints_checked": 0, "missing_probes": ("canaries: refused",),
    }  # fmt: skip
    bare = replace(FACTS, dlfeat=())
    assert ruled(read(**none)) == (Ruling.CERTIFY, "")
    assert ruled(replace(REPORT, facts_after=bare)) == (Ruling.CERTIFY, "")
    ruling, reason = ruled(replace(read(**none), facts_after=bare))
    assert ruling is Ruling.HOLD
    assert "the reads decide nothing" in reason


ROOM = replace(COUNTS, nsid=7, blocks=1000, read=1000, zeros=1000, reread=9, temporary=True)


@pytest.mark.parametrize(
    ("oacs", "sent", "word"),
    [
        (0x1E, (), "found 0 creations and 0 deletions"),
        (0x1E, (command(0x0D, 0),), "found 1 creations and 0 deletions"),
        (0x16, (command(0x0D, 0), command(0x0D, 1)), "OACS bit 3"),
    ],
)
def test_a_temporary_namespace_was_made_and_deleted(
    oacs: int, sent: tuple[CommandRecord, ...], word: str
) -> None:
    facts = replace(FACTS, oacs=oacs)
    report = replace(
        read(namespaces=(COUNTS, ROOM)), facts_before=facts, facts_after=facts,
        commands=(*sent[:1], *REPORT.commands, *sent[1:]),
    )  # fmt: skip
    ruling, reason = ruled(report)
    assert ruling is Ruling.HOLD
    assert word in reason


def test_an_interrupted_case_may_have_lost_what_it_sent() -> None:
    assert ruled(replace(read(namespaces=(COUNTS, ROOM)), resumed=1)) == (Ruling.CERTIFY, "")


ACT = ActRecord("single blocks", 8, 0, 0, 0, 0, 8)


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (replace(REPORT, resumed=-1), "resumed"),
        (replace(REPORT, methods=(CRYPTO, replace(BLOCK, attempts=-3))), "attempts"),
        (replace(REPORT, methods=(CRYPTO, replace(BLOCK, attempts=10**30))), "attempts"),
        (replace(REPORT, methods=(CRYPTO, replace(BLOCK, seconds=-1e30))), "seconds"),
        (read(seconds=-5.0), "verification: seconds"),
        (read(seconds=float("inf")), "verification: seconds"),
        (read(bytes_read=-1), "bytes_read"),
        (read(sampled=10**400), "sampled"),
        (replace(REPORT, health=replace(HEALTH, available_spare=-1)), "available_spare"),
        (replace(REPORT, health=replace(HEALTH, available_spare=1000)), "available_spare"),
        (replace(REPORT, health=replace(HEALTH, media_errors_after=-9)), "media errors"),
        (replace(REPORT, facts_after=replace(FACTS, nvme_version=-1)), "nvme_version"),
        (replace(REPORT, facts_after=replace(FACTS, unallocated_bytes=-5)), "unallocated_bytes"),
        (replace(REPORT, facts_before=replace(FACTS, fna=0x100)), "before: fna"),
        (replace(REPORT, facts_after=replace(FACTS, dlfeat=(-1,))), "after: dlfeat"),
        (before(blocks=-1), "before: namespace 1: blocks"),
        (before(blocks=2**64), "before: namespace 1: blocks"),
        (before(metadata_bytes=-8), "before: namespace 1: metadata_bytes"),
        (replace(REPORT, visits=(VisitRecord(2, False, (ACT,), (), 1e30),)), "visit: idle"),
        (
            replace(
                REPORT,
                visits=(VisitRecord(2, False, (replace(ACT, done=2**100, blocks=2**100),), ()),),
            ),
            "single blocks: done",
        ),
        (counted(reread=BLOCKS + 1), "read again at most"),
        (counted(by_passthrough=10**9), "by passthrough at most"),
        (counted(statuses=(StatusCount(0x281, -9),)), "counts by status"),
        (
            replace(REPORT, facts_after=replace(FACTS, ids=(NamespaceId(1, "zz", ""),))),
            "expected nguid in hexadecimal",
        ),
        (
            replace(REPORT, facts_after=replace(FACTS, ids=(NamespaceId(1, "", "seen by us"),))),
            "expected eui64 in hexadecimal",
        ),
        (
            replace(REPORT, facts_after=replace(FACTS, ids=2 * FACTS.ids)),
            "ids of each namespace once",
        ),
        (read(seed="all clean, says the inspector"), "seed"),
    ],
)
def test_numbers_and_ids_that_cannot_be_are_not_signed(report: EraseReport, word: str) -> None:
    ruling, reason = ruled(report)
    assert ruling is Ruling.HOLD
    assert word in reason


@pytest.mark.parametrize("sampled", [0, -5, BLOCKS - 1])
def test_a_full_reading_sampled_all(sampled: int) -> None:
    whole = replace(COUNTS, read=BLOCKS, zeros=BLOCKS)
    done = VERIFICATION.done.FULL
    report = read(done=done, sampled=sampled, namespaces=(whole,))
    ruling, reason = ruled(report)
    assert ruling is Ruling.HOLD
    assert f"expected all {BLOCKS} blocks sampled" in reason
    assert ruled(read(done=done, sampled=BLOCKS, namespaces=(whole,))) == (Ruling.CERTIFY, "")


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.99, "0.99"), (0.999, "0.999"), (0.5, "0.5"), (0.9999999, "0.999999"),
     (1 - 1e-15, "0.999999"), (0.00001, "0.00001")],
)  # fmt: skip
def test_no_probability_is_printed_larger_than_it_is(share: float, said: str) -> None:
    assert display.probability(share) == said


def test_a_policy_of_seven_nines_is_not_printed_as_certainty() -> None:
    asked = Verification(confidence=0.9999999, residual=0.001)
    order = replace(ORDER, policy=replace(ORDER.policy, verification=asked))
    report = read(confidence=0.9999999, residual=0.001)
    assert ruled(report, order) == (Ruling.CERTIFY, "")
    sentence = issue(Link(), report).certificate.verification.sentence
    assert "with a probability of 0.999999." in sentence


LOST = replace(CRYPTO, verdict=Verdict.UNKNOWN, reason="its log could not be read", changed=False)


@pytest.mark.parametrize("log", ["", "AAAA", "not Base64"])
def test_a_run_that_another_stands_for_may_have_no_log(log: str) -> None:
    """A report that stops its judge is neither answered nor held, and comes again for ever."""
    report = replace(REPORT, methods=(replace(LOST, log_after=log), CRYPTO, BLOCK))
    assert ruled(report) == (Ruling.CERTIFY, "")
    said = issue(Link(), report).certificate.sanitization.techniques[0].reported
    assert "Log 81h after it is not on record" in said
    refused = replace(LOST, verdict=Verdict.NOT_ERASED, reason="refused", log_after=log)
    allowed = replace(ORDER, policy=Policy(allow_failed=True))
    assert ruled(replace(REPORT, methods=(refused, BLOCK)), allowed) == (Ruling.CERTIFY, "")


def test_one_whose_success_is_claimed_has_one() -> None:
    ruling, reason = ruled(replace(REPORT, methods=(CRYPTO, replace(BLOCK, log_after=""))))
    assert ruling is Ruling.HOLD
    assert "log after" in reason


def test_a_report_of_thousands_of_records_is_looked_through_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All hosts' reports share one lane: who writes many records and commands keeps nobody."""
    read_times = 0

    def moment(text: str) -> datetime | None:
        nonlocal read_times
        read_times += 1
        return real(text)

    real = clocks.moment
    monkeypatch.setattr(clocks, "moment", moment)
    none = replace(FACTS, sanicap=0)
    early = replace(FORMAT, ended_at="2026-11-20T10:00:05Z")
    report = replace(
        CLEARED, methods=(early,) * 4096, commands=(command(0x80, 0x200),) * 3500,
        facts_before=none, facts_after=none,
    )  # fmt: skip
    check(replace(ORDER, policy=CLEAR_POLICY), report, RECORD)
    # By each command for each record it were some three millions, and twelve seconds.
    assert 3500 < read_times < 5 * (3500 + 4096)


def test_a_report_has_so_many_records_at_most() -> None:
    report = replace(REPORT, methods=(*[CRYPTO] * 4096, BLOCK))
    assert "expected 4096 records of methods at most" in ruled(report)[1]


@pytest.mark.parametrize("changes", [{"blocks": 2**127}, {"block_bytes": -(2**127)}])
def test_what_no_reader_takes_is_not_signed(
    changes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link that nobody can read breaks the chain of all hosts, for ever."""
    monkeypatch.setattr(bounds, "contradictions", lambda _report: ())  # they would name it first
    ruling, reason = ruled(before(**changes))
    assert ruling is Ruling.HOLD
    assert "its certificate.drive.namespaces_before[0].size: expected a number" in reason
