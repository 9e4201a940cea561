"""What every command is made of: one line for bad input, and values for people and machines."""

from __future__ import annotations

import argparse
import enum
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cliff import command, lister, show
from cliff.display import DisplayCommandBase
from cliff.formatters.base import FormatterT, ListFormatter, SingleFormatter

from eraser.protocol.errors import EraserError
from quarantine.cli.output import age, plain, text, warn
from quarantine.cli.sources.source import Columns
from quarantine.errors import BadInputError, QuarantineError

if TYPE_CHECKING:
    from stevedore import ExtensionManager

    from quarantine.cli.sources.source import Source
    from quarantine.operations.plane import Plane

EXIT_CODES: Final = """\
exit codes:
  0    done
  1    another error
  2    malformed option, file or configuration; nothing was changed
  3    somebody else changed the record first; look again
  4    not possible from the slot's present state
  5    a message was refused
  6    Placement, the broker or the database does not answer
  7    a certificate or the chain of certificates does not hold
  8    the API does not know who asks, or does not let them
  130  interrupted
"""

EXIT_BROKEN: Final = 7
"""A certificate or the chain does not hold."""

MACHINES: Final = frozenset({"json", "yaml"})
"""Formats that keep numbers, lists and members as such."""
_FORMULAE: Final = ("=", "+", "-", "@", "\t", "\r")

REMOTE_LIMIT: Final = 1000
"""Entries of a list that comes from an API, where neither a number nor all are asked for."""


class OneLineParser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line, like all others of this program."""

    def error(self, message: str) -> NoReturn:
        """Raises ``BadInputError``, where argparse would print its usage and exit."""
        raise BadInputError(f"{message}; see {self.prog} --help")


class _TextParser(argparse.ArgumentParser):
    """Takes no text that is none. Files may have any name, and are left alone."""

    def parse_args(self, *given: Any, **more: Any) -> Any:
        """As argparse does it."""
        found = super().parse_args(*given, **more)
        for name, value in vars(found).items():
            texts = value if isinstance(value, list) else [value]
            # Python keeps bytes that are no text of the locale as half a surrogate pair each (PEP
            # 383), which no database takes: it would call the row that is asked for damaged.
            if name not in _WITH_FILES and not all(map(_is_text, texts)):
                self.error(f"{name}: expected text in the locale's encoding, found other bytes")
        return found


def _is_text(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


_WITH_FILES: Final = frozenset({"nova_conf"})
"""Arguments that are texts with a file's name in them; other files are paths."""


class CommandParser(_TextParser, OneLineParser):
    """Of one command in our own shell."""


class EndingParser(_TextParser):
    """The same in a shell of others: it ends the process, as all parsers do there."""

    def error(self, message: str) -> NoReturn:
        warn(f"{message}; see {self.prog} --help")
        self.exit(BadInputError.exit_code)


class ControlCommand(command.Command):
    """A command that prints what it likes."""

    exit_codes = EXIT_CODES

    def _load_hooks(self) -> None:
        self._hooks = []  # nobody plugs into our commands: no search of what is installed

    def get_epilog(self) -> str:
        """The exit codes."""
        return self.exit_codes

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The command's own arguments; cliff adds those of its formats."""
        parser = (EndingParser if self.remote else CommandParser)(
            prog=prog_name,
            description=self.get_description(),
            epilog=self.get_epilog(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.arguments(parser)
        return parser

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""

    def configured(self, parsed_args: argparse.Namespace) -> bool:
        """Whether it needs the control plane's configuration."""
        return True

    @property
    def remote(self) -> bool:
        """The shell is the ``openstack`` program: what is asked for comes from a cloud's API."""
        # Only the shell of the openstack program has one.
        return "client_manager" in vars(self.app)

    @property
    def source(self) -> Source:
        """Where what is shown comes from."""
        if self.remote:
            manager: Any = vars(self.app)["client_manager"]
            found: Source = manager.nvme  # see quarantine/osc/plugin.py
            return found
        # What it loads takes a while, and the other one needs none of it.
        from quarantine.cli.sources.store import StoreSource

        return StoreSource(self.plane)

    @property
    def plane(self) -> Plane:
        """The control plane of the shell's configuration; the default one in a shell of others."""
        from quarantine.operations.plane import Plane

        return Plane(getattr(self.app_args, "config_file", ()))


class _Formatted(DisplayCommandBase[FormatterT], ControlCommand):
    """Values in one of cliff's formats."""

    ages: frozenset[str] = frozenset()
    """Times that a table shows as how long ago."""
    exit_code = 0
    """What the command ends with when all is printed."""

    def _load_formatter_plugins(self) -> ExtensionManager[FormatterT]:
        found = super()._load_formatter_plugins()
        # It quotes no $( ): a drive's name would run in the shell that evaluates the answer.
        found.extensions = [one for one in found.extensions if one.name != "shell"]
        return found

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args) or self.exit_code
        except (QuarantineError, EraserError) as error:
            # Our own shell ends with the error's code by itself.
            if not self.remote:
                raise
            # A shell of others ends with 1 for everything.
            warn(str(error))
            return error.exit_code

    def human(self, name: str, value: Any) -> Any:
        """A value as a table has it, before it is made text."""
        return f"{age(value)} ago" if name in self.ages and isinstance(value, datetime) else value

    def _cell(self, parsed_args: argparse.Namespace, name: str, value: Any) -> Any:
        if parsed_args.formatter in MACHINES:
            return plain(value)
        # Other formats have the time itself: how long ago is for reading a table.
        cell = text(self.human(name, value) if parsed_args.formatter == "table" else value)
        csv = parsed_args.formatter == "csv" and isinstance(cell, str)
        if csv and str(cell).startswith(_FORMULAE):
            # A spreadsheet would work it out, and a drive or a host chose it.
            return f"'{cell}"
        return cell

    def _generate_columns_and_selector(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str]
    ) -> tuple[list[str], list[bool] | None]:
        try:
            return super()._generate_columns_and_selector(parsed_args, column_names)
        except ValueError as error:
            # cliff raises it for a column that there is not.
            raise BadInputError(f"--column: {error}") from error


