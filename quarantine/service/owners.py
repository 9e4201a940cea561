"""Whose servers are, learned from the allocations that are looked at anyway. For people alone."""

from __future__ import annotations

import contextlib

from quarantine.cloud.facts import View
from quarantine.errors import ConflictError
from quarantine.record.store import Store


def learn(store: Store, view: View | None, consumer: object) -> None:
    """Notes project and user of a server that has a drive now; nothing waits for it."""
    for one in view.allocations if view is not None else ():
        if one.consumer == consumer and one.project:
            with contextlib.suppress(ConflictError):  # somebody else notes the same
                store.note_server(one.consumer, one.project, one.user)
