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

from eraser.case.entries import Entry, Planted
from eraser.case.run import run_case
from eraser.case.session import CaseJournal, OnProgress
from eraser.protocol.policy import Limits, Policy, Verification
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport
from eraser.state.case_files import CaseFiles, CaseRequest
from tests.lab.nvme.acts import Reset
from tests.lab.nvme.commandlog import LoggedCommand, log_path, read_commands
from tests.lab.nvme.composed.host import Answer, Clock, Host
from tests.lab.nvme.controller import Controller
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.leftovers import Leftovers, apply
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Nature
from tests.lab.nvme.paced import PacedSanitizer
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.spec import Command, Reply
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
CHANGING = frozenset({0x09, 0x0D, 0x15, 0x80, 0x84})
"""Features, namespaces, Format and Sanitize."""
NOTE = CaseJournal.note


Firmware = Callable[[int, dict[str, Any], Callable[[], Answer]], Answer]


class MortalKernel(Kernel):
    """The kernel of the machine that the eraser runs on, and what happens beside it."""

    def __init__(self, host: Host, root: Path, bed: Bed) -> None:
        self.bed = bed
        self.resettable, self.strict = bed.resettable, bed.strict
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
        return self.function / "nvme" / self.name / path.name

    def send(self, opcode: int, **words: Any) -> Answer:
        """Of what changes the drive the process may see no end."""
        self.bed.meanwhile(opcode)
        self.bed.sent_last = (opcode, words.get("cdw10", 0))
        if words.get("io") or opcode not in CHANGING or self.bed.by_child:
            return self._answer(opcode, words)
        done: Answer = self.bed.plug.act(lambda: self._answer(opcode, words))
        self.bed.cut_off(opcode, words["cdw10"])
        return done

    def write(self, path: str, offset: int, data: bytes) -> None:
        """To which namespaces it goes is remembered."""
        super().write(path, offset, data)
        self.bed.wrote.update(nsid for nsid in self.disks if path == self.path(nsid))

    def _answer(self, opcode: int, words: dict[str, Any]) -> Answer:
        sanitizer = self.host.drive.sanitizer
        if (opcode, words.get("cdw10", 0) & 0xFF) == (GET_LOG, SANITIZE_LOG):
            assert isinstance(sanitizer, PacedSanitizer)
            with self.host.drive.lock:
                sanitizer.look()
        return self.bed.firmware(
            opcode, words, lambda: super(MortalKernel, self).send(opcode, **words)
        )


class MortalProcesses(lab.LabProcesses):
    """A child that outlives its process, and not the power."""

    def __init__(self, kernel: MortalKernel, bed: Bed) -> None:
        super().__init__(kernel)
        self._bed = bed

    def outlive(self, work: Callable[[], object], kept: int) -> Callable[[], bool]:
        """One act, of which the child has written down the end before its process dies."""
        bed = self._bed
        if not bed.child_writes:
            return super().outlive(work, kept)
        bed.by_child = True
        try:
            bed.plug.act(work)
        finally:
            bed.by_child = False
        bed.cut_off(*bed.sent_last)
        return lambda: not bed.child_stays


@dataclasses.dataclass(frozen=True)
class Beside:
    """The drive through another controller of its subsystem, with nothing of a host."""

    drive: Drive

    @property
    def profile(self) -> DriveProfile:
        """What the drive is."""
        return self.drive.profile

    def admin(self, opcode: int, data: bytes = b"", *, nsid: int = 0, **dwords: int) -> Reply:
        """An admin command that is answered at once."""
        words = [dwords.get(f"cdw{number}", 0) for number in range(10, 16)]
        with self.drive.lock:
            command = Command(opcode, 0, 0, nsid, 0, 0, *words)
            controller = Controller(self.drive, "another")
            reply = controller.admin(command, Memory(data), lambda _reply: None)
        assert reply is not None
        return reply

    def commands(self, name: str) -> list[LoggedCommand]:
        """Commands of one name in the drive's own log."""
        return [c for c in read_commands(log_path(self.drive.backing)) if c.name == name]


