"""Queues and interrupts that a tenant took from the physical function of a drive with SR-IOV: set
back before a reset of the function, or held for with what a person can do."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.condition import Condition, ExpectedCondition, FlexibleResources
from eraser.protocol.report import EraseReport
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import FlexibleProfile, SanitizeProfile
from tests.lab.nvme.spec import AdminOp, Cns, Status
from tests.unit.case.bed import POLICY, Bed, mortal
from tests.unit.case.fakes import DRIVE

SHARED = dataclasses.replace(
    DRIVE,
    flexible=FlexibleProfile(queues=32, interrupts=24),
    sanitize=SanitizeProfile(crypto_seconds=0.0, block_seconds=0.0),
)
READ_TWICE = dataclasses.replace(
    POLICY, verification=dataclasses.replace(POLICY.verification, reread=64)
)
"""Before the second reading the function is reset."""
TAKEN = Leftovers(flexible=[0, 0])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    bed = Bed(tmp_path, SHARED, READ_TWICE)
    mortal(monkeypatch, bed)
    with contextlib.closing(bed):
        yield bed


def allocations(report: EraseReport) -> list[tuple[int, int, int | None]]:
    """Dword 10, dword 11 and status of each Virtualization Management."""
    return [(c.cdw10, c.cdw11, c.status) for c in report.commands if c.opcode == 0x1C]


def now(made: Bed) -> list[int]:
    assert made.drive.state.flexible is not None
    return made.drive.state.flexible.now


def test_they_are_in_the_profile_and_an_untouched_drive_is_sent_nothing(made: Bed) -> None:
    assert made.profile.condition is not None
    assert made.profile.condition.flexible == FlexibleResources(32, 24)
    report = made.run()
    assert report.fit, report.reasons
    assert allocations(report) == []


def test_what_a_tenant_took_is_set_back_and_counts_after_a_reset_of_the_function(
    made: Bed,
) -> None:
    made.leave(TAKEN)
    report = made.run()
    assert report.fit, report.reasons
    assert now(made) == [32, 24]
    primary = made.drive.profile.cntlid << 16
    assert allocations(report) == [(primary | 0x001, 32, 0), (primary | 0x101, 24, 0)]
    assert report.facts_before is not None
    assert report.facts_before.condition is not None
    assert report.facts_before.condition.flexible == FlexibleResources(0, 0)


def test_only_what_differs_is_set(made: Bed) -> None:
    made.leave(Leftovers(flexible=[32, 1]))
    report = made.run()
    assert report.fit, report.reasons
    assert [cdw11 for _cdw10, cdw11, _status in allocations(report)] == [24]


def test_without_a_reset_of_the_function_the_drive_is_held_and_says_what_to_do(made: Bed) -> None:
    made.policy = POLICY
    made.leave(TAKEN)
    report = made.run()
    assert not report.fit
    queues, interrupts = report.profile_differences
    assert queues.startswith(
        "profile: expected 32 flexible queues (VQ resources) of the physical function, found 0; "
    )
    assert "nvme virt-mgmt -c CNTLID -a 1 -r 0 -n 32" in queues
    assert "-r 1 -n 24" in interrupts
    assert "power-cycle the slot" in queues
    made.kernel.host.drive.power_cycle()
    assert now(made) == [32, 24]


def test_a_drive_that_refuses_is_held(made: Bed) -> None:
    """What secondary controllers have is nobody else's."""
    made.leave(TAKEN)
    assert made.drive.state.flexible is not None
    made.drive.state.flexible.lent = [8, 8]
    report = made.run()
    assert not report.fit
    assert [status for _cdw10, _cdw11, status in allocations(report)] == [0x122, 0x122]
    assert len(report.profile_differences) == 2


def test_an_older_profile_compares_nothing(made: Bed) -> None:
    assert made.profile.condition is not None
    older = dataclasses.replace(made.profile.condition, flexible=None)
    made.profile = dataclasses.replace(made.profile, condition=older)
    made.leave(TAKEN)
    report = made.run()
    assert report.fit, report.reasons
    assert allocations(report) == []
    # The release before knows no such member: it would end the case, and refuse the report.
    assert b"flexible" not in made.files.journal.read_bytes()
    assert b"flexible" not in codec.canonical(report)


def test_a_drive_that_does_not_tell_is_as_ever(made: Bed) -> None:
    def refuses(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        asked = (opcode, words.get("cdw10", 0) & 0xFF)
        if asked == (AdminOp.IDENTIFY, Cns.PRIMARY_CAPABILITIES):
            return Answer(Status.INVALID_FIELD, 0, False, b"", b"")
        return done()

    made.leave(TAKEN)
    made.firmware = refuses
    report = made.run()
    assert report.fit, report.reasons
    assert allocations(report) == []


def test_a_drive_without_them_says_nothing_new_to_an_older_reader() -> None:
    assert b"flexible" not in codec.canonical(Condition())
    assert b"flexible" not in codec.canonical(ExpectedCondition())
