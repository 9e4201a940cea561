"""How far apart the clocks of the control plane's own machines may be, and what follows."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

CLOCKS_APART: Final = timedelta(seconds=60)
"""The control plane's processes may run on two machines: so far their clocks may be apart. What is
noted of later than that was noted before our clock was set back."""


def is_to_come(at: datetime, now: datetime) -> bool:
    """Noted before our clock was set back: when that was nobody knows any more."""
    return at - now > CLOCKS_APART


def last_word(heard: datetime, began: datetime, now: datetime) -> datetime:
    """Since when a host that was heard at ``heard`` may be called silent.

    While we were stopped, until ``began``, nobody could be heard. A time to come was noted before
    our clock was set back: nobody was heard since.
    """
    return began if is_to_come(heard, now) else max(heard, began)
