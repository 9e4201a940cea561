"""What the control plane's worker does with a message: hand it to the inbox, and lose none.

A refused message is finished: it is recorded. One that met a busy or absent database comes again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from celery import Celery, Task
from celery.signals import worker_ready

from eraser.wire.messaging import CONTROL_QUEUE
from quarantine.celeryapp import CeleryPost
from quarantine.errors import ConflictError, QuarantineError, UnavailableError
from quarantine.inbox import Inbox

LOG = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
"""Before a message is tried again that met a busy or absent database."""

TICK_SECONDS = 20.0
DEAF_SECONDS = 120.0
"""A worker that can send and no longer hears its own queue ends itself, and is started again: Redis
clients are known to wait for ever after a fail-over."""

EXIT_DEAF = 75


def register(app: Celery, inbox: Inbox) -> None:
    """Adds the tasks that hosts may send; the names are the contract with ``eraser``."""

    def report(task: Task, token: str) -> None:
        _handle(task, lambda: inbox.report(token))

    def progress(task: Task, token: str) -> None:
        _handle(task, lambda: inbox.progress(token), again=False)

    def hello(task: Task, token: str) -> None:
        _handle(task, lambda: inbox.hello(token), again=False)

    def ticket_receipt(task: Task, token: str) -> None:
        _handle(task, lambda: inbox.receipt(token))

    def bell(task: Task, hint: Any) -> None:
        waits: list[float] = []
        _handle(task, lambda: waits.append(_ring(inbox, hint)), again=False)
        if any(waits):
            raise task.retry(countdown=max(waits))

    for name, function in (
        ("report", report),
        ("progress", progress),
        ("hello", hello),
        ("ticket_receipt", ticket_receipt),
        ("bell", bell),
    ):
        app.task(name=f"quarantine.{name}", bind=True, max_retries=None)(function)


def _ring(inbox: Inbox, hint: Any) -> float:
    """Seconds after which the bell is to be rung once more; 0: never."""
    known = hint if isinstance(hint, dict) else {}
    host, address, server = (
        value if isinstance(value := known.get(name), str) else None
        for name in ("host", "address", "server")
    )
    if host is None and server is None:
        LOG.warning("a bell without a host or a server is ignored")
    wait = 0.0
    if host is not None:
        wait = inbox.bell(host, address)
    if server is not None:
        wait = max(wait, inbox.bell_server(server))
    return wait


def _handle(task: Task, work: Callable[[], object], *, again: bool = True) -> None:
    """Runs one message. ``again``: a message that nobody would send once more."""
    try:
        work()
    except (ConflictError, UnavailableError) as error:
        if not again:
            LOG.info("%s dropped, the next one will do: %s", task.name, error)
            return
        LOG.warning("%s comes again: %s", task.name, error)
        raise task.retry(countdown=RETRY_SECONDS) from error
    except QuarantineError as error:
        LOG.error("%s: %s", task.name, error)


class Ears:
    """Proves that the worker still hears its queue, by talking to itself."""

    def __init__(self, app: Celery) -> None:
        self._post = CeleryPost(app)
        self._heard = time.monotonic()
        self._stop = threading.Event()
        app.task(name="quarantine.tick")(self.tick)

    def tick(self) -> None:
        """Task: heard."""
        self._heard = time.monotonic()

    def watch(self) -> None:
        """Ends the process with :data:`EXIT_DEAF` when nothing is heard; runs in a thread."""
        while not self._stop.wait(TICK_SECONDS):
            try:
                self._post.send("quarantine.tick", [], CONTROL_QUEUE)
            except UnavailableError:
                self._heard = time.monotonic()  # the broker is away for all: alone, not deaf
                continue
            if time.monotonic() - self._heard > DEAF_SECONDS:
                LOG.critical("hearing nothing from queue %s any more: ending", CONTROL_QUEUE)
                os._exit(EXIT_DEAF)


def work(app: Celery, inbox: Inbox, level: str = "INFO") -> None:
    """Consumes until SIGTERM, one message at a time, in this process."""
    register(app, inbox)
    ears = Ears(app)

    def ready(**_: Any) -> None:
        LOG.info("worker ready, taking messages from queue %s", CONTROL_QUEUE)

    worker_ready.connect(ready, weak=False)
    threading.Thread(target=ears.watch, name="ears", daemon=True).start()
    app.worker_main(
        [
            "worker",
            "--pool=solo",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            f"--queues={CONTROL_QUEUE}",
            "--hostname=quarantine@%h",
            f"--loglevel={level}",
        ]
    )
