"""A Format whose run died: between that run and the next one the drive was nobody's."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.case import format as case_format
from eraser.case import verify
from eraser.case.entries import MethodDone, Planted
from eraser.case.format import MAX_ATTEMPTS
from eraser.case.state import CaseState
from eraser.controller.lock import SlotLock
from eraser.controller.passthru import CNS_NAMESPACE, FORMAT_NVM, IDENTIFY
from eraser.controller.spec import SmartLog
from eraser.erase import format as format_nvm
from eraser.errors import DriveError
from eraser.protocol.policy import Method
from eraser.protocol.report import MethodRecord, Verdict
from eraser.state.journal import read
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.faults import HEALTHY, Faults, WriteFault
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import NamespaceProfile
from tests.unit.case.bed import Bed
from tests.unit.case.fakes import SLOT, Crash, Plug
from tests.unit.case.test_restore import FORMAT_ONLY, PLAIN, TWO, fit, make_bed

USER_DATA = 0x200
HALVES = Leftovers(namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.3, attached=False)])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    bed = make_bed(tmp_path, monkeypatch, FORMAT_ONLY)
    bed.policy = PLAIN
    return bed


def dies_in_format(made: Bed, nth: int = 1, *, result: bool) -> None:
    """In the how many-th Format; ``result``: its child writes down how it ended."""
    made.cut, made.cut_nth, made.child_writes = (FORMAT_NVM, USER_DATA), nth, result
    with pytest.raises(Crash):
        made.run()
    made.child_writes = True


def test_canaries_of_a_format_whose_end_nobody_knows_are_planted_anew(made: Bed) -> None:
    """It may never have reached the drive, and another may have taken them meanwhile."""
    dies_in_format(made, result=False)
    fit(made.run())
    assert [place for place, _where in made.planted] == [0, 0]
    assert CaseState.of(read(made.files.journal)).canaries_planted


def test_an_end_that_no_run_watched_is_no_end(made: Bed) -> None:
    """Its child ended and let go of the slot: until the next run anybody may have written."""
    dies_in_format(made, result=True)
    report = made.run()
    fit(report)
    assert [place for place, _where in made.planted] == [0, 0]
    assert report.methods[0].attempts == 2
    assert made.names() == ["format_nvm", "format_nvm"]
    assert [command.opcode for command in report.commands] == [FORMAT_NVM, FORMAT_NVM]


def test_an_end_that_the_next_run_waited_for_counts(
    made: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child had the slot until this run took it."""
    dies_in_format(made, result=True)
    child = SlotLock(SLOT.address, made.directory / "run")
    child.acquire()
    child.path.write_text(str(1 << 30))

    passes = made.clock.wait

    def wait(seconds: float) -> None:
        child.release()
        passes(seconds)

    monkeypatch.setattr(made.clock, "wait", wait)
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 1
    assert made.names() == ["format_nvm"]
    assert CaseState.of(read(made.files.journal)).canaries_planted, "ours followed these"


@pytest.mark.parametrize("result", [True, False])
def test_a_round_of_formats_that_a_run_did_not_end_is_done_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: bool
) -> None:
    """What was written meanwhile onto the first namespace, no Format of the rest reaches."""
    made = make_bed(tmp_path, monkeypatch, replace(FORMAT_ONLY, namespaces=TWO))
    made.policy = PLAIN
    dies_in_format(made, 2, result=result)
    report = made.run()
    fit(report)
    assert [method.nsid for method in report.methods] == [1, 2, 1, 2]
    assert made.planted[-1] == (2, (1, 2)), "with canaries of its own"
    assert not CaseState.of(read(made.files.journal)).retried, "the reading has its own round yet"


def test_a_run_that_ends_between_two_formats_costs_one_round_and_no_other_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in itertools.count():
        place = tmp_path / f"at-{at}"
        place.mkdir()
        made = make_bed(place, monkeypatch, replace(FORMAT_ONLY, namespaces=TWO))
        made.policy = PLAIN
        with contextlib.suppress(Crash):
            made.run(Plug(at, after=True))
        done = [method.nsid for method in CaseState.of(read(made.files.journal)).methods]
        if done == [1, 2]:
            return  # what is done about an erase that has ended is the matter of test_gap.py
        report = made.run()
        fit(report)
        assert [method.nsid for method in report.methods] == [1, 2] * (2 if done else 1), at


