"""Drives that are honest and answer oddly, or a kernel that does: none is held for it, and none is
released with what nobody looked at. Whole cases on the lab's model, each with one odd answer."""

from __future__ import annotations

import errno
import itertools
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.case.state import CaseState
from eraser.cli.output import exit_code
from eraser.host import sysfs
from eraser.host.command import Completed
from eraser.protocol.conclusions.unallocated import unread
from eraser.protocol.policy import Limits, Policy, Unallocated, Verification
from eraser.protocol.report import EraseReport, Verdict
from eraser.state import journal
from eraser.state.journal import read
from tests.lab.nvme.composed.host import Answer, Clock, Host, Namespace
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.case import Linux
from tests.lab.nvme.linux.cli import Programs
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.presetkind import FULL_FEATURED, NO_SANITIZE, PLAIN
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile, SanitizeProfile
from tests.lab.nvme.state import SanitizeStatus

POLICY = Policy(allow_clear=True, verification=Verification(residual=0.05, canaries=100, visit=4))
SIZE = 8 << 20
READ, COMPARE, ABORT, IDENTIFY, LOG = 0x02, 0x05, 0x08, 0x06, 0x02
SET_FEATURES, MANAGEMENT, ATTACHMENT, SANITIZE = 0x09, 0x0D, 0x15, 0x84
DULBE_SAVED = {"cdw10": 5 | 1 << 31, "cdw11": 1 << 16}
FORMAT = 0x80
INVALID_FIELD, INVALID_NAMESPACE = 0x002, 0x00B
FORMAT_IN_PROGRESS = 0x084


@pytest.fixture(autouse=True)
def seldom_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysfs, "POLL", 0.25)


class OddKernel(Kernel):
    """As the lab's, until ``odd`` is set: from then on that sees each command first."""

    odd: Callable[[OddKernel, bool, int, dict[str, Any]], Answer | None] | None = None
    seen: Callable[[bool, int, dict[str, Any], Answer], Answer] | None = None

    def send(self, opcode: int, *, io: bool = False, **members: Any) -> Answer:
        if self.odd is not None and (answer := self.odd(self, io, opcode, members)) is not None:
            return answer
        answer = super().send(opcode, io=io, **members)
        return answer if self.seen is None else self.seen(io, opcode, members, answer)


def refused(code: int) -> Answer:
    return Answer(code, 0, False, b"", b"")


def without_end(kernel: OddKernel) -> Answer:
    """As the kernel ends what has none: it resets the controller, and saved features come back."""
    kernel.host.wait(30)
    kernel.reset()
    raise OSError(errno.EINTR, "Interrupted system call")


_number = itertools.count()


def brief(profile: DriveProfile) -> DriveProfile:
    """One whose erases are seen running, and not for long: they take the machine's own time."""
    erases = profile.sanitize
    seconds = {
        name: min(getattr(erases, name), 0.1)
        for name in ("crypto_seconds", "block_seconds", "overwrite_seconds")
    }
    return replace(profile, sanitize=replace(erases, **seconds))


class Case:
    """One drive from its enrolment to the end of its case."""

    def __init__(
        self,
        directory: Path,
        profile: DriveProfile = PLAIN,
        kind: type[OddKernel] = OddKernel,
        faults: Faults = HEALTHY,
    ) -> None:
        self.directory = directory / str(next(_number))
        self.directory.mkdir()
        self._clock = Clock()
        self.drive = Drive(
            replace(brief(profile), size=SIZE),
            self.directory / "drive.raw",
            faults,
            clock=self._clock,
        )
        self.host = Host(self.drive, self._clock.wait).__enter__()
        self.kernel = kind(self.host, self.directory / "root")
        self.machine = lab.linux(self.kernel, self._clock)
        self.profile = lab.profile_of(self.machine)

    def erase(self, policy: Policy = POLICY) -> EraseReport:
        return lab.erase(self.machine, self.directory, self.profile, policy)

    def close(self) -> None:
        self.host.__exit__(None, None, None)
        self.drive.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Case]]:
    made: list[Case] = []

    def one(*given: Any, **options: Any) -> Case:
        made.append(Case(tmp_path, *given, **options))
        return made[-1]

    yield one
    for each in made:
        each.close()


