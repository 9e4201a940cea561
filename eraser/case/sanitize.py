"""One Sanitize of a case, to its end. What the drive's own log says comes before what we remember.

A command whose end was not seen is decided from log 81h, never sent again blindly.
"""

from __future__ import annotations

import base64

from eraser.case import namespacesanitize, probes, unlock
from eraser.case.entries import (
    AttemptOver,
    CommandEntry,
    Intent,
    MethodDone,
    SeenRunning,
    Sent,
    Uprooted,
)
from eraser.case.session import CaseSession
from eraser.controller.passthru import NAMESPACE_SANITIZES, CommandError
from eraser.controller.spec import SanitizeLog, SanitizeState
from eraser.drive import personality
from eraser.erase.plan import OPCODE_SANITIZE
from eraser.erase.sanitize import (
    AfterLoss,
    Assessment,
    SanitizeStanding,
    Watchdog,
    after_loss,
    assess,
    attach,
    patience,
    verdict,
)
from eraser.errors import DriveError
from eraser.protocol.report import CommandRecord, MethodRecord, Step, Verdict

STATUS_SANITIZE_IN_PROGRESS = 0x1D
"""Generic Command Status (Base 2.0, figure 126)."""

STATUS_ACCESS_DENIED = 0x286
"""Media and Data Integrity Errors (Base 2.0, figure 130)."""

EXIT_MEDIA_VERIFICATION = 5
"""SANACT, dword 10 bits 2:0 (Base 2.1, 5.1.22); it changes nothing where it comes twice."""

SETTLE_SECONDS = 2.0
"""How long an accepted command may take to show up in log 81h before the log counts as stale."""

MAX_OCCUPIED = 4
"""Times that somebody else's sanitize may be faster than ours before a person has to look."""

MAX_LOST = 2
"""Attempts of one that ended without a completion: what the kernel gives up in one reset of its own
says little of a drive. One that was interrupted before is none of them."""

MAX_AGAIN = 8
"""Times that one which no run saw the end of is sent again: one that takes its host down each time
is not sent for ever."""


def adopt(session: CaseSession) -> None:
    """Adopts a running sanitize that no journal knows of, or waits for a foreign one."""
    # A running sanitize survives resets and power cycles, so it may be ours of a journal that was
    # lost with the disk: its command dword 10 is all that is left to know it by.
    state = session.state
    if state.intent is not None or not session.controller.identify().can_sanitize:
        return
    raw, now = session.sanitize_log()
    if now.state is not SanitizeState.RUNNING:
        return
    waiting = {
        place: command
        for place, command in enumerate(state.steps)
        if place not in state.done and command.opcode == OPCODE_SANITIZE
    }
    # Only of commands that have no result yet: those before are ended.
    found = attach(tuple(command.cdw10 for command in waiting.values()), now)
    if found is None:
        with session.step(Step.ERASE, "another's sanitize"):
            wait_for_another(session, "before ours")
        return
    # attach() counts among those that wait; the journal counts places of the plan.
    place = list(waiting)[found]
    session.note(Intent(place, 1, adopted=True, log_before=_text(raw)))


def ours_runs(session: CaseSession, cdw10s: tuple[int, ...]) -> bool:
    """Whether a sanitize is running that will be adopted. Another's end is waited for: it keeps
    most commands from the drive, and what is told meanwhile is not the whole truth.

    Raises :class:`DriveError` when patience is over.
    """
    if not session.controller.identify().can_sanitize:
        return False
    _raw, now = session.sanitize_log()
    if now.state is not SanitizeState.RUNNING:
        return False
    if attach(cdw10s, now) is not None:
        return True
    wait_for_another(session, "before anything is asked")
    return False


def wait_for_another(session: CaseSession, why: str) -> None:
    """Until no sanitize is running. Raises :class:`DriveError` when patience is over."""
    dog, left = _watchdog(session), False
    while True:
        _raw, now = _patient_look(session, dog)
        if now.state is not SanitizeState.RUNNING:
            return
        # Once: a drive that stays in it all the same is met by the watchdog.
        if now.verifying and not left:
            _leave_verification(session)
            left = True
            continue
        # A tenant's overwrite may take hours, on a drive that counts whole percents of it.
        if not now.verifying:
            dog.allow(now.estimate)
        if over := dog.look(now.progress, session.clock.monotonic()):
            where = ", in the Media Verification state" if now.verifying else ""
            raise DriveError(
                f"waiting for another's sanitize (SCDW10 {now.cdw10:#x}){where}: {over}"
            )
        session.tell(now.fraction, f"another's sanitize is running, {why}")
        session.check_time()
        session.clock.sleep(session.limits.poll)


