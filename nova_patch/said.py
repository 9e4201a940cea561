"""What the patch says in nova-compute's own log.

Under the name ``nova``, whose level and handlers are the operator's. What is found anew in each
round is said once, and from then on only where the log is at DEBUG.
"""

from __future__ import annotations

import logging

LOG = logging.getLogger("nova.nvme_quarantine_patch")

_told: set[str] = set()


def once(message: str, *args: object) -> None:
    """A warning; the same words again in this process are DEBUG."""
    words = message % args
    LOG.log(logging.DEBUG if words in _told else logging.WARNING, "%s", words)
    _told.add(words)
