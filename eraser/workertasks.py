"""Celery on the compute host: one queue, one kind of task, settings that lose nothing."""

from __future__ import annotations

from typing import Any

from celery import Celery

CONTROL_QUEUE = "quarantine"
"""Where reports, progress and hellos go."""


def host_queue(host: str) -> str:
    """The one queue of a compute host."""
    return f"eraser.{host}"


def settings(broker: str, queue: str, visibility_timeout: int) -> dict[str, Any]:
    """Celery's settings for one consumer of ``queue``.

    Late acknowledgement with tasks of a few milliseconds: a killed worker's message comes again,
    and the record on disk makes the second time harmless. The unacknowledged keys are the
    queue's own, so that no host can read or restore another's messages.
    """
    return {
        "broker_url": broker,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_limit": 4,
        "broker_transport_options": {
            "visibility_timeout": visibility_timeout,
            "unacked_key": f"{queue}.unacked",
            "unacked_index_key": f"{queue}.unacked_index",
            "unacked_mutex_key": f"{queue}.unacked_mutex",
            "socket_timeout": 10,
            "socket_connect_timeout": 5,
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
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_hijack_root_logger": False,
        "worker_send_task_events": False,
        "enable_utc": True,
    }


def make_app(broker: str, host: str, visibility_timeout: int) -> Celery:
    """The host's Celery application, without tasks."""
    app = Celery(f"eraser.{host}", set_as_current=False)
    app.conf.update(settings(broker, host_queue(host), visibility_timeout))
    return app
