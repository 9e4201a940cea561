"""A drive that is only a sanitize machine, and a case that has no other door to one.

The kernel, nvme-cli and real media are the emulated tests' matter; here every order of steps and
every place to die is tried in milliseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.case import (
    probes,
    unlock,
)
from eraser.case import (
    run as case_run,
)
from eraser.case import (
    sanitize as case_sanitize,
)
from eraser.case import (
    verify as case_verify,
)
from eraser.case.entries import Entry, Fingerprinted, Identified, Planted, Verified, WasReset
from eraser.case.report import AfterLook
from eraser.case.session import CaseJournal, CaseSession
from eraser.errors import IdentityError
from eraser.host.sysfs import Host
from eraser.media.reader import BlockDevice
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import Limits, Policy, Verification, VerificationMode
from eraser.protocol.profile import NamespaceLayout, Profile
from eraser.protocol.report import (
    CommandRecord,
    ControllerFacts,
    EraseReport,
    HealthRecord,
    Verdict,
    VerificationRecord,
)
from eraser.state.case_files import CaseFiles, CaseRequest
from tests.lab.nvme.profile import DriveProfile

SLOT = Slot("host", "0000:01:00.0")
DRIVE = DriveProfile(size=1 << 20, serial="SN1", model="Model", firmware="FW1")
IDENTITY = ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, "SN1", "Model", DRIVE.subsystem_nqn)
LAYOUT = NamespaceLayout(1, 1 << 20, 512, 0)
FACTS = ControllerFacts("FW1", 0x10400, 2, 0, 4, 0b11, 0, 0, (LAYOUT,), (1,))
PROFILE = Profile("p", 0x144D, 0xA824, "Model", ("FW1",), (LAYOUT,))
HEALTH = HealthRecord(0, 100, 10, 1, 0, 0, 0, 0, 1, 1, 300)
POLICY = Policy(
    limits=Limits(poll=0.001, stuck=5, sanitize=20, command=1, ready=1),
    verification=Verification(visit=0),
)
"""Nobody visits a drive that has no blocks."""
REQUEST = CaseRequest(SLOT, None, PROFILE, POLICY)

NEVER, SUCCESS, RUNNING, FAILED = range(4)


class Crash(BaseException):
    """SIGKILL: nothing of this process runs any more."""


@dataclass
class FakeDrive:
    """The drive's own truth; it lives on when the process dies."""

    identity: ControllerIdentity = IDENTITY
    status: int = NEVER
    cdw10: int = 0
    gde: bool = False
    looks_left: int = 0
    looks: int = 3
    """Readings of log 81h until a sanitize is at its end."""
    ends: int = SUCCESS
    stale: bool = False
    refuses: int = 0
    started: list[int] = field(default_factory=list)
    written: bool = False

    def write(self) -> None:
        """Somebody writes user data."""
        self.gde, self.written = False, True

    def sanitize(self, cdw10: int) -> int:
        """The command; the status."""
        if self.refuses:
            return self.refuses
        if self.status == RUNNING:
            return 0x1D
        self.started.append(cdw10)
        if not self.stale:
            self.status, self.cdw10, self.looks_left = RUNNING, cdw10, self.looks
        return 0

    def log(self) -> bytes:
        """Log 81h; time passes by being looked at."""
        if self.status == RUNNING:
            self.looks_left -= 1
            if self.looks_left < 0:
                self.status = self.ends
                self.gde = self.ends == SUCCESS
                self.written = self.written and self.ends != SUCCESS
        running = self.status == RUNNING
        progress = max(1, 60000 - 1000 * self.looks_left) if running else 0xFFFF
        return struct.pack("<HHI", progress, self.status | self.gde << 8, self.cdw10).ljust(
            512, b"\0"
        )


@dataclass
class Plug:
    """Where and how the process dies: at the ``at``-th of its acts, before or after it."""

    at: int = -1
    after: bool = False
    acts: int = 0
    dead: bool = False

    def act(self, what: Any) -> Any:
        """Does ``what``, unless the process dies first."""
        if self.dead:
            raise Crash
        here = self.acts == self.at
        self.acts += 1
        if here and not self.after:
            self.dead = True
            raise Crash
        result = what()
        if here:
            self.dead = True
            raise Crash
        return result


def namespace(layout: NamespaceLayout) -> Any:
    """As much of Identify Namespace as the order of steps needs."""
    return SimpleNamespace(
        blocks=layout.blocks,
        block_bytes=layout.block_bytes,
        size=layout.size,
        lba_format=layout.lba_format,
        metadata_bytes=layout.metadata_bytes,
        protection=layout.protection,
        capacity=layout.capacity,
        sharing=layout.sharing,
        extended_metadata=layout.extended_metadata,
        expected_byte=0,
    )


