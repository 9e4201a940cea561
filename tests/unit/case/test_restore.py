"""A drive that a tenant rearranged: put right on the lab's model, killed anywhere on the way."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case.entries import (
    Again,
    Allocated,
    Allocating,
    CommandEntry,
    Entry,
    Fingerprinted,
    Freed,
    Inspected,
    MethodDone,
    Planned,
    Planted,
    Restored,
    Unlocked,
)
from eraser.case.state import CaseState
from eraser.drive import hostmetadata
from eraser.erase.layout import create_data, layout_steps, reformat_cdw10, smaller
from eraser.protocol import codec
from eraser.protocol.policy import Label, Method, Policy, Unallocated, Verification
from eraser.protocol.profile import NamespaceLayout, Profile, layout_differences
from eraser.protocol.report import EraseReport, Outcome, Step, Verdict
from eraser.state.journal import read
from tests.lab.nvme import features as labfeatures
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile, SanitizeProfile
from tests.lab.nvme.spec import Cns, CommandSet, Fid, Status
from tests.unit.case.bed import Bed, mortal
from tests.unit.case.fakes import FACTS, Crash, Plug
from tests.unit.controller.labdrive import FULL

QUICK = SanitizeProfile(crypto_seconds=0.0, block_seconds=0.0)
DRIVE = replace(FULL, sanitize=QUICK)
ONE_METHOD = replace(FULL, sanitize=replace(QUICK, crypto=False))
FORMAT_ONLY = replace(FULL, sanitize=SanitizeProfile(crypto=False, block=False, overwrite=False))
TWO = (NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5))
POLICY = Policy(
    allow_clear=True,
    verification=Verification(residual=0.05, canaries=48, reread=0, visit=0),
)
PLAIN = replace(POLICY, verification=replace(POLICY.verification, unallocated=Unallocated.SKIP))
"""Without temporary namespaces, where each command is counted."""

SCATTERED = Leftovers(
    namespaces=[
        NamespaceProfile(nsid=1, share=0.25, lba_format=1),
        NamespaceProfile(nsid=2, share=0.25, attached=False),
        NamespaceProfile(nsid=5, share=0.01),
    ],
    write_protect={5: 1},
    reservation=1,
    features={0x06: 0, 0x0A: 1},
)
EMPTIED = Leftovers(no_namespaces=True)
OTHER_SECTORS = Leftovers(namespaces=[NamespaceProfile(lba_format=1)])
DETACHED = Leftovers(namespaces=[NamespaceProfile(attached=False)])
ALL = (SCATTERED, EMPTIED, OTHER_SECTORS, DETACHED)


def make_bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile = DRIVE) -> Bed:
    """A drive that may be rearranged, with its approved profile."""
    made = Bed(tmp_path, drive, POLICY)
    mortal(monkeypatch, made)
    return made


def fit(report: EraseReport) -> None:
    assert (report.outcome, report.verdict, report.fit) == (
        Outcome.COMPLETED,
        Verdict.ERASED,
        True,
    ), report.reasons
    assert report.profile_differences == ()


@pytest.mark.parametrize("left", ALL, ids=["scattered", "emptied", "sectors", "detached"])
@pytest.mark.parametrize("drive", [DRIVE, ONE_METHOD, FORMAT_ONLY], ids=["two", "one", "format"])
def test_it_is_put_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, left: Leftovers
) -> None:
    made = make_bed(tmp_path, monkeypatch, drive)
    made.leave(left)
    report = made.run()
    fit(report)
    assert report.facts_after is not None
    assert report.facts_after.namespaces == made.profile.namespaces
    assert report.facts_after.detached == ()
    assert made.planted[-1][1] == (1,), "the last command is proved on the layout that is read"
    last = report.methods[-1]
    assert last.nsid in (0, 1)
    expected = Label.CLEAR if drive is FORMAT_ONLY else Label.PURGE
    assert report.achieved is expected
    assert made.run() == report


@pytest.mark.parametrize(
    ("drive", "after", "stride"),
    [
        pytest.param(DRIVE, False, 11, id="two"),
        pytest.param(ONE_METHOD, True, 17, id="one"),
        pytest.param(FORMAT_ONLY, False, 17, id="format"),
        *(
            pytest.param(drive, after, 1, marks=pytest.mark.campaign)
            for drive in (DRIVE, ONE_METHOD, FORMAT_ONLY)
            for after in (False, True)
        ),
    ],
)
def test_killed_at_any_act_it_is_put_right_all_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    drive: DriveProfile,
    after: bool,
    stride: int,
) -> None:
    """Also between deleting and creating; and what was put right is not touched again."""
    (tmp_path / "whole").mkdir()
    made = make_bed(tmp_path / "whole", monkeypatch, drive)
    made.policy = PLAIN
    made.leave(SCATTERED)
    fit(made.run())
    whole, acts = made.names(), made.plug.acts
    assert acts > 40
    for at in range(3 if after else 0, acts, stride):
        place = tmp_path / f"at-{at}"
        place.mkdir()
        made = make_bed(place, monkeypatch, drive)
        made.policy = PLAIN
        made.leave(SCATTERED)
        plug = Plug(at, after)
        with contextlib.suppress(Crash):
            made.run(plug)
        assert plug.dead, "nobody died"
        report = made.run()
        fit(report)
        if drive is not FORMAT_ONLY:
            assert made.names() == whole, at
        made.close()


CHANGES = {"delete": (0x0D, 1), "create": (0x0D, 0), "attach": (0x15, 0), "LBA format": (0x80, 0)}


@pytest.mark.parametrize("lives", [True, False], ids=["killed", "power"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_a_crash_cut_off_is_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lives: bool
) -> None:
    """With its end where its sender outlived us, else as a command whose end nobody knows."""
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.child_writes, made.cut = lives, CHANGES[name]
    made.leave(OTHER_SECTORS if name == "LBA format" else SCATTERED)
    with pytest.raises(Crash):
        made.run()
    state = CaseState.of(read(made.files.journal))
    assert state.changing is not None
    wanted = CHANGES[name]
    assert wanted not in [(c.opcode, c.cdw10) for c in state.commands]
    report = made.run()
    fit(report)
    cut = next(c for c in report.commands if (c.opcode, c.cdw10) == wanted)
    assert cut.status == (0 if lives else None)
    assert cut.message.startswith(name)
    assert (cut.nsid, cut.sent) == (state.changing.command.nsid, state.changing.command.sent)
    done = [each for each in made.names() if each.startswith("namespace")]
    told = [c for c in report.commands if c.opcode in (0x0D, 0x15) and c.argv[1][:5] == "admin"]
    assert len([c for c in told if not c.status]) == len(done)


def test_an_untouched_drive_is_sent_nothing_but_its_erase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    report = made.run()
    fit(report)
    assert made.names() == ["sanitize", "sanitize"]
    assert made.sent(report) == ["84", "84"]
    assert "restore" not in report.seconds
    assert "unlock" not in report.seconds


def test_namespaces_of_two_come_back_with_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, namespaces=TWO))
    made.leave(Leftovers(namespaces=[NamespaceProfile(4, 0.3), NamespaceProfile(2, 0.7)]))
    report = made.run()
    fit(report)
    assert made.planted == [(0, (2, 4)), (1, (1, 2))]


def test_what_was_sent_is_in_the_report_with_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.policy = PLAIN
    made.leave(EMPTIED)
    report = made.run()
    [create] = [c for c in report.commands if c.opcode == 0x0D]
    blocks = made.profile.namespaces[0].blocks
    assert bytes.fromhex(create.sent).ljust(16, b"\0") == blocks.to_bytes(8, "little") * 2
    assert "--write" in create.argv
    [attach] = [c for c in report.commands if c.opcode == 0x15]
    assert attach.sent == "010001", "one controller, number 1"


def test_a_drive_whose_room_is_gone_is_held_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A P4510 is 64 MiB short after its namespace was deleted (nvme-cli issue 454)."""
    made = make_bed(tmp_path, monkeypatch)
    larger = replace(made.profile.namespaces[0], blocks=16385, capacity=16385)
    made.profile = replace(made.profile, namespaces=(larger,))
    report = made.run()
    assert report.fit is False
    reasons = " ".join(report.reasons)
    assert "status 0x115" in reasons
    assert "8388608 bytes are unallocated, 8389120 are needed" in reasons
    assert "how much less in the profile (size_tolerance)" in reasons


