"""Capacity in no namespace: made one for the time of the case (docs/decisions/unallocated.md)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case.state import CaseState
from eraser.protocol.policy import Label, Policy, Unallocated, Verification
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import EraseReport, Verdict
from eraser.state.journal import read
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.composed.trial import Outcome, attempt, shipped
from tests.lab.nvme.faults import EraseFault, Faults
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.unit.case.bed import Bed
from tests.unit.case.fakes import Crash, Plug
from tests.unit.case.test_restore import DRIVE, FORMAT_ONLY, ONE_METHOD, POLICY, fit, make_bed

MOST_OF_IT = (NamespaceProfile(1, 0.75),)
"""As delivered: a quarter of the media is left for the drive's own use."""
CHANGED = Leftovers(namespaces=[NamespaceProfile(3, 0.5, lba_format=1)])
KINDS = {"two": DRIVE, "one": ONE_METHOD, "format": FORMAT_ONLY}


def asking(what: Unallocated, policy: Policy = POLICY) -> Policy:
    return replace(policy, verification=replace(policy.verification, unallocated=what))


def bed(
    directory: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, **members: object
) -> Bed:
    directory.mkdir(exist_ok=True)
    wanted = {"namespaces": MOST_OF_IT, **members}
    return make_bed(directory, monkeypatch, replace(drive, **wanted))


def made_of(made: Bed) -> tuple[NamespaceLayout, ...]:
    """The temporary namespaces that the journal has last."""
    allocated = CaseState.of(read(made.files.journal)).allocated
    return () if allocated is None else allocated.namespaces


def as_delivered(made: Bed, report: EraseReport) -> None:
    assert report.facts_after is not None
    assert report.facts_after.namespaces == made.profile.namespaces
    assert report.facts_after.detached == ()
    state = made.bench.drive.state
    assert state.unallocated == state.size // 4


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_erased_and_read_with_the_rest_and_freed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = bed(tmp_path, monkeypatch, KINDS[kind])
    report = made.run()
    fit(report)
    as_delivered(made, report)
    (temporary,) = made_of(made)
    assert temporary.size == made.bench.drive.state.unallocated
    assert {there for _place, there in made.planted} == {(1, 2)}, "canaries stand in it"
    names = made.names()
    assert names.count("namespace_management") == 2
    if kind == "format":
        assert {method.nsid for method in report.methods} == {1, 2}
    assert not [line for line in report.residues if line.startswith("Capacity")]
    assert made.run() == report


@pytest.mark.parametrize("kind", KINDS)
def test_a_layout_that_is_put_right_meanwhile_needs_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = bed(tmp_path, monkeypatch, KINDS[kind])
    made.leave(CHANGED)
    report = made.run()
    fit(report)
    as_delivered(made, report)
    (temporary,) = made_of(made)
    assert made.planted[-1][1] == (1, temporary.nsid)


@pytest.mark.parametrize(
    ("kind", "left", "after", "stride"),
    [
        ("two", None, True, 13),
        ("one", CHANGED, False, 13),
        ("format", None, True, 13),
        ("format", CHANGED, False, 13),
        *(
            pytest.param(kind, left, after, 1, marks=pytest.mark.campaign)
            for kind in KINDS
            for left in (None, CHANGED)
            for after in (False, True)
        ),
    ],
)
def test_killed_at_any_act_none_is_left(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    left: Leftovers | None,
    after: bool,
    stride: int,
) -> None:
    made = bed(tmp_path / "whole", monkeypatch, KINDS[kind])
    if left is not None:
        made.leave(left)
    fit(made.run())
    acts = made.plug.acts
    assert acts >= 40
    for at in range(0, acts, stride):
        made = bed(tmp_path / f"at-{at}", monkeypatch, KINDS[kind])
        if left is not None:
            made.leave(left)
        plug = Plug(at, after)
        with contextlib.suppress(Crash):
            made.run(plug)
        assert plug.dead, "nobody died"
        report = made.run()
        fit(report)
        as_delivered(made, report)
        made.close()


