"""Hears Nova's versioned notifications on its message bus and rings our bell.

oslo.messaging is an optional extra of the distribution; only the verb that listens imports this.
"""

from __future__ import annotations

import logging
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol

from oslo_config import cfg

from quarantine.errors import BadInputError, UnavailableError
from quarantine.listenerbells import Bells
from quarantine.listenerhints import Hint, Reader

try:
    with warnings.catch_warnings():
        # oslo.messaging loads eventlet for a base class, with a page about its end. We use threads.
        warnings.simplefilter("ignore")
        import oslo_messaging as messaging
except ImportError as error:
    raise BadInputError(
        "expected oslo.messaging, which the listener needs, found none: "
        "pip install 'nvme-quarantine[listener]'"
    ) from error

LOG = logging.getLogger(__name__)

Send = Callable[[dict[str, str]], None]
"""Rings a bell for what a hint says; raises :class:`UnavailableError`."""


class Server(Protocol):
    """What oslo.messaging's listeners have in common."""

    def start(self) -> object:
        """Begin; blocks while the bus is away."""

    def stop(self) -> object:
        """Take no more."""

    def wait(self) -> object:
        """Until what was taken is done."""


class Ears:
    """The endpoint: oslo.messaging calls the method named after a notification's priority."""

    def __init__(self, heard: Callable[[Hint], None]) -> None:
        self._heard = heard
        self._reader = Reader()

    def info(self, _context: Any, publisher: str, event: str, payload: Any, _meta: Any) -> None:
        """One notification. A mistake of ours about one must not keep us from the next."""
        try:
            hints = self._reader.hints(str(publisher), str(event), payload)
        except Exception:
            LOG.exception("a notification could not be read")
            return
        for hint in hints:
            LOG.debug("%s: %s", event, hint)
            self._heard(hint)

    error = warn = info
    """Failures come with the priority ``error``."""


class Ringer:
    """Rings the bells that are due, one after the other, from one thread."""

    def __init__(self, bells: Bells[Hint], send: Send, rate: float) -> None:
        """``rate``: bells in a second, at most."""
        self._bells = bells
        self._send = send
        self._pause = 1 / rate
        self._changed = threading.Condition()
        self._stopped = False

    def ask(self, hint: Hint) -> None:
        """From any thread."""
        with self._changed:
            lost = self._bells.lost
            self._bells.ask(hint, time.monotonic())
            if self._bells.lost > lost == 0:
                LOG.warning("too many bells wait: some are lost, the rolling look finds the rest")
            self._changed.notify()

    def stop(self) -> None:
        """Ends :meth:`run`. From any thread, but not from a signal's handler."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self) -> None:
        """Until :meth:`stop`; nothing else ends it."""
        while (hint := self._next()) is not None:
            try:
                self._send(hint.plain())
                LOG.info("rang for %s", hint.host or hint.server)
            except UnavailableError as error:
                LOG.warning("%s", error)
                with self._changed:
                    self._bells.failed(hint, time.monotonic())
            except Exception:
                LOG.exception("a bell could not be rung")
            with self._changed:
                self._changed.wait_for(lambda: self._stopped, self._pause)

    def _next(self) -> Hint | None:
        with self._changed:
            while not self._stopped:
                now = time.monotonic()
                hint = self._bells.take(now)
                if hint is not None:
                    return hint
                due = self._bells.due()
                self._changed.wait(None if due is None else due - now)
            return None


def connect(options: Any, ears: Ears) -> Server:
    """A listener for the group ``[notifications]``; not started.

    Raises :class:`BadInputError`, without the URL in it: that has a password.
    """
    files = [options.messaging_file] if options.messaging_file else []
    if not options.transport_url and not files:
        raise BadInputError(
            "expected [notifications]transport_url or messaging_file, found neither: "
            "the listener does not know Nova's message bus"
        )
    conf = cfg.ConfigOpts()
    try:
        conf(args=[], project="nvme-quarantine", default_config_files=files, default_config_dirs=[])
        transport = messaging.get_notification_transport(conf, url=options.transport_url)
    except cfg.Error as error:
        raise BadInputError(f"[notifications]messaging_file: {error}") from error
    except (messaging.DriverLoadFailure, messaging.InvalidTransportURL, ValueError) as error:
        raise BadInputError(
            "[notifications]transport_url: expected rabbit://USER:PASSWORD@HOST:PORT/VHOST, found "
            f"something else ({type(error).__name__})"
        ) from error
    targets = [messaging.Target(topic=name, exchange=options.exchange) for name in options.topics]
    server: Server = messaging.get_notification_listener(
        transport, targets, [ears], executor="threading", pool=options.pool or None
    )
    return server


def listen(options: Any, send: Send, stop: threading.Event) -> None:
    """Listens and rings until ``stop`` is set. Raises :class:`BadInputError`."""
    ringer = Ringer(Bells(options.quiet, options.settle), send, options.rate)
    server = connect(options, Ears(ringer.ask))
    started = threading.Event()

    def start() -> None:
        server.start()
        started.set()
        LOG.info("listening to %s of exchange %s", ", ".join(options.topics), options.exchange)

    # Daemons: while the bus is away, oslo.messaging tries for ever and hears nobody.
    threading.Thread(target=start, name="connect", daemon=True).start()
    threading.Thread(target=ringer.run, name="ringer", daemon=True).start()
    stop.wait()
    ringer.stop()
    if started.is_set():
        server.stop()
        server.wait()