SHORT = 64 << 10
"""Bytes that a drive of these tests gives less than it was delivered with."""


@pytest.mark.parametrize(
    "left", [EMPTIED, OTHER_SECTORS, None], ids=["emptied", "sectors", "as-is"]
)
@pytest.mark.parametrize("drive", [DRIVE, ONE_METHOD, FORMAT_ONLY], ids=["two", "one", "format"])
def test_a_size_that_the_profile_tolerates_is_made_where_the_drive_refuses_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, left: Leftovers | None
) -> None:
    """And a drive that is so already is left as it is."""
    made = make_bed(tmp_path, monkeypatch, drive)
    there = made.profile.namespaces[0]
    blocks = there.blocks + SHORT // there.block_bytes
    larger = replace(there, blocks=blocks, capacity=blocks)
    made.profile = replace(made.profile, namespaces=(larger,), size_tolerance=SHORT)
    if left is not None:
        made.leave(left)
    report = made.run()
    fit(report)
    assert report.facts_after is not None
    assert report.facts_after.namespaces == (there,)
    if left is None:
        assert "namespace_management" not in made.names()


def test_what_is_short_by_more_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    there = made.profile.namespaces[0]
    blocks = there.blocks + SHORT // there.block_bytes
    larger = replace(there, blocks=blocks, capacity=blocks)
    made.profile = replace(made.profile, namespaces=(larger,), size_tolerance=SHORT - 1)
    made.leave(EMPTIED)
    held = made.run()
    assert held.fit is False
    assert any("status 0x115" in reason for reason in held.reasons)


