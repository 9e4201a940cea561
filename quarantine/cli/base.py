"""What every command is made of: one line for bad input, and values for people and machines."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cliff import command, lister, show
from cliff.display import DisplayCommandBase
from cliff.formatters.base import FormatterT, ListFormatter, SingleFormatter

from eraser.protocol.identity import Slot
from quarantine.cli.output import age, plain, text
from quarantine.errors import BadInputError

if TYPE_CHECKING:
    from stevedore import ExtensionManager

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
  130  interrupted
"""

EXIT_BROKEN: Final = 7
"""A certificate or the chain does not hold."""

MACHINES: Final = frozenset({"json", "yaml"})
_FORMULAE: Final = ("=", "+", "-", "@", "\t", "\r")
"""Formats that keep numbers, lists and members as such."""

Columns = tuple[Sequence[str], Iterable[Sequence[Any]]]
Members = tuple[Sequence[str], Sequence[Any]]


class OneLineParser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line, like all others of this program."""

    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message}; see {self.prog} --help")


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
        parser = OneLineParser(
            prog=prog_name,
            description=self.get_description(),
            epilog=self.get_epilog(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.arguments(parser)
        return parser

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds the command's arguments."""

    @property
    def plane(self) -> Plane:
        """The control plane of the shell's configuration; the default one in a shell of others."""
        from quarantine.operations.plane import Plane

        return Plane(getattr(self.app_args, "config_file", ()))


class _Formatted(DisplayCommandBase[FormatterT]):
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
        return super().run(parsed_args) or self.exit_code

    def human(self, name: str, value: Any) -> Any:
        """A value as a table has it, before it is made text."""
        return f"{age(value)} ago" if name in self.ages and isinstance(value, datetime) else value

    def _cell(self, parsed_args: argparse.Namespace, name: str, value: Any) -> Any:
        if parsed_args.formatter in MACHINES:
            return plain(value)
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
            raise BadInputError(f"--column: {error}") from error


class Lister(_Formatted[ListFormatter], lister.Lister, ControlCommand):
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
        if parsed_args.formatter == "table" and not parsed_args.columns:
            parsed_args.columns = list(self.table)
        rows = [
            [self._cell(parsed_args, *pair) for pair in zip(column_names, row, strict=True)]
            for row in self._sorted(parsed_args, column_names, data)
        ]
        return super().produce_output(parsed_args, column_names, rows)

    def _sorted(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> list[Sequence[Any]]:
        """By the columns that are asked for, the first one above all, as cliff does it."""
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


class ShowOne(_Formatted[SingleFormatter], show.ShowOne, ControlCommand):
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


def rows_of(kind: type[Any], found: Iterable[Any]) -> Columns:
    """The fields of dataclasses as columns."""
    names = [field.name for field in fields(kind)]
    return names, [[getattr(one, name) for name in names] for one in found]


def members_of(one: Any) -> Members:
    """The fields of a dataclass."""
    names, (row,) = rows_of(type(one), [one])
    return names, row


def slot(words: str) -> Slot:
    """HOST/PCI-ADDRESS from the command line. Raises :class:`BadInputError`."""
    try:
        return Slot.parse(words)
    except ValueError as error:
        raise BadInputError(f"slot: {error}; write HOST/0000:01:00.0") from error


def slot_argument(parser: argparse.ArgumentParser) -> None:
    """The positional SLOT."""
    parser.add_argument("slot", metavar="SLOT", help="HOST/PCI-ADDRESS, as in cmp1/0000:01:00.0")


def file_argument(parser: argparse.ArgumentParser, words: str) -> None:
    """The positional FILE."""
    parser.add_argument("file", type=Path, metavar="FILE", help=words)
