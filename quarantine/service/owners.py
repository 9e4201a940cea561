"""Whose servers are, learned from the allocations that are looked at anyway. For people alone."""

from __future__ import annotations

import logging

from quarantine.cloud.facts import View
from quarantine.errors import ConflictError
from quarantine.record.store import Store

LOG = logging.getLogger(__name__)


def learn(store: Store, view: View | None, consumer: object) -> None:
    """Notes project and user of a server that has a drive now; nothing waits for it.

    Raises nothing: what guards a drive must not stop for what only people ask for. A record that
    is away stops the look's next step by itself.
    """
    for one in view.allocations if view is not None else ():
        if one.consumer == consumer and one.project:
            try:
                # A migration's allocation has its server's project and user (``move_allocations``).
                store.note_server(store.server_behind(one.consumer), one.project, one.user)
            except ConflictError:
                LOG.debug("server %s: somebody else notes the same", one.consumer)
            except Exception as error:
                LOG.warning("server %s: not noted whose it is: %s", one.consumer, error)
