"""What a review of erasing against hostile tenants found, each held by a test: the machine on the
lab's drive model."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case import run, subsystem
from eraser.case.entries import Entry, Sent
from eraser.case.state import CaseState
from eraser.controller.lock import SlotLock
from eraser.errors import InUseError
from eraser.host.sysfs import Host
from eraser.protocol.policy import Label, Method, Quirk
from eraser.protocol.report import Outcome, Verdict
from eraser.state.journal import Journal, read
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.faults import EraseFault, Faults
from tests.lab.nvme.leftovers import TENANT_HOST, Leftovers
from tests.lab.nvme.namespacesanitize import VERSION
from tests.lab.nvme.profile import DriveProfile, FlexibleProfile, NamespaceProfile, SecurityProfile
from tests.lab.nvme.state import Registrant, ReservationState, SecurityState
from tests.unit.case.bed import Bed
from tests.unit.case.fakes import SLOT, Crash
from tests.unit.case.test_latecomers import opened
from tests.unit.case.test_restore import (
    CHANGES,
    DETACHED,
    DRIVE,
    FORMAT_ONLY,
    GAPS,
    ONE_METHOD,
    OTHER_SECTORS,
    PLAIN,
    SCATTERED,
    fit,
    make_bed,
)

Done = Callable[[], Answer]
IDENTIFY, MANAGEMENT, RESERVATION_REPORT, ATTACHMENT = 0x06, 0x0D, 0x0E, 0x15
NAMED = (0x09, 0x81)
"""Set Features, the host identifier."""
SERIAL = slice(4, 24)
BLOCK = 2


def test_a_layout_restored_after_an_adopted_sanitize_is_erased_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal was lost while the last sanitize ran. Fresh namespaces read as blank whatever
    that sanitize did, so reading them proves nothing of it."""
    made = make_bed(tmp_path, monkeypatch)
    made.sanitizer.looks = 9
    made.leave(OTHER_SECTORS)
    made.bench.admin(0x84, cdw10=BLOCK)
    report = made.run()
    assert [m.adopted for m in report.methods] == [True, False], report.methods
    assert made.planted[-1][1] == (1,)
    assert "format_nvm" in made.names()
    fit(report)


def test_what_a_quirk_forbids_is_not_sent_to_a_restored_layout_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    lies = Quirk(
        model="*",
        reason="its sanitize was seen to lie",
        skip=(Method.SANITIZE_BLOCK, Method.SANITIZE_CRYPTO),
    )
    made.policy = replace(made.policy, quirks=(lies,))
    made.leave(OTHER_SECTORS)
    report = made.run()
    assert "sanitize" not in made.names()
    assert report.achieved is Label.CLEAR


