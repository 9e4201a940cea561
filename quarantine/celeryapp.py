"""Celery of the control plane: one queue in, one queue per host out, settings that lose nothing.

Redis is a doorbell, never a record. Tasks last milliseconds; one that comes twice changes nothing.
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from quarantine.errors import UnavailableError

QUEUE = "quarantine"
"""Where hosts send reports, progress, hellos and bells."""

ORDER_TASK = "eraser.order"
"""The one task that a host takes from us: a signed order."""


TRANSPORT = "quarantine.transport:Transport"
"""Kombu's for Redis, which outlives entries that are no messages."""


def host_queue(host: str) -> str:
    """The queue of one compute host."""
    return f"eraser.{host}"


def settings(url: str, *, visibility_timeout: int = 3600, timeout: float = 5.0) -> dict[str, Any]:
    """Celery's settings for the control plane. ``timeout``: seconds for Redis to answer.

    The unacknowledged keys are this queue's own: with the defaults every program on the Redis
    could read and restore the messages of all others.
    """
    return {
        "broker_url": url,
        # Another way to Redis (a socket, Sentinel) keeps kombu's own transport.
        **({"broker_transport": TRANSPORT} if url.startswith(("redis://", "rediss://")) else {}),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_connection_timeout": timeout,
        "broker_transport_options": {
            "visibility_timeout": visibility_timeout,
            "unacked_key": f"{QUEUE}.unacked",
            "unacked_index_key": f"{QUEUE}.unacked_index",
            "unacked_mutex_key": f"{QUEUE}.unacked_mutex",
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "socket_keepalive": True,
            "health_check_interval": 15,
        },
        "task_default_queue": QUEUE,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        # A broker's blip must not cancel what a task is doing to the record.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        "enable_utc": True,
    }


def make_app(url: str, *, visibility_timeout: int = 3600, timeout: float = 5.0) -> Celery:
    """The control plane's application, without tasks."""
    app = Celery("quarantine", set_as_current=False)
    app.conf.update(settings(url, visibility_timeout=visibility_timeout, timeout=timeout))
    return app


class CeleryPost:
    """Sends orders. A Redis that is away costs one timeout, then :class:`UnavailableError`."""

    def __init__(self, app: Celery) -> None:
        self.app = app

    def __call__(self, host: str, token: str) -> None:
        self.send(ORDER_TASK, [token], host_queue(host))

    def send(self, task: str, arguments: list[Any], queue: str) -> None:
        """One message onto one queue."""
        try:
            self.app.send_task(task, args=arguments, queue=queue, retry=False)
        except (OperationalError, RedisError, OSError) as error:
            raise UnavailableError(
                f"broker: expected it to take a message for {queue}, found: {error}; it is sent "
                "again on a later round"
            ) from error
