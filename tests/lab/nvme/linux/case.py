"""A case of the eraser on a drive of the model, in this process and on simulated time."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

from eraser.case import (
    format as case_format,
)
from eraser.case import (
    probes,
    resets,
    run,
    sanitize,
    session,
)
from eraser.case import (
    verify as case_verify,
)
from eraser.case import (
    visit as case_visit,
)
from eraser.case.session import OnProgress
from eraser.controller import adminioctl, adminqueue, probe_process
from eraser.controller.nvme import Controller, open_controller
from eraser.drive.featuresurvey import survey
from eraser.drive.inspect import facts
from eraser.drive.profile import propose
from eraser.erase import format as detached
from eraser.host import command as commands
from eraser.host import sysfs
from eraser.media import iocommand, passread
from eraser.ownership import revoke
from eraser.proof import verify, visit
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
_TIMED: tuple[ModuleType, ...] = (
    adminioctl, adminqueue, resets, run, session, case_format, case_verify, sanitize, case_visit,
    detached, passread, sysfs, verify, visit,
)  # fmt: skip
"""Modules that look at the clock, or sleep."""


class _Time:
    """Stands for the module ``time``: sleeping lets the drive's seconds pass."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        """Simulated seconds."""
        return self._clock.now

    def time(self) -> float:
        """The same, as seconds of an epoch."""
        return 1.8e9 + self._clock.now

    def sleep(self, seconds: float) -> None:
        """Simulated seconds pass; the drive's own threads get a turn."""
        self._clock.wait(seconds)
        time.sleep(0.0002)


class _InlineAsker:
    """Stands for the child that asks: there is nothing here to be stuck in."""

    pid = 0

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ask(self, question: probe_process.ReadCommand, _patience: float) -> probe_process.Answer:
        """As the child does it."""
        try:
            status, result, data = adminioctl.submit(
                self._descriptor,
                question.opcode,
                question.length,
                nsid=question.nsid,
                cdw10=question.cdw10,
                cdw11=question.cdw11,
                cdw12=question.cdw12,
                timeout=question.timeout,
            )
        except OSError as error:
            return probe_process.Answer(error.errno or 5, 0, 0, b"")
        return probe_process.Answer(0, status, result, b"" if status else data)

    def close(self) -> None:
        """Nothing runs."""


class _Hold:
    """Stands for the exclusive claim on disks: nobody else is here."""

    patience = 0.0
    claimed: frozenset[str] = frozenset()

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.paths: dict[int, str] = {}

    def take(self) -> _Hold:
        """All disks that there are now."""
        self.paths = {nsid: self._kernel.path(nsid) for nsid in self._kernel.disks}
        return self

    def drop(self) -> None:
        """Let go."""
        self.paths = {}

    close = drop


def _open(*arguments: Any, **options: Any) -> Controller:
    """As :func:`open_controller`, with no child."""
    controller = open_controller(*arguments, **{**options, "by_ioctl": False})
    controller.asker = _InlineAsker(controller.descriptor)  # type: ignore[assignment]
    return controller


def _send(
    programs: Programs,
    argv: tuple[str, ...],
    result: Path,
    _lock: int,
    timeout: float,
    _tick: Callable[[float], None],
    stdin: bytes,
) -> detached.FormatResult | None:
    """With no child; the result file is written all the same."""
    detached._write(programs.run(argv, timeout=timeout, stdin=stdin), result)
    return detached.read_result(result)


@contextmanager
def doors(kernel: Kernel, clock: Clock) -> Iterator[sysfs.Host]:
    """The eraser's doors lead to the lab's kernel; the host that it finds there."""
    programs = Programs(kernel)
    simulated, ioctl = _Time(clock), SimpleNamespace(ioctl=kernel.ioctl)
    device = functools.partial(LabDevice, kernel)

    @contextmanager
    def on_processor(number: int) -> Iterator[None]:
        before, kernel.queue = kernel.queue, number + 1
        yield
        kernel.queue = before

    class LabVerifier(verify.Verifier):
        def __init__(self, plan: verify.VerifyPlan) -> None:
            super().__init__(plan, device)

    with ExitStack() as stack:

        def put(module: ModuleType, name: str, value: object) -> None:
            stack.enter_context(mock.patch.object(module, name, value))

        for module in _TIMED:
            put(module, "time", simulated)
        put(commands, "run", programs.run)
        put(detached, "_send", functools.partial(_send, programs))
        put(adminioctl, "fcntl", ioctl)
        put(iocommand, "fcntl", ioctl)
        put(probes, "BlockDevice", device)
        put(case_visit, "BlockDevice", device)
        put(case_verify, "Verifier", LabVerifier)
        put(visit, "processors", lambda: list(range(QUEUES)))
        put(visit, "on_processor", on_processor)
        put(session, "open_controller", _open)
        put(session, "NamespaceHold", lambda _controller, **_options: _Hold(kernel))
        for name in ("prove_idle", "ensure_nvme_driver", "check_unique"):
            put(session, name, lambda *_arguments, **_options: None)
        put(revoke, "revoke", lambda *_arguments, **_options: None)
        yield sysfs.Host(kernel.root)


def profile_of(host: sysfs.Host) -> Profile:
    """What the drive is now: as an operator takes it from a drive that nobody has used."""
    with _open(host, ADDRESS, timeout=60.0) as controller:
        found = dataclasses.replace(facts(controller), detached=())
        return propose(controller.identity(), found, survey(controller))


def erase(
    host: sysfs.Host,
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
        host,
        on_progress=on_progress,
        run_dir=directory / "run",
    )
