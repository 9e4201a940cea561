"""The commands as docs/cli.md has them: ``tools/samples`` writes it from the classes.

Only what the commands themselves take: what cliff adds for formats depends on its release.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from quarantine.cli.app import COMMANDS, Commands, Shell
from quarantine.cli.base import ControlCommand, Lister


def table() -> str:
    """All but the page's heading."""
    return "\n".join(_page()).rstrip()


def _page() -> Iterator[str]:
    shell = Shell()
    for noun, words in groupby(sorted(COMMANDS), lambda name: name.partition(" ")[0]):
        yield f"## {noun}"
        for name in words:
            made, _name, _rest = Commands().find_command(name.split())
            command: Any = made(shell, argparse.Namespace(config_file=[]), cmd_name=name)
            yield from _command(name, command)


def _command(name: str, command: ControlCommand) -> Iterator[str]:
    yield f"### `nvme-quarantine {name}`"
    yield inspect.getdoc(type(command)) or ""
    yield ""
    parser = argparse.ArgumentParser(add_help=False)
    command.arguments(parser)
    lines = list(_arguments(parser))
    if lines:
        yield from ("| Argument | |", "|---|---|", *lines, "")
    if isinstance(command, Lister) and command.table:
        columns = ", ".join(f"`{column}`" for column in command.table)
        yield from (f"Columns of a table: {columns}.", "")


def _arguments(parser: argparse.ArgumentParser) -> Iterator[str]:
    # Only argparse itself knows which arguments exclude each other.
    groups = {
        id(action): group
        for group in parser._mutually_exclusive_groups
        for action in group._group_actions
    }
    for action in parser._actions:
        said = [(action.help or "") % {**vars(action), "prog": parser.prog}]
        group = groups.get(id(action))
        if group is not None:
            others = (_name(one) for one in group._group_actions if one is not action)
            said.append(f"not with {', '.join(others)}")
        is_one_of = group is not None and group.required
        if is_one_of:
            said.append("one of them is needed")
        elif action.required and action.option_strings:
            said.append("needed")
        yield f"| {_spelled(action)} | {_cell('; '.join(filter(None, said)))} |"


def _name(action: argparse.Action) -> str:
    return f"`{action.option_strings[-1] if action.option_strings else _metavar(action)}`"


def _spelled(action: argparse.Action) -> str:
    metavar = _metavar(action)
    if not action.option_strings:
        many = {"*": f"[{metavar} ...]", "+": f"{metavar} ...", "?": f"[{metavar}]"}
        return f"`{_cell(many.get(str(action.nargs), metavar))}`"
    option = ", ".join(action.option_strings)
    return f"`{_cell(option if action.nargs == 0 else f'{option} {metavar}')}`"


def _metavar(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(str(choice) for choice in action.choices) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
