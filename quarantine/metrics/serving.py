"""Serves the metrics at an address of their own. What goes wrong here stops nothing else."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from eraser.protocol.transport.messaging import BrokerRedis
from quarantine.conf.metrics import address
from quarantine.errors import QuarantineError
from quarantine.metrics.exposition import Exporter, require_library
from quarantine.metrics.limits import MetricsLimits
from quarantine.record.store import Store
from quarantine.service.inbound.lists import Lists
from quarantine.service.issue.celery_app import make_app

if TYPE_CHECKING:
    from quarantine.service.assembly import Assembly

LOG = logging.getLogger(__name__)

RETRY_SECONDS: Final = 30.0
"""Before an address is tried again that another program has."""

CLIENT_SECONDS: Final = 10.0
"""For each read from a client and each write to it."""

REQUEST_SECONDS: Final = 60.0
"""For all of one request: who sends a byte now and then keeps no thread for longer either."""

CLIENTS: Final = 8
"""At a time; who comes then is sent away. The safety pass is in this process and needs descriptors
too."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._places = threading.BoundedSemaphore(CLIENTS)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, where there is a place."""
        # Without waiting: this is the only thread that takes connections.
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Whatever the client does, its place is free again after a while."""
        deadline = threading.Timer(REQUEST_SECONDS, _hang_up, [request])
        deadline.daemon = True
        try:
            # Each read and write has a limit of its own, which a slow client never meets: this one
            # ends it.
            deadline.start()
            super().process_request_thread(request, client_address)
        finally:
            deadline.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
        LOG.debug("metrics: a client went away")


def _hang_up(request: socket.socket) -> None:
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = CLIENT_SECONDS

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are not logged."""
        LOG.debug(format, *args)


def open_server(where: tuple[str, int], exporter: Exporter) -> WSGIServer:
    """Listens; ``serve_forever`` answers. Raises ``OSError``."""
    kind = _Server6 if ":" in where[0] else _Server
    return make_server(*where, exporter, server_class=kind, handler_class=_Handler)


def start(assembly: Assembly, stop: threading.Event) -> threading.Thread | None:
    """Serves as ``[metrics]`` says, in a thread with connections of its own; None for none."""
    conf = assembly.conf
    listen = address(conf.metrics.listen)
    if listen is None:
        return None
    doors, lateness, meter = assembly.doors, assembly.lateness, assembly.delay_meter

    def make() -> Exporter:
        require_library()
        broker = make_app(conf.broker.url, timeout=conf.broker.timeout)
        return Exporter(
            Store.open(conf.database.url, clock=doors.now),
            MetricsLimits.from_conf(conf),
            doors=doors,
            lists=Lists(BrokerRedis(broker)),
            lateness=lateness,
            delays=None if meter is None else meter.delays,
        )

    thread = threading.Thread(target=run, args=(listen, make, stop), name="metrics", daemon=True)
    thread.start()
    return thread


def run(where: tuple[str, int], make: Callable[[], Exporter], stop: threading.Event) -> None:
    """Serves until ``stop`` is set: for a thread of its own.

    An address that is taken is tried again; what cannot be mended without a restart is logged.
    """
    try:
        exporter = make()
    except QuarantineError as error:
        # The rest of the service goes on without metrics.
        LOG.error("metrics: none are served: %s", error)
        return
    told = False
    while not stop.is_set():
        try:
            server = open_server(where, exporter)
        except OSError as error:
            if not told:
                LOG.error("metrics: expected to listen on %s port %d: %s", *where, error)
            told = True
            # The program that has the address, such as our own former process, may end.
            stop.wait(RETRY_SECONDS)
            continue
        LOG.info("metrics on %s port %d", *where)
        with server:
            threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
            stop.wait()
            server.shutdown()
