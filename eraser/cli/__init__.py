"""``nvme-eraser``: one table of verbs, each in its own module, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from eraser import VERSION
from eraser.cli.output import EXIT_CODES, Interrupted, interruptible
from eraser.errors import BadInputError, EraserError

VERBS: dict[str, tuple[str, str]] = {
    "inspect": ("eraser.cli.inspect", "show a drive and propose what one of its model looks like"),
    "erase": ("eraser.cli.erase", "erase and verify the drive in a slot, or go on with that"),
    "verify": ("eraser.cli.verify", "read a certified drive once more, and compare; read only"),
    "plan": ("eraser.cli.plan", "show what a policy would send to a drive, and send nothing"),
    "host-setup": ("eraser.cli.hostsetup", "keep this host from looking into tenants' drives"),
    "case": ("eraser.cli.case", "run one case for the worker (internal)"),
    "gate": ("eraser.cli.gate", "let guests start on their drives, or refuse; owners, tickets"),
    "keygen": ("eraser.cli.worker", "make this host's key and incarnation"),
    "worker": ("eraser.cli.worker", "take orders from the control plane"),
    "watcher": ("eraser.cli.watcher", "notice when drives vanish from their slots"),
}
"""Verb to module and one line of help. A module has ``add_arguments(parser, verb)`` and
``run(arguments) -> int``."""


class _Verb(Protocol):
    add_arguments: Callable[[argparse.ArgumentParser, str], None]
    run: Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every other error does."""

    def error(self, message: str) -> None:  # type: ignore[override]  # NoReturn by raising
        raise BadInputError(f"{message}; see '{self.prog} --help'")


def _top() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="nvme-eraser",
        description="Erase NVMe drives between tenants, and prove it.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, (_module, text) in VERBS.items():
        # For the list alone: a verb's options come with its module, which is not loaded here.
        verbs.add_parser(name, help=text, add_help=False)
    return parser


def _verb(name: str) -> tuple[_Verb, argparse.ArgumentParser]:
    module_name, text = VERBS[name]
    module = cast(_Verb, importlib.import_module(module_name))
    parser = _Parser(
        prog=f"nvme-eraser {name}",
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log every command to stderr")
    module.add_arguments(parser, name)
    return module, parser


def _check_text(given: Sequence[str]) -> None:
    """Raises :class:`BadInputError`: what people say is kept in files that are UTF-8."""
    for argument in given:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise BadInputError(f"expected arguments in UTF-8, found {argument!r}") from error


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Returns the exit code; see ``nvme-eraser --help``."""
    given = list(sys.argv[1:] if argv is None else argv)
    try:
        _check_text(given)
        if not given or given[0] not in VERBS:
            # Prints help or the version and exits, or raises: it does not come back.
            _top().parse_args(given)
        module, parser = _verb(given[0])
        arguments = parser.parse_args(given[1:])
        logging.basicConfig(
            # A command that a drive refuses is often an answer; the report says what mattered.
            level=logging.DEBUG if arguments.verbose else logging.ERROR,
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
            stream=sys.stderr,
        )
        with interruptible():
            return module.run(arguments)
    except Interrupted as error:
        print(f"nvme-eraser: {error}", file=sys.stderr)
        return error.exit_code
    except EraserError as error:
        print(f"nvme-eraser: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        # Of the other verbs no case is concerned: what they were at, they do as a whole or not.
        stays = "the case stays as it is, " if given[0] in ("erase", "case") else ""
        print(f"nvme-eraser: {error}; {stays}call again", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