def released(report: EraseReport) -> bool:
    return exit_code(report) == 0


ASKINGS = 3
"""Two before the last method, one after it."""
UNENDED: dict[str, tuple[str, Callable[[bool, int, dict[str, Any]], bool]]] = {
    "Abort": (
        "Abort of a command that has ended",
        lambda io, opcode, _given: not io and opcode == ABORT,
    ),
    "Set Features": (
        "feature 04h set to what it is",
        lambda io, opcode, given: (
            not io and opcode == SET_FEATURES and given["cdw10"] & 0x800000FF == 4
        ),
    ),
    "saving": (
        "features saved",
        lambda io, opcode, given: (
            # Not of what is put back in the end.
            not io
            and opcode == SET_FEATURES
            and given["cdw10"] >> 31 == 1
            and given["cdw10"] & 0xFF != 5
        ),
    ),
    "a log": (
        "the Device Self-test log (06h)",
        lambda io, opcode, given: not io and opcode == LOG and given["cdw10"] & 0xFF == 6,
    ),
    "Compare": ("", lambda io, opcode, _given: io and opcode == COMPARE),
    "hinted reads": (
        "",
        lambda io, opcode, given: io and opcode == READ and bool(given.get("cdw13", 0) & 0xFF),
    ),
}


@pytest.mark.parametrize("what", UNENDED)
def test_a_command_without_end_holds_no_drive_that_comes_back(
    make: Callable[..., Case], what: str
) -> None:
    """Its tenant has saved DULBE: after the kernel's reset reads of erased blocks fail again."""
    made, asked = make(), list[int]()
    printed, meant = UNENDED[what]

    def hung(kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]) -> Answer | None:
        if not meant(io, opcode, given):
            return None
        asked.append(opcode)
        return without_end(kernel)

    assert made.host.command(0, SET_FEATURES, nsid=1, **DULBE_SAVED).code == 0
    made.kernel.reset()
    made.kernel.odd = hung
    report = made.erase()
    assert released(report), report.reasons
    assert asked
    for visit in report.visits if printed else ():
        assert f"{printed}: the drive did not end one" in visit.not_done
    if printed:
        assert len(asked) == ASKINGS, "in none of them it is asked for a second one"


@pytest.mark.parametrize(
    ("code", "arrived"), [(0x371, True), (0x370, False), (None, False)], ids=str
)
def test_a_sanitize_that_the_kernel_gave_up_is_no_refusal_of_the_drive(
    make: Callable[..., Case], code: int | None, arrived: bool
) -> None:
    """Its log tells whether the command arrived; one that did not is sent once more."""
    made, asked = make(), list[int]()

    def given_up(kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]) -> Answer | None:
        if io or opcode != SANITIZE or asked:
            return None
        asked.append(opcode)
        if arrived:
            assert kernel.host.command(0, SANITIZE, cdw10=given["cdw10"]).code == 0
        return without_end(kernel) if code is None else refused(code)

    made.kernel.odd = given_up
    report = made.erase()
    assert released(report), report.reasons
    assert asked
    assert [method.attempts for method in report.methods] == [1 if arrived else 2, 1]


def test_a_sanitize_that_failed_in_a_tenants_hands_holds_no_drive_for_want_of_canaries(
    make: Callable[..., Case],
) -> None:
    """The drive takes no writes until another one has ended well. It has one method alone, which
    leaves noise, and promises nothing of it."""
    noise = Fill(FillKind.RANDOM, "aa" * 16, deallocated=False)
    sanitize = SanitizeProfile(block=False, overwrite=False, crypto_leaves=noise)
    made = make(replace(PLAIN, dlfeat=0, sanitize=sanitize))
    now = made.drive.state.sanitize
    now.status, now.locked, now.restricted, now.cdw10 = SanitizeStatus.FAILED, True, True, 4
    made.kernel.reset()
    proof = replace(POLICY.verification, canaries=1024)
    report = made.erase(replace(POLICY, verification=proof))
    assert released(report), report.reasons
    assert [method.verdict for method in report.methods] == [Verdict.ERASED] * 2


