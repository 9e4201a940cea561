"""One Format NVM of a case. No resumption is promised for it, so a lost one is repeated."""

from __future__ import annotations

from eraser.case import probes
from eraser.case.entries import AttemptOver, CommandEntry, Intent, MethodDone, Sent, Uprooted
from eraser.case.session import CaseSession
from eraser.controller.passthru import passthru_argv, status_of
from eraser.controller.spec import SmartLog
from eraser.drive.inspect import described
from eraser.erase import format as format_nvm
from eraser.erase.plan import OPCODE_FORMAT
from eraser.errors import BadInputError, DriveError
from eraser.protocol.report import CommandRecord, MethodRecord, Verdict

MAX_FAILED = 2
"""Attempts of one Format that failed; one whose end was lost, with the power or with its sender,
does not count as failed."""

MAX_ATTEMPTS = 8
"""Of one Format in all: one that takes its host down each time is not sent for ever."""


def _record(result: format_nvm.FormatResult, nsid: int, cdw10: int) -> CommandRecord:
    return CommandRecord(
        argv=result.argv,
        opcode=OPCODE_FORMAT,
        nsid=nsid,
        cdw10=cdw10,
        status=status_of(result.exit_code, result.stderr),
        exit_code=result.exit_code,
        message=" ".join(result.stderr.split())[:400],
        started_at=result.started_at,
        seconds=round(result.seconds, 3),
    )


