"""How the control plane speaks to hosts: orders and tickets, onto the queue of each."""

from __future__ import annotations

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from eraser.protocol.transport import messaging
from quarantine.errors import BrokerAwayError

ORDER_TASK = "eraser.order"
"""What a host takes from us: a signed order."""

TICKET_TASK = "eraser.ticket"
"""And the signed ticket of a certified drive, on the same queue."""


def make_app(url: str, *, timeout: float = 5.0) -> Celery:
    """The control plane's application, without tasks. ``timeout``: seconds for Redis to answer."""
    return messaging.make_app(url, messaging.CONTROL, timeout=timeout)


class CeleryPost:
    """Sends orders and tickets.

    A Redis that is away costs one timeout, then :class:`BrokerAwayError`.
    """

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __call__(self, host: str, token: str) -> None:
        self._send(ORDER_TASK, host, token)

    def ticket(self, host: str, token: str) -> None:
        """A signed ticket onto a host's queue."""
        self._send(TICKET_TASK, host, token)

    def _send(self, task: str, host: str, token: str) -> None:
        queue = messaging.queue_of(messaging.host_queue(host))
        try:
            self.app.send_task(task, args=[token], queue=queue, retry=False)
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerAwayError(
                f"broker: expected it to take a message for host {host}, found: {error}; it is "
                "sent again on a later round"
            ) from error
