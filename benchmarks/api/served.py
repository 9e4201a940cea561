"""What a server of WSGI used, its processes and their children, by /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu(top: int) -> float:
    """Seconds that a process and its children used."""
    seconds = 0.0
    for pid in _family(top):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            seconds += (int(fields[11]) + int(fields[12])) / _TICK
    return seconds


def forget_peak(top: int) -> None:
    """The most memory counts from now on. Raises ``OSError`` for who may not say so."""
    for pid in _family(top):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib(top: int) -> float:
    """The most memory that one process of the family had, since it was forgotten last."""
    found = [0.0]
    for pid in _family(top):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                found.append(int(line.split()[1]) / 1024)
    return max(found)


def _family(top: int) -> Iterator[int]:
    """Some of a database's end meanwhile."""
    children: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{top}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    yield top
    for child in children:
        yield from _family(child)
