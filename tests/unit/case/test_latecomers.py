"""Somebody who comes to the drive in the midst of a case: our claim on its disks keeps nobody from
a character device, an export, or a guest's disk (promise 2)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eraser.errors import InUseError
from eraser.host import idle
from eraser.protocol.policy import Policy, Verification
from eraser.protocol.report import EraseReport, Outcome, Step, Verdict
from tests.lab.nvme.commandlog import log_path, read_commands
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Abilities, Description
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.linux import case as lab
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Method

ERASES = (0x80, 0x84)
READS = {
    *("identify", "get_log_page", "get_features", "abort"),
    *("read", "compare", "verify", "reservation_report"),
}
POLICY = Policy(allow_clear=True, verification=Verification(canaries=24, residual=0.05, visit=0))
_GUEST = """<domstatus><domain><name>g</name><devices>
<disk type='block'><source dev='/dev/nvme0n1'/></disk></devices></domain></domstatus>"""


def opened(root: Path) -> None:
    """A process has the character device open: no claim of ours keeps it out."""
    process = root / "proc/50"
    (process / "fd").mkdir(parents=True)
    (process / "ns").mkdir()
    (process / "ns/mnt").symlink_to("mnt:[1]")
    (process / "root").symlink_to("/")
    (process / "comm").write_text("spdk_tgt\n")
    (process / "mountinfo").write_text("21 1 0:1 / / rw - overlay overlay rw\n")
    (process / "fd/3").symlink_to(os.devnull)


def exported(root: Path) -> None:
    namespace = root / "sys/kernel/config/nvmet/subsystems/n/namespaces/1"
    namespace.mkdir(parents=True)
    (namespace / "device_path").write_text("/dev/nvme0n1\n")


def given_to_a_guest(root: Path) -> None:
    running = root / "run/libvirt/qemu"
    running.mkdir(parents=True)
    (running / "g.xml").write_text(_GUEST)


def changed(drive: Drive) -> list[str]:
    """Of all that the drive was sent so far, what does more than read, in order; blocks are among
    it where the drive notes them (``Faults.log_io``)."""
    log = read_commands(log_path(drive.backing))
    return [command.name for command in log if command.name not in READS]


def erase(
    directory: Path,
    when: Step,
    come: Callable[[Path], None],
    *,
    nth: int = 1,
    methods: tuple[Method, ...] = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK),
    stays: float | None = None,
) -> tuple[EraseReport, list[str]]:
    """A case in which somebody comes as a step is taken for the ``nth`` time, and stays so long;
    and what the drive was sent since that changes it."""
    with bench(Description("honest", Abilities(methods)), directory, size=1 << 20) as bed:
        drive, host, at = bed
        drive.set_faults(replace(drive.faults, log_io=True))
        kernel = Kernel(host, directory / "root")
        machine = lab.linux(kernel, at)
        taken: list[Step] = []
        came: list[float] = []
        before: list[str] = []

        def progress(step: Step, fraction: float, _detail: str) -> None:
            if fraction == 0.0 and (not taken or taken[-1] is not step):
                taken.append(step)
            if not came and taken.count(when) == nth:
                came.append(at.now)
                before.extend(changed(drive))
                come(kernel.root)

        sleep = machine.host.clock.sleep

        def leaving(seconds: float) -> None:
            sleep(seconds)
            if came and stays is not None and at.now >= came[0] + stays:
                shutil.rmtree(kernel.root / "proc/50", ignore_errors=True)

        machine.host.clock.sleep = leaving  # type: ignore[method-assign]
        report = lab.erase(machine, directory, lab.profile_of(machine), POLICY, progress)
        assert came, taken
        return report, changed(drive)[len(before) :]


def erases(report: EraseReport) -> int:
    return sum(command.opcode in ERASES for command in report.commands)


@pytest.mark.parametrize("come", [opened, exported, given_to_a_guest])
@pytest.mark.parametrize("when", [Step.INSPECT, Step.CANARIES])
@pytest.mark.parametrize("method", [Method.SANITIZE_BLOCK, Method.FORMAT_USER])
def test_nothing_is_sent_to_a_drive_that_somebody_came_to(
    tmp_path: Path, when: Step, come: Callable[[Path], None], method: Method
) -> None:
    report, late = erase(tmp_path, when, come, methods=(method,))
    assert (report.outcome, late, erases(report)) == (Outcome.IN_USE, [], 0)
    if when is Step.INSPECT:
        assert report.verification is None


@pytest.mark.parametrize("come", [opened, exported, given_to_a_guest])
def test_who_comes_between_two_methods_gets_no_second_one(
    tmp_path: Path, come: Callable[[Path], None]
) -> None:
    report, late = erase(tmp_path, Step.CANARIES, come, nth=2)
    assert (report.outcome, late) == (Outcome.COMPLETED, [])
    assert (report.verdict, report.fit, erases(report)) == (Verdict.UNKNOWN, False, 1)
    assert any("expected an unused drive" in reason for reason in report.reasons)


def test_a_passing_look_between_two_methods_holds_nobody(tmp_path: Path) -> None:
    """Longer than what a look may take before the first."""
    report, _late = erase(tmp_path, Step.CANARIES, opened, nth=2, stays=10 * idle.PATIENCE)
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons


def test_a_look_of_ours_that_came_to_no_end_between_two_methods_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = idle.gather, list[str]()

    def come(_root: Path) -> None:
        def slow(*given: object, **options: object) -> idle.IdleFacts:
            if len(failed) < 3:
                failed.append("")
                raise InUseError("cannot prove idle") from TimeoutError("a slow look")
            return real(*given, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(idle, "gather", slow)

    report, _late = erase(tmp_path, Step.CANARIES, come, nth=2)
    assert failed
    assert (report.verdict, report.fit) == (Verdict.ERASED, True), report.reasons