def _leave_verification(session: CaseSession) -> None:
    """It is over, and waits for whoever wanted to look at the media: nobody does any more."""
    session.recheck()
    record, _data = session.controller.admin(
        OPCODE_SANITIZE,
        cdw10=EXIT_MEDIA_VERIFICATION,
        timeout=session.limits.command,
        note="exit the Media Verification state",
    )
    session.note(Sent(record))


def _watchdog(session: CaseSession) -> Watchdog:
    return Watchdog(session.clock.monotonic(), session.limits.sanitize, session.limits.stuck)


def _patient_look(session: CaseSession, dog: Watchdog) -> tuple[bytes, SanitizeLog]:
    """Log 81h of a drive that may be too busy erasing to answer at once.

    One lost answer says nothing about the sanitize, which outlives even a reset by the kernel.
    Raises :class:`DriveError` when patience is over, and at once for a controller that is gone.
    """
    while True:
        try:
            return session.sanitize_log()
        except CommandError as error:
            # A drive that left its slot answers nothing either, and no patience brings it back.
            session.controller.check_place()
            if over := dog.still(session.clock.monotonic()):
                raise DriveError(f"{error}; {over}") from error
            session.check_time()
            session.tell(0.0, f"waiting for an answer: {error}")
        session.clock.sleep(session.limits.poll)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


