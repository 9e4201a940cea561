"""Between two runs nobody held the slot: what came between must not be certified as erased."""

from __future__ import annotations

import dataclasses
import errno
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from eraser.case.entries import Again, CommandEntry, Planned
from eraser.case.state import CaseState
from eraser.protocol.policy import Label, Method
from eraser.protocol.report import Step, Verdict
from eraser.state.journal import Journal, UnknownEntryError, read
from tests.lab.nvme.composed.host import Answer
from tests.unit.case.bed import GET_LOG, SANITIZE_LOG, Bed, Firmware, bed
from tests.unit.case.fakes import Crash, Plug

__all__ = ["bed"]

CRYPTO, BLOCK = 4, 2
SMART_LOG = 0x02
GDE = 1
"""Global Data Erased, in byte 3 of log 81h."""
WRITES = slice(80, 96)
"""Host Write Commands of log 02h (Base 2.0, figure 207)."""
Done = Callable[[], Answer]


def reads(opcode: int, words: dict[str, Any], log: int) -> bool:
    return (opcode, words.get("cdw10", 0) & 0xFF) == (GET_LOG, log)


def unsealed(opcode: int, words: dict[str, Any], done: Done) -> Answer:
    """A drive that never sets Global Data Erased."""
    answer = done()
    if not reads(opcode, words, SANITIZE_LOG):
        return answer
    raw = bytearray(answer.data)
    raw[3] &= ~GDE
    return dataclasses.replace(answer, data=bytes(raw))


def uncounted(opcode: int, words: dict[str, Any], done: Done) -> Answer:
    """One that does not tell its health either."""
    if reads(opcode, words, SMART_LOG):
        return dataclasses.replace(done(), code=0x02, data=b"")
    return unsealed(opcode, words, done)


@pytest.mark.parametrize("step", ["WasReset", "Verified"])
def test_what_was_written_after_the_erase_is_erased_again(bed: Bed, step: str) -> None:
    bed.crash_after(step)
    bed.dirty()
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK, BLOCK]
    assert not bed.kept
    assert not CaseState.of(read(bed.files.journal)).retried, "the reading has its own round yet"
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons


@pytest.mark.parametrize("line", [("Later", {}), ("Drawn", {"seed": "1", "later": 1})])
def test_what_another_release_wrote_ends_no_case(bed: Bed, line: tuple[str, object]) -> None:
    """The host was set back, and a command of the newer release may be under way."""
    bed.crash_after("Intent")
    path = bed.files.journal
    known = path.read_bytes()
    journal = Journal(path)
    journal.append(*line)
    journal.close()
    written, started, said = path.read_bytes(), list(bed.started), list[str]()
    bed.told = lambda _step, _fraction, detail: said.append(detail)
    for _ in range(2):
        with pytest.raises(UnknownEntryError, match="waits for the release that wrote it"):
            bed.run()
    assert (path.read_bytes(), bed.started, bed.files.finished()) == (written, started, False)
    assert "ater" in said[-1], "people are told of it"
    path.write_bytes(known)
    assert bed.run().verdict is Verdict.ERASED


@pytest.mark.parametrize("step", ["WasReset", "Verified"])
def test_what_the_drive_says_is_untouched_is_not_erased_again(bed: Bed, step: str) -> None:
    bed.crash_after(step)
    assert bed.run().verdict is Verdict.ERASED
    assert bed.started == [CRYPTO, BLOCK]


@pytest.mark.parametrize(("between", "rounds"), [("nothing", 1), ("writes", 2), ("silence", 2)])
def test_without_the_seal_the_write_counter_decides(bed: Bed, between: str, rounds: int) -> None:
    bed.firmware = unsealed
    bed.crash_after("Verified")
    if between == "writes":
        bed.dirty()
    elif between == "silence":
        bed.firmware = uncounted
    assert bed.run().verdict is Verdict.ERASED
    assert not bed.kept
    assert bed.started == [CRYPTO] + [BLOCK] * rounds


