"""What every step of a case works with: the held drive, the journal, the clock, the listener."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eraser.case.entries import Entry, Identified, Mapped, Revoked, Risking, Spent
from eraser.case.state import CaseState
from eraser.controller import binding
from eraser.controller.binding import ensure_nvme_driver
from eraser.controller.lock import PROBE_PATIENCE, NamespaceHold, SlotLock
from eraser.controller.nvme import Controller, open_controller
from eraser.controller.spec import SanitizeLog
from eraser.controller.unique import check_unique
from eraser.errors import DriveError, EraserError, IdentityError, InUseError
from eraser.host import udev
from eraser.host.idle import PATIENCE as IDLE_PATIENCE
from eraser.host.idle import prove_idle
from eraser.host.sysfs import Host, PciFunction
from eraser.media.reader import OpenDisk
from eraser.ownership import revoke as ownership_revoke
from eraser.ownership.model import SteadyTime
from eraser.protocol.conclusions.applied import Applied, apply
from eraser.protocol.policy import Limits, Policy
from eraser.protocol.report import Step
from eraser.state.case_files import CaseFiles, CaseRequest, by_hand
from eraser.state.journal import Journal

LOG = logging.getLogger(__name__)

_FIRST_DISKS = 10.0
"""Seconds that the disks of a drive get before the kernel is asked to look for them once more."""

_FOR_UDEV = 5.0
"""Seconds that a run waits for udev altogether, however often its disks come anew."""

_PAUSE = 1.0
"""Seconds before a look at who uses the drive that did not come to its end is made again."""

MAX_DOWN = 2
"""Boots that may end in the midst of one act before it is done no more. That of a case's first run
is not among them, so the power may be cut twice before an honest drive is the worse for it."""

OnProgress = Callable[[Step, float, str], None]


class OutOfTimeError(EraserError):
    """The time that the order allowed is over."""


@dataclass(frozen=True)
class FunctionReset:
    """What became of a reset of the function."""

    refused: str
    """Why it was not done; empty where it was."""
    problem: str
    """Why the controller was not reset in its place either; empty where that, or the function,
    was."""


class CaseJournal:
    """The journal and what it adds up to, kept together."""

    def __init__(self, files: CaseFiles) -> None:
        """Opens the case's journal. Raises :class:`eraser.state.journal.JournalError`, and
        :class:`eraser.state.journal.UnknownEntryError` where another release wrote it."""
        self._journal = Journal(files.journal)
        try:
            self.state = CaseState.of(self._journal.lines)
        except BaseException:
            self._journal.close()
            raise

    def note(self, entry: Entry) -> None:
        """Writes an entry; it is on the disk, and part of the state, when this returns."""
        # The disk first: this run never knows more than the next one will.
        self._journal.append(type(entry).__name__, entry)
        self.state.apply(entry)

    def close(self) -> None:
        """Lets go of the journal."""
        self._journal.close()


class CaseSession:
    """One run of one case."""

    def __init__(
        self,
        request: CaseRequest,
        files: CaseFiles,
        host: Host,
        lock: SlotLock,
        journal: CaseJournal,
        on_progress: OnProgress,
        disk: OpenDisk,
        *,
        followed: bool = False,
    ) -> None:
        self.request = request
        self.files = files
        self.host = host
        self.clock = host.clock
        self.disk = disk
        """Opens a namespace's block device."""
        self.lock = lock
        self.followed = followed
        """A command that an earlier run had left held the slot until this run took it."""
        self.journal = journal
        self._on_progress = on_progress
        self._step = Step.PROVE_IDLE
        self._counted = 0.0
        self._controller: Controller | None = None
        self._unended: set[str] = set()
        self._hold: NamespaceHold | None = None
        self.diskless: frozenset[int] = frozenset()
        """Namespaces that the kernel has made no disk of, by its last look at all of them."""
        self._for_udev = _FOR_UDEV
        self._deadline = _deadline(request, journal.state, host)
        self._applied = Applied.plain(request.policy)

    @property
    def state(self) -> CaseState:
        """Where the case stands."""
        return self.journal.state

    @property
    def policy(self) -> Policy:
        """The policy of the case."""
        return self.request.policy

    @property
    def applied(self) -> Applied:
        """The policy as it applies to this drive; its quirks count once it is open."""
        return self._applied

    @property
    def limits(self) -> Limits:
        """The time limits of this run."""
        return self._applied.limits

    @property
    def controller(self) -> Controller:
        """The drive, held open. Raises :class:`DriveError` before :meth:`open`."""
        if self._controller is None:
            raise DriveError(f"{self.request.slot}: expected an open controller, found none")
        return self._controller

    @property
    def hold(self) -> NamespaceHold:
        """The exclusive claim on the drive's disks. Raises :class:`DriveError` as above."""
        if self._hold is None:
            raise DriveError(f"{self.request.slot}: expected a claim on the disks, found none")
        return self._hold

    @property
    def opened(self) -> bool:
        """Whether the drive was found, is the right one, and is ours to work on."""
        return self._hold is not None

    def note(self, entry: Entry) -> None:
        """Into the journal, before anything is done about it."""
        self.journal.note(entry)

    def tell(self, fraction: float, detail: str) -> None:
        """Progress within the step at hand."""
        self._on_progress(self._step, min(max(fraction, 0.0), 1.0), detail)

    @contextlib.contextmanager
    def step(self, step: Step, detail: str = "") -> Iterator[None]:
        """Names the step and counts its seconds, also where it ends in an error."""
        # Steps may be nested. What the inner ones counted is taken off below.
        outer, self._step = self._step, step
        began, before = self.clock.monotonic(), self._counted
        self.tell(0.0, detail)
        try:
            yield
        finally:
            self._step = outer
            # A step within a step counts for itself: the sum is the time of the case.
            inner = self._counted - before
            own = max(0.0, self.clock.monotonic() - began - inner)
            self._counted += own
            self.note(Spent(step, round(own, 3)))

    @contextlib.contextmanager
    def risk(self, act: str) -> Iterator[None]:
        """What may take the host down with it: the next run knows that it died in the midst."""
        if not self.state.resumed:
            yield
            return
        self.note(Risking(act))
        try:
            yield
        finally:
            self.note(Risking(""))

    def given_up(self, act: str) -> str:
        """Why an act is done no more in this case; empty where it is."""
        count = self.state.downs.get(act, 0)
        if count < MAX_DOWN:
            return ""
        return f"the host went down in the midst of it, {count} times at least"

    def check_time(self) -> None:
        """Raises :class:`OutOfTimeError` when the order's time is over."""
        if self._deadline is not None and self.clock.monotonic() >= self._deadline:
            raise OutOfTimeError(
                f"expected to end within {self.request.seconds_allowed} s, found the time over; "
                "order it again with more, or look at the drive"
            )

    def out_of_time(self) -> bool:
        """Whether the order's time is over."""
        return self._deadline is not None and self.clock.monotonic() >= self._deadline

    def open(self, *, patience: float = PROBE_PATIENCE) -> None:
        """Proves the drive idle, opens it, knows it, and claims it for this run. ``patience`` in
        seconds is udev's, that looks at new disks first.

        Raises ``InUseError``, ``AbsentError``, :class:`IdentityError` or :class:`DriveError`.
        """
        address, me = self.request.slot.address, frozenset({os.getpid()})
        if self._controller is not None:
            self._controller.close()  # of an attempt that failed half way
        self._await_function()
        # Before the driver is touched: unbinding would tear the drive from whoever has it.
        prove_idle(self.host, address, own_pids=me)
        ensure_nvme_driver(self.host, address, timeout=self.limits.ready)
        self._controller = open_controller(
            self.host,
            address,
            timeout=self.limits.ready,
            command_timeout=self.limits.command,
            by_ioctl=True,
        )
        # Known before a command is in the journal: between the two nothing may fail.
        _ = self._controller.once
        # A stuck nvme-cli must keep the slot locked and the drive's name in use.
        self._controller.keeps = (self.lock.fd, self._controller.descriptor)
        # What it did not end it is asked no more in this run, though it was opened anew.
        self._controller.unended = self._unended
        # Who it is comes before all that depends on it; the quirks are of its model.
        self._know()
        self._learn_quirks()
        self._await_disks()
        self.await_udev()
        self._hold = NamespaceHold(self._controller, patience=patience).take()
        # The disks that come back after a reset or Format of ours are udev's first: a slow look of
        # its is no reason to end a case that has erased already.
        self._hold.patience = self.limits.ready
        # Between the first look and the claim anybody may have come: from here on nobody can.
        ours = self._controller.pids
        prove_idle(self.host, address, own_pids=ours, claimed=self._hold.claimed)

    def _await_function(self) -> None:
        """An order finds its drive a little later: it may have power after its host, or be away
        for a moment (downstream port containment). That it is absent would be the case's end."""
        # By hand nobody waits: a person may have named the wrong address.
        if not self.request.order_id:
            return
        function, seconds = PciFunction(self.host, self.request.slot.address), self.limits.ready
        with contextlib.suppress(DriveError):
            self.host.wait_for("a PCI function", seconds, lambda: function.present)

    def revoke(self) -> None:
        """Takes the slot from its last owner: nobody starts on the drive from here on.

        Every run does, because the gate may have been told something in between. Raises
        ``InUseError`` where the owner may come back.
        """
        identity = self.controller.identity()
        files, address = self.files, self.request.slot.address
        last_owner = ownership_revoke.revoke(
            files.state_dir,
            self.host,
            address,
            identity,
            by_hand=not self.request.order_id,
            again=self.state.revoked is not None,
        )
        # The whole slot is erased now. What was broken off would keep every guest from the drive
        # for good, and whoever went on with it would take the slot from this erase.
        for other in by_hand(files.state_dir, address):
            if other.key != files.key:
                LOG.warning("%s was broken off, and is over: another erase begins", other.directory)
                other.clear()
        if self.state.revoked is None:
            self.note(Revoked(last_owner))

    def _know(self) -> None:
        found = self.controller.identity()
        address, serial = self.request.slot.address, self.request.serial
        # The order's word, and what an earlier run of this case met.
        for expected in (self.request.identity, self.state.identity):
            if expected is not None and (differences := expected.differences(found)):
                raise IdentityError(
                    f"{address}: expected the drive of this case, found another: "
                    f"{'; '.join(differences)}; nothing was sent to it"
                )
        if serial and serial != found.serial.strip():
            raise IdentityError(
                f"{address}: expected the drive with serial {serial!r}, found {found.serial!r}; "
                "nothing was sent to it"
            )
        check_unique(self.host, found, self.request.slot.address)
        if self.state.identity is None:
            self.note(Identified(found))

    def _learn_quirks(self) -> None:
        known = self.state.identity
        if not self.policy.quirks or known is None:
            return
        firmware = self.controller.identify().firmware
        self._applied = apply(self.policy, known.vendor_id, known.model, firmware)

    def _await_disks(self) -> None:
        """A drive that has just come from a guest, or from a boot, is live before its disks are."""
        self.diskless = frozenset()
        try:
            self.controller.wait_live(min(_FIRST_DISKS, self.limits.ready))
            return
        except DriveError as error:
            self.tell(0.0, str(error))
        try:
            # The kernel drops a namespace whose identifiers a tenant changed, and does not look
            # again by itself.
            self.controller.rescan(timeout=self.limits.ready)
            self.controller.wait_live(self.limits.ready)
        except DriveError as error:
            # A disk that the kernel cannot make is no reason not to erase; the verification knows
            # which namespaces it must have read.
            self.go_without_disks(str(error))

    def await_udev(self) -> None:
        """Lets udev be through with disks that have just come, before our flock keeps it from them
        for hours and it passes them by: they would be without the mark that keeps this host off.

        Of what it still has not seen it is told at the end (:meth:`close`).
        """
        self._for_udev = udev.wait(self.host, self.request.slot.address, self._for_udev)

    def go_without_disks(self, why: str) -> None:
        """Nobody waits any more for the disks that are not there now."""
        self.tell(0.0, why)
        # Of a drive that is silent just now nothing is known.
        with contextlib.suppress(DriveError):
            active = frozenset(self.controller.active_namespaces())
            self.diskless = active - self.controller.block_devices().keys()

    def recheck(self) -> None:
        """The last look before a destructive command: at who uses the drive, which one it is,
        through the open descriptor, and the time.

        Raises ``InUseError``, :class:`IdentityError`, :class:`OutOfTimeError` or
        :class:`DriveError`.
        """
        self._nobody_came()
        self.same_drive()
        self.check_time()

    def _nobody_came(self) -> None:
        """Our claim on the disks keeps nobody from a character device, an export or a guest's disk
        that asks for no claim of its own. Raises ``InUseError``.

        A drive that something was sent to is held where somebody uses it: who lets go of it again,
        or a look of ours that did not come to its end, is no reason for that.
        """
        if not (self.state.attempts or self.state.rearranged):
            self.prove_idle()
            return
        deadline = self.clock.monotonic() + self.limits.ready
        while True:
            left = deadline - self.clock.monotonic()
            try:
                self.prove_idle(patience=max(0.0, left))
                return
            except InUseError as error:
                if left <= 0:
                    raise
                self.tell(0.0, str(error))
            self.clock.sleep(_PAUSE)

    def same_drive(self) -> None:
        """Raises :class:`IdentityError` for another drive than the case's, and
        :class:`DriveError`."""
        expected = self.state.identity
        found = self.controller.identity()
        if expected is None or found != expected:
            raise IdentityError(
                f"{self.request.slot.address}: expected the drive of this case, found another "
                f"({found.serial!r}); the command was not sent"
            )

    def sanitize_log(self) -> tuple[bytes, SanitizeLog]:
        """Log 81h, raw and parsed. Raises :class:`DriveError`."""
        raw = self.controller.sanitize_log()
        return raw, SanitizeLog.parse(raw)

    def reclaim(self) -> None:
        """Waits for the controller and for the disks that it had, and claims them anew.

        Raises ``InUseError`` or :class:`DriveError`.
        """
        self.hold.drop()
        self.controller.wait_live(self.limits.ready, but=self.diskless)
        self.await_udev()
        self.hold.take()

    def prove_idle(self, *, patience: float = IDLE_PATIENCE) -> None:
        """Once more; a passing look gets ``patience`` seconds to end. Raises ``InUseError``."""
        ours, claimed = self.controller.pids, self.hold.claimed
        address = self.request.slot.address
        prove_idle(self.host, address, own_pids=ours, claimed=claimed, patience=patience)

    def reset(self) -> str:
        """Resets the controller; why it failed, empty where it did not. Raises ``InUseError``, and
        :class:`DriveError` for one that is not live again."""
        self.hold.drop()
        problem = ""
        try:
            self.controller.reset(timeout=self.limits.ready)
        except DriveError as error:
            problem = str(error)
        # Also after an error: the steps that follow need the drive and its disks.
        self.reclaim()
        return problem

    def reset_function(self) -> FunctionReset:
        """Resets the PCI function, and the controller where the kernel resets no function of this
        drive. Raises as :meth:`reset`."""
        self.hold.drop()
        refused, problem, ready = "", "", self.limits.ready
        try:
            # No reset of the function by this kernel: the controller's own is the nearest one.
            refused = self.controller.reset_function(timeout=ready)
            if refused:
                self.controller.reset(timeout=ready)
        except DriveError as error:
            problem = str(error)
        self.reclaim()
        return FunctionReset(refused or problem, problem)

    def rebind(self) -> str:
        """Gives the drive to nobody and takes it again, with the shutdown that the kernel's driver
        announces then; why that was not done, empty where it was. Raises as :meth:`open`."""
        self.hold.drop()
        self.controller.close()
        address, ready = self.request.slot.address, self.limits.ready
        told = None
        try:
            # Whoever came since the claim was dropped would lose the drive under their hands.
            prove_idle(self.host, address, own_pids=frozenset({os.getpid()}))
            done = binding.rebind(self.host, address, timeout=ready)
            problem, told = done.problem, done.registers
        except InUseError as error:
            problem = str(error)
        self.open(patience=ready)
        # Registers can be read on most kernels in this moment alone (docs/decisions/buffers.md).
        if told is not None and told.buffers != self.state.mapped:
            self.note(Mapped(told.buffers))
        return problem

    def close(self) -> None:
        """Lets go of disks and controller; the lock stays its owner's."""
        if self._hold is not None:
            self._hold.drop()
            udev.announce(self.host, self.request.slot.address)
        if self._controller is not None:
            self._controller.close()


def _deadline(request: CaseRequest, state: CaseState, host: Host) -> float | None:
    """When this run must end, on the monotonic clock.

    In one boot this machine's own steady clock tells how much was used, and of earlier boots what
    their runs noted; a step that lost its power is not among it. The time of day would end honest
    cases: it may be days behind when a case begins, and set right by NTP.
    """
    if not request.seconds_allowed:
        return None
    now, used = SteadyTime.now(host), state.used
    if state.since is not None and now.same_boot(state.since):
        # Also the time between the runs of this boot counts.
        used += now.seconds - state.since.seconds
    return host.clock.monotonic() + max(0.0, request.seconds_allowed - used)