def test_no_more_is_tolerated_than_the_profile_says() -> None:
    less = replace(WANTED, blocks=WANTED.blocks - 8, capacity=WANTED.blocks - 8)
    edge = 8 * WANTED.block_bytes
    for tolerance, differs in ((0, True), (edge - 1, True), (edge, False), (edge + 1, False)):
        assert bool(layout_differences((WANTED,), (less,), tolerance)) is differs
    assert layout_differences((less,), (WANTED,), edge), "larger is not tolerated"
    other = replace(less, block_bytes=WANTED.block_bytes * 2)
    assert layout_differences((WANTED,), (other,), edge)
    with pytest.raises(ValueError, match="size_tolerance"):
        Profile("a", 1, 1, "m", ("f",), (WANTED,), size_tolerance=WANTED.size)


def test_nothing_smaller_does_for_a_thin_namespace_with_less_than_is_tolerated() -> None:
    edge = 8 * WANTED.block_bytes
    thin = replace(WANTED, capacity=9)
    found = smaller(thin, edge)
    assert found is not None
    assert (found.blocks, found.capacity) == (WANTED.blocks - 8, 1)
    assert create_data(found)
    assert smaller(replace(thin, capacity=8), edge) is None


def test_another_models_profile_changes_no_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.profile = replace(
        made.profile,
        model="Another",
        namespaces=(replace(made.profile.namespaces[0], blocks=4096, capacity=4096),),
    )
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert made.names() == ["sanitize", "sanitize"]


@pytest.mark.parametrize(
    ("state", "retired", "said"),
    [(1, False, ""), (2, False, "power-cycle the slot"), (3, True, "pull the drive")],
)
def test_write_protection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: int, retired: bool, said: str
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.leave(Leftovers(write_protect={1: state}))
    report = made.run()
    assert report.fit is (state == 1)
    assert bool(report.retire) is retired
    assert said in " ".join(report.reasons)


def test_a_drive_that_refuses_to_let_go_is_held_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Namespace management is locked down by the tenant: everything else goes on."""
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, lockdown=True))
    made.leave(Leftovers(lockdown=[0x0D], namespaces=[NamespaceProfile(share=0.5)]))
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    reasons = " ".join(report.reasons)
    assert "delete namespace 1" in reasons
    assert "locked opcodes none, found 0x0d" in reasons
    assert made.names() == ["sanitize", "sanitize"]


def test_an_older_profile_goes_on_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the members that it was written before; also on a drive that was rearranged."""
    made = make_bed(tmp_path, monkeypatch)
    old = json.loads(json.dumps(dataclasses.asdict(made.profile)))
    del old["condition"]
    for layout in old["namespaces"]:
        for name in ("capacity", "sharing", "extended_metadata"):
            del layout[name]
    for rule in old["features"]:
        del rule["digest"], rule["nsid"]
    old["features"] = [rule for rule in old["features"] if rule["fid"] < 0x7D]
    made.profile = codec.decode(Profile, old, "profile")
    made.leave(SCATTERED)
    fit(made.run())


def test_format_reaches_every_namespace_before_it_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    made.policy = PLAIN
    made.leave(SCATTERED)
    report = made.run()
    erased, order = set[int](), list[str]()
    for command in report.commands:
        if command.opcode == 0x80 and command.cdw10 >> 9 & 7:
            erased.add(command.nsid)
            order.append("erase")
        elif command.opcode == 0x0D and command.cdw10 == 1:
            assert command.nsid in erased, "deleted with its data"
            order.append("delete")
    assert erased == {1, 2, 5}
    assert order[-1] == "erase", "the new layout is erased with its canaries on it"


