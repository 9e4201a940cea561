"""The sanitize machine (Base 5.24, 8.21): accept, run, fail, resume after a power loss.

The data of a block erase goes bit by bit as SPROG advances; that of a crypto erase and of an
overwrite at the end. So whoever takes a running operation for a finished one finds old data.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING

from tests.lab.nvme.faults import EraseFault
from tests.lab.nvme.fill import CHUNK, Fill, FillKind
from tests.lab.nvme.nature import Method
from tests.lab.nvme.spec import (
    OK,
    Command,
    Fid,
    Reply,
    SanitizeAction,
    SanitizeStatus,
    Status,
    refused,
)

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

_LONGEST_TICK_SECONDS = 0.1
_TICKS = 50  # of one operation, so that its progress is seen to advance
_AUSE, _OIPBP, _NDAS, _PREQ = 1 << 3, 1 << 8, 1 << 9, 1 << 11


class Sanitizer:
    """Runs at most one operation. Every method is called with the drive's lock held."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._stop: threading.Event | None = None

    def command(self, command: Command) -> Reply:
        """Answer a Sanitize command; success only means that the operation was started."""
        drive, now = self._drive, self._drive.state.sanitize
        action, ause = command.cdw10 & 7, bool(command.cdw10 & _AUSE)
        if now.running and not now.verifying:
            return refused(Status.SANITIZE_IN_PROGRESS, retry=True)
        if drive.state.firmware.waits:
            # Any Sanitize, whatever its action, while a reset has firmware to activate (Base 5.24).
            if drive.state.firmware.by_controller:
                return refused(Status.FIRMWARE_AWAITS_CONTROLLER_RESET)
            return refused(Status.FIRMWARE_AWAITS_SUBSYSTEM_RESET)
        if action == SanitizeAction.EXIT_VERIFICATION:
            return self._exit_verification()
        if drive.formatter.busy:
            return refused(Status.FORMAT_IN_PROGRESS, retry=True)
        if action == SanitizeAction.EXIT_FAILURE:
            return self._exit_failure()
        if not self._supports(action):
            return refused(Status.INVALID_FIELD)
        if command.cdw10 & _PREQ and not drive.profile.sanitize.reports_purge:
            return refused(Status.INVALID_FIELD)
        inhibited = drive.profile.sanitize.no_deallocate_inhibited
        if command.cdw10 & _NDAS and inhibited and not drive.features.current(Fid.SANITIZE_CONFIG):
            return refused(Status.INVALID_FIELD)
        if now.locked and now.restricted and ause:
            # Restricted Failure is left only by an operation in restricted mode (8.21.3).
            return refused(Status.SANITIZE_FAILED)
        if any(drive.write_protect(namespace) for namespace in drive.state.namespaces):
            return refused(Status.NAMESPACE_WRITE_PROTECTED)
        if drive.buffer_enabled and drive.profile.buffer and drive.profile.buffer.persistent:
            return refused(Status.SANITIZE_PROHIBITED)
        if drive.faults.sanitize is EraseFault.STALE:
            return OK
        now.status, now.progress, now.cdw10 = SanitizeStatus.RUNNING, 0.0, command.cdw10
        now.pattern, now.passes_done, now.verifying = command.cdw11, 0, False
        now.locked, now.restricted = False, not ause
        drive.begin_erase()
        drive.save()
        drive.note("sanitize_started", SanitizeAction(action).name.lower())
        self._run()
        return OK

    def resume(self) -> None:
        """At power-on: an operation that was running goes on (Base 8.21: it cannot be lost)."""
        if self._drive.state.sanitize.running and not self._drive.state.sanitize.verifying:
            self._drive.note("sanitize_resumed", f"at {self._drive.state.sanitize.progress:.3f}")
            self._run()

    def halt(self) -> None:
        """At power-off: stop working; the state file knows how far it was."""
        if self._stop:
            self._stop.set()
            self._stop = None

    def _supports(self, action: int) -> bool:
        abilities = self._drive.profile.sanitize
        return {
            SanitizeAction.CRYPTO: abilities.crypto,
            SanitizeAction.BLOCK: abilities.block,
            SanitizeAction.OVERWRITE: abilities.overwrite,
        }.get(SanitizeAction(action) if 1 <= action <= 4 else SanitizeAction.EXIT_FAILURE, False)

    def _exit_verification(self) -> Reply:
        now = self._drive.state.sanitize
        if not now.verifying:
            return refused(Status.INVALID_FIELD)
        now.status, now.verifying = SanitizeStatus.SUCCESS, False
        self._drive.save()
        self._drive.note("sanitize_verified", "media verification left")
        return OK

    def _exit_failure(self) -> Reply:
        now = self._drive.state.sanitize
        if now.locked and now.restricted:
            return refused(Status.SANITIZE_FAILED)
        if now.locked:
            # The failure stays on record in log 81h; only the lock is lifted.
            now.locked = False
            self._drive.save()
        return OK

    def _run(self) -> None:
        self._stop = threading.Event()
        threading.Thread(
            target=self._work, args=(self._stop,), name="sanitize", daemon=True
        ).start()

    def _work(self, stop: threading.Event) -> None:
        drive = self._drive
        last = time.monotonic()
        while not stop.wait(min(_LONGEST_TICK_SECONDS, self._seconds() / _TICKS)):
            with drive.lock:
                if stop.is_set():
                    return
                moment = time.monotonic()
                done = self._advance((moment - last) / max(self._seconds(), 1e-6))
                last = moment
                if not done and drive.puller.due(drive.state.sanitize.progress):
                    drive.puller.pull()
                    return
                if done:
                    self._stop = None
                    for listener in drive.listeners:
                        listener.sanitize_ended()
                    return

    def _advance(self, step: float) -> bool:
        drive, now, faults = self._drive, self._drive.state.sanitize, self._drive.faults
        before = now.progress
        now.progress = min(before + step, 1.0)
        if faults.sanitize in (EraseFault.STUCK, EraseFault.FAIL):
            now.progress = min(now.progress, max(faults.sanitize_at, before))
        if faults.sanitize is EraseFault.STUCK and now.progress == before:
            return False
        honest = faults.sanitize in (EraseFault.NONE, EraseFault.STUCK, EraseFault.FAIL)
        honest = honest and not drive.nature.survives(self._method())
        if honest and now.cdw10 & 7 == SanitizeAction.BLOCK:
            self._erase_block(before, now.progress)
        if faults.sanitize is EraseFault.FAIL and now.progress >= faults.sanitize_at:
            now.status, now.locked = SanitizeStatus.FAILED, True
            drive.note("sanitize_failed", f"at {now.progress:.3f}")
        elif now.progress >= 1.0:
            self._finish()
        drive.save()
        return not now.running

    def _erase_block(self, before: float, after: float) -> None:
        size = self._drive.media.size
        start, end = (int(size * part) // CHUNK * CHUNK for part in (before, after))
        if end > start:
            self._drive.media.empty(start, end, self._leaves())

    def _finish(self) -> None:
        drive, now = self._drive, self._drive.state.sanitize
        drive.erase(drive.faults.sanitize, self._method(), 0, drive.media.size, self._leaves())
        drive.erase_buffer()
        unexpected = now.cdw10 & _NDAS and drive.profile.sanitize.no_deallocate_inhibited
        now.status = SanitizeStatus.SUCCESS_DEALLOCATED if unexpected else SanitizeStatus.SUCCESS
        if now.cdw10 & 7 == SanitizeAction.OVERWRITE:
            now.passes_done = (now.cdw10 >> 4 & 0xF or 16) & 0x1F
        now.data_erased = True
        drive.nature.erased(self._method())
        drive.end_erase()
        drive.note("sanitize_done", SanitizeAction(now.cdw10 & 7).name.lower())

    def _method(self) -> Method:
        return {
            SanitizeAction.CRYPTO: Method.SANITIZE_CRYPTO,
            SanitizeAction.BLOCK: Method.SANITIZE_BLOCK,
            SanitizeAction.OVERWRITE: Method.SANITIZE_OVERWRITE,
        }[SanitizeAction(self._drive.state.sanitize.cdw10 & 7)]

    def _leaves(self) -> Fill:
        profile, now = self._drive.profile, self._drive.state.sanitize
        abilities = profile.sanitize
        keep = bool(now.cdw10 & _NDAS) and not abilities.no_deallocate_inhibited
        action = now.cdw10 & 7
        if action == SanitizeAction.OVERWRITE:
            word = now.pattern
            odd = (now.cdw10 >> 4 & 0xF or 16) % 2
            if now.cdw10 & _OIPBP and not odd:
                word ^= 0xFFFFFFFF  # inverted between passes: an even count ends inverted
            return Fill(FillKind.PATTERN, word.to_bytes(4, "little").hex(), deallocated=False)
        if action == SanitizeAction.CRYPTO:
            if abilities.crypto_leaves or keep:
                # Old ciphertext under a new key: different on every erase.
                if abilities.crypto_leaves and abilities.crypto_leaves.kind is not FillKind.RANDOM:
                    return abilities.crypto_leaves
                return Fill(FillKind.RANDOM, secrets.token_hex(16), deallocated=False)
            return profile.deallocated_reads
        if abilities.block_leaves:
            return abilities.block_leaves
        return Fill(deallocated=False) if keep else profile.deallocated_reads

    def _seconds(self) -> float:
        abilities, override = self._drive.profile.sanitize, self._drive.faults.sanitize_seconds
        if override is not None:
            return override
        return {
            SanitizeAction.CRYPTO: abilities.crypto_seconds,
            SanitizeAction.BLOCK: abilities.block_seconds,
            SanitizeAction.OVERWRITE: abilities.overwrite_seconds,
        }[SanitizeAction(self._drive.state.sanitize.cdw10 & 7)]