def test_a_question_that_is_never_answered_keeps_no_drive_from_being_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel gives up and resets the controller: erased, then held."""
    made = make_bed(tmp_path, monkeypatch)

    def silent(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        if words.get("io") and opcode == RESERVATION_REPORT:
            raise OSError(errno.EINTR, "no completion")
        return done()

    made.firmware = silent
    report = made.run()
    assert made.names() == ["sanitize", "sanitize"]
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert "inspection after the erase: " in " ".join(report.reasons)


QUESTIONS = {
    "security protocols": (replace(DRIVE, security=SecurityProfile()), 0x82, 0, 0),
    "descriptors": (DRIVE, IDENTIFY, 3, 1),
    "flexible resources": (replace(DRIVE, flexible=FlexibleProfile()), IDENTIFY, 0x14, 0),
    "sanitize of a namespace": (replace(DRIVE, version=VERSION), 0x02, 0x81, 1),
    "allocated": (replace(DRIVE, version=VERSION), IDENTIFY, 0x10, 0),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_optional_question_that_is_never_answered_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The kernel resets the controller, and the drive comes back."""
    drive, code, low, nsid = QUESTIONS[name]
    made = make_bed(tmp_path, monkeypatch, drive)
    asked = []

    def silent(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        cdw10 = words.get("cdw10", 0)
        field = cdw10 >> 24 if opcode == 0x82 else cdw10 & 0xFF
        if words.get("io") or (opcode, field, words.get("nsid", 0)) != (code, low, nsid):
            return done()
        asked.append(opcode)
        made.kernel.reset()
        raise OSError(errno.EINTR, "no completion")

    made.firmware = silent
    report = made.run()
    assert made.names() == ["sanitize", "sanitize"]
    if name == "allocated":
        assert (report.verdict, report.fit) == (Verdict.ERASED, False)
        assert "allocated namespaces" in " ".join(report.reasons)
    else:
        fit(report)
        assert len(asked) == 1


def test_a_drive_that_was_rearranged_is_not_said_to_be_untouched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In use, found after namespaces were deleted: the case was begun and must not begin anew, as
    if nothing had been sent."""
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.leave(SCATTERED)

    def noted(entry: Entry) -> None:
        if isinstance(entry, Sent) and "namespace_management" in made.names():
            made.noted = lambda _entry: None
            opened(made.kernel.root)

    made.noted = noted
    report = made.run()
    assert report.outcome is Outcome.COMPLETED
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "expected an unused drive" in report.reasons[0]
    assert made.names().count("namespace_management") == 1


def test_each_namespace_is_deleted_only_from_the_drive_of_the_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch, ONE_METHOD)
    made.policy = PLAIN
    made.leave(SCATTERED)

    def another(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        answer = done()
        controller = opcode == IDENTIFY and words["cdw10"] & 0xFF == 1
        if not controller or "namespace_management" not in made.names():
            return answer
        data = bytearray(answer.data)
        data[SERIAL] = b"ANOTHER".ljust(20)
        return replace(answer, data=bytes(data))

    made.firmware = another
    made.run()
    assert made.names() == ["namespace_management"]


def test_no_namespace_is_deleted_whose_format_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Format reaches nothing that belongs to no namespace: the next case would certify a drive
    that still has this one's data."""
    made = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    made.policy = PLAIN
    made.leave(SCATTERED)
    made.bench.drive.set_faults(Faults(format=EraseFault.FAIL))
    report = made.run()
    assert "namespace_management" not in made.names()
    assert report.fit is False
    assert {m.verdict for m in report.methods} == {Verdict.NOT_ERASED}


def test_what_an_older_version_did_not_write_down_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its probes stand, and nothing is erased once more, when this version takes its case up."""
    made = make_bed(tmp_path, monkeypatch)
    made.crash_after("Planned")
    rewrite(made.files.journal)
    fit(made.run())
    assert made.names() == ["sanitize", "sanitize"]
    state = CaseState.of(read(made.files.journal))
    assert state.inspected is not None
    assert state.inspected.facts is not None
    assert state.inspected.facts.namespaces[0].capacity is None
    assert state.restored is not None
    assert not state.restored.changed
    assert state.kept(1)


def rewrite(journal: Path) -> None:
    """As a version wrote it that knew nothing of these."""
    lines = read(journal)
    journal.unlink()
    older = Journal(journal)
    for line in lines:
        if line.kind == "Inspected":
            for each in line.payload["facts"]["namespaces"]:
                each.update(capacity=None, sharing=None, extended_metadata=None)
        older.append(line.kind, line.payload)
    older.close()


def test_a_protected_namespace_that_is_not_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_bed(tmp_path, monkeypatch)
    made.leave(
        Leftovers(
            namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.2, attached=False)],
            write_protect={2: 1},
        )
    )
    fit(made.run())


@pytest.mark.parametrize("dies", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("drive", [DRIVE, ONE_METHOD, FORMAT_ONLY], ids=["two", "one", "format"])
def test_what_a_host_registered_with_a_namespace_that_is_not_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, dies: bool
) -> None:
    """A report of it travels through an attached namespace, so it shows only once that is one."""
    made = make_bed(tmp_path, monkeypatch, drive)
    made.leave(DETACHED)
    left = made.drive.state.namespace(1)
    assert left is not None
    left.reservation = ReservationState(1, persist=True, registrants=[Registrant(TENANT_HOST, 7)])

    def noted(entry: Entry) -> None:
        if dies and isinstance(entry, Sent) and entry.command.opcode == ATTACHMENT:
            made.noted = lambda _entry: None
            raise Crash

    made.noted = noted
    with contextlib.suppress(Crash):
        made.run()
    fit(made.run())
    assert not left.reservation.registrants


def names(made: Bed) -> int:
    """Times that the drive was told who we are."""
    return sum(entry.cdws[0] == NAMED[1] for entry in made.bench.commands("set_features"))


@pytest.mark.parametrize("kind", [1, 2, 0], ids=["held", "exclusive", "registered"])
@pytest.mark.parametrize("drive", [DRIVE, FORMAT_ONLY], ids=["sanitize", "format"])
def test_reservations_of_a_drive_that_tells_no_nameless_host_of_them_are_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, kind: int
) -> None:
    """RHII (Base 2.1, 8.1.22): refused was taken for none, and an honest drive held, each time."""
    made = make_bed(tmp_path, monkeypatch, replace(drive, wants_host_identifier=True))
    left = made.drive.state.namespace(1)
    assert left is not None
    holder = TENANT_HOST if kind else ""
    one = Registrant(TENANT_HOST, 7)
    left.reservation = ReservationState(1, kind, holder, persist=True, registrants=[one])
    before = names(made)
    report = made.run()
    fit(report)
    assert not left.reservation.registrants
    assert left.reservation.kind == 0
    told = [command for command in report.commands if (command.opcode, command.cdw10) == NAMED]
    assert len(told) == names(made) - before > 0


def test_a_drive_in_use_is_told_no_name_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lasts until the next reset, and whoever has the drive has not asked for one."""
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, wants_host_identifier=True))

    def used(_session: object) -> None:
        raise InUseError("another controller of it is in use")

    made.kernel.reset()
    before = names(made)
    monkeypatch.setattr(subsystem, "check", used)
    assert made.run().outcome is Outcome.IN_USE
    assert names(made) == before


