"""Memory that a host maps, which no Format reaches (docs/decisions/buffers.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eraser.case.entries import Mapped
from eraser.case.state import CaseState
from eraser.protocol import codec
from eraser.protocol.condition import Buffer, Condition
from eraser.protocol.policy import Buffers, Label, Policy, Verification
from eraser.protocol.report import EraseReport
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.trial import Outcome, Trial, attempt, must_be_held, shipped
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.profile import BufferProfile, DriveProfile
from tests.unit.case.bed import Bed
from tests.unit.case.test_restore import DRIVE, FORMAT_ONLY, POLICY, fit, make_bed

BUFFERS = {Buffer.CMB: BufferProfile(), Buffer.PMR: BufferProfile(persistent=True)}
KINDS = {"sanitize": DRIVE, "format": FORMAT_ONLY}


def asking(what: Buffers, policy: Policy = POLICY) -> Policy:
    return replace(policy, verification=replace(policy.verification, buffers=what))


def bed(
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    drive: DriveProfile,
    buffer: Buffer | None,
    asked: Buffers = Buffers.HOLD,
) -> Bed:
    memory = None if buffer is None else BUFFERS[buffer]
    made = make_bed(directory, monkeypatch, replace(drive, buffer=memory))
    made.policy = asking(asked)
    return made


FEW = replace(shipped(), verification=replace(shipped().verification, canaries=100, visit=4))
"""As it ships, of a drive on which content is not the matter."""


class Strict(Kernel):
    """As Debian's is."""

    strict = True


def tried(
    drive: Description, directory: Path, policy: Policy, kernel: type[Kernel] = Kernel
) -> Trial:
    directory.mkdir()
    return attempt(drive, directory, policy, size=4 << 20, kernel=kernel)


def told(report: EraseReport) -> list[str]:
    return [line for line in report.residues if line.startswith("Memory: ")]


@pytest.mark.parametrize("asked", Buffers)
@pytest.mark.parametrize("buffer", Buffer)
def test_a_drive_that_format_alone_erased_is_held_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer: Buffer, asked: Buffers
) -> None:
    report = bed(tmp_path, monkeypatch, FORMAT_ONLY, buffer, asked).run()
    assert report.achieved is Label.CLEAR
    held = asked is Buffers.HOLD
    assert report.fit is not held
    assert [buffer.words in reason for reason in report.reasons] == [True] * held
    [line] = told(report)
    assert line == f"Memory: the drive has a {buffer.words}; Format does not reach it, nobody " + (
        "has read it."
    )


@pytest.mark.parametrize("buffer", Buffer)
def test_sanitize_covers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffer: Buffer
) -> None:
    report = bed(tmp_path, monkeypatch, DRIVE, buffer).run()
    fit(report)
    assert report.achieved is Label.PURGE
    [line] = told(report)
    assert "Sanitize covers it, and nobody has read it" in line


@pytest.mark.parametrize("kind", KINDS)
def test_a_drive_without_any_is_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    report = bed(tmp_path, monkeypatch, KINDS[kind], None).run()
    fit(report)
    assert told(report) == []
    assert b"buffers" not in codec.canonical(report), "an older control plane takes it"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seen", [True, False], ids=["seen-by-driver", "unseen"])
def test_where_nobody_may_read_registers_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, seen: bool
) -> None:
    """What the kernel's own driver found of them counts all the same."""
    made = bed(tmp_path, monkeypatch, KINDS[kind], Buffer.CMB)
    made.strict = True
    made.anew(written=False)
    if seen:
        (made.kernel.function / "nvme" / made.kernel.name / "cmb").write_text(
            "cmbloc : 0x1\ncmbsz  : 0x1\n"
        )
    report = made.run()
    cleared = kind == "format"
    assert report.fit is not (seen and cleared), report.reasons
    assert len(told(report)) == seen + cleared
    assert ("lets nobody read" in "".join(told(report))) is cleared


@pytest.mark.parametrize("seed", [177, 185], ids=["cmb", "pmr"])
def test_an_honest_drive_of_the_grammar_is_not_let_through(tmp_path: Path, seed: int) -> None:
    """Each gave its next tenant what stood there; who permits it gets what was permitted."""
    drive = compose(seed)
    assert drive.honest
    held = tried(drive, tmp_path / "hold", FEW)
    assert held.outcome is Outcome.HELD
    assert must_be_held(drive, FEW)
    permitted = asking(Buffers.PRINT, FEW)
    assert not must_be_held(drive, permitted)
    through = tried(drive, tmp_path / "print", permitted)
    assert through.outcome is Outcome.LET_THROUGH
    assert set(through.loot.by) == {"buffer"}


@pytest.mark.parametrize("seed", [177, 185], ids=["cmb", "pmr"])
def test_what_a_strict_kernel_hides_is_read_while_no_driver_has_the_drive(
    tmp_path: Path, seed: int
) -> None:
    """A drive that is visited is let go of once after its last method."""
    held = tried(compose(seed), tmp_path / "visited", FEW, Strict)
    assert held.outcome is Outcome.HELD
    assert not [line for line in told(held.report) if "lets nobody read" in line]
    unseen = replace(FEW, verification=replace(FEW.verification, visit=0))
    unvisited = tried(compose(seed), tmp_path / "unvisited", unseen, Strict)
    assert unvisited.outcome is Outcome.LET_THROUGH
    assert [line for line in told(unvisited.report) if "lets nobody read" in line]


def test_what_was_read_then_outlives_the_run() -> None:
    state = CaseState()
    state.apply(Mapped((Buffer.PMR,)))
    assert state.mapped == (Buffer.PMR,)


def test_a_policy_and_a_drive_of_before_are_written_as_before() -> None:
    assert b"buffers" not in codec.canonical(Verification())
    assert b"buffers" not in codec.canonical(Condition())
