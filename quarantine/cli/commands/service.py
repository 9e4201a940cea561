"""``run`` and ``worker``: the service, and what it keeps beside itself."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

from quarantine.cli.base import ControlCommand
from quarantine.errors import QuarantineError
from quarantine.logs import set_up_logging

if TYPE_CHECKING:
    from quarantine.service.assembly import Assembly

LOG = logging.getLogger(__name__)

RESTART_SECONDS = (0.5, 2.0, 10.0)
"""Pauses before a worker that ended is started again; the last one repeats."""

STEADY_SECONDS = 60.0
"""A worker that ran this long ended by bad luck: the pauses begin anew."""

POLL_SECONDS = 0.2
"""Between two looks at a child or a parent: no wait of Python's is for a process and an event."""


class Supervisor:
    """Keeps one child process running until told to stop."""

    def __init__(self, argv: list[str], stop_timeout: float) -> None:
        self._argv = argv
        self._stop_timeout = stop_timeout
        self._stop = threading.Event()
        # A daemon: where the service fails before stop(), its process must end all the same. The
        # worker sees that its parent is gone.
        self._thread = threading.Thread(target=self._keep, name="supervisor", daemon=True)

    def start(self) -> None:
        """Starts the child and watches it in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """SIGTERM, and after ``stop_timeout`` seconds SIGKILL. Its message comes again."""
        self._stop.set()
        self._thread.join()

    def _keep(self) -> None:
        failures = 0
        while not self._stop.is_set():
            started = time.monotonic()
            ended = self._run()
            if self._stop.is_set():
                return
            # A worker that cannot start at all must not be started again all the time.
            failures = 0 if time.monotonic() - started > STEADY_SECONDS else failures + 1
            pause = RESTART_SECONDS[min(max(failures, 1), len(RESTART_SECONDS)) - 1]
            LOG.error("%s; again in %.1f s", ended, pause)
            self._stop.wait(pause)

    def _run(self) -> str:
        """One child from its start to its end; how it ended, in words."""
        try:
            child = subprocess.Popen(self._argv)
        except OSError as error:
            # No process or no memory is left for now, or the interpreter is just being replaced.
            # This thread is the only one that starts workers: it must outlive that.
            return f"worker cannot be started: {error}"
        LOG.info("worker started, process %d", child.pid)
        while child.poll() is None:
            if self._stop.wait(POLL_SECONDS):
                self._end(child)
                break
        return f"worker ended with {child.returncode}"

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        child.terminate()
        try:
            child.wait(self._stop_timeout)
        except subprocess.TimeoutExpired:
            LOG.warning("worker did not stop in %.0f s: killed", self._stop_timeout)
            # Nothing is lost: a message is removed from its list when it was worked on.
            child.kill()
            child.wait()


class Run(ControlCommand):
    """Run the service: the reconcile loop and the worker beside it."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from quarantine.service.assembly import Assembly

        serve(Assembly(self.plane.files))


class Worker(ControlCommand):
    """Run only the worker that takes messages from hosts."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--parent", type=int, metavar="PID", help="end when this process is gone"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        from quarantine.service.assembly import Assembly

        take_messages(lambda: Assembly(self.plane.files), parsed_args.parent)


class Listener(ControlCommand):
    """Nothing any more: what the unit of an earlier release calls, which is to be removed."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        ends = {signal.SIGTERM, signal.SIGINT}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)
        # It was to hear Nova's notifications; nova-compute rings by itself.
        print(
            "nvme-quarantine: expected no nvme-quarantine-listener.service any more, found it "
            "running: run 'systemctl disable --now nvme-quarantine-listener', and remove the unit",
            file=sys.stderr,
            flush=True,
        )
        # Its unit has Restart=always: a command that ends would begin anew all the time.
        signal.sigwait(ends)


def serve(assembly: Assembly) -> None:
    """The loop, the safety pass and the heads, each for ever; and the worker, in a process."""
    from quarantine.metrics import alarmcount
    from quarantine.service.safety import PASS

    conf = assembly.conf
    set_up_logging(conf.run.log_level, conf.run.log_format)
    stop = threading.Event()
    on_signals(stop.set)
    with alarmcount.counting(conf):
        # First, and by itself: it needs no key and no broker. It does nothing but wait and compare:
        # whatever it is in the midst of may be left at a stop.
        safety = assembly.safety
        threading.Thread(target=safety.run_forever, args=(stop,), name=PASS, daemon=True).start()
        _serve_the_rest(assembly, stop)
    LOG.info("stopped")


