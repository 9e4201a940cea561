"""How the control plane speaks to hosts: one queue in, one queue per host out."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from eraser.wire import messaging
from quarantine.errors import UnavailableError

ORDER_TASK = "eraser.order"
"""What a host takes from us: a signed order."""

TICKET_TASK = "eraser.ticket"
"""And the signed ticket of a certified drive, on the same queue."""


def make_app(url: str, *, visibility_timeout: int = 3600, timeout: float = 5.0) -> Celery:
    """The control plane's application, without tasks. ``timeout``: seconds for Redis to answer."""
    return messaging.make_app(
        url, messaging.CONTROL_QUEUE, visibility_timeout=visibility_timeout, timeout=timeout
    )


class CeleryPost:
    """Sends orders and tickets.

    A Redis that is away costs one timeout, then :class:`UnavailableError`.
    """

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __call__(self, host: str, token: str) -> None:
        self.send(ORDER_TASK, [token], messaging.host_queue(host))

    def ticket(self, host: str, token: str) -> None:
        """A signed ticket onto a host's queue."""
        self.send(TICKET_TASK, [token], messaging.host_queue(host))

    def send(self, task: str, arguments: list[Any], queue: str) -> None:
        """One message onto one queue."""
        try:
            self.app.send_task(task, args=arguments, queue=queue, retry=False)
        except (OperationalError, RedisError, OSError) as error:
            raise UnavailableError(
                f"broker: expected it to take a message for {queue}, found: {error}; it is sent "
                "again on a later round"
            ) from error