@pytest.mark.parametrize("left", [SCATTERED, DETACHED])
def test_a_refused_policy_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: Leftovers
) -> None:
    made = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    made.policy = replace(POLICY, allow_clear=False)
    made.leave(left)
    report = made.run()
    assert (report.outcome, report.commands) == (Outcome.NO_METHOD, ())


def test_a_feature_that_cannot_be_saved_is_set_for_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.leave(Leftovers(features={0x06: 0}))
    rule = replace(labfeatures.RULES[Fid.WRITE_CACHE], saveable=False)
    monkeypatch.setitem(labfeatures.RULES, Fid.WRITE_CACHE, rule)
    report = made.run()
    sent = [c.cdw10 for c in report.commands if c.opcode == 0x09]
    assert sent == [1 << 31 | 0x06, 0x06]


TEXT = Leftovers(metadata={0x7D: {1: "a", 16: "b"}, 0x7E: {1: "hello", 10: "x"}, 0x7F: {3: "y"}})


def text(made: Bed, fid: int, nsid: int = 0) -> bytes:
    reply = made.bench.admin(0x0A, nsid=nsid, cdw10=fid)
    assert reply.data is not None
    return reply.data


def test_text_left_in_the_drive_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every element by its type, in each of the three features; a refusal to save is no end."""
    made = make_bed(tmp_path, monkeypatch)
    made.leave(TEXT)
    assert b"hello" in text(made, 0x7E)
    report = made.run()
    fit(report)
    assert [any(text(made, fid, nsid)) for fid, nsid in ((0x7D, 0), (0x7E, 0), (0x7F, 1))] == [
        False
    ] * 3
    sent = [c for c in report.commands if c.opcode == 0x09]
    assert [c.sent for c in sent[::2]] == ["010001", "010010", "010001", "01000a", "010003"]
    assert all(c.argv[6] == "--cdw11=0x00002000" for c in sent), "delete entry multiple"
    assert [c.status for c in sent[:2]] == [0x10D, 0], "it may not be saveable"


def test_text_goes_from_a_drive_that_calls_saving_an_invalid_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.leave(TEXT)

    def firmware(_opcode: int, _words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        answer = done()
        if answer.code == Status.FEATURE_NOT_SAVEABLE:
            return replace(answer, code=Status.INVALID_FIELD)
        return answer

    made.firmware = firmware
    report = made.run()
    fit(report)
    assert [c.status for c in report.commands if c.opcode == 0x09][:2] == [0x02, 0]


def test_text_of_the_profile_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.leave(Leftovers(metadata={0x7D: {1: "one"}, 0x7E: {1: "two", 2: "three"}}))
    made.profile = made.approved()
    wanted = text(made, 0x7D), text(made, 0x7E)
    made.leave(Leftovers(metadata={0x7D: {1: "another"}, 0x7E: {2: "three", 5: "five"}}))
    fit(made.run())
    found = text(made, 0x7D), text(made, 0x7E)
    assert found[0] == wanted[0]
    assert hostmetadata.in_order(found[1]) == wanted[1]
    assert found[1] != wanted[1], "in another order, which is no difference"


def test_text_that_a_drive_does_not_let_go_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.leave(TEXT)

    def stubborn(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == 0x09 and words["cdw10"] & 0xFF == 0x7E and words["send"][2] == 10:
            words["cdw10"] = 0
        return done()

    made.firmware = stubborn
    report = made.run()
    [reason] = report.reasons
    assert report.verdict is Verdict.ERASED
    assert "feature 0x7e (controller metadata) data" in reason
    assert reason.endswith("(types 0x0a)"), "the others are gone"


def test_of_an_older_profiles_text_only_the_digest_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None at all is known by it too; anything else is compared, and nothing is sent."""
    made = make_bed(tmp_path, monkeypatch)
    old = tuple(replace(rule, data="") for rule in made.profile.features)
    made.leave(TEXT)
    other = tuple(replace(rule, digest="5" * 64) if rule.fid == 0x7E else rule for rule in old)
    made.profile = replace(made.profile, features=other)
    report = made.run()
    assert "controller metadata) data 5555555555555555, found" in " ".join(report.reasons)
    assert b"hello" in text(made, 0x7E)
    made.files.clear()
    made.profile = replace(made.profile, features=old)
    fit(made.run())


