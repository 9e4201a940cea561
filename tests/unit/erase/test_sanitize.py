"""What log 81h says about our command, row by row. The bytes are packed as the standard says."""

from __future__ import annotations

import struct

import pytest

from eraser.controller.spec import SanitizeLog
from eraser.erase.sanitize import (
    AfterLoss,
    SanitizeStanding,
    Watchdog,
    after_loss,
    assess,
    attach,
    verdict,
)
from eraser.protocol.report import Verdict

NEVER, SUCCESS, RUNNING, FAILED, SUCCESS_DEALLOCATED = range(5)
CRYPTO, BLOCK, FOREIGN = 4, 2, 0x0B
VERDICTS = {SanitizeStanding.SUCCEEDED: Verdict.ERASED, SanitizeStanding.FAILED: Verdict.NOT_ERASED}


def log(status: int, cdw10: int = 0, *, gde: bool = False, progress: int = 0xFFFF) -> SanitizeLog:
    """512 bytes of log 81h (Base 2.0, 5.16.1.25), parsed."""
    return SanitizeLog.parse(
        struct.pack("<HHI", progress, status | gde << 8, cdw10).ljust(512, b"\0")
    )


@pytest.mark.parametrize(
    ("before", "now", "seen", "standing"),
    [
        # ours, and the log moved
        (log(NEVER), log(SUCCESS, BLOCK, gde=True), False, SanitizeStanding.SUCCEEDED),
        (
            log(SUCCESS, CRYPTO, gde=True),
            log(SUCCESS, BLOCK, gde=True),
            False,
            SanitizeStanding.SUCCEEDED,
        ),
        (log(SUCCESS, BLOCK), log(SUCCESS, BLOCK, gde=True), False, SanitizeStanding.SUCCEEDED),
        (
            log(SUCCESS, BLOCK, gde=True),
            log(SUCCESS, BLOCK, gde=True),
            True,
            SanitizeStanding.SUCCEEDED,
        ),
        (log(FAILED, BLOCK), log(SUCCESS, BLOCK), False, SanitizeStanding.SUCCEEDED),
        (log(NEVER), log(SUCCESS_DEALLOCATED, BLOCK), False, SanitizeStanding.SUCCEEDED),
        # a success that is not ours, or not new: the classic false pass
        (
            log(SUCCESS, BLOCK, gde=True),
            log(SUCCESS, BLOCK, gde=True),
            False,
            SanitizeStanding.STALE,
        ),
        (log(SUCCESS, BLOCK), log(SUCCESS, BLOCK), False, SanitizeStanding.STALE),
        (log(NEVER), log(SUCCESS, CRYPTO, gde=True), False, SanitizeStanding.STALE),
        (log(NEVER), log(SUCCESS, CRYPTO, gde=True), True, SanitizeStanding.STALE),
        (None, log(SUCCESS, BLOCK, gde=True), False, SanitizeStanding.STALE),
        # nothing ran at all (libnvme 1.12 gave an all-zero log with success)
        (log(NEVER), log(NEVER), False, SanitizeStanding.NOTHING),
        (log(SUCCESS, BLOCK), log(NEVER), False, SanitizeStanding.NOTHING),
        # failures
        (log(NEVER), log(FAILED, BLOCK), False, SanitizeStanding.FAILED),
        (log(FAILED, BLOCK), log(FAILED, BLOCK), False, SanitizeStanding.FAILED),
        # not at its end
        (log(NEVER), log(RUNNING, BLOCK, progress=5), False, SanitizeStanding.RUNNING),
        (log(NEVER), log(RUNNING, FOREIGN, progress=5), False, SanitizeStanding.FOREIGN),
        (None, log(SUCCESS, BLOCK, gde=True), True, SanitizeStanding.SUCCEEDED),
    ],
)
def test_assess(
    before: SanitizeLog | None, now: SanitizeLog, seen: bool, standing: SanitizeStanding
) -> None:
    found = assess(BLOCK, before, now, running_seen=seen)
    assert found.standing is standing
    assert verdict(found) is VERDICTS.get(standing, Verdict.UNKNOWN)
    assert found.reason or standing is SanitizeStanding.SUCCEEDED
    assert "\n" not in found.reason


