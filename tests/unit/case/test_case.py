"""The order of steps: dying anywhere, with one report and no needless command."""

from __future__ import annotations

import dataclasses
import errno
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from eraser.case.entries import AttemptOver, CommandEntry, Intent
from eraser.case.format import Format
from eraser.case.state import CaseState
from eraser.controller.lock import SlotLock
from eraser.erase.plan import OPCODE_FORMAT, OPCODE_SANITIZE
from eraser.errors import BusyError
from eraser.protocol.policy import Method
from eraser.protocol.report import Outcome, Verdict
from eraser.state.case_files import CaseFiles
from eraser.state.journal import read
from tests.lab.nvme.composed.host import Answer
from tests.lab.nvme.faults import EraseFault, Faults
from tests.unit.case.bed import Bed, bed
from tests.unit.case.fakes import DRIVE, IDENTITY, REQUEST, SLOT, Crash, Plug, ordered

__all__ = ["bed"]

CRYPTO, BLOCK, FOREIGN = 4, 2, 0x0B
OTHER = dataclasses.replace(DRIVE, serial="OTHER")
FAILS, STALE = Faults(sanitize=EraseFault.FAIL), Faults(sanitize=EraseFault.STALE)
MOST_ACTS = 60


def test_an_honest_drive(bed: Bed) -> None:
    report = bed.run()
    assert (report.outcome, report.verdict, report.fit) == (Outcome.COMPLETED, Verdict.ERASED, True)
    assert bed.started == [CRYPTO, BLOCK]
    assert [m.changed for m in report.methods] == [True, True]
    assert report.identity == IDENTITY
    assert report.resumed == 0
    assert bed.files.finished()
    assert bed.files.kept_report(report).exists()
    assert bed.run() == report, "a finished case gives its report again"
    assert bed.started == [CRYPTO, BLOCK]


def acts(bed: Bed) -> int:
    bed.run()
    count = bed.plug.acts
    bed.files.clear()
    assert 20 < count < MOST_ACTS
    return count


@pytest.mark.parametrize(("after", "stride"), [(True, 1), (False, 3)], ids=["after", "before"])
def test_killed_at_every_act_once(bed: Bed, after: bool, stride: int) -> None:
    for at in range(0, acts(bed), stride):
        bed.files.clear()
        bed.anew()
        with pytest.raises(Crash):
            bed.run(Plug(at, after))
        report = bed.run()
        assert (report.verdict, report.fit) == (Verdict.ERASED, True), (at, report.reasons)
        assert bed.started == [CRYPTO, BLOCK], at
        assert not bed.kept
        assert report.resumed <= 1


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_act_one_after_the_other(bed: Bed, after: bool) -> None:
    """Every run does one act more than the last before it dies: it always comes to an end."""
    total = acts(bed)
    bed.anew(looks=40)
    for run in itertools.count():
        assert run < 4 * total
        try:
            report = bed.run(Plug(2 + run % 7, after))
        except Crash:
            continue
        break
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert bed.started == [CRYPTO, BLOCK]
    assert report.resumed > 1


def test_without_the_journal_a_running_sanitize_is_adopted(bed: Bed) -> None:
    bed.anew(looks=1000)
    for at in range(MOST_ACTS):
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        if bed.running:
            break
        bed.files.clear()
    bed.files.clear()
    bed.sanitizer.looks = 3
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK]
    assert [m.adopted for m in report.methods] == [True, False]
    assert report.verdict is Verdict.ERASED


def test_the_last_method_adopted_is_not_followed_by_an_earlier_one(bed: Bed) -> None:
    bed.another(BLOCK)
    report = bed.run()
    assert bed.started == [BLOCK], "the other's"
    assert [(m.method, m.adopted) for m in report.methods] == [(Method.SANITIZE_BLOCK, True)]
    assert (report.verdict, report.fit) == (Verdict.ERASED, True)


def test_anothers_sanitize_is_waited_for(bed: Bed) -> None:
    bed.another(FOREIGN)
    report = bed.run()
    assert bed.started == [FOREIGN, CRYPTO, BLOCK]
    assert report.verdict is Verdict.ERASED


def first_comes(bed: Bed, cdw10: int) -> None:
    """Another controller's sanitize, just before our first one."""

    def raced(opcode: int) -> None:
        if opcode == OPCODE_SANITIZE and not bed.started:
            bed.another(cdw10)

    bed.meanwhile = raced


def test_somebody_faster_with_our_command_is_adopted(bed: Bed) -> None:
    """1Dh on our command: log 81h shows dword 10 as we would send it."""
    first_comes(bed, CRYPTO)
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK]
    assert [m.adopted for m in report.methods] == [True, False]