def test_a_protection_that_a_profile_asks_for_is_never_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State 3 lasts for ever: a mistake in a profile would cost a fleet its drives."""
    made = make_bed(tmp_path, monkeypatch)
    for_ever = tuple(
        replace(rule, value=3) if rule.fid == 0x84 else rule for rule in made.profile.features
    )
    assert for_ever != made.profile.features
    made.profile = replace(made.profile, features=for_ever)
    report = made.run()
    assert "write protection" in " ".join(report.reasons)
    assert [c for c in report.commands if c.opcode == 0x09] == []


@pytest.mark.parametrize(("left", "sent"), [(0x09, 0x12), (0x0A, 0x10), (0x11, 0x02)])
def test_a_boot_partition_that_was_left_unlocked_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int, sent: int
) -> None:
    """Its owner unlocks it to write to it, and no reset locks it again."""
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, boot_partition_units=1))
    assert made.bench.admin(0x09, cdw10=0x85, cdw11=left).status == 0
    report = made.run()
    fit(report)
    [command] = [c for c in report.commands if c.opcode == 0x09]
    assert (command.cdw10, command.argv[6]) == (0x85, f"--cdw11={sent:#010x}")
    assert made.bench.admin(0x0A, cdw10=0x85).dw0 == 0x12


def test_a_boot_partition_that_is_locked_until_a_power_cycle_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, boot_partition_units=1))
    assert made.bench.admin(0x09, cdw10=0x85, cdw11=0x0B).status == 0
    report = made.run()
    [line] = report.profile_differences
    assert line == (
        "profile: expected feature 0x85 (boot partition write protection) 0x12, found 0x13, "
        "locked until the next power cycle; power-cycle the slot and order again"
    )
    assert made.bench.admin(0x0A, cdw10=0x85).dw0 == 0x13


def test_anothers_sanitize_is_waited_for_before_the_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Namespace commands are refused while any sanitize runs."""
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.leave(EMPTIED)

    def told(step: Step, _fraction: float, _detail: str) -> None:
        if step is Step.RESTORE and not made.started:
            assert made.bench.admin(0x84, cdw10=3 | 1 << 4).status == 0

    made.told = told
    report = made.run()
    fit(report)
    assert made.started == [3 | 1 << 4, 2]
    assert all(command.status == 0 for command in report.commands), "none was sent in vain"


