"""Taking a drive in hand: its disks are waited for, and none is left unread."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser import casedesk, caseheat
from eraser.casedesk import Book, Desk
from eraser.caseentries import Identified
from eraser.casefiles import CaseFiles
from eraser.drive.lock import SlotLock
from eraser.drive.sysfs import Host
from eraser.errors import DriveError
from eraser.wire.policy import LimitOverrides, Quirk
from eraser.wire.report import Step
from tests.unit.case.fakes import IDENTITY, REQUEST, SLOT

EMPTY: frozenset[str] = frozenset()


class LateController:
    """Live at once; its disk comes when it is waited for, when the kernel looks again, or never."""

    pids = frozenset({os.getpid(), 77})

    def __init__(self, when: str = "late") -> None:
        self.disks: set[str] = set()
        self.when = when

    def identity(self) -> Any:
        return IDENTITY

    def wait_live(self, _timeout: float) -> None:
        if self.when != "late":
            raise DriveError("expected block devices of namespaces [1], found nothing of it")
        self.disks = {"nvme0n1"}

    def rescan(self, *, timeout: float) -> None:
        assert timeout > 0
        self.when = "late" if self.when == "looked for" else self.when

    def close(self) -> None: ...


class Hold:
    """Claims what is there when it is told to."""

    def __init__(self, controller: LateController) -> None:
        self.controller = controller
        self.claimed: frozenset[str] = frozenset()
        self.patience = 0.0

    def take(self) -> Hold:
        self.claimed = frozenset(self.controller.disks)
        return self

    def drop(self) -> None: ...


@pytest.mark.parametrize("when", ["late", "looked for", "never"])
def test_disks_that_come_late_are_claimed_and_those_that_never_come_stop_no_erase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    never = when == "never"
    proofs: list[frozenset[str]] = []
    ours: list[frozenset[int]] = []
    monkeypatch.setattr(casedesk, "ensure_nvme_driver", lambda *_a, **_k: False)
    monkeypatch.setattr(casedesk, "check_unique", lambda *_a: None)
    monkeypatch.setattr(casedesk, "open_controller", lambda *_a, **_k: LateController(when))
    monkeypatch.setattr(casedesk, "NamespaceHold", Hold)

    def prove(*_given: object, own_pids: frozenset[int], claimed: frozenset[str] = EMPTY) -> None:
        proofs.append(claimed)
        ours.append(own_pids)

    monkeypatch.setattr(casedesk, "prove_idle", prove)
    files = CaseFiles.of(tmp_path, REQUEST)
    files.make()
    book = Book(files)
    told: list[str] = []
    desk = Desk(
        REQUEST, files, Host(), SlotLock(SLOT.address, tmp_path), book,
        lambda _step, _fraction, detail: told.append(detail),
    )  # fmt: skip
    desk.open()
    assert proofs == [frozenset(), frozenset() if never else frozenset({"nvme0n1"})]
    assert ours == [{os.getpid()}, {os.getpid(), 77}], "the child that asks is no stranger"
    assert sum("block devices" in text for text in told) == {"late": 0, "looked for": 1}.get(
        when, 2
    )
    assert desk.hold.patience == REQUEST.policy.limits.ready, "what comes later is waited for"
    book.close()


class KnownController:
    """One that says who it is, and how warm."""

    def __init__(self, warning: int = 343, kelvin: int | None = 350) -> None:
        self.warning, self.kelvin, self.asked = warning, kelvin, 0

    def identify(self) -> SimpleNamespace:
        return SimpleNamespace(firmware="FW1", warning_kelvin=self.warning)

    def smart_log(self) -> bytes:
        self.asked += 1
        if self.kelvin is None:
            raise DriveError("status 0x01d")
        return bytes([0]) + self.kelvin.to_bytes(2, "little") + bytes(509)

    def close(self) -> None: ...


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    quirk = Quirk(IDENTITY.model, "slow", firmware="FW*", limits=LimitOverrides(stuck=7200))
    policy = dataclasses.replace(REQUEST.policy, quirks=(quirk,))
    files = CaseFiles.of(tmp_path, REQUEST)
    files.make()
    book = Book(files)
    request = dataclasses.replace(REQUEST, policy=policy)
    yield Desk(request, files, Host(), SlotLock(SLOT.address, tmp_path), book, lambda *_: None)
    book.close()


def test_the_quirks_of_the_very_drive_count_once_it_is_known(desk: Desk) -> None:
    assert desk.limits.stuck == 5
    desk._controller = KnownController()  # type: ignore[assignment]
    desk.note(Identified(IDENTITY))
    desk._learn_quirks()
    assert (desk.limits.stuck, len(desk.applied.quirks)) == (7200, 1)


@pytest.mark.parametrize(
    ("controller", "said", "asked"),
    [
        (KnownController(), "is at 77 degrees Celsius, and too warm from 70 on", 2),
        (KnownController(kelvin=343), "is at 70 degrees", 2),
        (KnownController(kelvin=342), "", 2),
        (KnownController(warning=0), "", 0),
        (KnownController(kelvin=None), "", 1),
    ],
)
def test_a_warm_drive_is_told_and_one_that_does_not_say_is_left_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, controller: KnownController, said: str, asked: int
) -> None:
    desk._controller = controller  # type: ignore[assignment]
    now = [time.monotonic()]
    monkeypatch.setattr(caseheat.time, "monotonic", lambda: now[0])
    desk.heat.feel()
    assert controller.asked == 0, "a short sanitize is not asked at all"
    for _ in range(2):
        now[0] += caseheat.FEEL_SECONDS
        desk.heat.feel()
        desk.heat.feel()
    assert desk.files.heat().startswith(said) if said else desk.files.heat() == ""
    assert controller.asked == asked
    desk.close()
    assert desk.files.heat() == ""


def test_a_full_disk_costs_the_word_about_heat_and_no_case(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = KnownController()
    desk._controller = controller  # type: ignore[assignment]
    now = [time.monotonic() + caseheat.FEEL_SECONDS]
    monkeypatch.setattr(caseheat.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(CaseFiles, "write_heat", _full)
    desk.heat.feel()
    now[0] += caseheat.FEEL_SECONDS
    desk.heat.feel()
    assert controller.asked == 1


def _full(_files: CaseFiles, _text: str) -> None:
    raise OSError(28, "No space left on device")


def test_what_was_said_of_heat_ends_with_its_step_and_with_a_run_that_died(desk: Desk) -> None:
    with desk.step(Step.ERASE):
        desk.files.write_heat("is at 80 degrees")
    assert desk.files.heat() == "", "a verification may begin while it is still warm"
    desk.files.write_heat("is at 80 degrees")
    Desk(desk.request, desk.files, Host(), desk.lock, desk.book, lambda *_: None)
    assert desk.files.heat() == ""
