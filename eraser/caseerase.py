"""The destructive part of a case: one planned command after the other, each to its end.

An intent is in the journal before a command goes out. A command whose end was not seen is decided
from the drive's own log (Sanitize) or the child's result file (Format), never sent again blindly.
"""

from __future__ import annotations

import base64
import time

from eraser import caseproof
from eraser.casebook import (
    AttemptOver,
    CommandEntry,
    Intent,
    MethodDone,
    SeenRunning,
    Sent,
    Uprooted,
)
from eraser.casedesk import Desk
from eraser.drive.passthru import passthru_argv, status_of
from eraser.drive.spec import SanitizeLog, SanitizeState
from eraser.erase import format as format_nvm
from eraser.erase.plan import OPCODE_SANITIZE
from eraser.erase.sanitize import (
    AfterLoss,
    Assessment,
    Standing,
    Watchdog,
    after_loss,
    assess,
    attach,
    verdict,
)
from eraser.errors import DriveError
from eraser.wire.report import CommandRecord, MethodRecord, Step, Verdict

STATUS_SANITIZE_IN_PROGRESS = 0x1D
STATUS_FORMAT_IN_PROGRESS = 0x84
"""Generic Command Status values (Base 2.0, figure 126; NVM Command Set 1.0, figure 92)."""

SETTLE_SECONDS = 2.0
"""How long an accepted command may take to show up in log 81h before the log counts as stale."""

MAX_ATTEMPTS = 2
"""Of one command that failed: one repetition, and only where no other method follows."""


def erase(desk: Desk) -> None:
    """Carries out what is left of the plan. Raises :class:`DriveError` and its kin."""
    _attach(desk)
    for place, command in enumerate(desk.state.steps):
        if desk.state.halted:
            return
        if place in desk.state.done or place < desk.state.first:
            continue
        with desk.step(Step.ERASE, command.method.value):
            if command.opcode == OPCODE_SANITIZE:
                _Sanitize(desk, place, command).run()
            else:
                _Format(desk, place, command).run()


def _attach(desk: Desk) -> None:
    """Adopts a running sanitize that no journal knows of, or waits for a foreign one."""
    state = desk.state
    if state.intent is not None or not desk.controller.identify().can_sanitize:
        return
    raw, now = desk.sanitize_log()
    if now.state is not SanitizeState.RUNNING:
        return
    waiting = {
        place: command
        for place, command in enumerate(state.steps)
        if place not in state.done and command.opcode == OPCODE_SANITIZE
    }
    found = attach(tuple(command.cdw10 for command in waiting.values()), now)
    if found is None:
        with desk.step(Step.ERASE, "another's sanitize"):
            _wait_for_another(desk, "before ours")
        return
    place = list(waiting)[found]
    desk.note(Intent(place, 1, adopted=True, log_before=_text(raw)))


def _wait_for_another(desk: Desk, why: str) -> None:
    """Until no sanitize is running. Raises :class:`DriveError` when patience is over."""
    dog = _watchdog(desk)
    while True:
        _raw, now = desk.sanitize_log()
        if now.state is not SanitizeState.RUNNING:
            return
        if over := dog.look(now.progress, time.monotonic()):
            raise DriveError(f"waiting for another's sanitize (SCDW10 {now.cdw10:#x}): {over}")
        desk.tell(now.fraction, f"another's sanitize is running, {why}")
        desk.check_time()
        time.sleep(desk.limits.poll)


def _watchdog(desk: Desk) -> Watchdog:
    return Watchdog(time.monotonic(), desk.limits.sanitize, desk.limits.stuck)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


