"""Questions that a drive need not know, and that few other hosts ask.

A drive that does not end one of them is no worse for it where it comes back: a host that does not
ask for it never meets that, and the kernel resets the controller for one that does. It counts as a
drive that does not tell, and is asked for that no second time.
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