@pytest.mark.parametrize("locked", [False, True], ids=["set", "locked"])
def test_a_password_of_ata_is_told_and_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, locked: bool
) -> None:
    """It outlives every erase, and the next power cycle locks the next tenant out."""
    security = SecurityProfile(ata_password=True)
    made = make_bed(tmp_path, monkeypatch, replace(DRIVE, security=security))
    made.leave(Leftovers(security=SecurityState(password=True, password_locked=locked)))
    report = made.run()
    assert report.fit is False
    assert (report.verdict is Verdict.ERASED) is not locked
    assert "take it off with the drive's master password" in " ".join(report.reasons)


def test_a_reservation_that_keeps_the_only_namespace_away_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder alone may attach it: to create one, as people were told, would not do either."""
    made = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    made.leave(DETACHED)
    left = made.drive.state.namespace(1)
    assert left is not None
    holder = Registrant(TENANT_HOST, 7)
    left.reservation = ReservationState(1, 1, TENANT_HOST, persist=True, registrants=[holder])
    report = made.run()
    assert report.verdict is Verdict.UNKNOWN
    assert "found none; restore: expected success, found status 0x083" in report.reasons[0]


@pytest.mark.parametrize(
    ("drive", "left"),
    [
        (DRIVE, SCATTERED),
        (replace(DRIVE, namespaces=GAPS), Leftovers(namespaces=[NamespaceProfile(3, 0.1)])),
    ],
    ids=["scattered", "gaps"],
)
def test_a_drive_that_never_answers_a_delete_is_asked_once_and_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: DriveProfile, left: Leftovers
) -> None:
    """Each would cost the time limit of a Format; a tenant can leave a thousand namespaces."""
    made = make_bed(tmp_path, monkeypatch, drive)
    made.policy = PLAIN
    made.leave(left)
    asked = []

    def silent(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        if opcode != MANAGEMENT or words.get("io"):
            return done()
        asked.append(words["cdw10"])
        raise OSError(errno.EINTR, "Interrupted")

    made.firmware = silent
    report = made.run()
    assert len(asked) == 1
    assert [m.verdict for m in report.methods] == [Verdict.ERASED, Verdict.ERASED]
    assert report.fit is False
    assert "no completion" in " ".join(report.reasons)


def test_the_child_of_a_change_is_waited_for_as_that_of_a_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lock for as long as the drive may still be deleting."""
    made = make_bed(tmp_path, monkeypatch)
    made.leave(SCATTERED)
    made.cut = CHANGES["delete"]
    with pytest.raises(Crash):
        made.run()
    lock = SlotLock(SLOT.address, tmp_path / "run")
    assert not run._orphan_is_left(lock, made.files, Host()), "its sender lives"
    lock.path.write_text(str(1 << 30))
    assert run._orphan_is_left(lock, made.files, Host())


def test_a_change_without_end_is_in_the_report_and_was_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its child lives on and may still move namespaces: no later run says that nothing was sent."""
    made = make_bed(tmp_path, monkeypatch)
    made.policy = replace(PLAIN, limits=replace(PLAIN.limits, format=60))
    made.leave(SCATTERED)
    made.child_stays = True
    report = made.run()
    assert (report.outcome, report.verdict) == (Outcome.COMPLETED, Verdict.UNKNOWN)
    assert "delete namespace" in report.reasons[0]
    assert report.commands[-1].message.endswith("interrupted; its end is unknown")
    assert CaseState.of(read(made.files.journal)).rearranged
