"""What ``nvme-bench``'s verbs share: exit codes, the form of their output, signals."""

from __future__ import annotations

import argparse
import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

EXIT_CODES = """\
exit codes:
  0   done
  1   an error of this host
  2   bad input: nothing was touched
  3   the target is or may be in use, or holds something: nothing was written
  6   fio is missing, failed, or did not answer as it should
  7   compare: slower than allowed, or cells are missing
  8   grade: below every level
  129, 130, 143  interrupted: 'run' with --resume goes on from there
"""

EXIT_SLOWER = 7
EXIT_NO_LEVEL = 8


class BenchInterrupted(BaseException):
    """SIGINT, SIGTERM, or SIGHUP: the terminal or the ssh that it was started from is gone."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_code = 128 + number


def add_format(parser: argparse.ArgumentParser) -> None:
    """The option every verb has."""
    parser.add_argument(
        "-f",
        "--format",
        choices=("json", "table"),
        default="table",
        help="json: one object on stdout, for programs; table: for people (default)",
    )


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turns the first SIGINT, SIGTERM or SIGHUP into :class:`BenchInterrupted`; fio, which has a
    session of its own and would go on, is ended on its way up. nohup's is left ignored."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in old:
            signal.signal(each, signal.SIG_IGN)  # the way up removes files: it is not to be cut
        raise BenchInterrupted(number)

    # stop() reads this when a signal comes, so it stands before the handlers are set.
    old = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    if old[signal.SIGHUP] is signal.SIG_IGN:
        del old[signal.SIGHUP]
    for number in old:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def percent(text: str) -> float:
    """For argparse: a share, from a word in percent."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1000:
        raise argparse.ArgumentTypeError(f"expected percent from 0 on, found {text!r}")
    return value / 100
