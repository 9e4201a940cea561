"""``nvme-eraser worker``: the Celery worker of one compute host.

Celery takes signed orders from the host's own queue; a thread beside it does the rounds over the
orders and tickets that the host has. The erasing itself runs in detached processes (``nvme-eraser
case``) that survive this one: a restarted worker finds them by their slot locks, and a restarted
host finds their journals.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down
from kombu.exceptions import OperationalError

from eraser import VERSION
from eraser.agent.admission import StartQueue
from eraser.agent.bell import Listener
from eraser.agent.conf import WorkerSettings
from eraser.agent.gate_status import GateStatus
from eraser.agent.hoststate import HostState, OrderRefusedError, TicketRefusedError
from eraser.agent.idle_counters import IdleRounds
from eraser.agent.old_reports import OldReports
from eraser.agent.orders import OrderRounds
from eraser.agent.runners import DiskCases, DiskLooks
from eraser.agent.tickets import TicketRounds
from eraser.host.sysfs import Host
from eraser.protocol.inbound import MessageKind
from eraser.protocol.policy import NIST_IS_FULL, VerificationMode
from eraser.protocol.transport.messaging import BrokerRedis, host_queue, make_app, queue_of

LOG = logging.getLogger(__name__)

TURN_SECONDS = 0.1
"""Between two rounds: small beside an erase, invisible in a host's load."""

TICK_SECONDS = 20.0
DEAF_SECONDS = 180.0
"""A worker that can send but no longer hears its own queue ends itself: known failures of Redis
clients after a fail-over leave a consumer that waits for ever. systemd starts it again."""

EXIT_DEAF = 75


