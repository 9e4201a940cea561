"""What bounds the next tenant's first acts: how long a method took, what one command carries."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.case import visit as case_visit
from eraser.case.entries import CommandEntry, Entry, Intent, MethodDone, Planned, Planted, Resumed
from eraser.case.session import OutOfTimeError
from eraser.case.state import CaseState
from eraser.host.sysfs import Host
from eraser.media.iocommand import Namespace
from eraser.proof.visit import LARGE
from eraser.protocol.policy import Label, Method, Policy, Verification
from eraser.protocol.report import MethodRecord, Verdict
from tests.lab.nvme.composed.description import Abilities, Description, Lie
from tests.lab.nvme.composed.kept import Kept
from tests.lab.nvme.composed.trial import attempt
from tests.lab.nvme.composed.triggers import Trigger
from tests.lab.nvme.nature import Method as LabMethod

BLOCK = CommandEntry(Method.SANITIZE_BLOCK, 0x84, 0, 2)
DONE = MethodRecord(BLOCK.method, 2, 0, 1, False, "", "", True, Verdict.ERASED, "", seconds=30.0)
BEGUN: tuple[Entry, ...] = (
    Planned((BLOCK,), Label.PURGE, False, ""),
    Planted(0, 1000, ()),
    Intent(0, 1, adopted=False, log_before=""),
)


def wants_another(*entries: Entry) -> bool:
    state = CaseState()
    for entry in entries:
        state.apply(entry)
    session: Any = SimpleNamespace(state=state, policy=Policy())
    return case_visit.wants_another(session)


def test_a_quick_method_is_run_once_more() -> None:
    assert wants_another(*BEGUN, MethodDone(0, DONE, halt=False))
    assert wants_another(*BEGUN, MethodDone(0, DONE, halt=False), Resumed(""))


def test_one_that_a_later_run_saw_the_end_of_alone_is_not() -> None:
    """The run counted half a minute, and hours may have gone before it."""
    assert not wants_another(*BEGUN, Resumed(""), MethodDone(0, DONE, halt=False))
    adopted = Intent(0, 1, adopted=True, log_before="")
    record = replace(DONE, adopted=True)
    assert not wants_another(*BEGUN[:2], adopted, MethodDone(0, record, halt=False))


@pytest.mark.parametrize(
    ("mdts", "kernel", "segments", "extended", "expected"),
    [
        (0, "", "", False, LARGE),
        (0, "1024", "127", False, LARGE),
        (5, "1024", "127", False, 128 << 10),
        (0, "128", "127", False, 128 << 10),
        (0, "nonsense", "nonsense", False, LARGE),
        (6, "256", "127", True, (256 << 10) * 512 // 520),
        (0, "0", "127", False, 4096),
        (0, "1024", "33", False, 128 << 10),
        (0, "1024", "1", False, 4096),
    ],
)
def test_no_more_is_asked_for_at_once_than_drive_and_kernel_take(
    tmp_path: Path, mdts: int, kernel: str, segments: str, extended: bool, expected: int
) -> None:
    """What the kernel refuses had no completion, and after three of these nothing was asked."""
    if kernel:
        queue = tmp_path / "sys/block/nvme0n1/queue"
        queue.mkdir(parents=True)
        (queue / "max_hw_sectors_kb").write_text(f"{kernel}\n")
        (queue / "max_segments").write_text(f"{segments}\n")
    travels = Namespace(1, 512, 8 * extended, extended, protected=False, timeout=1.0, host=Host())
    session: Any = SimpleNamespace(
        host=Host(tmp_path),
        controller=SimpleNamespace(identify=lambda: SimpleNamespace(mdts=mdts)),
    )
    assert case_visit._largest(session, "/dev/nvme0n1", travels) == expected


def test_a_drive_that_is_read_once_is_visited_all_the_same(tmp_path: Path) -> None:
    """``reread`` 0 asks for no second reading, and not for less than the acts of ``visit``."""
    methods = (LabMethod.SANITIZE_CRYPTO, LabMethod.SANITIZE_BLOCK)
    lie = Lie(Kept(), methods[1:], Trigger("order", "again", 3))
    drive = Description("liar", Abilities(methods=methods), (lie,))
    once = Verification(residual=0.05, canaries=100, visit=12, reread=0)
    report = attempt(drive, tmp_path, Policy(verification=once), size=2 << 20).report
    [after] = [visit for visit in report.visits if not visit.wrote]
    assert "reset of the function: nothing is read twice" in after.not_done
    assert report.verdict is Verdict.NOT_ERASED


class Waiting:
    """What a wait needs of a session: a clock that only sleep moves, and the order's time."""

    def __init__(self, settle: float, allowed: float) -> None:
        self.policy = Policy(verification=Verification(settle=settle))
        self.allowed = allowed
        self.now, self.told = 100.0, list[str]()
        self.clock = SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def check_time(self) -> None:
        if self.now >= 100 + self.allowed:
            raise OutOfTimeError("over")

    def tell(self, fraction: float, detail: str) -> None:
        self.told.append(detail)


@pytest.mark.parametrize(("settle", "waited"), [(30, 30), (2.5, 2.5), (0, 1)])
def test_a_drive_is_left_alone_and_that_is_shown(settle: float, waited: float) -> None:
    session: Any = Waiting(settle, 3600)
    assert case_visit._leave_idle(session) == waited
    assert session.now == pytest.approx(100 + waited)
    assert len(session.told) == (waited > 1) * math.ceil(waited)
    assert set(session.told) <= {f"left alone for {settle:g} s, before the last look"}


def test_the_order_ends_a_wait() -> None:
    session: Any = Waiting(3600, 60)
    with pytest.raises(OutOfTimeError):
        case_visit._leave_idle(session)
    assert session.now == pytest.approx(160)