class FakeController:
    """As much of ``eraser.controller.nvme.Controller`` as the order of steps needs."""

    path = "/dev/nvme0"

    def __init__(self, drive: FakeDrive, plug: Plug) -> None:
        self.drive, self.plug = drive, plug

    def identify(self) -> Any:
        return SimpleNamespace(
            can_sanitize=True,
            many_controllers=False,
            can_manage_namespaces=False,
            oacs=2,
            fna=4,
            sanicap=0b11,
        )

    def identify_namespace(self, _nsid: int, *, attached: bool = True) -> Any:
        return namespace(LAYOUT)

    def identity(self) -> ControllerIdentity:
        return self.drive.identity

    def sanitize_log(self) -> bytes:
        return self.drive.log()

    def smart_log(self) -> bytes:
        return b""

    def wait_live(
        self, _timeout: float, *, namespaces: bool = True, but: Collection[int] = ()
    ) -> None:
        pass

    def active_namespaces(self) -> tuple[int, ...]:
        return (1,)

    def close(self) -> None:
        pass

    def admin(self, opcode: int, *, cdw10: int, timeout: float, note: str) -> Any:
        assert opcode == 0x84
        status = self.plug.act(lambda: self.drive.sanitize(cdw10))
        return CommandRecord(("nvme",), opcode, 0, cdw10, status, 0, note, "", 0.0), b""


class FakeHold:
    """Claims nothing."""

    paths: dict[int, str] = {}  # noqa: RUF012 - a stand-in of one test

    def drop(self) -> None:
        pass


@dataclass
class Bed:
    """One slot, one drive, one state directory, and any number of processes that die."""

    directory: Path
    drive: FakeDrive
    plug: Plug = field(default_factory=Plug)
    request: CaseRequest = REQUEST
    verdict: Verdict = Verdict.ERASED

    @property
    def files(self) -> CaseFiles:
        return CaseFiles.of(self.directory / "state", self.request)

    def run(self, plug: Plug | None = None) -> EraseReport:
        """One process. Raises :class:`Crash` where the plug says so."""
        self.plug = plug or Plug()
        return case_run.run_case(
            self.request,
            self.files,
            Host(),
            on_progress=lambda step, fraction, detail: None,
            run_dir=self.directory / "run",
            disk=BlockDevice,
        )


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bed:
    """A case whose only drive is the fake one."""
    made = Bed(tmp_path, FakeDrive(written=True))
    real_note = CaseJournal.note

    def note(journal: CaseJournal, entry: Entry) -> None:
        made.plug.act(lambda: real_note(journal, entry))

    def open_(session: CaseSession) -> None:
        controller = FakeController(made.drive, made.plug)
        expected = session.request.identity or session.state.identity
        if expected is not None and expected != made.drive.identity:
            raise IdentityError(f"expected {expected.serial}, found {made.drive.identity.serial}")
        if session.state.identity is None:
            session.note(Identified(made.drive.identity))
        monkeypatch.setattr(session, "_controller", controller)
        monkeypatch.setattr(session, "_hold", FakeHold())

    def plant(session: CaseSession, place: int) -> None:
        state = session.state
        if place not in state.planted or place in state.uprooted:
            if made.drive.status not in (RUNNING, FAILED):
                made.drive.write()
            session.note(Planted(place, 1000, ()))

    def fingerprint(session: CaseSession) -> None:
        if session.state.fingerprinted is None:
            session.note(Fingerprinted(10, ()))

    def reset(session: CaseSession) -> None:
        if session.state.reset is None:
            session.note(WasReset(""))

    def verify(session: CaseSession) -> None:
        if session.state.verified is None:
            verdict = Verdict.NOT_ERASED if made.drive.written else made.verdict
            reasons = () if verdict is Verdict.ERASED else ("content",)
            session.note(Verified(RECORD, verdict, reasons))

    monkeypatch.setattr(CaseJournal, "note", note)
    monkeypatch.setattr(CaseSession, "open", open_)
    monkeypatch.setattr(CaseSession, "prove_idle", lambda _session, **_given: None)
    monkeypatch.setattr(probes, "plant", plant)
    monkeypatch.setattr(probes, "fingerprint", fingerprint)
    monkeypatch.setattr(case_verify, "reset", reset)
    monkeypatch.setattr(case_verify, "verify", verify)
    monkeypatch.setattr(case_sanitize, "SETTLE_SECONDS", 0.02)
    for module in (case_run, unlock):
        monkeypatch.setattr(module, "facts", lambda _controller: FACTS)
    monkeypatch.setattr(case_run.health, "read", lambda _raw: HEALTH)
    monkeypatch.setattr(
        case_run, "_look_again", lambda _session: AfterLook(FACTS, HEALTH, tools={"test": "1"})
    )
    return made


RECORD = VerificationRecord(
    asked=VerificationMode.STATISTICAL,
    done=VerificationMode.FULL,
    seed="00",
    confidence=0.999,
    residual=0.001,
    sampled=1,
    canaries_planted=1000,
    canaries_checked=1000,
    fingerprints_taken=10,
    fingerprints_checked=10,
    expected="zeros",
    namespaces=(),
    missing_probes=(),
    sentence="",
    seconds=0.0,
    bytes_read=0,
)


def ordered(request: CaseRequest = REQUEST) -> CaseRequest:
    """The same work, asked for by an order."""
    return replace(
        request,
        identity=IDENTITY,
        order_id="order-0000-0000-0001",
        generation=7,
        nonce="nonce-0000-0000-0001",
        incarnation="incarnation-00000001",
        seconds_allowed=3600,
    )