def test_anothers_sanitize_is_not_taken_for_a_format_with_the_same_dword(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """202h: a block erase without deallocation, and a user data erase into LBA format 2."""
    drive = replace(
        ONE_METHOD,
        lba_shifts=(9, 12, 9),
        namespaces=(NamespaceProfile(1, 1.0, lba_format=2),),
    )
    made = make_bed(tmp_path, monkeypatch, drive)
    made.policy = replace(PLAIN, label=Label.CLEAR, clear_methods=(Method.FORMAT_USER_DATA,))

    def noted(entry: Entry) -> None:
        """After the inspection, which waits for one too."""
        if isinstance(entry, Fingerprinted):
            assert made.bench.admin(0x84, cdw10=0x202).status == 0

    made.noted = noted
    report = made.run()
    fit(report)
    assert [(method.cdw10, method.adopted) for method in report.methods] == [(0x202, False)]
    assert all(command.status == 0 for command in report.commands), "none was sent in vain"


def test_on_a_disk_without_room_for_its_end_no_command_is_sent_or_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report would have it as one whose end is unknown."""
    made = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    made.leave(DETACHED)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space left"):
            made.run()
    assert made.names() == []
    assert CaseState.of(read(made.files.journal)).changes == 0
    report = made.run()
    fit(report)
    assert all(command.status == 0 for command in report.commands)


@pytest.mark.parametrize("cdw10", [2, 3 | 1 << 4], ids=["adopted", "anothers"])
def test_locks_beside_a_running_sanitize_are_taken_off_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cdw10: int
) -> None:
    """A lost journal: while the sanitize runs the drive takes no reservation command, nor tells."""
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.sanitizer.looks = 9
    assert made.bench.admin(0x84, cdw10=cdw10).status == 0
    loose = [NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.2, attached=False)]
    made.leave(Leftovers(namespaces=loose, reservation=1, write_protect={1: 1, 2: 1}))
    report = made.run()
    fit(report)
    assert report.methods[0].adopted is (cdw10 == 2)
    assert all(command.status == 0 for command in report.commands), "none was sent in vain"


@pytest.mark.parametrize("drive", [DRIVE, ONE_METHOD], ids=["two", "one"])
def test_locks_are_taken_off_where_the_sanitize_ends_before_it_is_adopted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile
) -> None:
    """A lost journal, and a sanitize of which the inspection saw no more than the last moments."""
    made = make_bed(tmp_path, monkeypatch, drive)
    made.sanitizer.looks = 9
    assert made.bench.admin(0x84, cdw10=2).status == 0
    made.leave(Leftovers(reservation=1, write_protect={1: 1}))

    def noted(entry: Entry) -> None:
        if isinstance(entry, Fingerprinted):
            made.sanitizer.end()

    made.noted = noted
    report = made.run()
    fit(report)
    assert not any(method.adopted for method in report.methods)


def test_namespaces_that_were_not_told_beside_a_running_sanitize_are_found_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.sanitizer.looks = 9
    assert made.bench.admin(0x84, cdw10=2).status == 0
    made.leave(
        Leftovers(namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.2, attached=False)])
    )

    def busy(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        """The list of all namespaces has the attached ones alone meanwhile."""
        if opcode == IDENTIFY and words["cdw10"] & 0xFF == ALLOCATED and made.running:
            words["cdw10"] = ACTIVE
        return done()

    made.firmware = busy
    fit(made.run())


def test_a_question_without_an_answer_after_an_adopted_sanitize_is_the_last_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.sanitizer.looks = 9
    assert made.bench.admin(0x84, cdw10=2).status == 0
    seen: list[type[Entry]] = []
    unanswered = []

    def mute(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == IDENTIFY and MethodDone in seen and Unlocked not in seen:
            unanswered.append(words["cdw10"])
            raise OSError(errno.EINTR, "no completion")
        return done()

    made.firmware, made.noted = mute, lambda entry: seen.append(type(entry))
    fit(made.run())
    assert unanswered


IDENTIFY, ACTIVE, ALLOCATED = 0x06, 0x02, 0x10
GAPS = (NamespaceProfile(2, 0.25), NamespaceProfile(5, 0.25), NamespaceProfile(6, 0.25))


@pytest.mark.parametrize("drive", [DRIVE, FORMAT_ONLY], ids=["two", "format"])
@pytest.mark.parametrize(
    "left",
    [
        EMPTIED,
        Leftovers(namespaces=[NamespaceProfile(1, 1.0)]),
        Leftovers(namespaces=[NamespaceProfile(2, 0.25), NamespaceProfile(6, 0.5)]),
        Leftovers(namespaces=[NamespaceProfile(5, 0.25), NamespaceProfile(3, 0.1)]),
    ],
    ids=["emptied", "one", "last", "middle"],
)
def test_numbers_with_gaps_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, left: Leftovers
) -> None:
    """A new namespace has the lowest number that is free."""
    made = make_bed(tmp_path, monkeypatch, replace(drive, namespaces=GAPS))
    made.leave(left)
    report = made.run()
    fit(report)
    assert report.facts_after is not None
    assert report.facts_after.namespaces == made.profile.namespaces


@pytest.mark.parametrize(("nth", "lives"), [(1, True), (2, False), (4, True)])
def test_killed_between_placeholders_numbers_come_back_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, lives: bool
) -> None:
    made = make_bed(tmp_path, monkeypatch, replace(ONE_METHOD, namespaces=GAPS))
    made.leave(EMPTIED)
    made.child_writes, made.cut, made.cut_nth = lives, CHANGES["create"], nth
    with pytest.raises(Crash):
        made.run()
    fit(made.run())


def test_a_gap_without_room_for_a_placeholder_holds_with_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, namespaces=(NamespaceProfile(2, 1.0),)))
    made.leave(EMPTIED)
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert "create namespace 2" in " ".join(report.reasons)


LAYOUT = FACTS.namespaces[0]


def folded(*entries: Entry) -> CaseState:
    state = CaseState()
    for entry in entries:
        state.apply(entry)
    return state


ZONES = replace(DRIVE, zoned=True)
MADE_ZONED = Leftovers(namespaces=[NamespaceProfile(csi=CommandSet.ZONED)])
MADE_CONVENTIONAL = Leftovers(namespaces=[NamespaceProfile()])


@pytest.mark.parametrize("drive", [ZONES, replace(FORMAT_ONLY, zoned=True)], ids=["two", "format"])
@pytest.mark.parametrize("attached", [True, False], ids=["attached", "detached"])
def test_a_namespace_that_a_tenant_made_zoned_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, attached: bool
) -> None:
    """Identify Namespace says the same of both; a detached one tells only once it is attached."""
    made = make_bed(tmp_path, monkeypatch, drive)
    made.leave(Leftovers(namespaces=[NamespaceProfile(csi=CommandSet.ZONED, attached=attached)]))
    report = made.run()
    fit(report)
    assert [each.csi for each in made.drive.state.namespaces] == [CommandSet.NVM]
    assert report.facts_before is not None
    before = report.facts_before.namespaces
    assert [each.command_set for each in before] == ([CommandSet.ZONED] if attached else [])


def test_a_drive_that_is_sold_with_zones_gets_them_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, ZONES)
    made.leave(MADE_ZONED)
    made.profile = made.approved()
    assert [each.command_set for each in made.profile.namespaces] == [CommandSet.ZONED]
    made.leave(MADE_CONVENTIONAL)
    report = made.run()
    assert report.profile_differences == ()
    assert [each.csi for each in made.drive.state.namespaces] == [CommandSet.ZONED]
    creates = [c for c in report.commands if (c.opcode, c.cdw10) == CHANGES["create"]]
    assert [c.cdw11 >> 24 for c in creates] == [CommandSet.ZONED]


def test_a_drive_that_gives_no_zones_again_is_held_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a conventional one in their place."""
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, namespaces=TWO))
    first, second = made.profile.namespaces
    zoned = replace(first, command_set=CommandSet.ZONED)
    made.profile = replace(made.profile, namespaces=(zoned, second))
    report = made.run()
    assert not report.fit
    assert any("0x129" in line for line in report.reasons), report.reasons
    assert [each.nsid for each in made.drive.state.namespaces] == [2]


