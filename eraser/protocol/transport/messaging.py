"""The way to Redis, the same on both sides: Celery for orders, plain lists for what hosts say.

Redis is a doorbell, never a record. Tasks last milliseconds; one that comes twice changes nothing.
"""

from __future__ import annotations

import logging
import ssl
import threading
from typing import Any

from celery import Celery
from kombu import Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.transport import redis
from redis import Redis
from redis.exceptions import DataError, RedisError

from eraser.protocol.inbound import BOUNDS, MessageKind, key

LOG = logging.getLogger(__name__)

CONTROL = "quarantine"
"""The control plane's application. It sends orders and tickets, and consumes no queue."""

TRANSPORT = f"{__name__}:Transport"

_NO_MESSAGE = (ValueError, LookupError, TypeError, AttributeError, DataError)
"""What reading a stranger's bytes as a message raises. ``DataError`` is the client's own refusal of
values that Redis could not hold; what Redis itself answers is none of these."""


def host_queue(host: str) -> str:
    """The one queue of a compute host."""
    return f"eraser.{host}"


def queue_of(name: str) -> Queue:
    """A queue that is its list and nothing else.

    Without an exchange there is no table of bindings in Redis, with which whoever may write to it
    would have orders copied to another list.
    """
    return Queue(name, Exchange("", type="direct"), routing_key=name)


def _transport(url: str) -> dict[str, Any]:
    """Our way to Redis. Another one (a socket, Sentinel) keeps kombu's own transport.

    kombu takes ``rediss`` as the name of its own transport alone: with another one it speaks in
    the clear, and with its own it believes any certificate. What the URL itself says of TLS
    (``?ssl_ca_certs=FILE``) stands in the place of this.
    """
    scheme = url.partition("://")[0].strip().lower()  # as kombu takes it
    if scheme == "rediss":
        verified = {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
        return {"broker_transport": TRANSPORT, "broker_use_ssl": verified}
    return {"broker_transport": TRANSPORT} if scheme == "redis" else {}


def settings(url: str, queue: str, *, timeout: float = 5.0) -> dict[str, Any]:
    """Celery's settings for one consumer of ``queue``. ``timeout``: seconds for Redis to answer.

    What a worker took is kept nowhere else: kombu would note it in Redis and hand it out again an
    hour later, with scripts that no host may run. An order that a killed worker had not written
    down is repeated by the control plane, which is sooner.
    """
    return {
        "broker_url": url,
        **_transport(url),
        "broker_connection_retry_on_startup": True,
        # None: it tries to connect for ever.
        "broker_connection_max_retries": None,
        "broker_connection_timeout": timeout,
        "broker_pool_limit": 4,
        "broker_transport_options": {
            "ack_emulation": False,
            # One list for a queue: nothing here has a priority.
            "priority_steps": [0],
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "socket_keepalive": True,
            "health_check_interval": 15,
        },
        "task_default_queue": queue,
        # None: see queue_of.
        "task_default_exchange": "",
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


def make_app(url: str, queue: str, *, timeout: float = 5.0) -> Celery:
    """The application of ``queue``'s consumer, without tasks."""
    app = Celery(queue, set_as_current=False)
    app.conf.update(settings(url, queue, timeout=timeout))
    return app


class BrokerRedis:
    """A client of the Redis behind an application, whatever its URL; for any thread.

    Connections are made when they are needed and again when they broke; each answer is waited for
    as long as the application's ``timeout`` says.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._channel: Any = None

    def client(self) -> Redis:
        """Raises ``OSError`` when Redis is away and was never there."""
        with self._lock:
            if self._channel is None:
                try:
                    self._channel = self._app.connection_for_write().channel()
                except (OperationalError, RedisError) as error:
                    raise OSError(f"broker: {error}") from error
            with self._channel.conn_or_acquire() as client:
                found: Redis = client
                return found

    def push(self, kind: MessageKind, host: str, text: str) -> None:
        """One message of a host for the control plane. Raises ``OSError``."""
        bound = BOUNDS[kind]
        name = key(kind, host)
        try:
            with self.client().pipeline(transaction=False) as pipe:
                pipe.rpush(name, text)
                # Reports and receipts are said once: a host never cuts their lists, and they do not
                # expire.
                if bound.seconds is not None:
                    pipe.ltrim(name, -bound.keep, -1)
                    pipe.expire(name, bound.seconds)
                pipe.execute()
        except RedisError as error:
            raise OSError(f"broker: {error}") from error


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
