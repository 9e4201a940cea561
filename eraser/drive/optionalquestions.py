"""Questions that a drive need not know, and that few other hosts ask.

Some drives never end such a command, and the kernel resets their controller then. A drive that
comes back is not held for it, since a host that does not ask the question never meets that. It
counts as one that does not tell, and is asked no question of that kind again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from eraser.controller.nvme import Controller
from eraser.controller.passthru import CommandError

LOG = logging.getLogger(__name__)

T = TypeVar("T")


def ask(controller: Controller, what: str, question: Callable[[], T]) -> T | None:
    """The answer; None where the drive does not end the command, or did not before.

    ``what`` is one for all questions of a kind. Raises ``DriveError`` for a refusal, and where the
    drive does not come back.
    """
    if what in controller.unended:
        return None
    try:
        return question()
    except CommandError as error:
        if error.status is not None:
            raise
        LOG.warning("%s: the drive is asked no more for %s", error, what)
        controller.unended.add(what)
    controller.wait_live(controller.ready, namespaces=False)
    return None