def test_a_format_that_goes_on_after_the_kernels_reset_is_waited_for(
    make: Callable[..., Case],
) -> None:
    """Another program's command that timed out is enough for the reset; a drive without FPI says by
    its status alone that it has not ended."""
    made, ends = make(replace(PLAIN, sanitize=NO_SANITIZE)), list[float]()

    def formatting(
        _kernel: OddKernel, io: bool, opcode: int, _given: dict[str, Any]
    ) -> Answer | None:
        now = made.machine.host.clock.monotonic()
        if io or opcode != FORMAT or (ends and now >= ends[0]):
            return None
        if ends:
            return Answer(FORMAT_IN_PROGRESS, 0, True, b"", b"")
        ends.append(now + 300)
        return refused(0x371)

    made.kernel.odd = formatting
    report = made.erase()
    assert released(report), report.reasons
    assert report.methods[0].attempts == 2


@pytest.mark.parametrize("size", [4000, 12000])
def test_a_journal_that_is_full_ends_the_case(
    make: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """A drive that has us send without end fills it; each further run would break off there."""
    monkeypatch.setattr(journal, "MAX_BYTES", size)
    made = make()
    report = made.erase()
    assert (report.verdict, report.fit) == (Verdict.UNKNOWN, False)
    assert "move the case's directory away" in report.reasons[0]
    assert made.erase() == report, "it is over"


class Killed(BaseException):
    """SIGKILL: nothing of this process runs any more."""


@pytest.mark.parametrize("died", [True, False])
def test_canaries_that_a_command_of_ours_did_not_reach_are_planted_anew(
    make: Callable[..., Case], died: bool
) -> None:
    """Its intent is in the journal and it never arrived: another's sanitize may have taken them
    since, and that they are gone would count as the doing of ours."""
    made, tries = make(), list[int]()

    def never_arrives(
        _kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]
    ) -> Answer | None:
        if io or opcode != SANITIZE or tries:
            return None
        tries.append(opcode)
        if died:
            raise Killed
        return refused(0x370)

    made.kernel.odd = never_arrives
    if died:
        with pytest.raises(Killed):
            made.erase()
        assert made.host.command(0, SANITIZE, cdw10=3).code == 0
        while made.host.log(0x81)[2] & 7 == 2:
            made.host.wait(1)
    report = made.erase()
    assert released(report), report.reasons
    (found,) = made.directory.glob("state/cases/*/journal*")
    planted = [line for line in read(found) if line.kind == "Planted" and not line.payload["place"]]
    assert len(planted) == 2


def test_a_lost_answer_ends_no_case_that_was_taken_up_beside_its_sanitize(
    make: Callable[..., Case],
) -> None:
    """It says as little of the sanitize as one that is lost in the run that sent it."""
    made, looks = make(faults=Faults(sanitize_seconds=1.0)), list[str]()

    def busy(kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]) -> Answer | None:
        if not io and opcode == SANITIZE and not looks:
            looks.append("sent")
        elif not io and opcode == LOG and given["cdw10"] & 0xFF == 0x81 and 0 < len(looks) < 3:
            looks.append("at the log")
            if len(looks) == 2:
                raise Killed
            return without_end(kernel)
        return None

    made.kernel.odd = busy
    with pytest.raises(Killed):
        made.erase()
    report = made.erase()
    assert released(report), report.reasons
    assert len(looks) == 3
    assert report.resumed == 1


def test_anothers_sanitize_may_stand_still_for_as_long_as_the_drive_says(
    make: Callable[..., Case],
) -> None:
    """A tenant's overwrite takes hours, and some drives count its progress in whole percents."""
    made = make(replace(PLAIN, sanitize=SanitizeProfile(crypto_seconds=0, block_seconds=0)))
    now = made.machine.host.clock.monotonic
    ends, estimate = now() + 200, 300

    def overwriting(
        _kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]
    ) -> Answer | None:
        if io or opcode != LOG or given["cdw10"] & 0xFF != 0x81 or now() >= ends:
            return None
        log = struct.pack("<HHII", 655, 2, 3, estimate).ljust(512, b"\0")
        return Answer(0, 0, False, log, b"")

    made.kernel.odd = overwriting
    report = made.erase(replace(POLICY, limits=Limits(stuck=60, poll=5)))
    assert released(report), report.reasons


