"""What values look like: as JSON for machines, as text that moves no cursor for people."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine.logs import clean


class Lines(str):
    """Text of ours with several lines; any other text is one line, whatever is in it."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """Slots, dataclasses, enums and times as JSON values."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    # Lines too: YAML's safe writer takes no subclass of str.
    if isinstance(value, Slot | Path | Lines):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    # What is inside of a dataclass may be a time or a slot again.
    flat = codec.plain(value)
    return plain(flat) if isinstance(flat, dict | list) else flat


def text(value: Any) -> str | int | float:
    """For a terminal: what a drive calls itself must not move the cursor."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    if isinstance(value, Lines):
        return "\n".join(map(clean, value.split("\n")))
    if isinstance(value, list | tuple):
        return "\n".join(str(text(item)) for item in value)
    # One without words of its own is shown as its members.
    mute = dataclasses.is_dataclass(value) and "__str__" not in vars(type(value))
    if mute or isinstance(value, Mapping):
        return json.dumps(plain(value), indent=2, sort_keys=True)
    return clean(str(value))


def warn(words: str) -> None:
    """One line on stderr."""
    print(f"nvme-quarantine: {' '.join(clean(words).split())}", file=sys.stderr, flush=True)


def age(since: datetime) -> str:
    """How long ago, on our own clock: ``12s``, ``3m05s``, ``2h10m``, ``4d``."""
    return _length(int((datetime.now(UTC) - since).total_seconds()))


def until(at: datetime) -> str:
    """In how long, likewise: ``in 3m05s``."""
    return f"in {_length(max(int((at - datetime.now(UTC)).total_seconds()), 0))}"


def _length(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{seconds // 86400}d"
