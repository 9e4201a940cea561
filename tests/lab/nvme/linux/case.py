"""A case of the eraser on a drive of the model, in this process and on simulated time.

All of it comes in by the eraser's own doors: nothing is put in the place of anything.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from eraser import clock as clocks
from eraser.case import run
from eraser.case.session import OnProgress
from eraser.controller.nvme import open_controller
from eraser.drive.featuresurvey import survey
from eraser.drive.inspect import facts
from eraser.drive.profile import propose
from eraser.host import children, sysfs
from eraser.host.answerer import Answerer
from eraser.host.command import Completed
from eraser.media.reader import OpenDisk
from eraser.protocol.identity import Slot
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport
from eraser.state.case_files import CaseFiles, CaseRequest
from tests.lab.nvme.composed.host import Clock
from tests.lab.nvme.linux.cli import Programs
from tests.lab.nvme.linux.device import LabDevice
from tests.lab.nvme.linux.kernel import ADDRESS, QUEUES, Kernel

SLOT = Slot("lab", ADDRESS)


class _Clock(clocks.Clock):
    """Sleeping lets the drive's seconds pass."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock.now

    boottime = monotonic

    def time(self) -> float:
        return 1.8e9 + self._clock.now

    def sleep(self, seconds: float) -> None:
        """The drive's own threads get a turn."""
        self._clock.wait(seconds)
        time.sleep(0.0002)


class _Answerer(Answerer):
    """No child: there is nothing here to be stuck in."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self.pid, self._answer = 0, answer

    def ask(self, question: bytes, length: int, patience: float) -> bytes:
        return self._answer(question)[:length]

    def close(self) -> None:
        pass


class LabProcesses(children.Processes):
    """Programs that are played, and children that are this process."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._programs = Programs(kernel)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float,
        stdin: bytes | None = None,
        pass_fds: Sequence[int] = (),
        patience: float | None = None,
    ) -> Completed:
        return self._programs.run(argv, stdin or b"")

    def answerer(self, answer: Callable[[bytes], bytes], descriptor: int, longest: int) -> Answerer:
        return _Answerer(answer)

    def outlive(self, work: Callable[[], object], kept: int) -> Callable[[], bool]:
        work()
        return lambda: True

    def alone(
        self,
        works: Iterable[Callable[[], bytes]],
        seconds: float,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        grace: float = 0.0,
    ) -> list[bytes | None]:
        said: list[bytes | None] = [work() for work in works]
        meanwhile()
        return said

    def processors(self) -> list[int]:
        return list(range(QUEUES))

    @contextlib.contextmanager
    def on_processor(self, number: int) -> Iterator[None]:
        before, self._kernel.queue = self._kernel.queue, number + 1
        yield
        self._kernel.queue = before


class _Devices(sysfs.Devices):
    """Disks are plain files here, opened for their claims alone."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def open(self, path: Path, node: sysfs.Node, flags: int) -> int:
        return (
            os.open(path, flags | os.O_CLOEXEC) if node.block else super().open(path, node, flags)
        )

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> int:
        return self._kernel.ioctl(descriptor, request, argument)


@dataclasses.dataclass(frozen=True)
class Linux:
    """The machine that the eraser is given, and its way to a drive's blocks."""

    host: sysfs.Host
    disk: OpenDisk


def linux(kernel: Kernel, clock: Clock, chance: Callable[[int], bytes] = os.urandom) -> Linux:
    """The eraser's doors, which lead to the lab's kernel; ``chance`` says where it looks."""
    host = sysfs.Host(
        kernel.root,
        clock=_Clock(clock),
        processes=LabProcesses(kernel),
        devices=_Devices(kernel),
        chance=chance,
    )
    return Linux(host, functools.partial(LabDevice, kernel))


def profile_of(machine: Linux) -> Profile:
    """What the drive is now: as an operator takes it from a drive that nobody has used."""
    with open_controller(machine.host, ADDRESS, timeout=60.0, by_ioctl=True) as controller:
        found = dataclasses.replace(facts(controller), detached=())
        return propose(controller.identity(), found, survey(controller))


def erase(
    machine: Linux,
    directory: Path,
    profile: Profile,
    policy: Policy,
    on_progress: OnProgress = lambda _step, _fraction, _detail: None,
) -> EraseReport:
    """A stand-alone case to its end; its files stay below ``directory``."""
    request = CaseRequest(SLOT, None, profile, policy)
    return run.run_case(
        request,
        CaseFiles.of(directory / "state", request),
        machine.host,
        on_progress=on_progress,
        run_dir=directory / "run",
        disk=machine.disk,
    )
