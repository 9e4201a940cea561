"""Taking a drive in hand: its disks are waited for, and none is left unread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eraser import casedesk
from eraser.casedesk import Book, Desk
from eraser.casefiles import CaseFiles
from eraser.drive.lock import SlotLock
from eraser.drive.sysfs import Host
from eraser.errors import DriveError
from tests.unit.case.fakes import IDENTITY, REQUEST, SLOT


class LateController:
    """Live at once; its disk comes when it is waited for, or never."""

    def __init__(self, *, never: bool = False) -> None:
        self.disks: set[str] = set()
        self.never = never

    def identity(self) -> Any:
        return IDENTITY

    def wait_live(self, _timeout: float) -> None:
        if self.never:
            raise DriveError("expected block devices of namespaces [1], found nothing of it")
        self.disks = {"nvme0n1"}

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


@pytest.mark.parametrize("never", [False, True])
def test_disks_that_come_late_are_claimed_and_those_that_never_come_stop_no_erase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, never: bool
) -> None:
    proofs: list[frozenset[str]] = []
    monkeypatch.setattr(casedesk, "ensure_nvme_driver", lambda *_a, **_k: False)
    monkeypatch.setattr(casedesk, "check_unique", lambda *_a: None)
    monkeypatch.setattr(casedesk, "open_controller", lambda *_a, **_k: LateController(never=never))
    monkeypatch.setattr(casedesk, "NamespaceHold", Hold)
    monkeypatch.setattr(
        casedesk, "prove_idle", lambda *_a, **k: proofs.append(k.get("claimed", frozenset()))
    )
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
    assert any("block devices" in text for text in told) is never
    assert desk.hold.patience == REQUEST.policy.limits.ready, "what comes later is waited for"
    book.close()
