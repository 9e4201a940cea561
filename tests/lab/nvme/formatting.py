"""Format NVM (Base 5.14): one command that takes as long as the erase, and dies with a reset."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.lab.nvme.faults import EraseFault
from tests.lab.nvme.fill import CHUNK, Fill, FillKind
from tests.lab.nvme.nature import Method
from tests.lab.nvme.spec import (
    BROADCAST_NSID,
    DNR,
    OK,
    Command,
    Reply,
    Status,
    refused,
)
from tests.lab.nvme.state import NamespaceState

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

Answer = Callable[[Reply], None]

_SES_NONE, _SES_USER_DATA, _SES_CRYPTO = 0, 1, 2


@dataclass(frozen=True)
class _Job:
    targets: list[NamespaceState]
    lba_format: int
    erase: int
    owner: object
    answer: Answer
    begun: float
    seconds: float
    stop: threading.Event

    def fraction(self) -> float:
        """How much of it is done."""
        if not self.seconds:
            return 1.0
        return min((time.monotonic() - self.begun) / self.seconds, 1.0)


class Formatter:
    """Runs at most one Format. Every method is called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._job: _Job | None = None

    @property
    def busy(self) -> bool:
        """Whether a Format is under way."""
        return self._job is not None

    def percent_left(self, nsid: int) -> int:
        """FPI's percentage of a namespace that remains to be formatted (NVM 4.1.5.1)."""
        job = self._job
        if job is None or all(target.nsid != nsid for target in job.targets):
            return 0
        return max(1, round(100 * (1 - job.fraction())))

    def command(self, command: Command, owner: object, answer: Answer) -> Reply | None:
        """Answer a Format, or return None and answer through ``answer`` later.

        A Format ends half done when ``owner``, the function it came through, is reset.
        """
        drive, profile = self._drive, self._drive.profile
        erase = command.cdw10 >> 9 & 7
        lba_format = command.cdw10 & 0xF | command.cdw10 >> 8 & 0x30
        if self.busy:
            return refused(Status.FORMAT_IN_PROGRESS, retry=True)
        if not profile.plays(lba_format) or command.cdw10 >> 5 & 7:
            return refused(Status.INVALID_FORMAT)
        if erase > _SES_CRYPTO or (erase == _SES_CRYPTO and not profile.format.crypto):
            return refused(Status.INVALID_FIELD)
        targets = self._targets(command.nsid, erase)
        if isinstance(targets, Reply):
            return targets
        if any(drive.write_protect(target) for target in targets):
            return refused(Status.NAMESPACE_WRITE_PROTECTED)
        wanted = drive.faults.format_seconds
        seconds = profile.format.seconds if wanted is None else wanted
        job = _Job(
            targets, lba_format, erase, owner, answer, time.monotonic(), seconds, threading.Event()
        )
        if not seconds:
            drive.begin_erase()
            return self._finish(job)
        self._job = job
        drive.begin_erase()
        threading.Thread(target=self._work, args=(job,), name="format", daemon=True).start()
        return None

    def halt(self, owner: object | None = None) -> None:
        """A reset of ``owner``, or power-off with None: stop where it is, answer nothing."""
        job = self._job
        if job is None or (owner is not None and job.owner is not owner):
            return
        job.stop.set()
        self._job = None
        if job.erase != _SES_NONE and self._drive.faults.format is EraseFault.NONE:
            self._erase_part(job, job.fraction())
        self._drive.note("format_interrupted", f"at {job.fraction():.3f}")

    def _targets(self, nsid: int, erase: int) -> list[NamespaceState] | Reply:
        state, form = self._drive.state, self._drive.profile.format
        if nsid == BROADCAST_NSID and not form.broadcast:
            return refused(Status.INVALID_FIELD)
        # Of a command that erases, bit 1 of FNA alone tells the scope, of its format as well; bit 0
        # is of one that does not (Base 2.1, figure 188).
        everything = form.all_namespaces if erase == _SES_NONE else form.secure_all_namespaces
        if everything:
            return list(state.namespaces)
        if nsid == BROADCAST_NSID:
            return state.attached  # the others are not reached (Base 5.14, operation scope)
        found = state.active(nsid)
        return [found] if found else refused(Status.INVALID_NAMESPACE)

    def _work(self, job: _Job) -> None:
        part = self._drive.faults.pulled_at
        if part is not None and not job.stop.wait(job.seconds * part):
            with self._drive.lock:
                if not job.stop.is_set() and self._drive.puller.due(part):
                    self._drive.puller.pull()  # which halts this job
        if job.stop.wait(max(0.0, job.begun + job.seconds - time.monotonic())):
            return
        with self._drive.lock:
            if job.stop.is_set():
                return
            self._job = None
            job.answer(self._finish(job))

    def _finish(self, job: _Job) -> Reply:
        drive = self._drive
        if drive.faults.format is EraseFault.FAIL:
            self._erase_part(job, 0.5)
            return Reply(Status.INTERNAL | DNR)
        for target in job.targets:
            if job.erase != _SES_NONE:
                end = target.base + target.size
                fill = self._leaves(job.erase)
                drive.erase(drive.faults.format, _method(job.erase), target.base, end, fill)
            if target.lba_format != job.lba_format:
                drive.namespace_changed(target.nsid)
            target.lba_format = job.lba_format
        if job.erase != _SES_NONE:
            drive.nature.erased(_method(job.erase))
        drive.end_erase()
        drive.save()
        drive.note("format_done", f"ses {job.erase}")
        return OK

    def _erase_part(self, job: _Job, fraction: float) -> None:
        if job.erase == _SES_NONE or self._drive.nature.survives(_method(job.erase)):
            return
        for target in job.targets:
            end = target.base + int(target.size * fraction) // CHUNK * CHUNK
            if end > target.base:
                self._drive.media.empty(target.base, end, self._leaves(job.erase))
        self._drive.save()

    def _leaves(self, erase: int) -> Fill:
        profile = self._drive.profile
        leaves = (
            profile.format.crypto_leaves if erase == _SES_CRYPTO else profile.format.secure_leaves
        )
        if leaves and leaves.kind is FillKind.RANDOM:
            return replace(leaves, key=secrets.token_hex(16), deallocated=False)
        return leaves or profile.deallocated_reads


def _method(erase: int) -> Method:
    return Method.FORMAT_CRYPTO if erase == _SES_CRYPTO else Method.FORMAT_USER
