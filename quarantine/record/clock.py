"""The control plane's own clock. No database."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

Clock = Callable[[], datetime]

CLOCKS_APART: Final = timedelta(seconds=60)
"""The control plane's processes may run on two machines: so far their clocks may be apart. What is
noted of later than that was noted before our clock was set back."""


def utc_now() -> datetime:
    """The control plane's own clock. No other machine's time is ever compared with it."""
    return datetime.now(UTC)
