"""``nvme-bench``: one table of verbs, each in its own module, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Protocol, cast

from qualify.errors import BadInputError, BenchError

VERBS: dict[str, tuple[str, str]] = {
    "run": ("qualify.cli_run", "measure a device, a file or a directory"),
    "show": ("qualify.cli_show", "print a result, or write its report"),
    "compare": ("qualify.cli_compare", "hold a result against an older one"),
    "grade": ("qualify.cli_grade", "name the performance level of given figures"),
}
"""Verb to module and one line of help. A module has ``add_arguments(parser)`` and
``run(arguments) -> int``."""

EXIT_CODES = """\
exit codes:
  0   done
  1   an error of this host
  2   bad input: nothing was touched
  3   the target is or may be in use, or holds something: nothing was written
  6   fio is missing, failed, or did not answer as it should
  7   compare: slower than allowed, or cells are missing
  8   grade: below every level
  130, 143  interrupted: 'run' with --resume goes on from there
"""

EXIT_SLOWER = 7
EXIT_NO_LEVEL = 8


class Interrupted(BaseException):
    """SIGINT or SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class _Verb(Protocol):
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error does."""

    def error(self, message: str) -> None:  # type: ignore[override]  # NoReturn by raising
        raise BadInputError(f"{message}; see '{self.prog} --help'")


def add_format(parser: argparse.ArgumentParser) -> None:
    """The option every verb has."""
    parser.add_argument(
        "-f",
        "--format",
        choices=("json", "table"),
        default="table",
        help="json: one object on stdout, for programs; table: for people (default)",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code; see ``nvme-bench --help``."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if not given or given[0] not in VERBS:
            _top().parse_args(given)
        module, parser = _verb(given[0])
        arguments = parser.parse_args(given[1:])
        with _interruptible():
            return module.run(arguments)
    except (BenchError, Interrupted) as error:
        print(f"nvme-bench: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"nvme-bench: {error}", file=sys.stderr)
        return 1


def _top() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nvme-bench",
        description="Measure drives and arrays with fio, grade them, and compare results.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (_module, text) in VERBS.items():
        verbs.add_parser(name, help=text, add_help=False)
    return parser


def _verb(name: str) -> tuple[_Verb, argparse.ArgumentParser]:
    module_name, text = VERBS[name]
    module = cast(_Verb, importlib.import_module(module_name))
    parser = _Parser(
        prog=f"nvme-bench {name}",
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return module, parser


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Turns the first SIGINT or SIGTERM into :class:`Interrupted`; fio is ended on its way up."""

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in old:
            signal.signal(each, signal.SIG_IGN)  # the way up removes files: it is not to be cut
        raise Interrupted(number)

    old = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    for number in old:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