def test_a_namespace_that_no_tenant_can_have_made_is_not_asked_for_its_command_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older profile of a drive that came with zones names none."""
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, namespace_management=False))
    made.leave(MADE_ZONED)
    assert made.approved() == made.profile
    assert made.run().profile_differences == ()


def test_a_drive_that_tells_no_command_set_is_as_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refuses the list of descriptors, as those do that are older than it."""
    made = make_bed(tmp_path, monkeypatch)

    def refuses(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        lists = (opcode, words.get("cdw10", 0) & 0xFF) == (0x06, Cns.DESCRIPTORS)
        return Answer(Status.INVALID_FIELD, 0, False, b"", b"") if lists else done()

    made.firmware = refuses
    fit(made.run())
    assert made.names() == ["sanitize", "sanitize"]


@pytest.mark.parametrize(("version", "asked"), [(0x10200, False), (0x10300, True)])
def test_an_older_drive_is_not_asked_for_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, asked: bool
) -> None:
    """They came with NVMe 1.3."""
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, version=version))
    questions = []

    def seen(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == 0x06:
            questions.append(words.get("cdw10", 0) & 0xFF)
        return done()

    made.firmware = seen
    fit(made.run())
    assert (Cns.DESCRIPTORS in questions) is asked


def test_probes_of_a_layout_that_is_gone_say_nothing() -> None:
    other, second = replace(LAYOUT, blocks=8), replace(LAYOUT, nsid=2)
    before = replace(FACTS, namespaces=(other, second))
    seen = (Inspected(before, None, ()), Planted(0, 700, ()))
    state = folded(*seen)
    assert (state.canaries_planted, state.layout) == (700, (other, second))
    assert state.kept(1)
    state = folded(*seen, Restored(True, (LAYOUT, second), (), ()))
    assert (state.canaries_planted, state.layout) == (0, (LAYOUT, second))
    assert not state.kept(1), "its blocks are elsewhere now"
    assert state.kept(2)
    state = folded(*seen, Restored(False, (other, second), (), ()))
    assert (state.canaries_planted, state.layout) == (700, (other, second))


def test_fingerprints_of_a_temporary_namespace_are_not_of_the_next_one() -> None:
    """It has the same number and size, and perhaps other blocks of the medium."""
    made = (Allocating((1,)), Allocated((replace(LAYOUT, nsid=2),), 0, ""))
    state = folded(Inspected(FACTS, None, ()), *made, Fingerprinted(8, ()))
    assert state.kept(2)
    for entry in (Freed(""), *made):
        state.apply(entry)
    assert not state.kept(2)
    assert state.kept(1)


def test_formats_of_each_layout_begin_with_canaries() -> None:
    old = tuple(CommandEntry(Method.FORMAT_USER_DATA, 0x80, n, 0x200) for n in (1, 2, 5))
    new = old[:2]
    state = folded(Planned(old, Label.CLEAR, False, ""), Restored(True, (LAYOUT,), new, ()))
    state.apply(Again("why"))
    assert state.steps == old + new + new
    assert [p for p in range(len(state.steps)) if state.opens_round(p)] == [0, 3, 5]
    assert state.restore_place == 3
    state = folded(Planned(old, Label.CLEAR, False, ""), Restored(False, (LAYOUT,), (), ()))
    state.apply(Again("why"))
    assert state.steps == old + old
    assert [p for p in range(len(state.steps)) if state.opens_round(p)] == [0, 3]


WANTED = replace(LAYOUT, capacity=LAYOUT.blocks, sharing=0, extended_metadata=False)


@pytest.mark.parametrize(
    ("found", "loose", "manage", "steps"),
    [
        ([WANTED], [], True, []),
        ([], [], True, ["create 1"]),
        ([], [], False, []),
        ([], [WANTED], True, ["attach 1"]),
        ([], [replace(WANTED, nsid=2)], True, ["delete 2", "create 1"]),
        ([replace(WANTED, blocks=8)], [], True, ["delete 1", "create 1"]),
        ([replace(WANTED, blocks=8)], [], False, []),
        ([replace(WANTED, protection=1)], [], True, ["reformat 1"]),
        ([replace(WANTED, sharing=1)], [], True, ["delete 1", "create 1"]),
        ([replace(WANTED, command_set=2)], [], True, ["delete 1", "create 1"]),
        ([replace(WANTED, command_set=2)], [], False, []),
        ([replace(WANTED, command_set=2, protection=1)], [], True, ["delete 1", "create 1"]),
        (
            [replace(WANTED, blocks=WANTED.blocks // 8, block_bytes=4096, lba_format=1)],
            [],
            True,
            ["reformat 1"],
        ),
        (
            [replace(WANTED, blocks=WANTED.blocks // 8 - 9, block_bytes=4096, lba_format=1)],
            [],
            True,
            ["delete 1", "create 1"],
        ),
        (
            [replace(WANTED, blocks=WANTED.blocks // 8 - 9, block_bytes=4096, lba_format=1)],
            [],
            False,
            ["reformat 1"],
        ),
        ([], [replace(WANTED, protection=1)], True, ["attach 1", "reformat 1"]),
        (
            [WANTED, replace(WANTED, nsid=3), replace(WANTED, nsid=2)],
            [],
            True,
            ["delete 2", "delete 3"],
        ),
    ],
)
def test_what_is_sent_for_a_layout(
    found: list[NamespaceLayout], loose: list[NamespaceLayout], manage: bool, steps: list[str]
) -> None:
    planned = layout_steps(
        (WANTED,), tuple(found), tuple(loose), can_manage=manage, can_format=True
    )
    assert [f"{step.act} {step.nsid}" for step in planned] == steps


@pytest.mark.parametrize(
    ("wanted", "found", "steps"),
    [
        ((1, 3), (), ["create 1", "place 2", "create 3"]),
        ((1, 3), (1, 3), []),
        ((1, 3), (1,), ["place 2", "create 3"]),
        ((1, 3), (3,), ["create 1"]),
        ((3,), (2,), ["delete 2", "place 1", "place 2", "create 3"]),
        ((2, 4), (1, 3, 4), ["delete 1", "delete 3", "place 1", "create 2"]),
        ((40,), (), ["create 40"]),
    ],
)
def test_what_is_sent_for_numbers_with_gaps(
    wanted: tuple[int, ...], found: tuple[int, ...], steps: list[str]
) -> None:
    layouts, there = (
        tuple(replace(WANTED, nsid=nsid) for nsid in each) for each in (wanted, found)
    )
    planned = layout_steps(layouts, there, (), can_manage=True, can_format=True)
    assert [f"{step.act} {step.nsid}" for step in planned] == steps


@pytest.mark.parametrize("lba_format", [0, 15, 16, 63])
def test_dwords_and_data_of_a_layout(lba_format: int) -> None:
    """FLBAS as Identify Namespace reads it back, Format's dword 10 as nvme-cli 2.3 lays it out."""
    layout = replace(WANTED, lba_format=lba_format, protection=0b1010, extended_metadata=True)
    data = create_data(layout)
    assert data[26] & 0xF | (data[26] >> 5 & 3) << 4 == lba_format
    assert (data[26] >> 4 & 1, data[29], len(data)) == (1, 0b1010, 4096)
    cdw10 = reformat_cdw10(layout)
    assert cdw10 & 0xF | (cdw10 >> 12 & 3) << 4 == lba_format
    assert (cdw10 >> 4 & 1, cdw10 >> 5 & 7, cdw10 >> 8 & 1, cdw10 >> 9 & 7) == (1, 2, 1, 0)
