"""Blocks that cannot be read, and answers that do not last: one more erase, then a person."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from eraser.protocol.fitness import Health
from eraser.protocol.report import Verdict
from tests.lab.nvme.acts import Reset
from tests.lab.nvme.faults import HEALTHY, Faults, MediaError, WriteFault
from tests.unit.case.bed import SIZE, Bed
from tests.unit.case.test_probes import bed, plain, proof

__all__ = ["bed", "plain"]

CRYPTO, BLOCK = 4, 2
UNRECOVERED_READ = 0x281
LAST = SIZE // 512 - 1


def wear(bed: Bed, heals_after: int) -> None:
    """Its first erase leaves eight blocks at its end that cannot be read, until it was erased often
    enough."""
    worn = MediaError(LAST - 8 * 8 + 1, LAST, erased_only=True)
    bed.drive.set_faults(Faults(media_errors=[worn]))

    def meanwhile(_opcode: int) -> None:
        if len(bed.started) >= heals_after:
            bed.drive.set_faults(HEALTHY)

    bed.meanwhile = meanwhile


@pytest.mark.parametrize("allowed", [0, 1000])
def test_what_another_erase_makes_readable_is_erased(bed: Bed, allowed: int) -> None:
    """The drive counts every block that it could not read: how many are for a person to look at,
    the policy says."""
    bed.ask(health=Health(max_new_media_errors=allowed))
    wear(bed, heals_after=3)
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK, BLOCK]
    assert report.verdict is Verdict.ERASED, report.reasons
    assert proof(report).namespaces[0].unreadable == 0
    assert report.fit is bool(allowed), report.reasons
    assert ["no new media errors" in reason for reason in report.reasons] == [True] * (not allowed)


def test_what_stays_unreadable_is_held_after_one_more_erase(bed: Bed) -> None:
    wear(bed, heals_after=99)
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK, BLOCK]
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "8 blocks cannot be read" in report.reasons[0]
    found = [(one.status, one.blocks) for one in proof(report).namespaces[0].statuses]
    assert found == [(UNRECOVERED_READ, 8)]


@pytest.mark.parametrize("heals", [True, False], ids=["heals", "stays"])
def test_a_round_for_what_came_between_leaves_the_readings_own(bed: Bed, heals: bool) -> None:
    """Blocks that the one more erase would make readable hold no honest drive."""
    wear(bed, heals_after=4 if heals else 99)
    bed.crash_after("WasReset")
    bed.dirty()
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK, BLOCK, BLOCK]
    assert report.verdict is (Verdict.ERASED if heals else Verdict.UNKNOWN), report.reasons
    assert not bed.kept


@pytest.mark.parametrize("lasting", [False, True])
def test_a_drive_that_remembers_after_its_second_reset(bed: Bed, lasting: bool) -> None:
    """It answers blank from what it keeps beside the medium, until it is reset once more."""

    def resetting(_how: Reset, done: Callable[[], bool]) -> bool:
        if len(bed.resets) == 2 or (lasting and len(bed.resets) == 4):
            with bed.drive.lock:
                bed.drive.media.write_from(SIZE // 2, [memoryview(b"\x55" * (SIZE // 2))])
        return done()

    bed.resetting = resetting
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK, BLOCK]
    if lasting:
        assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
        assert "read otherwise after another controller reset" in report.reasons[0]
    else:
        assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
        assert proof(report).namespaces[0].reread >= 64


def test_a_drive_that_drops_writes_is_erased_and_not_handed_out(bed: Bed) -> None:
    bed.drive.set_faults(Faults(writes=WriteFault.DROP))
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False), "the content still decides"
    assert re.search("called 6[4-6] writes done", " ".join(report.reasons))


def test_a_second_reset_that_fails_keeps_the_drive(bed: Bed) -> None:
    bed.resetting = lambda _how, done: done() and len(bed.resets) < 2
    report = bed.run()
    assert bed.resets == [Reset.CONTROLLER, Reset.FUNCTION, Reset.CONTROLLER]
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert "expected 'nvme reset' to succeed" in report.reasons[0]


def test_a_reset_of_the_function_that_fails_is_done_as_the_controllers(bed: Bed) -> None:
    bed.resetting = lambda how, done: done() and how is not Reset.FUNCTION
    report = bed.run()
    assert bed.resets == [Reset.CONTROLLER, Reset.FUNCTION, Reset.CONTROLLER]
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons


def test_disks_that_come_back_under_other_names_are_not_read(bed: Bed) -> None:
    def resetting(how: Reset, done: Callable[[], bool]) -> bool:
        live = done()
        if how is Reset.FUNCTION:
            shown = bed.kernel.forget_disk(1)
            other = f"{bed.kernel.name}n9"
            shown.rename(shown.with_name(other))
            (bed.kernel.root / "dev" / other).touch()
        return live

    bed.resetting = resetting
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "expected the disks" in report.reasons[0]
