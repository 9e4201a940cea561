"""What the control plane asks of the machine below it: clocks and chance.

One process has one :class:`Doors`; :class:`quarantine.service.assembly.Assembly` gives each part
what it needs of them. A simulated site hands in others and runs the service on its own time.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

Clock = Callable[[], datetime]
"""Wall time, for people and for the record."""
Monotonic = Callable[[], float]
"""Seconds that never go back; only their differences mean something."""


def utc_now() -> datetime:
    """The control plane's own clock. No other machine's time is ever compared with it."""
    return datetime.now(UTC)


def new_uuid() -> str:
    """A random one, RFC 9562 version 4."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Doors:
    """By default this machine's own."""

    monotonic: Monotonic = time.monotonic
    now: Clock = utc_now
    uuid: Callable[[], str] = new_uuid
    token: Callable[[int], str] = secrets.token_hex
    """That many random bytes, hexadecimal."""


MACHINE: Final = Doors()
