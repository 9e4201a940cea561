"""What the rounds over orders read and start: cases on disk, and the processes that run them."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from eraser.agent.inventory import DriveWatch
from eraser.agent.orders import CaseLook, Holder
from eraser.controller.lock import SlotLock
from eraser.errors import BadInputError, BusyError, EraserError
from eraser.host import proc, sysfs
from eraser.host.command import Started
from eraser.protocol.order import EraseOrder
from eraser.protocol.report import SeenDrive, Step
from eraser.state.case_dir import names
from eraser.state.case_files import CaseFiles, CaseRequest

LOG = logging.getLogger(__name__)

ERASER = (sys.executable, "-m", "eraser.cli")
"""A Python of its own, which reads the modules as they are installed at that moment: an upgrade
counts from the next case on."""

_LOG_END = 4096
"""Bytes that hold a log's last line, or the end of it."""


def request_of(order: EraseOrder) -> CaseRequest:
    """What an order asks for, as the case takes it."""
    return CaseRequest(
        slot=order.slot,
        identity=order.identity,
        profile=order.profile,
        policy=order.policy,
        order_id=order.order_id,
        generation=order.generation,
        nonce=order.nonce,
        incarnation=order.incarnation,
        seconds_allowed=order.seconds_allowed,
        stuck=order.stuck,
        look=order.look,
    )


def _answered(files: CaseFiles) -> int | None:
    try:
        return files.request().look
    except EraserError:
        return None


class DiskCases:
    """Implements :class:`eraser.agent.orders.Cases`."""

    def __init__(self, state_dir: Path, run_dir: Path, host: sysfs.Host) -> None:
        self._state_dir = state_dir
        self._run_dir = run_dir
        self._host = host
        self._children: dict[str, Started] = {}
        self._inventory = DriveWatch(self._host)

    def _files(self, order: EraseOrder) -> CaseFiles:
        return CaseFiles.of_order(self._state_dir, order.order_id)

    def look(self, order: EraseOrder) -> CaseLook:
        """Reads the case's files. Raises :class:`EraserError` where the report is damaged."""
        files = self._files(order)
        try:
            report = files.report()
        except BadInputError as error:
            # Raises too, unless it is a newer release's: that has members which this one does not.
            ended = files.ending()
            return CaseLook(None, Step.REPORT, 1.0, str(error), _answered(files), ended)
        if report is not None:
            return CaseLook(report, Step.REPORT, 1.0, "", _answered(files))
        seen = files.progress()
        if seen is None:
            return CaseLook(None, Step.PROVE_IDLE, 0.0, "")
        return CaseLook(None, seen.step, seen.fraction, seen.detail)

    def holder(self, order: EraseOrder) -> Holder:
        """A child of ours, or a runner that an earlier worker started; or what one left: the child
        that sends a Format, an nvme-cli that is stuck in the kernel."""
        child = self._children.get(order.order_id)
        if child is not None:
            if child.running:
                return Holder.RUNNER
            LOG.info("runner %d of %s ended with %s", child.pid, order.slot, child.exit_code)
            del self._children[order.order_id]
        # Ended: whoever has the lock works on another case of the slot, or looks for a moment.
        if self._files(order).finished():
            return Holder.NOBODY
        # A runner that an earlier worker started is no child of ours: only its lock tells of it.
        lock = SlotLock(order.slot.address, self._run_dir)
        try:
            lock.acquire()
        except BusyError:
            # Whoever takes it writes down who it is, a moment later.
            pid = lock.holder()
            lives = not pid.isdecimal() or proc.is_alive(self._host, int(pid))
            return Holder.RUNNER if lives else Holder.COMMAND
        lock.release()
        return Holder.NOBODY

    def start(self, order: EraseOrder) -> None:
        """Writes the request down and starts the runner in a session of its own."""
        files = self._files(order)
        files.make()
        # Anew with each start: the order's newest look is the one that the report answers.
        files.write_request(request_of(order))
        argv = [*ERASER, "case", "--request", str(files.directory / "request.json")]
        argv += ["--state-dir", str(self._state_dir), "--run-dir", str(self._run_dir)]
        child = self._host.processes.start(argv, files.runner_log())
        LOG.info("runner %d started for %s", child.pid, order.slot)
        self._children[order.order_id] = child

    def last_words(self, order: EraseOrder) -> str:
        """The last line of the runners' log."""
        try:
            with (self._files(order).directory / "runner.log").open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_END))
                lines = log.read().decode("utf-8", "replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def renew(self, order: EraseOrder) -> None:
        """Removes the case's files; its report stays in the reports directory."""
        self._files(order).clear()

    def retire(self, orders: tuple[EraseOrder, ...]) -> None:
        """Removes cases that ended and whose slot has a newer order; reports stay."""
        keep = {self._files(order).key for order in orders}
        # Of a slot without any a person took the file away: the same order may come again.
        replaced = {order.slot.address for order in orders}
        # Nobody asks for the holder of an order that a newer one replaced: its runner ends here.
        current = {order.order_id for order in orders}
        for order_id in [each for each in self._children if each not in current]:
            if not self._children[order_id].running:
                del self._children[order_id]
        for name in names(self._state_dir / "cases"):
            files = CaseFiles(self._state_dir, name)
            if name in keep:
                continue
            try:
                # Erases by hand have no order, and are their callers' to clear.
                if not files.finished() or not (request := files.request()).order_id:
                    continue
                if request.slot.address in replaced:
                    files.clear()
            except (EraserError, OSError) as error:
                # It has ended, or cannot be read, and hinders nobody; a person may look at it.
                LOG.debug("case %s stays: %s", name, error)

    def drives(self, orders: tuple[EraseOrder, ...]) -> tuple[SeenDrive, ...]:
        """Every NVMe function of the host, its identity read from the controller itself."""
        return self._inventory.drives({order.slot.address for order in orders})


class DiskLooks:
    """A :class:`eraser.agent.tickets.TicketLooks`: one child per slot, ``nvme-eraser gate VERB``.

    A child that is stuck in the kernel is left to itself and counts as running.
    """

    def __init__(
        self, state_dir: Path, run_dir: Path, host: sysfs.Host, verb: str = "intake"
    ) -> None:
        self._host = host
        self._verb = verb
        self._directories = ["--state-dir", str(state_dir), "--run-dir", str(run_dir)]
        self._children: dict[str, Started] = {}

    def start(self, address: str) -> None:
        """Starts a look at the slot's drive; what it says goes to the worker's own log."""
        argv = [*ERASER, "gate", self._verb, "--pci", address, *self._directories]
        self._children[address] = self._host.processes.start(argv)

    def running(self, address: str) -> bool:
        """Whether the look has not ended yet."""
        child = self._children.get(address)
        if child is None:
            return False
        if child.running:
            return True
        # Asking whether it runs has reaped it; the gate's book has what it found.
        del self._children[address]
        return False
