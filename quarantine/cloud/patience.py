"""Questions of which a whole cloud takes tens of thousands, and a command needs all answers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from quarantine.errors import UnavailableError

LOG = logging.getLogger(__name__)

TRIES: Final = 4
"""How often the same is asked before the command ends without an answer."""

_Answer = TypeVar("_Answer")


def patiently(ask: Callable[[], _Answer]) -> _Answer:
    """The answer to a question that changes nothing. Of very many a busy service refuses some, and
    each would end all of the command. Raises ``UnavailableError``."""
    for _ in range(TRIES - 1):
        try:
            return ask()
        except UnavailableError as error:
            LOG.info("asked again: %s", error)
    return ask()
