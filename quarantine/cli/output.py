"""What commands print: one table or one JSON value on stdout, one line per error on stderr."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from eraser.protocol import codec
from quarantine.service.issue.registrar import iso


def plain(value: Any) -> Any:
    """Dataclasses, enums and times as JSON values."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    flat = codec.plain(value)
    return plain(flat) if isinstance(flat, dict | list) else flat


def show_json(value: Any) -> None:
    """One JSON value, for machines."""
    print(json.dumps(plain(value), indent=2, sort_keys=True, ensure_ascii=True), flush=True)


def clean(text: str) -> str:
    """Text for a terminal: what a drive calls itself must not move the cursor."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def show_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns as wide as they need; the last one is cut to the terminal's width."""
    lines = [[clean("" if cell is None else str(cell)) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *lines, strict=True)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    for line in (list(head), *lines):
        padded = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print(padded.rstrip()[:room])
    sys.stdout.flush()


def show_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, one per line."""
    pairs = [(name, clean("" if value is None else str(value))) for name, value in fields]
    width = max((len(name) for name, _value in pairs), default=0)
    for name, value in pairs:
        print(f"{name.ljust(width)}  {value}".rstrip())
    sys.stdout.flush()


def warn(text: str) -> None:
    """One line on stderr."""
    print(f"nvme-quarantine: {' '.join(clean(text).split())}", file=sys.stderr, flush=True)


def age(since: datetime | None, now: datetime | None = None) -> str:
    """How long ago, on our own clock: ``12s``, ``3m05s``, ``2h10m``, ``4d``."""
    if since is None:
        return ""
    seconds = int(((now or datetime.now(UTC)) - since).total_seconds())
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{seconds // 86400}d"
