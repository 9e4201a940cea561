"""Between two runs nobody held the slot: what came between must not be certified as erased."""

from __future__ import annotations

import dataclasses
import itertools
from types import SimpleNamespace

import pytest

from eraser.case import run, verify
from eraser.case.entries import Again, CommandEntry, Planned, WasReset
from eraser.case.report import AfterLook
from eraser.case.session import CaseSession
from eraser.case.state import CaseState
from eraser.controller.passthru import CommandError
from eraser.errors import DriveError
from eraser.protocol.policy import Label, Method
from eraser.protocol.report import CommandRecord, HealthRecord, Verdict
from eraser.state.journal import read
from tests.unit.case.fakes import (
    HEALTH,
    RUNNING,
    SUCCESS,
    Bed,
    Crash,
    FakeController,
    FakeDrive,
    Plug,
    bed,
)

__all__ = ["bed"]

CRYPTO, BLOCK = 4, 2


@dataclasses.dataclass
class Unsealed(FakeDrive):
    """A drive that never sets Global Data Erased."""

    def log(self) -> bytes:
        raw = bytearray(super().log())
        self.gde = False
        raw[3] = 0
        return bytes(raw)


def crash_after(bed: Bed, kind: str) -> None:
    """Dies as soon as the journal ends in the entry for the first time."""
    kept = dataclasses.replace(bed.drive)
    for at in itertools.count():
        bed.files.clear()
        bed.drive = dataclasses.replace(kept, started=[])
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        if read(bed.files.journal)[-1].kind == kind:
            return


@pytest.mark.parametrize("step", ["WasReset", "Verified"])
def test_what_was_written_after_the_erase_is_erased_again(bed: Bed, step: str) -> None:
    crash_after(bed, step)
    bed.drive.write()
    report = bed.run()
    assert bed.drive.started == [CRYPTO, BLOCK, BLOCK]
    assert not bed.drive.written
    assert not CaseState.of(read(bed.files.journal)).retried, "the reading has its own round yet"
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons


@pytest.mark.parametrize("step", ["WasReset", "Verified"])
def test_what_the_drive_says_is_untouched_is_not_erased_again(bed: Bed, step: str) -> None:
    crash_after(bed, step)
    assert bed.run().verdict is Verdict.ERASED
    assert bed.drive.started == [CRYPTO, BLOCK]


@pytest.mark.parametrize(("now", "rounds"), [(7, 1), (8, 2), (None, 2)])
def test_without_the_seal_the_write_counter_decides(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, now: int | None, rounds: int
) -> None:
    def reset(session: CaseSession) -> None:
        if session.state.reset is None:
            session.note(WasReset("", 7))

    monkeypatch.setattr(verify, "reset", reset)
    monkeypatch.setattr(verify, "_writes", lambda _session: now)
    bed.drive = Unsealed(written=True)
    crash_after(bed, "Verified")
    assert bed.run().verdict is Verdict.ERASED
    assert bed.drive.started == [CRYPTO] + [BLOCK] * rounds


