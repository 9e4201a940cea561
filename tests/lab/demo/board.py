"""Shows slots as they move: a table drawn in place on a terminal, a line per change elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, TextIO

from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State

_COLOURS: Final = {
    State.AVAILABLE: "32",
    State.HELD: "31",
    State.RETIRED: "31",
    State.IN_USE: "36",
    State.CERTIFIED: "32",
}
_BAR: Final = 16


class Board:
    """Writes to ``out`` (standard error: standard output belongs to machines)."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._live = self._out.isatty()
        self._drawn = 0
        self._last: dict[str, tuple[object, ...]] = {}
        self._started = time.monotonic()

    def say(self, text: str, *, title: bool = False) -> None:
        """One line of the story."""
        self._drawn = 0
        elapsed = time.monotonic() - self._started
        line = f"[{elapsed:6.1f} s] {text}"
        if title and self._live:
            line = f"\033[1m{line}\033[0m"
        print(line, file=self._out, flush=True)

    def show(self, records: Sequence[tuple[str, SlotRecord]]) -> None:
        """The slots as they are now; each with its drive's serial as the lab names it."""
        if self._live:
            self._draw(records)
            return
        for serial, record in records:
            change = (record.state, record.step)
            if self._last.get(record.slot.address) != change:
                self._last[record.slot.address] = change
                self.say(f"  {_row(serial, record)}")

    def _draw(self, records: Sequence[tuple[str, SlotRecord]]) -> None:
        width = shutil.get_terminal_size().columns - 1
        if self._drawn:
            self._out.write(f"\033[{self._drawn}A")
        for serial, record in records:
            colour = _COLOURS.get(record.state, "33")
            self._out.write(f"\033[2K\033[{colour}m{_row(serial, record)[:width]}\033[0m\n")
        self._out.flush()
        self._drawn = len(records)


def _row(serial: str, record: SlotRecord) -> str:
    seconds = (datetime.now(UTC) - record.entered_at).total_seconds()
    return (
        f"  {record.slot.address}  {serial[:14]!r:16}  {record.state:<12} {seconds:6.1f} s  "
        f"{_doing(record)}"
    ).rstrip()


def _doing(record: SlotRecord) -> str:
    if record.state in (State.HELD, State.RETIRED):
        return record.reason
    if record.state not in (State.ERASING, State.VERIFYING) or record.step is None:
        return ""
    full = round(record.fraction * _BAR)
    bar = "█" * full + "·" * (_BAR - full)
    return f"{record.step:<12} {bar} {record.fraction:4.0%} {record.detail}"
