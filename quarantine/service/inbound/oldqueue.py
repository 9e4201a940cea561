"""What hosts say that were not upgraded yet: Celery's messages on one queue for all of them.

For one release: then no host is left that sends them, and this module goes. They are read as data,
not run as tasks: a message that asks for anything to follow it is dropped.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from eraser.protocol.inbound import MessageKind

NAME: Final = "quarantine"
"""The queue; Celery pushes at the head of its list, so the tail came first."""

_TASKS: Final = {
    "quarantine.report": MessageKind.REPORT,
    "quarantine.ticket_receipt": MessageKind.RECEIPT,
    "quarantine.hello": MessageKind.HELLO,
    "quarantine.progress": MessageKind.PROGRESS,
    "quarantine.bell": MessageKind.BELL,
}

_FOLLOWING: Final = ("callbacks", "errbacks", "chain", "chord")


@dataclass(frozen=True)
class Message:
    """A token, or a bell's hint."""

    kind: MessageKind
    payload: Any


def read(entry: bytes) -> Message | None:
    """The message in an entry of the queue; None where it is none that we take."""
    try:
        message = json.loads(entry)
        kind = _TASKS[message["headers"]["task"]]
        arguments, named, embedded = json.loads(base64.b64decode(message["body"]))
        (payload,) = arguments
        alone = not named and not any(embedded.get(name) for name in _FOLLOWING)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    right = isinstance(payload, dict if kind is MessageKind.BELL else str)
    return Message(kind, payload) if alone and right else None