@pytest.mark.parametrize("told", [True, False])
def test_a_write_counter_that_stood_still_over_our_own_canaries_tells_nothing(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    def reset(session: CaseSession) -> None:
        if session.state.reset is None:
            session.note(WasReset("", 7))

    def read_health(_raw: bytes) -> HealthRecord:
        if not told:
            raise DriveError("expected log 02h, found none")
        return dataclasses.replace(HEALTH, host_write_commands=7)

    monkeypatch.setattr(verify, "reset", reset)
    monkeypatch.setattr(verify, "_writes", lambda _session: 7)
    monkeypatch.setattr(run.health, "read", read_health)
    bed.drive = Unsealed(written=True)
    crash_after(bed, "Verified")
    bed.drive.write()
    report = bed.run()
    assert not bed.drive.written
    assert bed.drive.started == [CRYPTO, BLOCK, BLOCK]
    assert report.verdict is Verdict.ERASED


def test_an_end_that_nobody_watched_counts_only_with_the_seal(bed: Bed) -> None:
    """It ended while the host was down, and the drive came back written to."""
    bed.drive = FakeDrive(written=True, looks=1 << 20)
    for at in itertools.count():
        bed.files.clear()
        bed.drive = FakeDrive(written=True, looks=1 << 20)
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        if bed.drive.status == RUNNING:
            break
    bed.drive.status, bed.drive.looks = SUCCESS, 3
    bed.drive.write()
    report = bed.run()
    assert bed.drive.started == [CRYPTO, CRYPTO, BLOCK]
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


class Deaf(FakeController):
    """Does not answer every other look at log 81h while it erases, or not at all."""

    deaf = False
    gone = False

    def sanitize_log(self) -> bytes:
        if self.drive.status == RUNNING:
            type(self).deaf = not self.deaf
            if self.deaf or self.gone:
                record = CommandRecord(("nvme",), 2, 0, 0x81, None, None, "", "", 0.0)
                raise CommandError("expected log 81h, found no completion", record)
        return super().sanitize_log()

    def check_place(self) -> None:
        pass


def listen_to(bed: Bed, monkeypatch: pytest.MonkeyPatch, *, gone: bool) -> None:
    monkeypatch.setattr(Deaf, "gone", gone)
    real = CaseSession.open

    def open_(session: CaseSession) -> None:
        real(session)
        monkeypatch.setattr(session, "_controller", Deaf(bed.drive, bed.plug))

    monkeypatch.setattr(CaseSession, "open", open_)


def test_a_look_that_is_not_answered_does_not_end_the_case(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen_to(bed, monkeypatch, gone=False)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert bed.drive.started == [CRYPTO, BLOCK]


def test_silence_has_an_end(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dataclasses.replace(bed.request.policy.limits, stuck=0.05)
    policy = dataclasses.replace(bed.request.policy, limits=limits)
    bed.request = dataclasses.replace(bed.request, policy=policy)
    listen_to(bed, monkeypatch, gone=True)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "no completion" in report.reasons[0]
    assert "0.05 s" in report.reasons[0]


@pytest.mark.parametrize(
    ("gde", "writes", "found"),
    [(True, 7, False), (True, 9, False), (False, 7, False), (False, None, False), (False, 9, True)],
)
def test_writes_under_our_hands_are_seen(
    bed: Bed, monkeypatch: pytest.MonkeyPatch, gde: bool, writes: int | None, found: bool
) -> None:
    """The seal is gone and writes were counted; either alone may be a habit of the drive."""
    seen: list[bool] = []

    def reset(session: CaseSession) -> None:
        if session.state.reset is None:
            session.note(WasReset("", 7))

    def look_again(session: CaseSession) -> AfterLook:
        bed.drive.gde = gde
        seen.append(verify.written_after(session))
        return AfterLook()

    monkeypatch.setattr(verify, "reset", reset)
    monkeypatch.setattr(verify, "_writes", lambda _session: writes)
    monkeypatch.setattr(run, "_look_again", look_again)
    bed.run()
    assert seen == [found]


def test_canaries_that_no_command_of_ours_followed_are_planted_anew(bed: Bed) -> None:
    """Another's sanitize may have taken them while nobody watched."""
    crash_after(bed, "Planted")
    assert bed.run().verdict is Verdict.ERASED
    planted = [line for line in read(bed.files.journal) if line.kind == "Planted"]
    assert [line.payload["place"] for line in planted] == [0, 0, 1]
    crash_after(bed, "Sent")
    assert bed.run().verdict is Verdict.ERASED
    planted = [line for line in read(bed.files.journal) if line.kind == "Planted"]
    assert [line.payload["place"] for line in planted] == [0, 1], "ours followed these"


def test_a_round_for_what_came_between_leaves_the_readings_own(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that the one more erase would make readable hold no honest drive."""
    state = CaseState()
    session = SimpleNamespace(state=state, policy=bed.request.policy)
    monkeypatch.setattr(verify.judging, "unreadable", lambda _result: "8 blocks cannot be read")

    def again() -> str:
        return verify._again(session, Verdict.UNKNOWN, None)  # type: ignore[arg-type]

    state.apply(Again("written to between two runs", read=False))
    assert (state.rounds, again()) == (2, "8 blocks cannot be read")
    state.apply(Again("8 blocks cannot be read"))
    assert (state.rounds, again()) == (3, "")