class Worker:
    """The Celery application of one host and its rounds."""

    def __init__(self, settings: WorkerSettings, state: HostState, machine: Host) -> None:
        """``machine`` is what all of it runs on."""
        self.settings = settings
        self.state = state
        self.host = state.card.host
        self.app: Celery = make_app(settings.broker, host_queue(self.host))
        self._door = BrokerRedis(self.app)
        self._clock, now = machine.clock, machine.clock.monotonic
        directories = (settings.state_dir, settings.run_dir, machine)
        self.cases = DiskCases(*directories)
        self.orders = OrderRounds(
            state=state,
            cases=self.cases,
            send=self.send,
            version=VERSION,
            line=StartQueue(settings.max_running, settings.pause_file),
            hello_interval=settings.hello_interval,
            progress_interval=settings.progress_interval,
            testify=GateStatus(*directories).gate,
            clock=now,
        )
        self.tickets = TicketRounds(state, DiskLooks(*directories), self.send, now)
        self.rests = IdleRounds(settings.state_dir, machine, DiskLooks(*directories, "rest"), now)
        self.old = OldReports(settings.state_dir / "reports", settings.keep_reports, machine.clock)
        self._bell: Listener | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._asked: float | None = None
        """When the first of the ticks was sent of which none was heard."""
        self._ticked = 0.0
        self._troubles: dict[str, str] = {}
        """What each step of a round met and was logged of, so that a log is not filled with it."""
        self.app.task(name="eraser.order")(self.order)
        self.app.task(name="eraser.ticket")(self.ticket)
        self.app.task(name="eraser.tick")(self.tick)

    def order(self, token: str) -> None:
        """Task: verify an order and write it down. Nothing here touches a drive."""
        self.tick()  # whoever hears an order is not deaf, however many stand before a tick
        try:
            order = self.state.accept(token)
        except OrderRefusedError as error:
            # Refused for good: raising would only have Celery print a traceback.
            LOG.error("refused: %s", error)
            return
        LOG.info("order %s for %s accepted", order.order_id, order.slot)
        if order.policy.verification.mode is VerificationMode.NIST:
            LOG.warning(
                "policy %r of order %s asks for %s", order.policy.name, order.order_id, NIST_IS_FULL
            )
        # Also for an order that is known: it comes again where our report was missed.
        self.orders.again(order)
        self._wake.set()

    def ticket(self, token: str) -> None:
        """Task: verify a ticket and write it down. Nothing here looks at a drive."""
        self.tick()
        try:
            ticket = self.state.take_ticket(token)
        except TicketRefusedError as error:
            LOG.error("refused: %s", error)
            return
        self.tickets.again(ticket)
        self._wake.set()

    def tick(self) -> None:
        """Task: this worker hears its own queue."""
        self._asked = None

    def send(self, kind: MessageKind, token: str) -> None:
        """One message to the control plane. Raises ``OSError`` when the broker does not take it."""
        self._door.push(kind, self.host, token)

    def bell(self, address: str) -> None:
        """Something may have changed at a slot. Raises ``OSError`` when the broker is away."""
        self.send(MessageKind.BELL, address)

    def _turn_for_ever(self) -> None:
        while not self._stop.is_set():
            # An order or a ticket need not wait for the next turn.
            self._wake.wait(TURN_SECONDS)
            self._wake.clear()
            self._round()

    def _round(self) -> None:
        """What one of them meets, a full disk for one, keeps none of the others."""
        turns = (self.orders.turn, self.tickets.turn, self.rests.turn, self.old.turn)
        for step in (*turns, self._listen, self._hear):
            name = step.__qualname__
            try:
                step()
            except Exception as error:
                # Whatever one round met, the next one is done: it reads the disk anew.
                if self._troubles.get(name) != repr(error):
                    LOG.exception("%s failed", name)
                self._troubles[name] = repr(error)
            else:
                self._troubles.pop(name, None)

    def _listen(self) -> None:
        now = self._clock.monotonic()
        if now - self._ticked < TICK_SECONDS:
            return
        self._ticked = now
        try:
            self.app.send_task("eraser.tick", queue=queue_of(host_queue(self.host)), retry=False)
        except (OperationalError, OSError):
            self._asked = None  # the broker is away for all: not deaf, only alone
            return
        # From the first question on: a round that took minutes, or a process that was stopped,
        # asked nothing meanwhile.
        asked = self._asked
        if asked is None:
            self._asked = now
        elif now - asked > DEAF_SECONDS:
            LOG.critical("hearing nothing from %s any more: ending", host_queue(self.host))
            # An exception would end this thread alone, and the main one would wait on.
            os._exit(EXIT_DEAF)

    def _hear(self) -> None:
        """Has the bell heard: again where its socket could not be made, or was removed since.

        Raises ``OSError``.
        """
        if self._bell is not None:
            if self._bell.reachable():
                return
            self._bell.close()
            self._bell = None
        try:
            self._bell = Listener(
                self.settings.run_dir, self.bell, self.settings.bell_group, self._clock
            )
        except OSError as error:
            raise OSError(
                f"nobody hears this host's bells, releases are seen later: {error}"
            ) from error

    def run(self, level: str = "INFO") -> None:
        """Consumes until SIGTERM. Returns after a warm shutdown; running cases go on."""
        thread = threading.Thread(target=self._turn_for_ever, name="rounds", daemon=True)

        def ready(**_: Any) -> None:
            LOG.info("worker of %s ready, incarnation %s", self.host, self.state.card.incarnation)
            for what, keys in vars(self.state.believed).items():
                LOG.info(
                    "%s are believed from key %s", what, " or ".join(key.thumbprint for key in keys)
                )

        def stopping(**_: Any) -> None:
            self._stop.set()

        # Celery keeps weak references otherwise, and these functions are local.
        worker_ready.connect(ready, weak=False)
        worker_shutting_down.connect(stopping, weak=False)
        # Open cases go on even while the broker is away, so the rounds do not wait for it.
        thread.start()
        self.app.worker_main(
            [
                "worker",
                # In this process, one at a time: each takes milliseconds, the rounds do the rest.
                "--pool=solo",
                # They are for workers that know of each other; a host has no say about another's,
                # and their events would be a message a second and host that nobody reads.
                "--without-gossip",
                "--without-mingle",
                "--without-heartbeat",
                "--queues",
                host_queue(self.host),
                "--hostname",
                f"eraser@{self.host}",
                "--loglevel",
                level,
            ]
        )
