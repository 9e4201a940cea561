"""Taking a drive in hand: its disks are waited for, and none is left unread."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.case import session as case_session
from eraser.case.entries import Identified
from eraser.case.session import CaseJournal, CaseSession
from eraser.controller.lock import SlotLock
from eraser.errors import DriveError
from eraser.host import udev
from eraser.host.sysfs import Host
from eraser.media.reader import BlockDevice
from eraser.protocol.policy import LimitOverrides, Quirk
from eraser.state.case_files import CaseFiles
from tests.unit.case.fakes import IDENTITY, REQUEST, SLOT

EMPTY: frozenset[str] = frozenset()


class LateController:
    """Live at once; its disk comes when it is waited for, when the kernel looks again, or never."""

    pids = frozenset({os.getpid(), 77})
    descriptor = 9
    keeps: tuple[int, ...] = ()
    once: tuple[str, ...] = ()

    def __init__(self, when: str = "late") -> None:
        self.disks: set[str] = set()
        self.when = when

    def identity(self) -> Any:
        return IDENTITY

    def wait_live(self, _timeout: float, *, but: Collection[int] = ()) -> None:
        if self.when != "late":
            raise DriveError("expected block devices of namespaces [1], found nothing of it")
        self.disks = {"nvme0n1"}

    def active_namespaces(self) -> tuple[int, ...]:
        return (1,)

    def block_devices(self) -> dict[int, str]:
        return dict.fromkeys([1] if self.disks else [], "/dev/nvme0n1")

    def rescan(self, *, timeout: float) -> None:
        assert timeout > 0
        self.when = "late" if self.when == "looked for" else self.when

    def close(self) -> None: ...


class Hold:
    """Claims what is there when it is told to."""

    def __init__(self, controller: LateController, *, patience: float) -> None:
        self.controller = controller
        self.claimed: frozenset[str] = frozenset()
        self.patience = patience

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
    monkeypatch.setattr(case_session, "ensure_nvme_driver", lambda *_a, **_k: False)
    monkeypatch.setattr(case_session, "check_unique", lambda *_a: None)
    monkeypatch.setattr(case_session, "open_controller", lambda *_a, **_k: LateController(when))
    monkeypatch.setattr(case_session, "NamespaceHold", Hold)

    def prove(*_given: object, own_pids: frozenset[int], claimed: frozenset[str] = EMPTY) -> None:
        proofs.append(claimed)
        ours.append(own_pids)

    monkeypatch.setattr(case_session, "prove_idle", prove)
    files = CaseFiles.of(tmp_path, REQUEST)
    files.make()
    journal = CaseJournal(files)
    told: list[str] = []
    lock = SlotLock(SLOT.address, tmp_path)
    lock.acquire()
    session = CaseSession(
        REQUEST, files, Host(), lock, journal,
        lambda _step, _fraction, detail: told.append(detail), BlockDevice,
    )  # fmt: skip
    session.open()
    assert session.controller.keeps == (lock.fd, 9), "an nvme-cli that is left behind has the slot"
    assert proofs == [frozenset(), frozenset() if never else frozenset({"nvme0n1"})]
    assert ours == [{os.getpid()}, {os.getpid(), 77}], "the child that asks is no stranger"
    assert sum("block devices" in text for text in told) == {"late": 0, "looked for": 1}.get(
        when, 2
    )
    assert session.diskless == ({1} if never else EMPTY), "waited for no second time"
    assert session.hold.patience == REQUEST.policy.limits.ready, "what comes later is waited for"
    journal.close()


def test_udev_sees_disks_before_they_are_locked_for_hours_and_is_told_at_the_end(
    session: CaseSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd's passes by a disk that is locked for three minutes: nothing would mark it."""
    acts: list[str] = []

    def wait(_host: Host, address: str, patience: float) -> float:
        acts.append(f"wait {patience:g} s at {address}")
        return max(0.0, patience - 3)

    monkeypatch.setattr(udev, "wait", wait)
    monkeypatch.setattr(udev, "announce", lambda *_: acts.append("announce"))
    hold = SimpleNamespace(take=lambda: acts.append("take"), drop=lambda: acts.append("drop"))
    session._hold = hold  # type: ignore[assignment]
    session._controller = LateController()  # type: ignore[assignment]
    at = f"s at {SLOT.address}"
    for left in (5, 2, 0, 0):
        session.reclaim()
        assert acts == ["drop", f"wait {left} {at}", "take"], "some seconds altogether"
        acts.clear()
    session.close()
    assert acts == ["drop", "announce"]


class KnownController:
    """One that says who it is."""

    def identify(self) -> SimpleNamespace:
        return SimpleNamespace(firmware="FW1")

    def close(self) -> None: ...


@pytest.fixture
def session(tmp_path: Path) -> Iterator[CaseSession]:
    quirk = Quirk(IDENTITY.model, "slow", firmware="FW*", limits=LimitOverrides(stuck=7200))
    policy = dataclasses.replace(REQUEST.policy, quirks=(quirk,))
    files = CaseFiles.of(tmp_path, REQUEST)
    files.make()
    journal = CaseJournal(files)
    request = dataclasses.replace(REQUEST, policy=policy)
    yield CaseSession(
        request,
        files,
        Host(),
        SlotLock(SLOT.address, tmp_path),
        journal,
        lambda *_: None,
        BlockDevice,
    )
    journal.close()


def test_the_quirks_of_the_very_drive_count_once_it_is_known(session: CaseSession) -> None:
    assert session.limits.stuck == 5
    session._controller = KnownController()  # type: ignore[assignment]
    session.note(Identified(IDENTITY))
    session._learn_quirks()
    assert (session.limits.stuck, len(session.applied.quirks)) == (7200, 1)
