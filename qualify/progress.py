"""How far a run is: a bar that is redrawn on a terminal, elsewhere a line per tenth."""

from __future__ import annotations

import shutil
import time
from typing import Final, TextIO

_WIDTH: Final = 24


def clock(seconds: float) -> str:
    """``1:02:03``, ``2:03``."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class ProgressBar:
    """Counts runs of equal length. How long one really takes is learned from those that ended."""

    def __init__(self, stream: TextIO, asked: float) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._asked = asked
        """Seconds that a run of fio works; starting and ending it comes on top."""
        self._ended: list[float] = []
        self._began = time.monotonic()
        self._tenth = -1
        self._dirty = False
        self.words = ""
        """What is going on."""

    @property
    def _each(self) -> float:
        return sum(self._ended) / len(self._ended) if self._ended else self._asked

    def start(self, words: str, *, announce: bool = False) -> None:
        """A run of fio begins; ``announce`` says so at once where there is no bar."""
        self.words = words
        if announce and not self._live:
            print(words, file=self._stream, flush=True)
        self._began = time.monotonic()

    def end(self) -> None:
        """It ended; so long do runs take."""
        self._ended.append(time.monotonic() - self._began)

    def left(self, runs: int, passed: float) -> float:
        """Seconds until ``runs`` more are done, of which one has gone on for ``passed``."""
        return max(0.0, runs * self._each - min(passed, self._each))

    def show(self, done: int, runs: int, passed: float, rate: str = "") -> None:
        """``done`` of ``runs`` have ended; the one under way began ``passed`` seconds ago."""
        fraction = min(1.0, (done + min(passed / max(self._each, 0.001), 1.0)) / max(runs, 1))
        text = f"{fraction:4.0%} {self.words}, {clock(self.left(runs - done, passed))} left{rate}"
        full = int(fraction * _WIDTH)
        if self._live:
            self._draw(f"[{'#' * full}{'.' * (_WIDTH - full)}] {text}")
        elif int(fraction * 10) != self._tenth:
            self._tenth = int(fraction * 10)
            print(text.strip(), file=self._stream, flush=True)

    def wait(self, passed: float) -> None:
        """Something of unknown length goes on since ``passed`` seconds."""
        if self._live:
            self._draw(f"{self.words}, {clock(passed)} so far")

    def _draw(self, line: str) -> None:
        # To the line's start, and erase it. A column stays free, so that the line does not wrap.
        self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        self._stream.flush()
        self._dirty = True

    def close(self) -> None:
        """Leaves the line to what comes next."""
        if self._dirty:
            self._stream.write("\n")
            self._stream.flush()
            self._dirty = False