def test_somebody_faster_with_another_command_is_waited_for(bed: Bed) -> None:
    first_comes(bed, FOREIGN)
    report = bed.run()
    assert bed.started == [FOREIGN, CRYPTO, BLOCK]
    assert report.methods[0].attempts == 2
    assert report.verdict is Verdict.ERASED


def test_canaries_that_anothers_sanitize_took_never_count_wherever_the_run_dies(bed: Bed) -> None:
    others = [FOREIGN]

    def raced(opcode: int) -> None:
        if opcode == OPCODE_SANITIZE and others and not bed.running:
            bed.another(others.pop())

    bed.meanwhile = raced

    def plantings() -> list[str]:
        lines = [(line.kind, line.payload.get("place")) for line in read(bed.files.journal)]
        return [kind for kind, place in lines if kind in ("Planted", "Uprooted") and place == 0]

    for at in range(10, 200):  # nothing is planted before
        bed.files.clear()
        bed.anew()
        others[:] = [FOREIGN]
        try:
            bed.run(Plug(at, after=True))
        except Crash:
            taken, standing = not others, plantings()
            bed.run()
            if taken and "Planted" in standing:
                assert plantings()[-2:] == ["Uprooted", "Planted"], (at, standing)
            continue
        break
    else:
        raise AssertionError("expected the case to end within 200 acts")


@pytest.mark.parametrize("left", [b"", b"\0" * 100, b'{"status"'])
def test_a_torn_result_of_a_format_is_an_end_that_nobody_knows(bed: Bed, left: bytes) -> None:
    """The power went while its child wrote it; the run after it must have an end."""
    command = CommandEntry(Method.FORMAT_CRYPTO, OPCODE_FORMAT, 1, 0)
    session = Mock(state=CaseState())
    session.state.apply(Intent(0, 1, adopted=False, log_before=""))
    session.files.format_result.return_value = bed.files.directory / "format-0-1.json"
    bed.files.make()
    session.files.format_result.return_value.write_bytes(left)

    def noted(entry: AttemptOver) -> None:
        assert (entry.place, entry.reason) == (0, "interrupted; its end is unknown")
        session.state.done[0] = None

    session.note = noted
    Format(session, 0, command).run()
    assert 0 in session.state.done


def test_a_sanitize_that_was_interrupted_is_none_that_had_no_completion(bed: Bed) -> None:
    """The power went before it was sent; and the kernel gave the next one up in its own reset."""
    left = itertools.repeat(True, 1)

    def given_up(opcode: int, _words: dict[str, Any], done: Callable[[], Answer]) -> Answer:
        if opcode == OPCODE_SANITIZE and next(left, False):
            raise OSError(errno.EINTR, "no completion")
        return done()

    bed.crash_after("Intent")
    bed.firmware = given_up
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
    assert [method.attempts for method in report.methods] == [3, 1]


def test_a_stale_success_is_unknown_whatever_is_read(bed: Bed) -> None:
    bed.ask(purge_methods=(Method.SANITIZE_BLOCK,))
    bed.another(BLOCK)
    bed.sanitizer.end()
    bed.drive.set_faults(STALE)
    report = bed.run()
    assert report.methods[0].verdict is Verdict.UNKNOWN
    assert report.achieved is None
    assert report.fit is False


def test_a_failure_is_repeated_by_the_other_method_only(bed: Bed) -> None:
    bed.anew(faults=FAILS)
    report = bed.run()
    assert bed.started == [CRYPTO, BLOCK]
    assert (report.verdict, report.fit) == (Verdict.NOT_ERASED, False)


def test_the_only_method_is_repeated_once_after_a_failure(bed: Bed) -> None:
    bed.ask(purge_methods=(Method.SANITIZE_BLOCK,))
    bed.anew(faults=FAILS)
    report = bed.run()
    assert bed.started == [BLOCK, BLOCK]
    assert report.verdict is Verdict.NOT_ERASED
    assert report.methods[0].attempts == 2


def test_stuck_ends_as_unknown_and_sends_nothing_more(bed: Bed) -> None:
    bed.anew(looks=1 << 30)
    report = bed.run()
    assert bed.started == [CRYPTO]
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "stuck" in report.reasons[0]


def test_a_refused_command_names_the_status(bed: Bed) -> None:
    bed.anew(faults=Faults(admin_status={0x84: 0x20}))
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.NOT_ERASED, False)
    assert "0x020" in " ".join(report.reasons)


def test_the_wrong_drive_gets_nothing(bed: Bed) -> None:
    bed.request = ordered(bed.request)
    bed.anew(OTHER)
    report = bed.run()
    assert (report.outcome, report.fit) == (Outcome.WRONG_DRIVE, False)
    assert bed.started == []
    assert (report.generation, report.nonce) == (7, "nonce-0000-0000-0001")


