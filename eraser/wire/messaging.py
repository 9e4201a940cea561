"""Celery over Redis, the same on both sides: queues, settings that lose nothing, the transport.

Redis is a doorbell, never a record. Tasks last milliseconds; one that comes twice changes nothing.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from kombu.transport import redis
from redis.exceptions import DataError

LOG = logging.getLogger(__name__)

CONTROL_QUEUE = "quarantine"
"""Where hosts send reports, progress, hellos, receipts and bells."""

TRANSPORT = f"{__name__}:Transport"

_NO_MESSAGE = (ValueError, LookupError, TypeError, AttributeError, DataError)
"""What reading a stranger's bytes as a message raises. ``DataError`` is the client's own refusal of
values that Redis could not hold; what Redis itself answers is none of these."""


def host_queue(host: str) -> str:
    """The one queue of a compute host."""
    return f"eraser.{host}"


def settings(
    url: str, queue: str, *, visibility_timeout: int = 3600, timeout: float = 5.0
) -> dict[str, Any]:
    """Celery's settings for one consumer of ``queue``. ``timeout``: seconds for Redis to answer.

    Late acknowledgement with tasks of a few milliseconds: a killed worker's message comes again,
    and the record on disk makes the second time harmless. The unacknowledged keys are this queue's
    own: with the defaults every program on the Redis could read and restore the messages of all
    others.
    """
    return {
        "broker_url": url,
        # Another way to Redis (a socket, Sentinel) keeps kombu's own transport.
        **({"broker_transport": TRANSPORT} if url.startswith(("redis://", "rediss://")) else {}),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_connection_timeout": timeout,
        "broker_pool_limit": 4,
        "broker_transport_options": {
            "visibility_timeout": visibility_timeout,
            "unacked_key": f"{queue}.unacked",
            "unacked_index_key": f"{queue}.unacked_index",
            "unacked_mutex_key": f"{queue}.unacked_mutex",
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "socket_keepalive": True,
            "health_check_interval": 15,
        },
        "task_default_queue": queue,
        "task_acks_late": True,
        "task_reject_on_worker_lost": True,
        "task_ignore_result": True,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        "worker_enable_remote_control": False,
        # A broker's blip must not cancel what a task is doing to a record.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        "enable_utc": True,
    }


def make_app(
    url: str, queue: str, *, visibility_timeout: int = 3600, timeout: float = 5.0
) -> Celery:
    """The application of ``queue``'s consumer, without tasks."""
    app = Celery(queue, set_as_current=False)
    app.conf.update(settings(url, queue, visibility_timeout=visibility_timeout, timeout=timeout))
    return app


class Channel(redis.Channel):  # type: ignore[misc]
    """Drops, with a line in the log, what cannot be taken for a message.

    Whoever may push onto our queue would else end the whole worker with one entry that is not
    kombu's JSON.
    """

    def _brpop_read(self, **options: Any) -> Any:
        held = set(self.qos._delivered)
        try:
            return super()._brpop_read(**options)
        except _NO_MESSAGE as error:
            LOG.error("ALARM: an entry of the queue is no message, dropped: %r", error)
            for tag in set(self.qos._delivered) - held:
                # Else it would count as being worked on, and nothing more would be taken.
                self.basic_reject(tag, requeue=False)
            return True


class Transport(redis.Transport):  # type: ignore[misc]
    """For ``redis://`` and ``rediss://``."""

    Channel = Channel