class _Sanitize:
    """One Sanitize of the plan."""

    def __init__(self, desk: Desk, place: int, command: CommandEntry) -> None:
        self.desk = desk
        self.place = place
        self.command = command
        self.began = time.monotonic()

    def run(self) -> None:
        """To its result, whatever an earlier run left."""
        while self.place not in self.desk.state.done:
            intent = self.desk.state.intent
            if intent is None:
                self._send()
            elif intent.adopted or self.desk.state.running_seen:
                self._watch(intent)
            else:
                self._find_out(intent)

    def _find_out(self, intent: Intent) -> None:
        """An intent without a result: the log tells whether the command arrived."""
        before = _parse(intent.log_before)
        _raw, now = self.desk.sanitize_log()
        match after_loss(self.command.cdw10, before, now):
            case AfterLoss.WATCH:
                self._seen()
                self._watch(intent)
            case AfterLoss.TAKE:
                self._take(intent)
            case AfterLoss.WAIT:
                self.desk.note(Uprooted(self.place, "another's sanitize is running"))
                _wait_for_another(self.desk, "before ours")
            case AfterLoss.SEND:
                self.desk.note(
                    AttemptOver(self.place, "interrupted; log 81h shows that it did not arrive")
                )

    def _send(self) -> None:
        desk, cdw10 = self.desk, self.command.cdw10
        _wait_for_another(desk, "before ours")
        caseproof.plant(desk, self.place)
        desk.recheck()
        raw, _before = desk.sanitize_log()
        intent = Intent(self.place, self._attempts + 1, adopted=False, log_before=_text(raw))
        desk.note(intent)
        record, _data = desk.controller.admin(
            OPCODE_SANITIZE,
            cdw10=cdw10,
            timeout=desk.limits.command,
            note=self.command.method.value,
        )
        desk.note(Sent(record))
        if record.status is None:
            # No completion: the kernel has reset the controller, and the log alone knows.
            desk.controller.wait_live(desk.limits.ready, namespaces=False)
        if record.status in (0, None):
            self._watch(intent, settle=SETTLE_SECONDS)
        elif record.status == STATUS_SANITIZE_IN_PROGRESS:
            self._occupied(intent)
        else:
            self._refused(intent, record)

    @property
    def _attempts(self) -> int:
        return self.desk.state.attempts.get(self.place, 0)

    def _seen(self) -> None:
        if not self.desk.state.running_seen:
            self.desk.note(SeenRunning(self.place))

    def _occupied(self, intent: Intent) -> None:
        """1Dh: somebody was faster. With our dword 10 it is as good as ours, else wait."""
        raw, now = self.desk.sanitize_log()
        if now.state is SanitizeState.RUNNING and now.cdw10 == self.command.cdw10:
            self.desk.note(Intent(self.place, intent.attempt, adopted=True, log_before=_text(raw)))
            return
        reason = "status 0x1d: another's sanitize is running"
        self.desk.note(AttemptOver(self.place, reason))
        self.desk.note(Uprooted(self.place, reason))
        if intent.attempt > 2 * MAX_ATTEMPTS:
            raise DriveError(f"{reason}, again and again; who else sanitizes this drive?")

    def _refused(self, intent: Intent, record: CommandRecord) -> None:
        reason = f"the drive refused it with status {record.status:#05x} ({record.message})"
        raw, _now = self.desk.sanitize_log()
        self._done(intent, raw, Verdict.NOT_ERASED, reason, changed=False)

    def _watch(self, intent: Intent, *, settle: float = 0.0) -> None:
        """Polls log 81h until our sanitize has ended or patience is over."""
        dog, began = _watchdog(self.desk), time.monotonic()
        while True:
            raw, now = self.desk.sanitize_log()
            found = self._assess(intent, now)
            if found.standing is Standing.RUNNING:
                self._seen()
                if over := dog.look(now.progress, time.monotonic()):
                    self._done(intent, raw, Verdict.UNKNOWN, over, changed=True, halt=True)
                    return
                self.desk.check_time()
                self.desk.tell(now.fraction, self._eta(now, began))
            elif found.standing is Standing.FOREIGN:
                _wait_for_another(self.desk, "after our command")
            elif found.changed or time.monotonic() - began >= settle:
                self._end(intent, raw, found)
                return
            time.sleep(min(self.desk.limits.poll, settle or self.desk.limits.poll))

    def _take(self, intent: Intent) -> None:
        raw, now = self.desk.sanitize_log()
        self._end(intent, raw, self._assess(intent, now))

    def _assess(self, intent: Intent, now: SanitizeLog) -> Assessment:
        before = None if intent.adopted else _parse(intent.log_before)
        return assess(self.command.cdw10, before, now, running_seen=self.desk.state.running_seen)

    def _eta(self, now: SanitizeLog, began: float) -> str:
        seconds, name = time.monotonic() - began, self.command.method.value
        if 0.01 < now.fraction < 1 and seconds > 1:
            return f"{name}, about {seconds * (1 - now.fraction) / now.fraction:.0f} s left"
        return name

    def _end(self, intent: Intent, raw: bytes, found: Assessment) -> None:
        last = self.place + 1 == len(self.desk.state.steps)
        failed = found.standing is Standing.FAILED
        if failed and last and not self._failed_before():
            # Another method of the plan is the better repetition; the last one has none.
            self.desk.note(AttemptOver(self.place, found.reason))
            return
        reason = found.reason
        if intent.adopted and not reason:
            reason = "adopted: found running with our command dword 10, its end was seen by us"
        self._done(intent, raw, verdict(found), reason, changed=found.changed, halt=failed and last)

    def _failed_before(self) -> bool:
        return "SSTAT 3" in self.desk.state.failures.get(self.place, "") or any(
            "SSTAT 3" in done.record.reason for done in self.desk.state.done.values()
        )

    def _done(
        self,
        intent: Intent,
        raw: bytes,
        result: Verdict,
        reason: str,
        *,
        changed: bool,
        halt: bool = False,
    ) -> None:
        record = MethodRecord(
            method=self.command.method,
            cdw10=self.command.cdw10,
            nsid=self.command.nsid,
            attempts=intent.attempt,
            adopted=intent.adopted,
            log_before=intent.log_before,
            log_after=_text(raw),
            changed=changed,
            verdict=result,
            reason=reason,
            seconds=round(time.monotonic() - self.began, 3),
        )
        self.desk.note(MethodDone(self.place, record, halt))