@pytest.mark.parametrize(
    ("attempts", "planted", "again"), [(2, 0, True), (2, 9, False), (1, 0, False)]
)
def test_a_drive_that_was_still_formatting_when_they_were_planted_anew_is_erased_once_more(
    made: Bed, monkeypatch: pytest.MonkeyPatch, attempts: int, planted: int, again: bool
) -> None:
    """Nothing but the interruption kept them off, and content may not decide."""
    monkeypatch.setattr(verify.judging, "unreadable", lambda _result: "")
    monkeypatch.setattr(verify.judging, "unstable", lambda _result: "")
    state = CaseState()
    record = MethodRecord(
        Method.FORMAT_CRYPTO, 0x400, 1, attempts, False, "", "", False, Verdict.ERASED, "", 1.0, ""
    )
    state.apply(Planted(0, planted, ()))
    state.apply(MethodDone(0, record, halt=False))
    session = SimpleNamespace(state=state, policy=made.policy)
    said = verify._again(session, Verdict.UNKNOWN, None)  # type: ignore[arg-type]
    assert ("a Format that was interrupted" in said) is again


def tells(made: Bed, progress: Callable[[int], int]) -> None:
    """What FPI is after so many Formats, by Identify Namespace (NVM 1.0, 4.1.5.1)."""
    formats = 0

    def firmware(opcode: int, words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        nonlocal formats
        answer = done()
        formats += opcode == FORMAT_NVM and not answer.code
        if opcode != IDENTIFY or words.get("cdw10", 0) & 0xFF != CNS_NAMESPACE:
            return answer
        raw = bytearray(answer.data)
        raw[32] = progress(formats)
        return replace(answer, data=bytes(raw))

    made.firmware = firmware


@pytest.mark.parametrize(
    ("progress", "power", "waits"),
    [
        # What the power cut off stands there until a Format is through.
        (lambda formats: 0x80 | 40 * (formats == 1), 1, (900, 910)),
        # What a reset cut off, too: but the drive had power all the time, and could be formatting.
        (lambda formats: 0x80 | 40 * (formats == 1), 0, (3600, 3610)),
        # Without bit 7 the drive has no such indicator, whatever the rest says.
        (lambda _formats: 40, 0, (0, 5)),
    ],
    ids=["power", "reset", "none"],
)
def test_a_format_that_is_over_for_good_keeps_the_next_one_from_nothing(
    made: Bed, progress: Callable[[int], int], power: int, waits: tuple[int, int]
) -> None:
    dies_in_format(made, result=False)
    made.drive.counters.add(Counter.POWER_CYCLES, power)
    tells(made, lambda formats: progress(formats + 1))
    began = made.clock.now
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 2
    assert waits[0] <= made.clock.now - began < waits[1]


def test_a_drive_that_tells_of_no_power_cycles_is_waited_for(
    made: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether it lost its power; and that costs it nothing but time."""
    dies_in_format(made, result=False)
    made.drive.counters.add(Counter.POWER_CYCLES)
    tells(made, lambda formats: 0x80 | 40 * (formats == 0))

    def untold(_raw: bytes) -> SmartLog:
        raise DriveError("the SMART log (02h): expected 512 bytes")

    monkeypatch.setattr(case_format, "SmartLog", SimpleNamespace(parse=untold))
    began = made.clock.now
    fit(made.run())
    assert 3600 <= made.clock.now - began < 3610


def test_a_format_that_goes_on_is_waited_for(made: Bed) -> None:
    """For longer than one may stand still."""
    dies_in_format(made, result=False)
    began = made.clock.now
    tells(made, lambda _formats: 0x80 | max(0, 10 - int(made.clock.now - began) // 100))
    fit(made.run())
    assert 1000 <= made.clock.now - began < 1010


def test_a_format_that_shows_no_progress_is_waited_for_as_long_as_the_drive_kept_its_power(
    made: Bed,
) -> None:
    """The host alone rebooted, and FPI goes by coarse steps."""
    dies_in_format(made, result=False)
    began = made.clock.now
    tells(made, lambda _formats: 0x80 | 40 * (made.clock.now - began < 3000))
    fit(made.run())
    assert 3000 <= made.clock.now - began < 3010


def forgets_writes(made: Bed) -> None:
    """Until the next Format the drive calls writes done, and stores nothing of them."""
    made.drive.set_faults(Faults(writes=WriteFault.DROP))

    def formats(opcode: int) -> None:
        if opcode == FORMAT_NVM:
            made.drive.set_faults(HEALTHY)

    made.meanwhile = formats


def test_writes_that_a_format_took_along_are_not_the_drives_lie(made: Bed) -> None:
    """It ran on and took writes all the same: they are there formatted."""
    dies_in_format(made, result=False)
    made.drive.counters.add(Counter.POWER_CYCLES)
    tells(made, lambda formats: 0x80 | 40 * (formats == 0))
    forgets_writes(made)
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 2
    assert report.verification is not None
    assert report.verification.canaries_planted == 0, "they prove nothing either"


def test_writes_that_were_forgotten_before_any_format_are_a_lie(made: Bed) -> None:
    """An interruption takes nothing of it back."""
    forgets_writes(made)
    dies_in_format(made, result=False)
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert "writes done and stored something else" in " ".join(report.reasons)


def refused(made: Bed, times: int) -> None:
    """The drive ends the next Formats with Internal Error."""
    left = itertools.repeat(True, times)

    def firmware(opcode: int, _words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == FORMAT_NVM and next(left, False):
            return Answer(0x06, 0, False, b"", b"")
        return done()

    made.firmware = firmware


def test_an_attempt_that_was_interrupted_is_none_that_failed(made: Bed) -> None:
    """A power cut, and then one failure that passes."""
    dies_in_format(made, result=False)
    refused(made, 1)
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 3


def test_a_format_that_fails_twice_is_not_sent_a_third_time(made: Bed) -> None:
    dies_in_format(made, result=False)
    refused(made, 3)
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.NOT_ERASED, False)
    assert report.methods[0].attempts == 3
    assert "status 0x006" in report.methods[0].reason


@pytest.mark.parametrize("result", [True, False])
def test_a_format_that_takes_its_host_down_each_time_is_not_sent_for_ever(
    made: Bed, result: bool
) -> None:
    for _each in range(MAX_ATTEMPTS):
        dies_in_format(made, result=result)
    sent = len(made.names())
    report = made.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert f"{MAX_ATTEMPTS} attempts in all" in report.methods[0].reason
    assert len(made.names()) == sent


def test_on_a_disk_without_room_for_its_end_no_format_is_sent(
    made: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could end well without a word of it. With room again the case goes on as if never cut."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        for _start in range(3):
            with pytest.raises(OSError, match="No space left"):
                made.run()
    assert made.names() == []
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 1


def as_glibc(descriptor: int, _offset: int, length: int) -> None:
    """Without fallocate(2), each block that the file has is read before it is written."""
    if os.fstat(descriptor).st_size:
        os.pread(descriptor, 1, 0)
    os.pwrite(descriptor, bytes(length), 0)


def as_musl(*_: object) -> None:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


@pytest.mark.parametrize("library", [as_glibc, as_musl])
@pytest.mark.parametrize("left", [Leftovers(), HALVES], ids=["", "halves"])
def test_a_file_system_without_fallocate_is_as_good(
    made: Bed, monkeypatch: pytest.MonkeyPatch, library: Callable[..., None], left: Leftovers
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", library)
    made.leave(left)
    dies_in_format(made, result=True)
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 2


def test_once_a_format_is_in_the_journal_no_room_is_asked_for(
    made: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    take = os.posix_fallocate

    def seen(*words: int) -> None:
        asked.append(CaseState.of(read(made.files.journal)).intent is None)
        take(*words)

    monkeypatch.setattr(os, "posix_fallocate", seen)
    fit(made.run())
    assert asked
    assert all(asked)


def test_a_sender_that_dies_without_a_word_says_nothing_of_the_drive(
    made: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, left = format_nvm._write, itertools.repeat(True, 3)
    monkeypatch.setattr(
        format_nvm, "_write", lambda *words: None if next(left, False) else write(*words)
    )
    report = made.run()
    fit(report)
    assert report.methods[0].attempts == 4