class Format:
    """One Format NVM of the plan."""

    def __init__(self, session: CaseSession, place: int, command: CommandEntry) -> None:
        self.session = session
        self.place = place
        self.command = command
        self.began = session.clock.monotonic()
        self._attended = False
        """This run sent it: nobody else had the drive since the canaries were planted."""

    def run(self) -> None:
        """To its result, whatever an earlier run left."""
        while self.place not in self.session.state.done:
            intent = self.session.state.intent
            if intent is None:
                self._send()
                continue
            try:
                result = format_nvm.read_result(
                    self.session.files.format_result(self.place, intent.attempt)
                )
            except BadInputError:
                result = None  # torn: the power went while it was written
            if result is None:
                # The child would still hold the lock if it lived: the power went, or all died.
                self._interrupted(intent, "interrupted; its end is unknown")
            elif self.session.followed or status_of(result.exit_code, result.stderr) != 0:
                self._judge(intent, result)
            else:
                # Its child let go of the slot some time before this run took it: anybody may have
                # written since.
                self.session.note(Sent(_record(result, self.command.nsid, self.command.cdw10)))
                self._interrupted(intent, "it ended unwatched, and the slot was nobody's since")

    def _send(self) -> None:
        session, command = self.session, self.command
        attempt = session.state.attempts.get(self.place, 0) + 1
        # A disk that is full ends the run here, with nothing written to the drive or sent.
        result_file = session.files.format_result(self.place, attempt)
        format_nvm.reserve(result_file)
        # Before the canaries: a drive that is formatting takes no writes.
        self._wait_for_format()
        # Once for all Formats of a layout: canaries go into every namespace, also into those that
        # an earlier Format of this round has erased.
        if session.state.opens_round(self.place):
            probes.plant(session, self.place)
        session.recheck()
        intent = Intent(self.place, attempt, adopted=False, log_before="")
        # Before it goes out: after a crash the next run finds its result, or sends it again.
        session.note(intent)
        self._attended = True
        # Format changes the namespace, so no disk of it may be held meanwhile.
        session.hold.drop()
        result = format_nvm.send(
            session.host,
            passthru_argv(
                session.host.nvme,
                session.controller.path,
                command.opcode,
                nsid=command.nsid,
                cdw10=command.cdw10,
                timeout=session.limits.format,
                more=session.controller.once,
            ),
            result_file,
            # The child keeps the slot locked if we die: the drive may still be formatting.
            lock=session.lock.share(),
            timeout=session.limits.format,
            # The one before may go on in the drive, which says so by its status (84h) where it has
            # no FPI.
            ready=session.limits.ready if attempt == 1 else session.limits.format,
            tick=self._tick,
        )
        if result is None:
            # Nothing more is sent to a drive that may still be formatting.
            self._done(
                intent,
                Verdict.UNKNOWN,
                f"no end within {session.limits.format:g} s; it may still be running in the drive",
                halt=True,
            )
            return
        self._judge(intent, result)

    def _tick(self, seconds: float) -> None:
        """Format counts nothing that can be read meanwhile: its limit has to do."""
        share = min(seconds / self.session.limits.format, 0.99)
        self.session.tell(share, f"{self.command.method.value}, {seconds:.0f} s")

    def _wait_for_format(self) -> None:
        """A Format that outlived its sender (FPI not 0) must end before the next one starts.

        One that was cut off may show there until another is through. So what stands still is no
        Format that runs once the drive lost its power, or the time of a Format is over. One that
        runs all the same answers the next one with 84h.
        """
        if self.session.state.attempts.get(self.place, 0) == 0:
            return
        # FPI is the one trace of a Format whose sender died; a drive may leave it out.
        limits, clock = self.session.limits, self.session.clock
        deadline = clock.monotonic() + limits.format
        seen, moved = tuple[int, ...](), clock.monotonic()
        while any(left := self._left()):
            now = clock.monotonic()
            if left != seen:
                seen, moved = left, now
            still = now - moved >= limits.stuck
            # A drive that kept its power may go on by steps that take longer than that.
            if still and (now >= deadline or self._lost_power()):
                self.session.tell(0.0, f"FPI stands still at {max(left)} %: no Format is running")
                return
            if now >= deadline:
                raise DriveError("an earlier Format is not at its end (FPI); look at the drive")
            self.session.tell(0.0, "an earlier Format is still running")
            self.session.check_time()
            clock.sleep(limits.poll)

    def _lost_power(self) -> bool:
        """Power Cycles (log 02h; Base 2.0, figure 207) grew since the inspection."""
        inspected = self.session.state.inspected
        if inspected is None or inspected.health is None:
            return False
        try:
            now = SmartLog.parse(self.session.controller.smart_log())
        except DriveError:
            return False  # nobody knows: the Format has all of its time
        return now.power_cycles > inspected.health.power_cycles

    def _left(self) -> tuple[int, ...]:
        """Percent of each namespace that remain to be formatted (FPI; NVM 1.0, 4.1.5.1)."""
        controller = self.session.controller
        found = described(controller, controller.active_namespaces())
        return tuple(namespace.format_left for _nsid, namespace in found)

    def _judge(self, intent: Intent, result: format_nvm.FormatResult) -> None:
        record = _record(result, self.command.nsid, self.command.cdw10)
        status, said = record.status, record.message
        self.session.note(Sent(record))
        # The disks come back before it is called done: without them nothing of it can be read.
        if status == 0:
            self.session.reclaim()
            self._done(intent, Verdict.ERASED, "")
            return
        if status is None:
            reason = f"no completion was seen ({said or 'killed'})"
            outcome = Verdict.UNKNOWN
        else:
            reason = f"the drive ended it with status {status:#05x} ({said})"
            outcome = Verdict.NOT_ERASED
        counted = not result.lost
        failed = self.session.state.counted.get(self.place, 0) + counted
        # The loop in run() sends it again.
        if failed < MAX_FAILED and intent.attempt < MAX_ATTEMPTS:
            self._over(reason, counted=counted)
            self.session.reclaim()
            return
        self._done(intent, outcome, reason)
        self.session.reclaim()

    def _interrupted(self, intent: Intent, reason: str) -> None:
        """No run saw the end of it, which is not the drive's doing; or is, where it never ends."""
        if intent.attempt < MAX_ATTEMPTS:
            self._over(reason)
        else:
            self._done(intent, Verdict.UNKNOWN, f"{reason}; {intent.attempt} attempts in all")

    def _over(self, reason: str, *, counted: bool = False) -> None:
        """The attempt had no usable end, and another one follows."""
        if not self._attended and self.session.state.opens_round(self.place):
            # It may never have reached the drive, which was nobody's between the runs: canaries
            # that another took meanwhile would count as the doing of the attempt that follows.
            self.session.note(Uprooted(self.place, reason))
        self.session.note(AttemptOver(self.place, reason, counted))

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
            seconds=round(self.session.clock.monotonic() - self.began, 3),
            ended_at=self.session.clock.utc(),
        )
        self.session.note(MethodDone(self.place, record, halt))