class Bed:
    """A slot, the drive in it, one state directory, and any number of processes that die."""

    drive: Drive
    kernel: MortalKernel
    machine: lab.Linux

    def __init__(
        self, directory: Path, drive: DriveProfile = DRIVE, policy: Policy = POLICY
    ) -> None:
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
        self.strict = Kernel.strict
        """Nobody but the driver reads the next drive's registers."""
        self.told: OnProgress = lambda _step, _fraction, _detail: None
        """Who listens to the case."""
        self.until = ""
        """The entry after which the process dies."""
        self.noted: Callable[[Entry], None] = lambda _entry: None
        """Told each entry once it is on the disk."""
        self.cut: tuple[int, int] | None = None
        """Opcode and dword 10 of the command that the process does not see the end of."""
        self.cut_nth = 1
        """The how many-th of its kind."""
        self.child_writes = True
        """False: the power goes with the process, and nobody writes down how a command ended."""
        self.child_stays = False
        """It never ends."""
        self.by_child, self.sent_last = False, (-1, 0)
        self.wrote = set[int]()
        """Namespaces that were written to."""
        self.planted: list[tuple[int, tuple[int, ...]]] = []
        """Place of the command, and the namespaces that canaries were put on for it."""
        self.clock = Clock()
        self.plug = Plug()
        self._drives = 0
        self._open = contextlib.ExitStack()
        self.anew(written=False)
        self.request = CaseRequest(SLOT, None, self.approved(), policy)
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
        machine = lab.linux(self.kernel, self.clock)
        processes = MortalProcesses(self.kernel, self)
        self.machine = dataclasses.replace(
            machine, host=dataclasses.replace(machine.host, processes=processes)
        )
        if written:
            self.dirty()
        if faults != HEALTHY:
            self.drive.set_faults(faults)

    def approved(self) -> Profile:
        """What an operator takes from the drive as it is now."""
        return lab.profile_of(self.machine)

    @property
    def profile(self) -> Profile:
        """The approved one of the case."""
        return self.request.profile

    @profile.setter
    def profile(self, profile: Profile) -> None:
        self.request = dataclasses.replace(self.request, profile=profile)

    @property
    def policy(self) -> Policy:
        """The policy of the case."""
        return self.request.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.request = dataclasses.replace(self.request, policy=policy)

    def leave(self, left: Leftovers) -> None:
        """What a tenant left beside data; the host's kernel sees it as it takes the drive."""
        apply(self.drive, left)
        self.kernel.scan()

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

    @property
    def bench(self) -> Beside:
        """The drive as somebody else has it."""
        return Beside(self.drive)

    def another(self, cdw10: int) -> int:
        """A Sanitize through another controller of the drive's subsystem; its status."""
        return self.bench.admin(0x84, cdw10=cdw10).status & 0x7FF

    def sent(self, report: EraseReport) -> list[str]:
        """The opcodes of what changed the drive, in order, polls and reads left out."""
        return [f"{command.opcode:02x}" for command in report.commands]

    def names(self) -> list[str]:
        """What the drive's own log saw, without what only reads."""
        return [
            entry.name
            for name in ("sanitize", "format_nvm", "namespace_management", "namespace_attachment")
            for entry in self.bench.commands(name)
            if entry.succeeded
        ]

    def cut_off(self, opcode: int, cdw10: int) -> None:
        """The process dies if this is the command that it was not to see the end of."""
        if (opcode, cdw10) != self.cut:
            return
        self.cut_nth -= 1
        if not self.cut_nth:
            self.cut, self.plug.dead = None, True
            raise Crash

    @property
    def files(self) -> CaseFiles:
        """What the case has on the disk."""
        return CaseFiles.of(self.directory / "state", self.request)

    def run(self, plug: Plug | None = None) -> EraseReport:
        """One process. Raises :class:`Crash` where the plug says so."""
        self.plug = plug or Plug()
        self.wrote.clear()
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


def mortal(monkeypatch: pytest.MonkeyPatch, bed: Bed) -> None:
    """Its processes die before or after any entry in their journal."""

    def note(journal: CaseJournal, entry: Entry) -> None:
        bed.plug.act(lambda: NOTE(journal, entry))
        if isinstance(entry, Planted):
            bed.planted.append((entry.place, tuple(sorted(bed.wrote))))
            bed.wrote.clear()
        bed.noted(entry)
        if type(entry).__name__ == bed.until:
            bed.plug.dead = True
            raise Crash

    # A crash at a named point: the journal is what a dead process leaves behind.
    monkeypatch.setattr(CaseJournal, "note", note)


@pytest.fixture
def bed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """A drive that a tenant had, and a case of it."""
    made = Bed(tmp_path)
    mortal(monkeypatch, made)
    yield made
    made.close()
