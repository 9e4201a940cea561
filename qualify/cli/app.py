"""``nvme-bench``: one table of verbs, each in its own module, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from qualify import VERSION
from qualify.cli.output import EXIT_CODES, BenchInterrupted, interruptible
from qualify.errors import BadInputError, BenchError

VERBS: dict[str, tuple[str, str]] = {
    "run": ("qualify.cli.run", "measure a device, a file or a directory"),
    "show": ("qualify.cli.show", "print a result, or write its report"),
    "compare": ("qualify.cli.compare", "hold a result against an older one"),
    "grade": ("qualify.cli.grade", "name the performance level of given figures"),
}
"""Verb to module and one line of help. A module has ``add_arguments(parser)`` and
``run(arguments) -> int``."""


class _Verb(Protocol):
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error does."""

    def error(self, message: str) -> None:  # type: ignore[override]  # NoReturn by raising
        raise BadInputError(f"{message}; see '{self.prog} --help'")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code; see ``nvme-bench --help``."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        if not given or given[0] not in VERBS:
            # Ends here, by help, version or error: a verb's own options are its module's matter.
            _top().parse_args(given)
        module, parser = _verb(given[0])
        arguments = parser.parse_args(given[1:])
        with interruptible():
            return module.run(arguments)
    except (BenchError, BenchInterrupted) as error:
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
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
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


if __name__ == "__main__":
    sys.exit(main())