def test_a_drive_swapped_in_mid_case_gets_nothing(bed: Bed) -> None:
    with pytest.raises(Crash):
        bed.run(Plug(6))
    bed.anew(OTHER)
    report = bed.run()
    assert report.fit is False
    assert bed.started == []


def test_a_drive_swapped_in_mid_erase_is_told_from_one_that_was_never_there(bed: Bed) -> None:
    """The slot has another drive, and the ordered one was sent something: the report says both."""
    bed.request = ordered(bed.request)
    for at in range(60):
        with pytest.raises(Crash):
            bed.run(Plug(at, after=True))
        if len(bed.started) > 1:
            break
    sent = list(bed.started)
    bed.anew(OTHER)
    report = bed.run()
    assert sent == [CRYPTO, BLOCK]
    assert bed.started == []
    assert (report.outcome, report.verdict) == (Outcome.WRONG_DRIVE, Verdict.UNKNOWN)
    assert (report.identity, bool(report.methods)) == (IDENTITY, True)
    assert "OTHER" in report.reasons[0]


def test_another_policy_is_another_case(bed: Bed) -> None:
    with pytest.raises(Crash):
        bed.run(Plug(12, after=True))
    bed.ask(purge_methods=(Method.SANITIZE_BLOCK,))
    report = bed.run()
    assert report.resumed == 0
    assert [m.method for m in report.methods] == [Method.SANITIZE_BLOCK]


def test_longer_limits_go_on_with_the_same_case(bed: Bed) -> None:
    with pytest.raises(Crash):
        bed.run(Plug(12, after=True))
    bed.ask(limits=dataclasses.replace(bed.request.policy.limits, stuck=77))
    assert bed.run().resumed == 1


def test_a_damaged_journal_sends_nothing_and_ends_as_unknown(bed: Bed) -> None:
    with pytest.raises(Crash):
        bed.run(Plug(6))
    raw = bytearray(bed.files.journal.read_bytes())
    raw[20] ^= 1
    bed.files.journal.write_bytes(raw)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert bed.started == []


def test_a_locked_slot_is_busy(bed: Bed) -> None:
    with SlotLock(SLOT.address, bed.directory / "run"), pytest.raises(BusyError):
        bed.run()
    assert not bed.files.directory.exists()


def test_an_orders_time_runs_out(bed: Bed) -> None:
    bed.request = dataclasses.replace(ordered(bed.request), seconds_allowed=1)
    bed.anew(looks=1 << 30)
    report = bed.run()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "1 s" in report.reasons[0]


def test_cases_of_orders_and_of_slots_do_not_share_files(bed: Bed) -> None:
    state = bed.directory / "state"
    keys = {
        CaseFiles.of(state, REQUEST).key,
        CaseFiles.of(state, ordered()).key,
        CaseFiles.of(state, dataclasses.replace(ordered(), order_id="order-0000-0000-0002")).key,
    }
    assert len(keys) == 3
    assert all(len(key) == 64 and key.isalnum() for key in keys)


def test_what_a_clear_that_was_cut_off_leaves_is_read_by_no_later_case(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ended case is still there, or nothing of it counts."""
    real = Path.unlink
    left = 0

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        nonlocal left
        if path.is_relative_to(bed.directory) and not left:
            raise Crash
        left -= path.is_relative_to(bed.directory)
        real(path, missing_ok=missing_ok)

    for at in itertools.count():
        bed.files.clear()
        bed.anew()
        first = bed.run()
        # As a case leaves them that reads and formats; none of these is of the drive of then.
        for name in ("probe.key", "verify.json", "fingerprints-1.bin", "format-0-1.json"):
            (bed.files.directory / name).write_bytes(b"of the case before")
        left = at
        with monkeypatch.context() as cut:
            cut.setattr(Path, "unlink", unlink)
            try:
                bed.files.clear()
            except Crash:
                pass
            else:
                break
        bed.anew()
        again = bed.run()
        if again == first:
            assert bed.started == [], at
            continue
        assert not bed.kept
        assert (again.fit, again.resumed, bed.started) == (True, 0, [CRYPTO, BLOCK]), at
        key = bed.files.probe_key
        assert not key.exists() or key.read_bytes() != b"of the case before", at
    assert at > 5


def test_the_request_survives_the_sweep_of_a_new_case(bed: Bed) -> None:
    bed.request = ordered(bed.request)
    bed.files.make()
    bed.files.write_request(bed.request)
    (bed.files.directory / "probe.key").write_bytes(b"of another case")
    with pytest.raises(Crash):
        bed.run(Plug(0))
    assert bed.files.request() == bed.request
    assert not bed.files.probe_key.exists()