@pytest.mark.parametrize("purged", [True, False])
def test_a_purge_that_was_asked_for_has_to_be_reported(purged: bool) -> None:
    """SSTAT bit 11 is PRGD, dword 10's is PREQ."""
    asked = BLOCK | 1 << 11
    now = log(SUCCESS | purged << 11, asked, gde=True)
    found = assess(asked, log(NEVER), now, running_seen=True)
    assert found.standing is (SanitizeStanding.SUCCEEDED if purged else SanitizeStanding.CLEARED)
    assert (verdict(found) is Verdict.ERASED) == purged
    assert ("PRGD" in found.reason) == (not purged)
    assert after_loss(asked, log(NEVER), now) is AfterLoss.TAKE


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (log(NEVER), log(NEVER), AfterLoss.SEND),
        (log(SUCCESS, BLOCK), log(SUCCESS, BLOCK), AfterLoss.SEND),
        (log(SUCCESS, CRYPTO, gde=True), log(SUCCESS, CRYPTO, gde=True), AfterLoss.SEND),
        (log(NEVER), log(RUNNING, BLOCK, progress=9), AfterLoss.WATCH),
        (log(NEVER), log(RUNNING, FOREIGN, progress=9), AfterLoss.WAIT),
        (log(NEVER), log(SUCCESS, BLOCK, gde=True), AfterLoss.TAKE),
        (log(SUCCESS, BLOCK), log(SUCCESS, BLOCK, gde=True), AfterLoss.TAKE),
        (log(NEVER), log(FAILED, BLOCK), AfterLoss.TAKE),
        (log(FAILED, BLOCK), log(FAILED, BLOCK), AfterLoss.SEND),
    ],
)
def test_a_lost_exit_is_decided_from_the_log(
    before: SanitizeLog, now: SanitizeLog, expected: AfterLoss
) -> None:
    assert after_loss(BLOCK, before, now) is expected


@pytest.mark.parametrize(
    ("now", "place"),
    [
        (log(RUNNING, CRYPTO, progress=1), 0),
        (log(RUNNING, BLOCK, progress=1), 1),
        (log(RUNNING, FOREIGN, progress=1), None),
        (log(RUNNING, BLOCK | 1 << 9, progress=1), None),
        (log(SUCCESS, BLOCK, gde=True), None),
        (log(NEVER), None),
    ],
)
def test_a_running_sanitize_is_adopted_by_its_dword_10(now: SanitizeLog, place: int | None) -> None:
    assert attach((CRYPTO, BLOCK), now) == place


def test_the_watchdog_is_patient_while_progress_moves() -> None:
    dog = Watchdog(started=0.0, limit=1000.0, stuck=10.0)
    for second in range(0, 900, 9):
        assert dog.look(second, float(second)) == ""
    assert dog.look(891, 900.9) == ""
    assert "stuck" in dog.look(891, 901.0)


def test_the_watchdog_has_an_overall_limit() -> None:
    dog = Watchdog(started=0.0, limit=20.0, stuck=10.0)
    assert [bool(dog.look(second, float(second))) for second in (0, 9, 18, 20)] == [
        False,
        False,
        False,
        True,
    ]


def test_a_drive_may_stand_still_for_as_long_as_it_said_that_it_takes() -> None:
    def estimating(cdw10: int) -> int | None:
        raw = struct.pack("<HHI3I", 0, RUNNING, cdw10, 0xFFFFFFFF, 3600, 5)
        return SanitizeLog.parse(raw.ljust(512, b"\0")).estimate

    assert [estimating(cdw10) for cdw10 in (BLOCK, CRYPTO, 3, 1)] == [3600, 5, None, None]
    dog = Watchdog(0.0, 5000, 900)
    dog.allow(None)
    dog.allow(3600)
    assert dog.look(0, 1) == ""
    assert dog.look(0, 3000) == ""
    assert "stuck" in dog.look(0, 3601)
    endless = Watchdog(0.0, 5000, 900)
    endless.allow(0xFFFFFFFE)
    assert endless.look(0, 4999) == ""
    assert endless.look(0, 5000)