def stands_still(*, at_first: bool) -> Firmware:
    """A drive whose Host Write Commands are 7 for ever; ``at_first``: also as the case finds it."""
    asked = itertools.count()

    def firmware(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        if not reads(opcode, words, SMART_LOG):
            return unsealed(opcode, words, done)
        if not next(asked) and not at_first:
            return dataclasses.replace(done(), code=0x02, data=b"")
        answer = done()
        raw = bytearray(answer.data)
        raw[WRITES] = (7).to_bytes(16, "little")
        return dataclasses.replace(answer, data=bytes(raw))

    return firmware


@pytest.mark.parametrize("told", [True, False])
def test_a_write_counter_that_stood_still_over_our_own_canaries_tells_nothing(
    bed: Bed, told: bool
) -> None:
    bed.firmware = stands_still(at_first=told)
    bed.crash_after("Verified")
    bed.dirty()
    report = bed.run()
    assert not bed.kept
    assert bed.started == [CRYPTO, BLOCK, BLOCK]
    assert report.verdict is Verdict.ERASED


def test_an_end_that_nobody_watched_counts_only_with_the_seal(bed: Bed) -> None:
    """It ended while the host was down, and the drive came back written to."""
    for at in itertools.count():
        bed.files.clear()
        bed.anew(looks=1 << 20)
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        if bed.running:
            break
    bed.sanitizer.end()
    bed.sanitizer.looks = 3
    bed.dirty()
    report = bed.run()
    assert bed.started == [CRYPTO, CRYPTO, BLOCK]
    assert report.methods[0].attempts == 2
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons


def test_another_round_repeats_every_format_or_the_last_sanitize() -> None:
    def state(*commands: CommandEntry) -> CaseState:
        made = CaseState()
        made.apply(Planned(commands, Label.PURGE, downgraded=False, refusal=""))
        made.apply(Again("why"))
        return made

    one, two = (CommandEntry(Method.FORMAT_USER_DATA, 0x80, nsid, 0x200) for nsid in (1, 2))
    assert state(one, two).steps == (one, two, one, two)
    crypto = CommandEntry(Method.SANITIZE_CRYPTO, 0x84, 0, CRYPTO)
    block = CommandEntry(Method.SANITIZE_BLOCK, 0x84, 0, BLOCK)
    assert state(crypto, block).steps == (crypto, block, block)


def deaf(bed: Bed, *, gone: bool) -> None:
    """It does not answer every other look at log 81h while it erases, or not at all."""
    asked = itertools.count()

    def firmware(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        if reads(opcode, words, SANITIZE_LOG) and bed.running and (gone or next(asked) % 2 == 0):
            # The kernel gave up waiting, and has reset the controller.
            raise OSError(errno.EINTR, "no completion")
        return done()

    bed.firmware = firmware


def test_a_look_that_is_not_answered_does_not_end_the_case(bed: Bed) -> None:
    deaf(bed, gone=False)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert bed.started == [CRYPTO, BLOCK]


def test_silence_has_an_end(bed: Bed) -> None:
    bed.ask(limits=dataclasses.replace(bed.request.policy.limits, stuck=7))
    deaf(bed, gone=True)
    bed.sanitizer.looks = 1 << 20
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "no completion" in report.reasons[0]
    assert "7 s" in report.reasons[0]


def test_a_drive_that_left_its_slot_is_not_waited_for(bed: Bed) -> None:
    """It answers nothing either, and no patience brings it back."""
    left: list[float] = []

    def firmware(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        if reads(opcode, words, SANITIZE_LOG) and bed.running and not left:
            bed.kernel.remove()
            left.append(bed.clock.now)
        if left:
            raise OSError(errno.ENODEV, "No such device")
        return done()

    bed.firmware = firmware
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "found it gone" in report.reasons[0]
    assert bed.clock.now - left[0] < bed.policy.limits.stuck


@pytest.mark.parametrize(
    ("sealed", "counts", "found"),
    [
        ("stays", "nothing", False),
        ("stays", "more", False),
        ("goes", "nothing", False),
        ("goes", "silence", False),
        ("goes", "more", True),
    ],
)
def test_writes_under_our_hands_are_seen(bed: Bed, sealed: str, counts: str, found: bool) -> None:
    """The seal is gone and writes were counted; either alone may be a habit of the drive."""

    def firmware(opcode: int, words: dict[str, Any], done: Done) -> Answer:
        if reads(opcode, words, SMART_LOG):
            answer = done()
            if counts == "silence":
                return dataclasses.replace(answer, code=0x02, data=b"")
            raw = bytearray(answer.data)
            written = int.from_bytes(raw[WRITES], "little") + (counts == "more")
            raw[WRITES] = written.to_bytes(16, "little")
            return dataclasses.replace(answer, data=bytes(raw))
        return unsealed(opcode, words, done) if sealed == "goes" else done()

    def told(step: Step, _fraction: float, _detail: str) -> None:
        if step is Step.REPORT:
            bed.firmware = firmware

    bed.told = told
    report = bed.run()
    assert report.verdict is Verdict.ERASED
    assert any("written to after the erase" in reason for reason in report.reasons) is found


def test_somebody_who_writes_under_our_hands_is_seen(bed: Bed) -> None:
    """With the drive's own seal and counter."""

    def told(step: Step, _fraction: float, _detail: str) -> None:
        if step is Step.REPORT and not bed.kept:
            bed.dirty()

    bed.told = told
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, False)
    assert any("written to after the erase" in reason for reason in report.reasons)


def test_canaries_that_no_command_of_ours_followed_are_planted_anew(bed: Bed) -> None:
    """Another's sanitize may have taken them while nobody watched."""
    bed.crash_after("Planted")
    assert bed.run().verdict is Verdict.ERASED
    planted = [line for line in read(bed.files.journal) if line.kind == "Planted"]
    assert [line.payload["place"] for line in planted] == [0, 0, 1]
    bed.files.clear()
    bed.anew()
    bed.crash_after("Sent")
    assert bed.run().verdict is Verdict.ERASED
    planted = [line for line in read(bed.files.journal) if line.kind == "Planted"]
    assert [line.payload["place"] for line in planted] == [0, 1], "ours followed these"
