"""One slot of the lab with one drive, and cases of the eraser that die at any of their acts.

Nothing of the product is replaced: its own code runs down to the doors of its machine, behind
which stand the lab's kernel and drive, on simulated time. An act is an entry in the journal or a
command that changes the drive.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eraser.case.entries import Entry
from eraser.case.run import run_case
from eraser.case.session import CaseJournal, OnProgress
from eraser.protocol.policy import Limits, Policy, Verification
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport
from eraser.state.case_files import CaseFiles, CaseRequest
from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.host import Answer, Clock, Host
from tests.lab.nvme.controller import Controller
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.kernel import NAME, Kernel
from tests.lab.nvme.nature import Nature
from tests.lab.nvme.paced import PacedSanitizer
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.spec import Command
from tests.unit.case.fakes import DRIVE, SLOT, Crash, Plug
from tests.unit.lab.model import Memory

SIZE = DRIVE.size
POLICY = Policy(
    limits=Limits(poll=0.5, stuck=60, sanitize=3600, command=30, ready=60),
    verification=Verification(residual=0.05, canaries=8, reread=0, visit=0),
)
"""Nobody visits a drive on which content is not the matter."""
TENANT = b"the tenant's own ".ljust(32, b".")
GET_LOG, SANITIZE_LOG = 0x02, 0x81
CHANGING = frozenset({0x0D, 0x15, 0x80, 0x84})
"""Namespaces, Format and Sanitize: what a case cannot take back."""


Firmware = Callable[[int, dict[str, Any], Callable[[], Answer]], Answer]


class MortalKernel(Kernel):
    """The kernel of the machine that the eraser runs on, and what happens beside it."""

    def __init__(self, host: Host, root: Path, bed: Bed) -> None:
        self.bed = bed
        self.resettable = bed.resettable
        super().__init__(host, root)

    def reset(self, how: Reset = Reset.CONTROLLER) -> bool:
        """Every one of them is counted."""
        self.bed.resets.append(how)
        return self.bed.resetting(how, lambda: super(MortalKernel, self).reset(how))

    def forget_disk(self, nsid: int) -> Path:
        """This kernel has none of the namespace any more; what it had of it in sysfs."""
        del self.disks[nsid]
        path = Path(self.path(nsid))
        path.unlink()
        return self.function / "nvme" / NAME / path.name

    def send(self, opcode: int, **words: Any) -> Answer:
        """Of what changes the drive the process may see no end."""
        self.bed.meanwhile(opcode)
        if words.get("io") or opcode not in CHANGING:
            return self._answer(opcode, words)
        done: Answer = self.bed.plug.act(lambda: self._answer(opcode, words))
        return done

    def _answer(self, opcode: int, words: dict[str, Any]) -> Answer:
        sanitizer = self.host.drive.sanitizer
        if (opcode, words.get("cdw10", 0) & 0xFF) == (GET_LOG, SANITIZE_LOG):
            assert isinstance(sanitizer, PacedSanitizer)
            with self.host.drive.lock:
                sanitizer.look()
        return self.bed.firmware(
            opcode, words, lambda: super(MortalKernel, self).send(opcode, **words)
        )


class Bed:
    """A slot, the drive in it, one state directory, and any number of processes that die."""

    drive: Drive
    kernel: MortalKernel
    machine: lab.Linux
    profile: Profile

    def __init__(self, directory: Path, drive: DriveProfile = DRIVE) -> None:
        self.directory, self.kind = directory, drive
        self.meanwhile: Callable[[int], None] = lambda _opcode: None
        """Told the opcode of each command before it is sent: somebody else may be faster."""
        self.firmware: Firmware = lambda _opcode, _words, done: done()
        """A drive with a way of its own: the opcode, what goes with it, and how to have it done."""
        self.resetting: Callable[[Reset, Callable[[], bool]], bool] = lambda _how, done: done()
        """What a reset comes to: how, and how to have it done."""
        self.resets: list[Reset] = []
        """Those of this drive by its host."""
        self.resettable = Kernel.resettable
        """Of the next drive: the ways in which its function can be reset."""
        self.told: OnProgress = lambda _step, _fraction, _detail: None
        """Who listens to the case."""
        self.until = ""
        """The entry after which the process dies."""
        self.clock = Clock()
        self.plug = Plug()
        self._drives = 0
        self._open = contextlib.ExitStack()
        self.anew(written=False)
        self.profile = lab.profile_of(self.machine)
        self.request = CaseRequest(SLOT, None, self.profile, POLICY)
        self.dirty()

    def anew(
        self,
        kind: DriveProfile | None = None,
        *,
        looks: int = 3,
        faults: Faults = HEALTHY,
        nature: Nature | None = None,
        written: bool = True,
    ) -> None:
        """Another drive in the slot, as the factory made it but for what a tenant wrote."""
        self.close()
        self._drives += 1
        place = self.directory / f"drive-{self._drives}"
        place.mkdir()
        self.drive = Drive(kind or self.kind, place / "drive.raw", HEALTHY, nature, self.clock)
        self._open.callback(self.drive.close)
        self.resets.clear()
        self.drive.sanitizer = PacedSanitizer(self.drive, looks)
        host = self._open.enter_context(Host(self.drive, self.clock.wait))
        self.kernel = MortalKernel(host, place, self)
        self.machine = lab.linux(self.kernel, self.clock)
        if written:
            self.dirty()
        if faults != HEALTHY:
            self.drive.set_faults(faults)

    def close(self) -> None:
        """Nobody has the drive any more."""
        self._open.close()

    def dirty(self) -> None:
        """A tenant writes to every block of every namespace."""
        for nsid, found in self.kernel.disks.items():
            for offset in range(0, found.size * found.block, 256 << 10):
                length = min(256 << 10, found.size * found.block - offset)
                self.kernel.write(self.kernel.path(nsid), offset, TENANT * (length // 32))

    @property
    def sanitizer(self) -> PacedSanitizer:
        """How fast it goes, and what it took."""
        assert isinstance(self.drive.sanitizer, PacedSanitizer)
        return self.drive.sanitizer

    @property
    def started(self) -> list[int]:
        """Dword 10 of every Sanitize that the drive took."""
        return self.sanitizer.accepted

    @property
    def running(self) -> bool:
        """The drive sanitizes just now."""
        return self.drive.state.sanitize.running

    @property
    def kept(self) -> bool:
        """The drive's own truth: anything of the tenant's is there."""
        return TENANT in self.drive.backing.read_bytes()

    def another(self, cdw10: int) -> int:
        """A Sanitize through another controller of the drive's subsystem; its status."""
        with self.drive.lock:
            command = Command(0x84, 0, 0, 0, 0, 0, cdw10, 0, 0, 0, 0, 0)
            reply = Controller(self.drive, "another").admin(command, Memory(), lambda _reply: None)
        assert reply is not None
        return reply.status & 0x7FF

    @property
    def files(self) -> CaseFiles:
        """What the case has on the disk."""
        return CaseFiles.of(self.directory / "state", self.request)

    def run(self, plug: Plug | None = None) -> EraseReport:
        """One process. Raises :class:`Crash` where the plug says so."""
        self.plug = plug or Plug()
        return run_case(
            self.request,
            self.files,
            self.machine.host,
            on_progress=self.told,
            run_dir=self.directory / "run",
            disk=self.machine.disk,
        )

    def crash_after(self, kind: str) -> None:
        """The process dies as soon as its journal has an entry of this kind."""
        self.until = kind
        with pytest.raises(Crash):
            self.run()
        self.until = ""

    def ask(self, **how: Any) -> None:
        """The request from now on: members of its policy and of its verification by name."""
        policy = self.request.policy
        ours = {field.name for field in dataclasses.fields(Verification)}
        seen = {name: value for name, value in how.items() if name in ours}
        rest = {name: value for name, value in how.items() if name not in ours}
        policy = dataclasses.replace(
            policy, verification=dataclasses.replace(policy.verification, **seen), **rest
        )
        self.request = dataclasses.replace(self.request, policy=policy)


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """A drive that a tenant had, and a case of it."""
    made = Bed(tmp_path)
    real = CaseJournal.note

    def note(journal: CaseJournal, entry: Entry) -> None:
        made.plug.act(lambda: real(journal, entry))
        if type(entry).__name__ == made.until:
            made.plug.dead = True
            raise Crash

    # A crash at a named point: a process can die before or after any entry.
    monkeypatch.setattr(CaseJournal, "note", note)
    yield made
    made.close()


__all__ = ["Bed", "Crash", "Plug", "bed"]
