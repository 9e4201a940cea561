"""A tenant sanitized one namespace by itself (Base 2.3), and it runs on: nobody is held for it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case import namespacesanitize
from eraser.case.sanitize import MAX_OCCUPIED
from eraser.case.session import CaseSession
from eraser.protocol.policy import Limits, Method, Quirk
from eraser.protocol.report import EraseReport, Verdict
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.namespacesanitize import VERSION
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.lab.nvme.spec import AdminOp, Status
from tests.lab.nvme.state import NamespaceState
from tests.unit.case.bed import Bed
from tests.unit.case.test_restore import DRIVE, FORMAT_ONLY, ONE_METHOD, SCATTERED, fit, make_bed

TELLS = replace(DRIVE, version=VERSION)
SANITIZES = tuple(method for method in Method if method.is_sanitize)
HALVES = Leftovers(namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.3, attached=False)])


def sanitizing(bed: Bed, looks: int = 9, nsid: int = 1) -> NamespaceState:
    """The tenant's own runs for so many looks."""
    namespace = bed.drive.state.namespace(nsid)
    assert namespace is not None
    namespace.sanitizing = looks
    return namespace


def erased(report: EraseReport) -> None:
    """And nothing was refused on the way."""
    fit(report)
    assert all(command.status == 0 for command in report.commands), report.commands
    assert report.verification is not None


@pytest.mark.parametrize("skip", [(), SANITIZES], ids=["sanitize", "format"])
@pytest.mark.parametrize("drive", [DRIVE, ONE_METHOD], ids=["two", "one"])
@pytest.mark.parametrize("left", [Leftovers(), HALVES, SCATTERED], ids=["", "halves", "scattered"])
def test_it_is_waited_for_where_the_drive_tells_of_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drive: DriveProfile,
    left: Leftovers,
    skip: tuple[Method, ...],
) -> None:
    made = make_bed(tmp_path, monkeypatch, replace(drive, version=VERSION))
    if skip:
        quirk = Quirk(model="*", reason="its sanitize was seen to lie", skip=skip)
        made.policy = replace(made.policy, quirks=(quirk,))
    made.leave(left)
    for namespace in made.drive.state.namespaces:
        sanitizing(made, 9, namespace.nsid)
    erased(made.run())
    assert ("sanitize" in made.names()) is (not skip)


@pytest.mark.parametrize("drive", [DRIVE, ONE_METHOD, FORMAT_ONLY], ids=["two", "one", "format"])
def test_a_drive_that_does_not_tell_of_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile
) -> None:
    made = make_bed(tmp_path, monkeypatch, drive)
    sanitizing(made, 3)
    report = made.run()
    fit(report)
    assert "sanitize of a namespace" not in " ".join(report.reasons)


def test_an_attempt_that_was_interrupted_was_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power cuts, and then one refusal: it is waited out as the first one is."""
    made = make_bed(tmp_path, monkeypatch, DRIVE)
    for _each in range(MAX_OCCUPIED + 1):
        made.crash_after("Intent")
    sanitizing(made, 3)
    report = made.run()
    fit(report)
    assert report.methods[0].attempts > MAX_OCCUPIED + 1


def test_nor_was_it_by_a_sanitize_of_the_whole_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, DRIVE)
    for _each in range(MAX_OCCUPIED + 1):
        made.crash_after("Intent")
    left = itertools.repeat(True, 1)

    def firmware(opcode: int, _words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == AdminOp.SANITIZE and next(left, False):
            return Answer(Status.SANITIZE_IN_PROGRESS, 0, False, b"", b"")
        return done()

    made.firmware = firmware
    fit(made.run())
    assert not next(left, False)


def test_what_is_remembered_of_a_long_wait_for_several_does_not_grow_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked in turn, for hours."""
    remembered: list[int] = []
    waits = namespacesanitize._wait

    def wait(session: CaseSession) -> bool:
        before = len(session.controller.records)
        waited = waits(session)
        remembered.append(len(session.controller.records) - before)
        return waited

    monkeypatch.setattr(namespacesanitize, "_wait", wait)
    made = make_bed(tmp_path, monkeypatch, TELLS)
    made.leave(HALVES)
    for namespace in made.drive.state.namespaces:
        sanitizing(made, 500, namespace.nsid)
    erased(made.run())
    assert remembered
    assert max(remembered) < 9


def test_the_verification_that_it_was_left_in_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sanitize is an invalid field as long as anybody may want to look at the media."""
    made = make_bed(tmp_path, monkeypatch, TELLS)
    sanitizing(made).sanitize_verifying = True
    erased(made.run())
    assert len(made.bench.commands("sanitize_namespace")) == 1


@pytest.mark.parametrize("state", [5, 6, 7])
def test_a_state_that_no_standard_has_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: int
) -> None:
    made = make_bed(tmp_path, monkeypatch, TELLS)

    def nonsense(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        answer = done()
        if (opcode, words.get("cdw10", 0) & 0xFF, words.get("nsid")) != (0x02, 0x81, 1):
            return answer
        data = bytearray(answer.data)
        data[2] = state
        return replace(answer, data=bytes(data))

    made.firmware = nonsense
    erased(made.run())


@pytest.mark.parametrize("version", [VERSION, 0x10400], ids=["told", "untold"])
def test_one_that_never_ends_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, version=version))
    made.policy = replace(made.policy, limits=Limits(stuck=60))
    sanitizing(made).sanitize_stuck = True
    began = made.clock.now
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "sanitize of a namespace" in " ".join(report.reasons)
    assert made.started == []
    assert 60 <= made.clock.now - began < 600