def _serve_the_rest(assembly: Assembly, stop: threading.Event) -> None:
    """All of it now: a service that cannot work says so at its start."""
    from quarantine.metrics import serving

    conf = assembly.conf
    # Made before the worker is started: a key or an option that is missing ends the service here.
    reconciler, heads = assembly.reconciler, assembly.heads
    supervisor = None
    if conf.run.worker:
        supervisor = Supervisor(_worker_argv(assembly), conf.run.stop_timeout)
        supervisor.start()
    LOG.info(
        "running; %d slots in use, a release without a bell is seen after %.0f s at worst, "
        "where Placement answers a read in 50 ms",
        *assembly.detection(),
    )
    threading.Thread(target=heads.run_forever, args=(stop,), name="heads", daemon=True).start()
    meter = assembly.delay_meter
    if meter is not None:
        threading.Thread(target=meter.run_forever, args=(stop,), name="delays", daemon=True).start()
    serving.start(assembly, stop)
    try:
        reconciler.run_forever(stop)
    finally:
        if supervisor is not None:
            # Whatever ended the loop: the worker must not go on without it.
            supervisor.stop()


def _worker_argv(assembly: Assembly) -> list[str]:
    # Our own interpreter and files: the worker has to be of the same installation, with the same
    # configuration.
    files = [part for file in assembly.files for part in ("--config-file", str(file.resolve()))]
    parent = ["--parent", str(os.getpid())]
    return [sys.executable, "-m", "quarantine.cli", *files, "worker", *parent]


def take_messages(assembly: Callable[[], Assembly], parent: int | None) -> None:
    """What hosts say, in a thread for each lane; until it is stopped, or ``parent`` is gone."""
    from quarantine.metrics import alarmcount

    first = assembly()
    conf = first.conf
    set_up_logging(conf.run.log_level, conf.run.log_format)
    with alarmcount.counting(conf):
        _take_messages(assembly, parent, _ending(first))


def _ending(assembly: Assembly) -> Callable[[], None]:
    """Tells what ended while no worker ran, of what only workers remember; raises nothing."""
    leftovers = assembly.leftovers_of_worker

    def end() -> None:
        try:
            leftovers.end()
        except QuarantineError as error:
            LOG.info("not told yet what is over: %s", error)
        except Exception:
            # A mistake of ours must not end a lane.
            LOG.exception("not told what is over")

    return end


def _take_messages(
    assembly: Callable[[], Assembly], parent: int | None, noted: Callable[[], None] = lambda: None
) -> None:
    """``noted`` is called now and then while the broker answers; it raises nothing."""
    from quarantine.service.inbound.intake import (
        LANES,
        URGENT,
        Reached,
        TooLong,
        Wanted,
        run,
    )

    stop = threading.Event()
    on_signals(stop.set)
    if parent is not None:
        # A parent that was killed tells nobody to stop.
        threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    lanes = []
    too_long, wanted = TooLong(), Wanted()
    for name, kinds in LANES.items():
        own = assembly()  # it is not thread safe
        lane = own.lane(kinds, too_long, wanted)
        reached = Reached(own.store, then=noted)
        # One lane is enough to say that the broker was reached: that which drives wait for.
        words = (lane, stop, name, reached) if kinds is URGENT else (lane, stop, name)
        lanes.append(threading.Thread(target=run, args=words, name=name))
    try:
        for thread in lanes:
            thread.start()
    except BaseException:
        # Without one of them nobody would take some kinds of messages, and nobody would start the
        # worker anew: it ends, and is started again.
        stop.set()
        raise
    LOG.info("worker ready, taking what hosts say")
    for thread in lanes:
        thread.join()


def _leave_with(parent: int) -> None:
    """An orphan would take messages beside the worker of the next start."""
    # An orphan gets another parent.
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def on_signals(action: Callable[[], None]) -> None:
    """Has the service manager's stop, or Ctrl-C, do ``action`` instead of ending the process."""

    def handle(number: int, _frame: FrameType | None) -> None:
        LOG.info("%s: stopping", signal.Signals(number).name)
        action()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
