"""The time for people to read. Nothing is ever decided on it (promise 4: no two clocks agree)."""

from __future__ import annotations

import datetime


def utc_now() -> str:
    """Now in UTC, ISO 8601 with milliseconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
