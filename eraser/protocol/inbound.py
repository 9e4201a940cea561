"""What hosts say to the control plane: one Redis list for each host and kind. Names and bounds.

The lists are no Celery queues, so that an entry is data and nothing else: it names no task, has
nothing sent and is taken by nobody but the control plane. A host only pushes, and onto its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MessageKind(StrEnum):
    """What a list holds: signed tokens, and PCI addresses on the bells' (empty: all slots)."""

    REPORT = "report"
    RECEIPT = "receipt"
    BELL = "bell"
    HELLO = "hello"
    PROGRESS = "progress"


@dataclass(frozen=True)
class ListBound:
    """How much of one host's list anybody waits for."""

    keep: int
    """Entries. A host keeps its newest; the control plane cuts a list that is longer."""
    seconds: int | None
    """After the last push the list is stale as a whole; None: never."""


BOUNDS: Final = {
    # Nobody says these again by himself: they wait for as long as it takes.
    MessageKind.REPORT: ListBound(1000, None),
    MessageKind.RECEIPT: ListBound(1000, None),
    # The regular look comes sooner than a bell that waited for longer.
    MessageKind.BELL: ListBound(256, 120),
    # Each says all that the one before it said.
    MessageKind.HELLO: ListBound(2, 600),
    # Twice as many as drives are erased at once on one host; the next comes in seconds.
    MessageKind.PROGRESS: ListBound(16, 600),
}


def key(kind: MessageKind, host: str) -> str:
    """The list's name. A host's name has no colon in it, so no two are the same."""
    return f"quarantine:{kind}:{host}"