class Lister(_Formatted[ListFormatter], lister.Lister):
    """A command that lists things."""

    table: tuple[str, ...] = ()
    """The columns of a table where none are chosen; all by default."""
    need_sort_by_cliff = False
    """It would sort what is shown: as text "9m05s ago" comes after "10m00s ago"."""

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        # Programs get every column: one more among theirs breaks none that goes by names.
        if parsed_args.formatter == "table" and not parsed_args.columns:
            # An API says less of some things.
            parsed_args.columns = [name for name in self.table if name in column_names]
        # One by one: a long list is printed while it is read, in the formats that can.
        rows = (
            [self._cell(parsed_args, *pair) for pair in zip(column_names, row, strict=True)]
            for row in self._sorted(parsed_args, column_names, data)
        )
        return super().produce_output(parsed_args, column_names, rows)

    def listed(
        self,
        parsed_args: argparse.Namespace,
        ask: Callable[[int | None], Columns],
        *,
        bounded: bool = False,
    ) -> Columns:
        """As much of a list as :func:`list_arguments` asks for. That there is more is said where
        nobody chose how much. ``bounded``: a list that is begun wherever it is asked for."""
        # Whoever said how much gets that. The record here is read whole where nobody did, an API is
        # not.
        if parsed_args.limit is not None or parsed_args.all or not (self.remote or bounded):
            return ask(parsed_args.limit)
        # One more than is shown, to know whether there is more.
        names, rows = ask(REMOTE_LIMIT + 1)
        return names, _begun(rows)

    def _sorted(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> Iterable[Sequence[Any]]:
        """By the columns that are asked for, the first one above all, as cliff does it."""
        if not parsed_args.sort_columns:
            return data
        # From the last wanted column to the first: sorting is stable.
        rows, names = list(data), [self._normalize_column_name(name) for name in column_names]
        for wanted in reversed(parsed_args.sort_columns):
            column = self._normalize_column_name(wanted)
            if column in names:
                at = names.index(column)
                rows.sort(
                    key=lambda row: self._order(column_names[at], row[at]),
                    reverse=parsed_args.sort_direction == "desc",
                )
        return rows

    def _order(self, name: str, value: Any) -> tuple[int, float, str]:
        """Numbers and times by size, then texts, then what is not there."""
        found = value if isinstance(value, datetime) else self.human(name, value)
        if found is None:
            return 2, 0.0, ""
        if isinstance(found, datetime):
            return 0, found.timestamp(), ""
        if isinstance(found, int | float):
            return 0, float(found), ""
        return 1, 0.0, str(text(found))


class ShowOne(_Formatted[SingleFormatter], show.ShowOne):
    """A command that shows one thing."""

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Sequence[Any],
    ) -> int:
        pairs = zip(column_names, data, strict=True)
        values = [self._cell(parsed_args, *pair) for pair in pairs]
        return super().produce_output(parsed_args, column_names, values)


def slot_argument(parser: argparse.ArgumentParser) -> None:
    """The positional SLOT."""
    parser.add_argument("slot", metavar="SLOT", help="HOST/PCI-ADDRESS, as in cmp1/0000:01:00.0")


def file_argument(parser: argparse.ArgumentParser, words: str) -> None:
    """The positional FILE."""
    parser.add_argument("file", type=Path, metavar="FILE", help=words)


def by_argument(parser: argparse.ArgumentParser, *, remote: bool) -> None:
    """``--by``, where nobody else says who decides: an API knows who asks."""
    if remote:
        parser.set_defaults(by="")
    else:
        parser.add_argument("--by", required=True, metavar="NAME", help="who decides")


def choices(kind: type[enum.StrEnum]) -> tuple[str, ...]:
    """Words of ours to choose from, as they are typed: argparse would name them as Python does."""
    return tuple(one.value for one in kind)


def version(text: str) -> str:
    """Of ``--seen``. A script that lost it must not decide about whatever is there now.

    Raises ``ArgumentTypeError`` for an empty one.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("expected a version as it was shown, found none")
    return text


def _begun(rows: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    for number, row in enumerate(rows):
        if number == REMOTE_LIMIT:
            warn(f"these are the first {REMOTE_LIMIT}, and there are more: --limit N, or --all")
            return
        yield row


def list_arguments(parser: argparse.ArgumentParser, *, bounded: bool = False) -> None:
    """How much of a list. ``bounded``: one that nobody gets whole who did not say so."""
    default = REMOTE_LIMIT if bounded else f"all, in the openstack program {REMOTE_LIMIT}"
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--limit",
        type=_count,
        metavar="N",
        help=f"at most so many; default: {default}",
    )
    group.add_argument("--all", action="store_true", help="all, however many they are")


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0  # argparse would tell it by the name of this function
    if count < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, found {text[:40]!r}")
    # islice() takes none that is larger, and nobody has so many.
    return min(count, sys.maxsize)