@pytest.mark.parametrize("unsent", [True, False])
def test_a_reset_that_takes_its_time_ends_no_sanitize(
    make: Callable[..., Case], unsent: bool
) -> None:
    """The kernel gives a command up with a reset, and a drive that erases may take as long as it
    says (CAP.TO, to stop and again to start): more than ``limits.ready``. Meanwhile it answers
    itself (370h, which the kernel of the lab gives), or by an errno."""
    made = make()
    now, again = made.machine.host.clock.monotonic, list[float]()
    state = made.kernel.function / "nvme" / made.kernel.name / "state"

    def resetting(kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]) -> Answer | None:
        if not io and opcode == SANITIZE and not again:
            Kernel.send(kernel, opcode, **given)
            state.write_text("resetting\n")
            again.append(now() + 100)
            raise OSError(errno.EINTR, "Interrupted system call")
        if len(again) == 1:
            if now() < again[0]:
                if unsent:
                    return refused(0x370)
                raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
            state.write_text("live\n")
            again.append(now())
        return None

    made.kernel.odd = resetting
    report = made.erase()
    assert released(report), report.reasons
    assert report.methods[0].attempts == 1


@pytest.mark.parametrize("always", [False, True])
def test_a_health_log_of_zeros_is_no_health(make: Callable[..., Case], always: bool) -> None:
    """Some drives give one to whoever wants its events kept (RAE). One that gives nothing else has
    told nobody whether it is worn or read only."""
    made = make()

    def zeros(_kernel: OddKernel, io: bool, opcode: int, given: dict[str, Any]) -> Answer | None:
        if io or opcode != LOG or given["cdw10"] & 0xFF != 2:
            return None
        kept = given["cdw10"] & 1 << 15
        return Answer(0, 0, False, bytes(512), b"") if kept or always else None

    made.kernel.odd = zeros
    report = made.erase()
    assert released(report) is not always, report.reasons
    assert (report.health is None) is always
    assert report.health is None or report.health.temperature_kelvin == 310
    assert report.verdict is Verdict.ERASED
    assert any("nothing but zeros" in reason for reason in report.reasons) is always


def test_a_drive_that_does_not_come_back_is_no_erased_one(make: Callable[..., Case]) -> None:
    made = make()

    def dead(kernel: OddKernel, io: bool, opcode: int, _given: dict[str, Any]) -> Answer | None:
        if io or opcode != ABORT:
            return None
        kernel._say("dead")
        raise OSError(errno.EINTR, "Interrupted system call")

    made.kernel.odd = dead
    assert not released(made.erase())