def _parse(text: str) -> SanitizeLog:
    return SanitizeLog.parse(base64.b64decode(text))


class _Format:
    """One Format NVM of the plan: no resumption is promised, so a lost one is repeated."""

    def __init__(self, desk: Desk, place: int, command: CommandEntry) -> None:
        self.desk = desk
        self.place = place
        self.command = command
        self.began = time.monotonic()

    def run(self) -> None:
        """To its result, whatever an earlier run left."""
        while self.place not in self.desk.state.done:
            intent = self.desk.state.intent
            if intent is None:
                self._send()
                continue
            result = format_nvm.read_result(
                self.desk.files.format_result(self.place, intent.attempt)
            )
            if result is None:
                # The child would still hold the lock if it lived: the power went, or all died.
                self.desk.note(AttemptOver(self.place, "interrupted; its end is unknown"))
            else:
                self._judge(intent, result)

    def _send(self) -> None:
        desk, command = self.desk, self.command
        if self.place == 0:
            caseproof.plant(desk, self.place)
        self._wait_for_format()
        desk.recheck()
        intent = Intent(
            self.place, desk.state.attempts.get(self.place, 0) + 1, adopted=False, log_before=""
        )
        desk.note(intent)
        desk.hold.drop()
        result = format_nvm.send(
            passthru_argv(
                desk.host.nvme,
                desk.controller.path,
                command.opcode,
                nsid=command.nsid,
                cdw10=command.cdw10,
                timeout=desk.limits.format,
            ),
            desk.files.format_result(self.place, intent.attempt),
            lock=desk.lock.share(),
            timeout=desk.limits.format,
            tick=self._tick,
        )
        if result is None:
            self._done(
                intent,
                Verdict.UNKNOWN,
                f"no end within {desk.limits.format:g} s; it may still be running in the drive",
                halt=True,
            )
            return
        self._judge(intent, result)

    def _tick(self, seconds: float) -> None:
        self.desk.tell(
            min(seconds / self.desk.limits.format, 0.99),
            f"{self.command.method.value}, {seconds:.0f} s",
        )

    def _wait_for_format(self) -> None:
        """A Format that outlived its sender (FPI not 0) must end before the next one starts."""
        if self.desk.state.attempts.get(self.place, 0) == 0:
            return
        deadline = time.monotonic() + self.desk.limits.format
        controller = self.desk.controller
        while any(
            controller.identify_namespace(nsid).format_progress & 0x7F
            for nsid in controller.active_namespaces()
        ):
            if time.monotonic() >= deadline:
                raise DriveError("an earlier Format is not at its end (FPI); look at the drive")
            self.desk.tell(0.0, "an earlier Format is still running")
            self.desk.check_time()
            time.sleep(self.desk.limits.poll)

    def _judge(self, intent: Intent, result: format_nvm.FormatResult) -> None:
        status = status_of(result.exit_code, result.stderr)
        said = " ".join(result.stderr.split())[:400]
        record = CommandRecord(
            argv=result.argv,
            opcode=self.command.opcode,
            nsid=self.command.nsid,
            cdw10=self.command.cdw10,
            status=status,
            exit_code=result.exit_code,
            message=said,
            started_at=result.started_at,
            seconds=round(result.seconds, 3),
        )
        self.desk.note(Sent(record))
        if status == 0:
            self.desk.reclaim()
            self._done(intent, Verdict.ERASED, "")
            return
        if status is None:
            reason = f"no completion was seen ({said or 'killed'})"
            outcome = Verdict.UNKNOWN
        else:
            reason = f"the drive ended it with status {status:#05x} ({said})"
            outcome = Verdict.NOT_ERASED
        if intent.attempt < MAX_ATTEMPTS:
            self.desk.note(AttemptOver(self.place, reason))
            self.desk.reclaim()
            return
        self._done(intent, outcome, reason)
        self.desk.reclaim()

    def _done(self, intent: Intent, result: Verdict, reason: str, *, halt: bool = False) -> None:
        record = MethodRecord(
            method=self.command.method,
            cdw10=self.command.cdw10,
            nsid=self.command.nsid,
            attempts=intent.attempt,
            adopted=False,
            log_before="",
            log_after="",
            changed=False,
            verdict=result,
            reason=reason,
            seconds=round(time.monotonic() - self.began, 3),
        )
        self.desk.note(MethodDone(self.place, record, halt))
