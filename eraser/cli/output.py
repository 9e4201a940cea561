"""What ``nvme-eraser`` shows: exit codes, progress on stderr, one result on stdout, signals."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TextIO

from eraser.errors import (
    BusyError,
    DriveError,
    IdentityError,
    InUseError,
)
from eraser.host import proc
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.protocol.report import EraseReport, Outcome, Step, Verdict

EXIT_CODES = """\
exit codes:
  0   done; for erase: erased, verified, and fit to be handed out
  1   the verdict is unknown (for verify: blocks cannot be read), or an error of this host
  2   bad input: nothing was touched
  3   the drive is or may be in use: nothing was sent to it
  4   another drive than expected, or not unique: nothing was sent to it
  5   another process works on the slot: try again later
  6   the drive or its driver did not answer as it should, or is absent
  7   erased, but not fit to be handed out (health, profile, policy)
  8   not erased; for verify: the drive does not read as it was certified
  9   an order or a ticket that is not for this host as it is now
  10  the policy allows no method that the drive offers: nothing was sent to it
  11  the guest must not start on its drives; or the ticket is not valid
  130, 143  interrupted: the same command goes on from there
"""

EXIT_UNKNOWN = 1
EXIT_UNFIT = 7
EXIT_NOT_ERASED = 8
EXIT_NO_METHOD = 10

_OUTCOMES = {
    Outcome.IN_USE: InUseError.exit_code,
    Outcome.WRONG_DRIVE: IdentityError.exit_code,
    Outcome.NO_METHOD: EXIT_NO_METHOD,
    Outcome.ABSENT: DriveError.exit_code,
}


def tell_blind(host: Host) -> None:
    """Says where an erase would be refused, for what only reads a drive goes on there."""
    if why := proc.blind(host):
        print(f"nvme-eraser: from here no drive is erased: {why}", file=sys.stderr)


def exit_code(report: EraseReport) -> int:
    """0 only for a drive that is erased and fit."""
    if report.outcome is not Outcome.COMPLETED:
        return _OUTCOMES[report.outcome]
    if report.verdict is Verdict.NOT_ERASED:
        return EXIT_NOT_ERASED
    if report.verdict is Verdict.UNKNOWN:
        return EXIT_UNKNOWN
    return 0 if report.fit else EXIT_UNFIT


@dataclass(frozen=True)
class Summary:
    """The one object that ``erase -f json`` prints."""

    verdict: Verdict
    fit: bool
    reasons: tuple[str, ...]
    report: str | None
    """Path of the whole report; none where the case has not ended."""
    outcome: str
    slot: str
    serial: str
    model: str
    asked: str
    achieved: str
    downgraded: bool
    methods: tuple[str, ...]
    sentence: str
    resumed: int
    seconds: dict[str, float]

    @classmethod
    def of(cls, report: EraseReport, path: Path) -> Summary:
        """From a report and where it is kept."""
        identity, proof = report.identity, report.verification
        return cls(
            verdict=report.verdict,
            fit=report.fit,
            reasons=report.reasons,
            report=str(path),
            outcome=report.outcome.value,
            slot=str(report.slot),
            serial="" if identity is None else identity.serial,
            model="" if identity is None else identity.model,
            asked=report.asked.value,
            achieved="" if report.achieved is None else report.achieved.value,
            downgraded=report.downgraded,
            methods=tuple(f"{m.method.value}: {m.verdict.value}" for m in report.methods),
            sentence="" if proof is None else proof.sentence,
            resumed=report.resumed,
            seconds=report.seconds,
        )

    @classmethod
    def of_error(cls, error: Exception, slot: str) -> Summary:
        """The case did not end in a report."""
        kind = "busy" if isinstance(error, BusyError) else "error"
        return cls(
            Verdict.UNKNOWN, False, (str(error),), None, kind, slot, "", "", "", "", False, (), "",
            0, {},
        )  # fmt: skip


def add_format(parser: argparse.ArgumentParser) -> None:
    """The option every verb has."""
    parser.add_argument(
        "-f",
        "--format",
        choices=("json", "table"),
        default="table",
        help="json: one object on stdout; table: for people (default)",
    )


def printable(text: str) -> str:
    """A drive's own words without what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


def show(value: object, form: str) -> None:
    """A dataclass or plain value on stdout: one JSON object, or a line per member."""
    plain = codec.plain(value)
    if form == "json":
        print(json.dumps(plain, ensure_ascii=True, sort_keys=False))
        return
    for name, item in plain.items():
        if isinstance(item, list):
            item = "; ".join(map(str, item))
        elif isinstance(item, dict):
            item = ", ".join(f"{key} {entry}" for key, entry in item.items())
        print(f"{name:<10} {printable(str(item))}")


class ProgressLine:
    """A bar that is redrawn on a terminal; elsewhere a line per step and per tenth."""

    _WIDTH = 24
    _PAUSE = 0.1

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._shown: tuple[Step, int] | None = None
        self._at = 0.0
        self._dirty = False

    def __call__(self, step: Step, fraction: float, detail: str) -> None:
        """Shows one look. Whoever read it may have gone: that ends no erase."""
        with contextlib.suppress(OSError):
            self._show(step, fraction, detail)

    def _show(self, step: Step, fraction: float, detail: str) -> None:
        tenth = (step, int(fraction * 10))
        if self._live:
            now = time.monotonic()
            # A terminal shows no more than some ten lines a second; a new step always shows.
            if now - self._at < self._PAUSE and self._shown is not None and self._shown[0] is step:
                return
            self._at = now
            self._draw(step, fraction, detail)
        elif tenth != self._shown:
            print(f"{step.value} {fraction:4.0%} {printable(detail)}".rstrip(), file=self._stream)
        self._shown = tenth

    def _draw(self, step: Step, fraction: float, detail: str) -> None:
        full = int(fraction * self._WIDTH)
        bar = "#" * full + "." * (self._WIDTH - full)
        line = f"{step.value:<11} [{bar}] {fraction:4.0%} {printable(detail)}"
        columns = shutil.get_terminal_size().columns
        # One column is left free: on a full line a terminal may wrap.
        self._stream.write(f"\r\x1b[K{line[: columns - 1]}")
        self._stream.flush()
        self._dirty = True

    def close(self) -> None:
        """Leaves the line to what comes next."""
        if self._dirty:
            with contextlib.suppress(OSError):
                self._stream.write("\n")
                self._stream.flush()
            self._dirty = False


# No Exception: what handles errors of a drive on the way must not take it for one.
class Interrupted(BaseException):
    """SIGINT or SIGTERM. The drive goes on by itself with a sanitize that has begun."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"interrupted by {signal.Signals(number).name}; a sanitize or format that has begun "
            "goes on in the drive; call the same command again to go on from there"
        )
        self.exit_code = 128 + number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turns SIGINT and SIGTERM into :class:`Interrupted`."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    old = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def read_file(path: Path, what: str) -> bytes:
    """A file that the caller named, no more of it than the codec takes (it may be /dev/zero).

    Raises :class:`BadInputError`.
    """
    from eraser.errors import BadInputError

    try:
        with path.open("rb") as file:
            # One byte more: the codec sees that it is too long.
            return file.read(codec.MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{what}: expected a file {path}, found {error.strerror}") from error


def stderr_progress() -> ProgressLine:
    """Progress where stdout stays clean."""
    return ProgressLine(sys.stderr)
