"""Kombu's Redis transport, made to outlive what is no message.

Every host may push onto our queue. Kombu's own consumer ends the whole worker at the first entry
that is not its JSON, so one host with a grudge could keep all reports of the cloud from being read.
"""

from __future__ import annotations

import logging
from typing import Any

from kombu.transport import redis
from redis.exceptions import DataError

LOG = logging.getLogger(__name__)

_NO_MESSAGE = (ValueError, LookupError, TypeError, AttributeError, DataError)
"""What reading a stranger's bytes as a message raises. ``DataError`` is the client's own refusal of
values that Redis could not hold; what Redis itself answers is none of these."""


class Channel(redis.Channel):  # type: ignore[misc]
    """Drops, with a line in the log, what cannot be taken for a message."""

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