class Checking(OddKernel):
    """A change of the key leaves protection information wrong: the drive fails the kernel's reads,
    which have it checked, and counts each as a media error (log 02h bytes 175:160)."""

    def __init__(self, host: Host, root: Path) -> None:
        self.failed, self.wrong = 0, False
        self.good = set[int]()
        super().__init__(host, root)

    protected = True

    def send(self, opcode: int, *, io: bool = False, **members: Any) -> Answer:
        answer = super().send(opcode, io=io, **members)
        dword = members.get("cdw10", 0)
        if not io and opcode == SANITIZE and answer.code == 0:
            self.wrong, self.good = dword & 7 == 4, set()
        if io and opcode in (0x01, 0x08):
            self.good.add(dword // 8)
        if not io and opcode == LOG and dword & 0xFF == 2 and answer.code == 0:
            raw = bytearray(answer.data)
            raw[160:168] = self.failed.to_bytes(8, "little")
            return replace(answer, data=bytes(raw))
        if not io and opcode == IDENTIFY and dword & 0xFF in (0x00, 0x11) and self.protected:
            raw = bytearray(answer.data)
            raw[29] = 1
            return replace(answer, data=bytes(raw))
        return answer

    def write(self, path: str, offset: int, data: bytes) -> None:
        super().write(path, offset, data)
        self.good.add(offset // 4096)

    def read(self, path: str, offset: int, length: int) -> bytes:
        blocks = range(offset // 4096, (offset + length + 4095) // 4096)
        if self.wrong and not self.good.issuperset(blocks):
            self.failed += 1
            raise OSError(errno.EILSEQ, "Invalid or incomplete multibyte or wide character")
        return super().read(path, offset, length)


class Unprotected(Checking):
    protected = False


def test_failed_checks_of_protection_information_are_no_faults_of_the_medium(
    make: Callable[..., Case],
) -> None:
    made = make(kind=Checking)
    report = made.erase()
    assert released(report), report.reasons
    assert report.health is not None
    assert report.health.media_errors_after > report.health.media_errors_before
    refused = [act for visit in report.visits for act in visit.acts if act.refused]
    assert not refused, "what the kernel cannot read is read by a command of our own"


def test_media_errors_of_a_drive_without_any_hold_it(make: Callable[..., Case]) -> None:
    report = make(kind=Unprotected).erase()
    assert not released(report)
    assert any("new media errors" in reason for reason in report.reasons)


def test_a_disk_that_shows_less_than_the_drive_has_is_not_all_of_it(
    make: Callable[..., Case],
) -> None:
    class Short(OddKernel):
        short = False

        def disk(self, path: str) -> Namespace:
            found = super().disk(path)
            return replace(found, size=found.size // 2) if self.short else found

        def send(self, opcode: int, *, io: bool = False, **members: Any) -> Answer:
            if not io and opcode == SANITIZE and members["cdw10"] & 7 == self.since:
                self.short = True
            return super().send(opcode, io=io, **members)

        since = 2

    class ShortFromTheBeginning(Short):
        since = 0

    for kind in (Short, ShortFromTheBeginning):
        made = make(kind=kind)
        made.kernel.short = kind is ShortFromTheBeginning
        report = made.erase()
        assert not released(report)
        assert any("expected a disk of" in reason for reason in report.reasons), report.reasons


def test_a_drive_of_nvme_1_0_has_no_list_of_namespaces(make: Callable[..., Case]) -> None:
    for code in (INVALID_FIELD, INVALID_NAMESPACE):

        def old(
            _kernel: OddKernel,
            io: bool,
            opcode: int,
            given: dict[str, Any],
            code: int = code,
        ) -> Answer | None:
            asked = not io and opcode == IDENTIFY and given["cdw10"] & 0xFF == 0x02
            return refused(code) if asked else None

        def version(io: bool, opcode: int, given: dict[str, Any], answer: Answer) -> Answer:
            if io or opcode != IDENTIFY or given["cdw10"] & 0xFF != 0x01:
                return answer
            raw = bytearray(answer.data)
            raw[80:84] = bytes(4)
            return replace(answer, data=bytes(raw))

        made = make()
        made.kernel.odd, made.kernel.seen = old, version
        assert released(report := made.erase()), report.reasons
        made = make()
        made.kernel.odd = old
        assert not released(made.erase()), "a newer drive has one"


def silent(machine: Linux, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvme-cli 3.0-rc1: a success is told by the exit code alone."""
    real = Programs.run

    def run(self: Programs, argv: Any, stdin: bytes) -> Completed:
        done = real(self, argv, stdin)
        return replace(done, stderr="") if done.exit_code == 0 else done

    monkeypatch.setattr(Programs, "run", run)


def test_a_new_namespace_is_found_where_nvme_cli_does_not_tell_its_number(
    make: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make(FULL_FEATURED)
    assert made.host.command(0, MANAGEMENT, nsid=1, cdw10=1).code == 0
    made.kernel.reset()
    silent(made.machine, monkeypatch)
    report = made.erase()
    assert released(report), report.reasons


TENANT = b"a tenant's block"


def leave_a_deleted_namespace(made: Case) -> None:
    """Made of all that is free, filled, and deleted."""
    identify = made.host.identify(0x01)
    free = int.from_bytes(identify[296:304], "little")
    layout = bytearray(4096)
    layout[0:8] = layout[8:16] = (free // 512).to_bytes(8, "little")
    answer = made.host.command(0, MANAGEMENT, send=bytes(layout))
    assert answer.code == 0
    controllers = (1).to_bytes(2, "little") * 2 + bytes(4092)
    assert made.host.command(0, ATTACHMENT, nsid=answer.dw0, send=controllers).code == 0
    for block in range(0, free // 512, 8):
        made.host.command(
            1, 0x01, nsid=answer.dw0, send=TENANT.ljust(4096, b"."), cdw10=block, cdw12=7
        )
    assert made.host.command(0, MANAGEMENT, nsid=answer.dw0, cdw10=1).code == 0


@pytest.mark.parametrize(
    "wrong", [lambda total: total // 512, lambda _total: 0], ids=["in blocks", "none"]
)
def test_capacity_that_cannot_be_hides_nothing_that_a_tenant_left(
    make: Callable[..., Case], wrong: Callable[[int], int]
) -> None:
    """TNVMCAP is wrong, UNVMCAP is right, and only a Format can be had: it reaches namespaces."""
    profile = replace(FULL_FEATURED, namespaces=(NamespaceProfile(1, 0.75),), sanitize=NO_SANITIZE)
    made = make(profile, faults=Faults(creates_dirty=True))
    leave_a_deleted_namespace(made)

    def told(io: bool, opcode: int, given: dict[str, Any], answer: Answer) -> Answer:
        if io or opcode != IDENTIFY or given["cdw10"] & 0xFF != 0x01:
            return answer
        raw = bytearray(answer.data)
        total = int.from_bytes(raw[280:296], "little")
        raw[280:296] = wrong(total).to_bytes(16, "little")
        return replace(answer, data=bytes(raw))

    made.kernel.seen = told
    made.kernel.reset()
    made.profile = replace(made.profile, total_bytes=0)
    asked = replace(POLICY.verification, unallocated=Unallocated.HOLD)
    report = made.erase(replace(POLICY, verification=asked))
    assert released(report), report.reasons
    assert unread(report) == 0
    stored = b"".join(each.read_bytes() for each in made.directory.glob("drive.raw*"))
    assert TENANT not in stored


def test_a_disk_has_not_the_number_of_its_namespace(make: Callable[..., Case]) -> None:
    """Linux numbers disks in the order in which it meets them."""
    parts = NamespaceProfile(2, 0.5), NamespaceProfile(7, 0.4)
    made = make(replace(PLAIN, namespaces=parts))
    assert [Path(made.kernel.path(nsid)).name[-2:] for nsid in (2, 7)] == ["n1", "n2"]
    report = made.erase()
    assert released(report), report.reasons
    assert report.verification is not None
    assert [each.nsid for each in report.verification.namespaces] == [2, 7]


class Unopened(OddKernel):
    """Of a namespace with metadata between its blocks, or with large ones, this kernel makes a disk
    of no bytes, which nobody can open for reading."""

    odd_one = 2

    def disk(self, path: str) -> Namespace:
        found = super().disk(path)
        if found.nsid == self.odd_one:
            raise OSError(errno.EIO, "no bytes")
        return found


class Diskless(OddKernel):
    """Of a namespace of another command set this kernel makes no disk at all."""

    odd_one = 2

    def scan(self) -> None:
        super().scan()
        if self.disks.pop(self.odd_one, None) is None:
            return
        path = Path(self.path(self.odd_one))
        path.unlink()
        shutil.rmtree(self.function / "nvme" / self.name / path.name)


@pytest.mark.parametrize("kind", [Unopened, Diskless])
def test_a_namespace_that_a_tenant_left_without_a_usable_disk_holds_no_drive(
    make: Callable[..., Case], kind: type[OddKernel]
) -> None:
    """It is erased by the sanitize and deleted before the last one; the others are sampled and
    visited all the same."""
    made = make(FULL_FEATURED, kind=kind)
    assert made.host.command(0, MANAGEMENT, nsid=1, cdw10=1).code == 0
    layout = bytearray(4096)
    layout[0:8] = layout[8:16] = (4 << 20 >> 9).to_bytes(8, "little")
    controllers = (1).to_bytes(2, "little") * 2 + bytes(4092)
    for nsid in (1, 2):
        assert made.host.command(0, MANAGEMENT, send=bytes(layout)).dw0 == nsid
        assert made.host.command(0, ATTACHMENT, nsid=nsid, send=controllers).code == 0
    made.host.command(1, 0x01, nsid=1, send=TENANT.ljust(4096, b"."), cdw12=7)
    made.kernel.reset()
    report = made.erase()
    assert released(report), report.reasons
    (found,) = made.directory.glob("state/cases/*/journal*")
    taken = CaseState.of(read(found)).fingerprinted
    assert taken is not None
    assert taken.taken == 1, "of the first block, in the other namespace"
    assert [visit.wrote for visit in report.visits] == [True, False]