def test_none_is_made_when_the_last_method_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost journal: it reads as blank whatever an adopted sanitize did, and proves nothing."""
    made = bed(tmp_path, monkeypatch, ONE_METHOD)
    made.sanitizer.looks = 9
    assert made.bench.admin(0x84, cdw10=2).status == 0
    report = made.run()
    fit(report)
    as_delivered(made, report)
    [method] = report.methods
    assert method.adopted
    assert made_of(made) == ()
    assert [line for line in report.residues if line.startswith("Capacity")]


@pytest.mark.parametrize("kind", ["two", "format"])
@pytest.mark.parametrize("asked", Unallocated)
def test_where_the_drive_refuses_one_it_is_printed_or_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, asked: Unallocated
) -> None:
    """It has no number left for one: whoever deletes another namespace gets there."""
    made = bed(tmp_path, monkeypatch, KINDS[kind], most_namespaces=1)
    made.policy = asking(asked)
    report = made.run()
    assert report.verdict is Verdict.ERASED
    assert made_of(made) == ()
    assert any(line.startswith("Capacity: ") for line in report.residues)
    clear = report.achieved is Label.CLEAR
    held = asked is Unallocated.HOLD or (clear and asked is Unallocated.PRINT)
    assert report.fit is not held
    assert any("nobody has read them" in reason for reason in report.reasons) is held


def test_room_in_pieces_takes_one_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = (NamespaceProfile(1, 0.25), NamespaceProfile(2, 0.25), NamespaceProfile(3, 0.25))
    made = bed(tmp_path, monkeypatch, FORMAT_ONLY, namespaces=pieces)
    state = made.bench.drive.state
    state.namespaces.remove(state.namespaces[1])
    made.kernel.scan()
    made.profile = made.approved()
    report = made.run()
    fit(report)
    assert len(made_of(made)) == 2
    assert all(each.size > state.size // 5 for each in made_of(made))
    assert state.unallocated == state.size // 2


def test_what_was_not_erased_stays_where_the_next_case_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bed(tmp_path, monkeypatch, FORMAT_ONLY)
    made.bench.drive.set_faults(Faults(format=EraseFault.FAIL))
    report = made.run()
    assert report.fit is False
    assert made.names().count("namespace_management") == 1
    assert [each.nsid for each in made.drive.state.namespaces] == [1, 2]


@pytest.mark.parametrize("seed", [78, 157])
def test_what_a_drive_keeps_there_goes_with_the_rest(tmp_path: Path, seed: int) -> None:
    """Both keep through each erase what is in no namespace when it runs, and show it to whoever
    makes one there: the one after an announced shutdown, the other to reads in a certain order."""
    shown = replace(shipped().verification, canaries=100, visit=4)
    policy = replace(shipped(), verification=shown)
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
    skipping = asking(Unallocated.SKIP, policy)
    without = attempt(compose(seed), tmp_path / "without", skipping, size=8 << 20)
    assert without.outcome is Outcome.LET_THROUGH
    assert without.leaked
    found = attempt(compose(seed), tmp_path / "with", policy, size=8 << 20)
    assert found.outcome is Outcome.NOTHING_KEPT
    assert found.report.verification is not None
    assert any(each.temporary for each in found.report.verification.namespaces)


def test_a_policy_of_before_is_written_as_before() -> None:
    from eraser.protocol import codec

    assert b"unallocated" not in codec.canonical(Verification())


@pytest.mark.parametrize("kind", ["two", "format"])
def test_a_drive_that_calls_created_what_it_does_not_list_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = bed(tmp_path, monkeypatch, KINDS[kind])
    asked = list[str]()

    def firmware(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode != 0x0D or words.get("io"):
            return done()
        asked.append("create" if words["cdw10"] == 0 else "delete")
        assert len(asked) < 20, "it goes on for ever"
        return Answer(0, 2, False, b"", b"")

    made.firmware = firmware
    report = made.run()
    # What it may list later is not left there.
    assert asked == ["create", "delete"]
    assert report.verdict is Verdict.ERASED
    assert report.fit is (kind == "two"), report.reasons
    assert made_of(made) == ()