class Sanitize:
    """One Sanitize of the plan."""

    def __init__(self, session: CaseSession, place: int, command: CommandEntry) -> None:
        self.session = session
        self.place = place
        self.command = command
        self.began = session.clock.monotonic()
        self._attended = False
        """This run sent the command or saw it running: nobody else had the drive since."""
        self._lost = False
        """It was sent, and no completion of the drive's came."""
        self._refusals = 0
        """In this run, for another sanitize. An attempt that was interrupted is none."""

    def run(self) -> None:
        """To its result, whatever an earlier run left."""
        while self.place not in self.session.state.done:
            intent = self.session.state.intent
            if intent is None:
                self._send()
            elif intent.adopted or self.session.state.running_seen:
                self._watch(intent)
            else:
                self._find_out(intent)

    def _find_out(self, intent: Intent) -> None:
        """An intent without a result: the log tells whether the command arrived."""
        before = _parse(intent.log_before)
        # Most likely it is running: the drive may be too busy to answer at once.
        raw, now = _patient_look(self.session, _watchdog(self.session))
        match after_loss(self.command.cdw10, before, now):
            case AfterLoss.WATCH:
                self._seen()
                self._watch(intent)
            case AfterLoss.TAKE:
                self._take(intent)
            case AfterLoss.WAIT:
                # Before the wait: what another's sanitize erased must not count as erased by ours.
                self.session.note(Uprooted(self.place, "another's sanitize is running"))
                wait_for_another(self.session, "before ours")
            case AfterLoss.SEND:
                if intent.attempt <= MAX_AGAIN:
                    self._never_arrived("interrupted")
                else:
                    self._given_up(intent, raw, "interrupted; log 81h shows that it did not arrive")

    def _send(self) -> None:
        session, cdw10 = self.session, self.command.cdw10
        wait_for_another(session, "before ours")
        unlock.unlock_late(session)
        probes.plant(session, self.place)
        session.recheck()
        # As late as can be: the log of before is what tells an end of ours from an older one with
        # the same dword 10.
        raw, _before = session.sanitize_log()
        intent = Intent(self.place, self._attempts + 1, adopted=False, log_before=_text(raw))
        session.note(intent)
        self._attended = True
        record, _data = session.controller.admin(
            OPCODE_SANITIZE,
            cdw10=cdw10,
            timeout=session.limits.command,
            note=self.command.method.value,
        )
        session.note(Sent(record))
        self._lost = record.status is None
        if self._lost:
            # No completion: the kernel has reset the controller, and the log alone knows.
            try:
                session.controller.wait_live(session.limits.ready, namespaces=False)
            except DriveError as error:
                # A drive that erases may be slow about it; the looks at its log have more patience.
                session.tell(0.0, str(error))
        # Without a completion it may have arrived; the log decides as after a success.
        if record.status in (0, None):
            self._watch(intent, settle=SETTLE_SECONDS)
        elif record.status == STATUS_SANITIZE_IN_PROGRESS:
            self._occupied(intent)
        elif record.status == NAMESPACE_SANITIZES:
            self._kept_off()
        else:
            self._refused(intent, record)

    def _never_arrived(self, why: str, *, counted: bool = False) -> None:
        reason = f"{why}; log 81h shows that it did not arrive"
        # Another's sanitize, or whoever had the drive since, may have taken the canaries: that
        # they are gone would count as the doing of ours.
        self.session.note(Uprooted(self.place, reason))
        self.session.note(AttemptOver(self.place, reason, counted))

    @property
    def _attempts(self) -> int:
        return self.session.state.attempts.get(self.place, 0)

    def _seen(self) -> None:
        self._attended = True
        if not self.session.state.running_seen:
            self.session.note(SeenRunning(self.place))

    def _occupied(self, intent: Intent) -> None:
        """1Dh: somebody was faster. With our dword 10 it is as good as ours, else wait."""
        raw, now = self.session.sanitize_log()
        if now.state is SanitizeState.RUNNING and now.cdw10 == self.command.cdw10:
            self.session.note(
                Intent(self.place, intent.attempt, adopted=True, log_before=_text(raw))
            )
            return
        reason = "status 0x1d: another's sanitize is running"
        # In this order: a run that dies between the two must not take its canaries for standing.
        self.session.note(Uprooted(self.place, reason))
        self.session.note(AttemptOver(self.place, reason))
        self._refusals += 1
        if self._refusals > MAX_OCCUPIED:
            raise DriveError(f"{reason}, again and again; who else sanitizes this drive?")

    def _kept_off(self) -> None:
        """2Ch: a namespace is sanitized by itself. The next attempt has canaries where none could
        be written now."""
        reason = f"status {NAMESPACE_SANITIZES:#04x}: a sanitize of a namespace is running"
        self.session.note(Uprooted(self.place, reason))
        self.session.note(AttemptOver(self.place, reason))
        self._refusals += 1
        if self._refusals > MAX_OCCUPIED:
            raise DriveError(f"{reason}, again and again; look at the drive")
        # As long as a sanitize may stand still, in all.
        pause = self.session.limits.stuck / MAX_OCCUPIED
        namespacesanitize.wait_after_refusal(self.session, pause)

    def _refused(self, intent: Intent, record: CommandRecord) -> None:
        reason = f"the drive refused it with status {record.status:#05x} ({record.message})"
        if record.status == STATUS_ACCESS_DENIED:
            # It need not be locked by an owner's password (Base 2.3, 8.1.6.1).
            waits = personality.pending(self.session.controller)
            reason += f"; {waits}" if waits else ""
        raw, _now = self.session.sanitize_log()
        self._done(intent, raw, Verdict.NOT_ERASED, reason, changed=False)

    def _watch(self, intent: Intent, *, settle: float = 0.0) -> None:
        """Polls log 81h until our sanitize has ended or patience is over."""
        # The policy's limits, or more where the order says that the model is slow.
        dog, began = _watchdog(self.session), self.session.clock.monotonic()
        dog.stuck = patience(dog.stuck, self.session.request.stuck)
        while True:
            raw, now = _patient_look(self.session, dog)
            found = self._assess(intent, now)
            if found.standing is SanitizeStanding.RUNNING:
                self._seen()
                dog.allow(now.estimate)
                if over := dog.look(now.progress, self.session.clock.monotonic()):
                    self._done(intent, raw, Verdict.UNKNOWN, over, changed=True, halt=True)
                    return
                self.session.check_time()
                self.session.tell(now.fraction, self._eta(now, began))
            # Another controller of the subsystem, or its management interface, can start one at any
            # time.
            elif found.standing is SanitizeStanding.FOREIGN:
                wait_for_another(self.session, "after our command")
            # Until settle is over a log that does not show our command may only be late.
            elif found.changed or self.session.clock.monotonic() - began >= settle:
                self._end(intent, raw, found)
                return
            self.session.clock.sleep(
                min(self.session.limits.poll, settle or self.session.limits.poll)
            )

    def _take(self, intent: Intent) -> None:
        raw, now = self.session.sanitize_log()
        self._end(intent, raw, self._assess(intent, now))

    def _assess(self, intent: Intent, now: SanitizeLog) -> Assessment:
        before = None if intent.adopted else _parse(intent.log_before)
        return assess(self.command.cdw10, before, now, running_seen=self.session.state.running_seen)

    def _eta(self, now: SanitizeLog, began: float) -> str:
        name, elapsed = self.command.method.value, self.session.clock.monotonic() - began
        if not (0.01 < now.fraction < 1 and elapsed > 1):
            return name
        return f"{name}, about {elapsed * (1 - now.fraction) / now.fraction:.0f} s left"

    def _end(self, intent: Intent, raw: bytes, found: Assessment) -> None:
        # Each of these four has the command sent again, and none of them without end.
        if self._overwritten(raw, found) and intent.attempt <= MAX_OCCUPIED:
            reason = "it was seen running, and another's sanitize has taken its place in log 81h"
            self.session.note(Uprooted(self.place, reason))
            self.session.note(AttemptOver(self.place, reason))
            return
        lost = self.session.state.counted.get(self.place, 0) + 1
        if self._lost and not found.changed and lost < MAX_LOST:
            self._never_arrived("no completion was seen", counted=True)
            return
        last = self.place + 1 == len(self.session.state.steps)
        failed = found.standing is SanitizeStanding.FAILED
        if failed and last and not self._failed_before():
            # Another method of the plan is the better repetition; the last one has none.
            self.session.note(AttemptOver(self.place, found.reason))
            return
        if found.standing is SanitizeStanding.SUCCEEDED and not self._attended and not _sealed(raw):
            # Between that end and this run anybody may have written: on this host, or another.
            reason = "ended unwatched, and the drive does not say that nothing was written since"
            if intent.attempt > MAX_AGAIN:
                self._given_up(intent, raw, reason)
                return
            self.session.note(Uprooted(self.place, reason))
            self.session.note(AttemptOver(self.place, reason))
            return
        reason = found.reason
        # Nothing was sent by us, and the report has to say why it counts.
        if intent.adopted and not reason:
            reason = "adopted: found running with our command dword 10, its end was seen by us"
        self._done(intent, raw, verdict(found), reason, changed=found.changed, halt=failed and last)

    def _given_up(self, intent: Intent, raw: bytes, reason: str) -> None:
        """It is sent no more, and nothing is claimed from it."""
        self.session.note(Uprooted(self.place, reason))
        said = f"{reason}; {intent.attempt} attempts in all"
        self._done(intent, raw, Verdict.UNKNOWN, said, changed=False)

    def _overwritten(self, raw: bytes, found: Assessment) -> bool:
        """Ours ran and its end is not told any more: nobody's fault, least of all the drive's."""
        # Log 81h has one place for the last sanitize: another's takes ours out of it.
        seen = self.session.state.running_seen and found.standing is SanitizeStanding.STALE
        return seen and SanitizeLog.parse(raw).cdw10 != self.command.cdw10

    def _failed_before(self) -> bool:
        # assess() names a failed sanitize so. One failure in the plan is enough: what followed it
        # was its repetition.
        return "SSTAT 3" in self.session.state.failures.get(self.place, "") or any(
            "SSTAT 3" in done.record.reason for done in self.session.state.done.values()
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
            seconds=round(self.session.clock.monotonic() - self.began, 3),
            ended_at=self.session.clock.utc(),
        )
        self.session.note(MethodDone(self.place, record, halt))


def unwritten(record: MethodRecord, now: SanitizeLog) -> bool:
    """The drive says that nobody wrote to it since ``record``'s sanitize ended."""
    then = _parse(record.log_after)
    # Another sanitize since would have set the seal as well: it shows by dword 10 or state.
    return then.global_data_erased and (now.cdw10, now.state, True) == (
        then.cdw10,
        then.state,
        now.global_data_erased,
    )


def seal_lost(record: MethodRecord, now: SanitizeLog) -> bool:
    """Global Data Erased stood at the end of ``record``'s sanitize, and stands no more."""
    return _parse(record.log_after).global_data_erased and not now.global_data_erased


def failed_before(record: MethodRecord) -> bool:
    """The drive's last sanitize had failed when ``record``'s was sent."""
    return bool(record.log_before) and _parse(record.log_before).state is SanitizeState.FAILED


def _sealed(raw: bytes) -> bool:
    return SanitizeLog.parse(raw).global_data_erased


def _parse(text: str) -> SanitizeLog:
    return SanitizeLog.parse(base64.b64decode(text))
